//! `formant cert`: from an authority to a client that is no longer welcome.

use crate::terminal::{Answer, Terminal};
use formant_network::identity::{ClientIdentity, ServerIdentity};
use serde_json::Value;

fn entries(terminal: &Terminal) -> Vec<Value> {
    let json = terminal.succeed(&["cert", "list", "--json"]).stdout;
    serde_json::from_str::<Value>(&json).unwrap().as_array().unwrap().clone()
}

/// A command that must fail, and without a trace.
fn refuse(terminal: &Terminal, args: &[&str]) -> Answer {
    let before = terminal.listing();
    let answer = terminal.formant(args);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{args:?}: {answer:?}");
    assert!(answer.stderr.contains("\n hint: "), "{args:?}: {answer:?}");
    assert_eq!(terminal.listing(), before, "{args:?} left something behind");
    answer
}

#[test]
fn help_texts() {
    let terminal = Terminal::new();
    let commands = ["init", "server", "client", "renew", "authority", "revoke", "list"];
    let mut said = vec![terminal.succeed(&["cert", "--help"]).stdout];
    for command in commands {
        said.push(terminal.succeed(&["cert", command, "--help"]).stdout);
    }
    snapshot!(said.join("\n"));
}

#[test]
fn from_an_authority_to_a_revoked_client() {
    let terminal = Terminal::new();
    let made = terminal.succeed(&["cert", "init", "--host", "localhost", "--host", "192.0.2.7"]);
    assert!(made.stdout.contains("certs/authority.key  never leaves this machine"), "{made:?}");
    assert!(made.stdout.contains("for localhost, 192.0.2.7, good until"), "{made:?}");
    let made = terminal.succeed(&["cert", "client", "hospital-1"]);
    assert!(made.stdout.contains("certs/clients/hospital-1.bundle.pem"), "{made:?}");
    terminal.succeed(&["cert", "client", "hospital-2", "--days", "7"]);
    let bundle = terminal.path("certs/clients/hospital-1.bundle.pem");
    assert_eq!(ClientIdentity::read(&bundle).unwrap().name(), "hospital-1");

    let revoked = terminal.succeed(&["cert", "revoke", "hospital-1"]);
    assert!(revoked.stdout.contains("revoked the certificate of hospital-1"), "{revoked:?}");
    let again = terminal.succeed(&["cert", "revoke", "hospital-1"]);
    assert!(again.stdout.contains("was revoked already"), "{again:?}");
    terminal.succeed(&["cert", "server", "--host", "fed.example.org"]);
    ServerIdentity::read(&terminal.path("certs")).unwrap();

    let entries = entries(&terminal);
    let column = |key: &str| -> Vec<&str> {
        entries.iter().map(|entry| entry[key].as_str().unwrap()).collect()
    };
    let names = ["localhost 192.0.2.7", "hospital-1", "hospital-2", "fed.example.org"];
    assert_eq!(column("name"), names);
    assert_eq!(column("kind"), ["server", "client", "client", "server"]);
    assert_eq!(column("standing"), ["valid", "revoked", "valid", "valid"]);
    let table = terminal.succeed(&["cert", "list"]).stdout;
    for (line, entry) in table.lines().skip(1).zip(&entries) {
        for key in ["kind", "name", "standing", "serial"] {
            assert!(line.contains(entry[key].as_str().unwrap()), "{table}");
        }
    }
}

#[test]
fn an_authority_is_replaced_only_by_force() {
    let terminal = Terminal::new();
    terminal.succeed(&["cert", "init", "--dir", "my certs"]);
    let made = terminal.succeed(&["cert", "client", "a", "--dir", "my certs"]);
    assert!(made.stdout.contains("formant cert revoke a --dir 'my certs'"), "{made:?}");
    let refused = refuse(&terminal, &["cert", "init", "--dir", "my certs"]);
    assert!(refused.stderr.contains("my certs/authority.pem exists already"), "{refused:?}");
    let made = terminal.succeed(&["cert", "init", "--dir", "my certs", "--force"]);
    assert!(made.stdout.contains("are worthless"), "{made:?}");
    terminal.succeed(&["cert", "client", "a", "--dir", "my certs"]);
}

#[test]
fn refusals() {
    let terminal = Terminal::new();
    let mut said = Vec::new();
    let mut refuse = |args: &[&str]| {
        let answer = refuse(&terminal, args);
        said.push(format!("$ formant {}\n{}", args.join(" "), answer.stderr));
    };
    refuse(&["cert", "client", "a"]);
    refuse(&["cert", "list"]);
    refuse(&["cert", "init", "--host", "https://fed.example.org"]);
    refuse(&["cert", "init", "--days", "0"]);
    terminal.succeed(&["cert", "init"]);
    refuse(&["cert", "client", "../a"]);
    refuse(&["cert", "client", "a.bundle"]);
    refuse(&["cert", "revoke", "a"]);
    terminal.succeed(&["cert", "client", "a"]);
    refuse(&["cert", "client", "A"]);
    refuse(&["cert", "revoke", "b"]);
    terminal.write("certs/authority.key", "rubbish");
    refuse(&["cert", "client", "b"]);
    terminal.write("certs/issued.toml", "certificate = 3");
    refuse(&["cert", "list"]);
    snapshot!(said.join("\n"));

    terminal.succeed(&["cert", "init", "--force"]);
    terminal.succeed(&["cert", "client", "a"]);
    let taken = self::refuse(&terminal, &["cert", "client", "a"]);
    assert!(taken.stderr.contains("clients/a.pem, good until"), "{taken:?}");
}
