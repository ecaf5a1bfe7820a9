//! `formant data export`: what the simulator's clients hold, as files.

use crate::terminal::Terminal;
use formant_data::Share;

#[test]
fn every_client_gets_a_file() {
    let terminal = Terminal::with_tiny();
    let said = terminal.succeed(&["data", "export", "tiny.toml", "--out", "shares/tiny"]);
    assert_eq!(said.stderr, "");
    snapshot!(said.stdout);
    let mut samples = 0;
    for client in 0..4 {
        let path = terminal.path(&format!("shares/tiny/client-{client:03}.safetensors"));
        let share = Share::read(&path).unwrap();
        samples += share.train().len() + share.validation().len() + share.test().len();
    }
    assert_eq!(samples, 300);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let share = terminal.path("shares/tiny/client-000.safetensors");
        assert_eq!(share.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    // The same experiment gives the same files, another seed others.
    let bytes =
        |out: &str| std::fs::read(terminal.path(&format!("{out}/client-000.safetensors"))).unwrap();
    terminal.succeed(&["data", "export", "tiny.toml", "--out", "again"]);
    terminal.succeed(&["data", "export", "tiny.toml", "--out", "other", "--seed", "9"]);
    assert!(bytes("again") == bytes("shares/tiny") && bytes("again") != bytes("other"));
}

#[test]
fn no_file_is_mixed_with_those_of_another_export() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["data", "export", "tiny.toml", "--out", "shares"]);
    let before = terminal.listing();
    let again = terminal.formant(&["data", "export", "tiny.toml", "--out", "shares"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("shares is not empty: it holds client-"), "{again:?}");
    assert!(again.stderr.contains("\n hint: choose a new folder"), "{again:?}");
    assert_eq!(terminal.listing(), before);
    let file = terminal.formant(&["data", "export", "tiny.toml", "--out", "tiny.toml"]);
    assert!(file.stderr.contains("cannot use tiny.toml"), "{file:?}");
}

#[test]
fn help_text() {
    snapshot!(Terminal::new().succeed(&["data", "export", "--help"]).stdout);
}
