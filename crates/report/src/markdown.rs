//! The report as Markdown.

use std::fmt::Write;

use crate::quantity::one_line;
use crate::scoreboard::{FURTHER_READING, reading};
use crate::setting::Fingerprint;
use crate::{RunLog, rows, setting, table};

/// The report for `report.md`: setting, results, and how to get them again.
pub fn markdown(log: &RunLog) -> String {
    let mut text = format!("# {}\n\n", escaped(&log.started.name));
    for warning in setting::warnings(log) {
        let _ = writeln!(text, "> {}\n", escaped(&warning));
    }
    text.push_str("## Setting\n\n");
    for (name, value) in setting::facts(log) {
        let _ = writeln!(text, "- {name}: {}", escaped(&value));
    }
    let (table, metrics) = (table(&rows(log), false), &log.started.metrics);
    let _ = writeln!(text, "\n## Results\n\n{table}\n{}", reading(metrics.first()));
    if metrics.iter().count() > 1 {
        let _ = writeln!(text, "{FURTHER_READING}");
    }
    text.push_str("\n## Reproduce\n\n");
    for (command, purpose) in setting::commands(&log.started) {
        let _ = writeln!(text, "- `{command}` {}", escaped(&purpose));
    }
    let prints = setting::fingerprints(log);
    if !prints.is_empty() {
        text.push_str("\nFingerprints of the final models, equal for equal bits:\n\n");
    }
    for Fingerprint { of, print } in prints {
        let _ = writeln!(text, "- {}: {}", escaped(&of), escaped(&print));
    }
    text
}

/// A text on one line in which nothing is markup.
pub(crate) fn escaped(text: &str) -> String {
    let text = one_line(text);
    let mut safe = String::with_capacity(text.len());
    let mut previous = ' ';
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let markup = match letter {
            '\\' | '`' | '*' | '<' | '>' | '|' | '[' | ']' | '~' | '$' => true,
            // Within a word an underscore is just a letter, and labels are full of them.
            '_' => !(previous.is_alphanumeric() && next.is_alphanumeric()),
            '&' => next.is_ascii_alphanumeric() || next == '#',
            _ => false,
        };
        if markup {
            safe.push('\\');
        }
        safe.push(letter);
        previous = letter;
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escaped("a|b\n*c* <i> &lt; d_e _f_"), r"a\|b \*c\* \<i\> \&lt; d_e \_f\_");
        assert_eq!(escaped("SCD, λ = 0.1 & τ"), "SCD, λ = 0.1 & τ");
    }
}
