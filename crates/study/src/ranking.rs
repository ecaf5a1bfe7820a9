//! The result of a sweep: settings in order of their validation scores.

use formant_numerics::Metric;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The score of one combination with one seed, one line of `results.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// What was run, in full: equal keys mean equal results.
    pub key: String,
    /// The method's label.
    pub method: String,
    /// The combination.
    pub setting: String,
    /// The seed.
    pub seed: i64,
    /// The generic model by the first metric, for a method that trains one.
    pub gm: Option<f64>,
    /// The personal models by the first metric, for a method that trains them.
    pub pm: Option<f64>,
    /// Whether a phase failed, or the method stopped early without having been patient.
    pub failed: bool,
    /// The first metric.
    #[serde(default, skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
}

/// What a ranking goes by. A method without one of the models is ranked by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    /// The generic model.
    Gm,
    /// The personal models.
    Pm,
    /// The mean of the two.
    #[default]
    Both,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gm => "gm",
            Self::Pm => "pm",
            Self::Both => "both",
        })
    }
}

/// A combination over all its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    /// The method's label.
    pub method: String,
    /// The combination.
    pub setting: String,
    /// What it is ranked by.
    pub score: Option<f64>,
    /// The generic model, mean over seeds.
    pub gm: Option<f64>,
    /// The personal models, mean over seeds.
    pub pm: Option<f64>,
    /// How many seeds there are.
    pub seeds: usize,
    /// How many of them failed.
    pub failed: usize,
    /// What scores are by.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
}

/// Averages over seeds and sorts, best first. A setting that failed anywhere comes last, whatever
/// it scored.
pub fn rank(scores: &[Score], by: Rank) -> Vec<Ranked> {
    let mut groups: Vec<Vec<&Score>> = Vec::new();
    for score in scores {
        let same = |group: &&mut Vec<&Score>| {
            group[0].method == score.method && group[0].setting == score.setting
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(score),
            None => groups.push(vec![score]),
        }
    }
    let mut ranking: Vec<Ranked> = groups.iter().map(|group| Ranked::over(group, by)).collect();
    ranking.sort_by(Ranked::order);
    ranking
}

impl Ranked {
    /// Best first.
    fn order(&self, other: &Self) -> Ordering {
        (self.failed > 0, self.score.is_none())
            .cmp(&(other.failed > 0, other.score.is_none()))
            .then(self.metric.order(self.score.unwrap_or(0.0), other.score.unwrap_or(0.0)))
    }

    /// Whether it is better; equal ones are not.
    pub(crate) fn beats(&self, other: &Self) -> bool {
        self.order(other).is_lt()
    }

    /// One setting over its seeds, of which there is one at least.
    pub(crate) fn over(group: &[&Score], by: Rank) -> Self {
        let gm = mean(group.iter().map(|score| score.gm));
        let pm = mean(group.iter().map(|score| score.pm));
        let score = match (by, gm, pm) {
            (Rank::Gm, Some(gm), _) | (_, Some(gm), None) => Some(gm),
            (Rank::Both, Some(gm), Some(pm)) => Some(0.5 * (gm + pm)),
            (_, _, pm) => pm,
        };
        let failed = group.iter().filter(|score| score.failed).count();
        let (method, setting) = (group[0].method.clone(), group[0].setting.clone());
        let (metric, seeds) = (group[0].metric, group.len());
        Self { method, setting, score, gm, pm, seeds, failed, metric }
    }
}

/// The mean, if every seed has a value.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.collect::<Option<Vec<_>>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(setting: &str, seed: i64, gm: Option<f64>, pm: Option<f64>, failed: bool) -> Score {
        let (method, setting) = ("ditto".to_owned(), setting.to_owned());
        let (key, metric) = (format!("{setting} {seed}"), Metric::Accuracy);
        Score { key, method, setting, seed, gm, pm, failed, metric }
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
        let last = &rank(&scores, Rank::Both)[2];
        assert_eq!((last.seeds, last.failed, last.score), (2, 1, Some(1.0)));
    }

    #[test]
    fn of_a_calibration_error_the_least_comes_first() {
        let scores = ["a", "b"].map(|setting| Score {
            metric: Metric::CalibrationError,
            ..score(setting, 1, Some(if setting == "a" { 0.2 } else { 0.1 }), None, false)
        });
        assert_eq!(order(Rank::Gm, &scores), ["b", "a"]);
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
