//! The report as Markdown.

use std::fmt::Write;

use crate::quantity::{one_line, percent};
use crate::scoreboard::{FURTHER_READING, names_of, reading};
use crate::setting::Fingerprint;
use crate::table::grid;
use crate::{
    Insight, ReportError, RunLog, difference_table, html, insight, over_seeds, rows, seed_table,
    setting, significance, table,
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
    insights(&mut text, log);
    ranks(&mut text, log);
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

/// What personalisation does, in short tables; what the log does not hold is left out.
fn insights(text: &mut String, log: &RunLog) {
    let Insight { division, gains, answers, spectra } = insight(log);
    if let Some(division) = division {
        text.push_str("\n## Division of the samples\n\n");
        for words in division.words() {
            let _ = writeln!(text, "- {}", escaped(&words));
        }
    }
    let names = names_of(log);
    if gains.iter().any(|gains| gains.over_local.is_some() || gains.over_gm.is_some()) {
        let headings: Vec<&str> = ["method"].into_iter().chain(html::gains::COLUMNS).collect();
        let rows: Vec<Vec<String>> =
            gains.iter().zip(&names).map(|(g, name)| named(name, html::gains::cells(g))).collect();
        let _ = write!(
            text,
            "\n## Who gains\n\n{}\nWhat a client's personal model gains on its own samples, in percentage \
             points: over training alone (Local), and over its method's GM. Worst tenth: the mean of the tenth \
             of the clients that gains least.\n",
            grid(&headings, &rows)
        );
    }
    if !answers.is_empty() {
        let mut rows = Vec::new();
        for answers in &answers {
            let place = log.methods.iter().position(|method| method.info.label == answers.label);
            let name = place.and_then(|place| names.get(place)).map_or("", String::as_str);
            for (model, answered) in [("GM", &answers.gm), ("PM", &answers.pm)] {
                let Some(answered) = answered else { continue };
                let figures = [answered.accuracy, answered.calibration_error].map(percent);
                let cells = [model.to_owned()].into_iter().chain(figures);
                rows.push(named(name, cells.chain([html::errors::listed(answered)]).collect()));
            }
        }
        let headings = ["method", "model", "right, %", "ECE, %", "most often taken for another"];
        let _ = write!(text, "\n## Errors and calibration\n\n{}", grid(&headings, &rows));
    }
    if spectra.iter().any(|course| !course.rounds.is_empty() || !course.terms.is_empty()) {
        let headings: Vec<&str> = ["method"].into_iter().chain(html::spectra::COLUMNS).collect();
        let rows: Vec<Vec<String>> = spectra
            .iter()
            .zip(&names)
            .map(|(s, name)| named(name, html::spectra::cells(s)))
            .collect();
        let _ = write!(
            text,
            "\n## Spectra\n\n{}\nD(P‖Q) of the normalised magnitudes of all parameters, personal models \
             against the generic one, the mean over some clients. The term's share is the mean over rounds.\n",
            grid(&headings, &rows)
        );
    }
}

/// Where the work was done, if in several processes.
fn ranks(text: &mut String, log: &RunLog) {
    let rows = html::ranks::rows(log);
    if rows.is_empty() {
        return;
    }
    let headings: Vec<&str> = ["method"].into_iter().chain(html::ranks::COLUMNS).collect();
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(_, name, cells)| named(&name, cells)).collect();
    let _ = write!(text, "\n## Ranks\n\n{}\n{}\n", grid(&headings, &rows), html::ranks::CAPTION);
}

fn named(name: &str, cells: Vec<String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
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
