//! What goes to the terminal: errors with hints, colour only where somebody can see it.

use std::io::IsTerminal;

/// Whether standard output may carry colour.
pub(crate) fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether standard error may carry colour.
pub(crate) fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// `error: …`, with hints on lines of their own.
pub(crate) fn print_error(error: &anyhow::Error) {
    let (red, cyan, reset) =
        if colour_on_stderr() { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let text = format!("{error:#}");
    for (i, line) in text.lines().enumerate() {
        if i == 0 {
            eprintln!("{red}error:{reset} {line}");
        } else if let Some(hint) = line.strip_prefix("hint: ") {
            eprintln!("{cyan} hint:{reset} {hint}");
        } else {
            eprintln!("       {line}");
        }
    }
}
