//! What goes to the terminal: results, errors with hints, colour only where somebody can see it.

use crate::program;
pub(crate) use formant_report::markdown_table;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output may carry colour.
pub(crate) fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether standard error may carry colour.
pub(crate) fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether notes are left out.
static SILENT: AtomicBool = AtomicBool::new(false);

/// From now on this process makes no notes: another one makes the same.
#[cfg(feature = "mpi")]
pub(crate) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

pub(crate) fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// `eprintln!` for what may be lost: a reader that has gone is no reason to panic.
macro_rules! note {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        if !crate::output::is_silent() {
            let _ = writeln!(std::io::stderr(), $($words)*);
        }
    }};
}
pub(crate) use note;

/// Writes a result to standard output. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// The same for a value as indented JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// An error if something is where a file is to be written, unless it may be replaced.
pub(crate) fn check_free(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.is_dir() {
        anyhow::bail!("{} is a folder\nhint: name a file", path.display());
    }
    if path.exists() && !force {
        let remedy = "name another file, or replace it with --force";
        anyhow::bail!("{} exists already\nhint: {remedy}", path.display());
    }
    Ok(())
}

/// A path as it can be pasted into a shell.
pub(crate) fn pasteable(path: &Path) -> String {
    let shown = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,\\".contains(c);
    if !shown.is_empty() && shown.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', "'\\''"))
    }
}

/// `error: …`, with hints on lines of their own.
pub(crate) fn print_error(error: &anyhow::Error) {
    let (red, cyan, reset) =
        if colour_on_stderr() { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    for (i, line) in program::renamed(&message(error)).lines().enumerate() {
        if i == 0 {
            eprintln!("{red}error:{reset} {line}");
        } else if let Some(hint) = line.strip_prefix("hint: ") {
            eprintln!("{cyan} hint:{reset} {hint}");
        } else {
            eprintln!("       {line}");
        }
    }
}

/// An error with its causes, leaving out a cause that the message before it quotes already.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let io = || std::io::Error::other("disk on fire");
        let quoting = formant_runtime::RuntimeError::file("read", Path::new("a"), io());
        let error = anyhow::Error::from(quoting);
        assert_eq!(
            message(&error),
            "cannot read a: disk on fire\nhint: check the path and the disk"
        );
        let error = Err::<(), _>(io()).context("cannot read b").unwrap_err();
        assert_eq!(message(&error), "cannot read b: disk on fire");
    }

    #[test]
    fn only_paths_that_need_it_are_quoted() {
        assert_eq!(pasteable(Path::new("runs/a-1.b")), "runs/a-1.b");
        assert_eq!(pasteable(Path::new("my runs/it's")), "'my runs/it'\\''s'");
    }
}
