//! The ranking of a sweep as a table.

use formant_study::Ranked;
use std::fmt::Write as _;

/// The ranking as a Markdown table.
pub(crate) fn table(ranking: &[Ranked]) -> String {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2}", 100.0 * x));
    let method = ranking.iter().map(|r| r.method.chars().count()).max().unwrap_or(0).max(6);
    let by = ranking.first().map(|row| row.metric).filter(|metric| !metric.is_accuracy());
    let by = by.map_or(String::new(), |metric| format!(", by {}", metric.title()));
    let mut text = format!(
        "| {:>5} | {:>5} | {:>5} | {:method$} | setting{by} |\n",
        "score", "GM", "PM", "method"
    );
    let _ = writeln!(text, "| ----: | ----: | ----: | {:-<method$} | ------- |", "");
    for row in ranking {
        let failed = match row.failed {
            0 => String::new(),
            n => format!("  ({n} of {} seeds failed)", row.seeds),
        };
        let (score, gm, pm) = (percent(row.score), percent(row.gm), percent(row.pm));
        let (name, setting) = (&row.method, &row.setting);
        let _ = writeln!(
            text,
            "| {score:>5} | {gm:>5} | {pm:>5} | {name:method$} | {setting}{failed} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_runtime::event::Metric;

    #[test]
    fn columns_line_up_and_failures_are_named() {
        let row = |setting: &str, gm: Option<f64>, pm, failed| Ranked {
            method: "ditto".into(),
            setting: setting.into(),
            score: gm.or(pm),
            gm,
            pm,
            seeds: 2,
            failed,
            metric: Metric::Accuracy,
        };
        let ranking = [
            row("a", Some(0.6), Some(0.8), 0),
            row("b", None, Some(0.5), 0),
            row("c", Some(1.0), Some(1.0), 1),
        ];
        assert_eq!(
            table(&ranking),
            "| score |    GM |    PM | method | setting |\n\
             | ----: | ----: | ----: | ------ | ------- |\n\
             | 60.00 | 60.00 | 80.00 | ditto  | a |\n\
             | 50.00 |     - | 50.00 | ditto  | b |\n\
             | 100.00 | 100.00 | 100.00 | ditto  | c  (1 of 2 seeds failed) |\n"
        );
        let other = [Ranked { metric: Metric::MacroF1, ..row("a", Some(0.6), None, 0) }];
        assert!(
            table(&other).starts_with("| score |    GM |    PM | method | setting, by macro-F1 |")
        );
    }
}
