//! The result of a sweep: settings in order of their validation scores.

use crate::args::Rank;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The score of one combination with one seed, one line of `results.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Score {
    /// What was run, in full: equal keys mean equal results.
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) setting: String,
    pub(crate) seed: i64,
    pub(crate) gm: Option<f64>,
    pub(crate) pm: Option<f64>,
    pub(crate) failed: bool,
}

/// A combination over all its seeds.
#[derive(Debug, Serialize)]
pub(crate) struct Ranked {
    pub(crate) method: String,
    pub(crate) setting: String,
    pub(crate) score: Option<f64>,
    pub(crate) gm: Option<f64>,
    pub(crate) pm: Option<f64>,
    pub(crate) seeds: usize,
    pub(crate) failed: usize,
}

/// Averages over seeds and sorts, best first. A setting that failed anywhere comes last, whatever
/// it scored.
pub(crate) fn rank(scores: &[Score], by: Rank) -> Vec<Ranked> {
    let mut groups: Vec<(&str, &str, Vec<&Score>)> = Vec::new();
    for score in scores {
        match groups.iter_mut().find(|(m, s, _)| *m == score.method && *s == score.setting) {
            Some((_, _, group)) => group.push(score),
            None => groups.push((&score.method, &score.setting, vec![score])),
        }
    }
    let mut ranking: Vec<Ranked> = groups
        .into_iter()
        .map(|(method, setting, group)| {
            let gm = mean(group.iter().map(|s| s.gm));
            let pm = mean(group.iter().map(|s| s.pm));
            let score = match (by, gm, pm) {
                (Rank::Gm, Some(gm), _) | (_, Some(gm), None) => Some(gm),
                (Rank::Both, Some(gm), Some(pm)) => Some(0.5 * (gm + pm)),
                (_, _, pm) => pm,
            };
            let failed = group.iter().filter(|s| s.failed).count();
            let (method, setting) = (method.to_owned(), setting.to_owned());
            Ranked { method, setting, score, gm, pm, seeds: group.len(), failed }
        })
        .collect();
    ranking.sort_by(|a, b| {
        (a.failed > 0, a.score.is_none())
            .cmp(&(b.failed > 0, b.score.is_none()))
            .then(b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)))
    });
    ranking
}

/// The mean, if every seed has a value.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.collect::<Option<Vec<_>>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The ranking as a Markdown table.
pub(crate) fn table(ranking: &[Ranked]) -> String {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2}", 100.0 * x));
    let method = ranking.iter().map(|r| r.method.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!(
        "| {:>5} | {:>5} | {:>5} | {:method$} | setting |\n",
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

    fn score(setting: &str, seed: i64, gm: Option<f64>, pm: Option<f64>, failed: bool) -> Score {
        let (method, setting) = ("ditto".to_owned(), setting.to_owned());
        Score { key: format!("{setting} {seed}"), method, setting, seed, gm, pm, failed }
    }

    fn order(by: Rank, scores: &[Score]) -> Vec<String> {
        rank(scores, by).into_iter().map(|r| r.setting).collect()
    }

    #[test]
    fn seeds_are_averaged_and_failures_come_last() {
        let scores = [
            score("a", 1, Some(0.5), Some(0.9), false),
            score("a", 2, Some(0.7), Some(0.7), false),
            score("b", 1, Some(0.8), Some(0.5), false),
            score("b", 2, Some(0.8), Some(0.5), false),
            score("c", 1, Some(1.0), Some(1.0), true),
            score("c", 2, Some(1.0), Some(1.0), false),
        ];
        // GM: a 0.6, b 0.8; PM: a 0.8, b 0.5; both: a 0.7, b 0.65.
        assert_eq!(order(Rank::Gm, &scores), ["b", "a", "c"]);
        assert_eq!(order(Rank::Pm, &scores), ["a", "b", "c"]);
        assert_eq!(order(Rank::Both, &scores), ["a", "b", "c"]);
        let text = table(&rank(&scores, Rank::Both));
        assert_eq!(
            text,
            "| score |    GM |    PM | method | setting |\n\
             | ----: | ----: | ----: | ------ | ------- |\n\
             | 70.00 | 60.00 | 80.00 | ditto  | a |\n\
             | 65.00 | 80.00 | 50.00 | ditto  | b |\n\
             | 100.00 | 100.00 | 100.00 | ditto  | c  (1 of 2 seeds failed) |\n"
        );
    }

    #[test]
    fn a_method_without_one_model_is_ranked_by_the_other() {
        let scores = [
            score("only gm", 1, Some(0.6), None, false),
            score("only pm", 1, None, Some(0.7), false),
            score("nothing", 1, None, None, false),
        ];
        for by in [Rank::Gm, Rank::Pm, Rank::Both] {
            assert_eq!(order(by, &scores), ["only pm", "only gm", "nothing"]);
        }
    }
}
