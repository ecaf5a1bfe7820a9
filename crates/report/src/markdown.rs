//! The report as Markdown.

use std::fmt::Write;

use crate::quantity::one_line;
use crate::scoreboard::{FURTHER_READING, reading};
use crate::setting::Fingerprint;
use crate::{
    ReportError, RunLog, difference_table, over_seeds, rows, seed_table, setting, significance,
    table,
};

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

/// The report for `report.md` of one experiment with several seeds: setting, means, differences, and each run.
pub fn series_markdown(logs: &[RunLog]) -> Result<String, ReportError> {
    let (rows, found) = (over_seeds(logs)?, significance(logs, None)?);
    let Some(first) = logs.first() else { return Ok(String::new()) };
    let mut text = format!("# {}\n\n## Setting\n\n", escaped(&first.started.name));
    let seeds: Vec<String> = found.seeds.iter().map(u64::to_string).collect();
    let _ = writeln!(text, "- seeds: {}", seeds.join(", "));
    for (name, value) in setting::facts(first).iter().filter(|(name, _)| !OF_ONE_RUN.contains(name))
    {
        let _ = writeln!(text, "- {name}: {}", escaped(value));
    }
    let (table, covers) = (seed_table(&rows), escaped(&found.covers));
    let read = reading(first.started.metrics.first());
    let _ = writeln!(
        text,
        "\n## Results\n\n{table}\n{read} Mean ± standard deviation over the seeds: {covers}."
    );
    let differences = difference_table(&found.contests);
    if !differences.is_empty() {
        let _ = writeln!(text, "\n## Who is ahead\n{differences}");
    }
    let unfinished = logs.iter().filter(|log| log.seconds.is_none()).count();
    if unfinished > 0 {
        let _ = writeln!(text, "\n> {unfinished} of {} runs have not finished.", logs.len());
    }
    Ok(text)
}

/// Facts that differ from seed to seed.
const OF_ONE_RUN: [&str; 3] = ["seed", "wall time", "models"];

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
