//! A method's figures by round, as trackers of experiments take them.

use formant_runtime::event::Phase;
use std::collections::BTreeMap;

use super::plain_name;
use crate::{MethodLog, RunLog};

/// A figure at a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) round: usize,
    /// Wall time of the method's training and evaluation until then.
    pub(super) seconds: f64,
    pub(super) value: f64,
}

/// All series of a method by their tags; points are by ascending round.
pub(super) fn scalars(log: &RunLog, method: &MethodLog) -> BTreeMap<String, Vec<Point>> {
    let mut series = Series::default();
    let word = log.started.metrics.first().word();
    for (&round, found) in &method.evaluations {
        let seconds = elapsed(method, round, true);
        let mut put = |tag: String, value: Option<f64>| series.put(tag, round, seconds, value);
        put(format!("GM/{word}"), found.gm);
        put("GM/loss".to_owned(), found.gm_loss);
        for (name, score) in &found.gm_candidates {
            put(format!("GM_{}/{word}", plain_name(name)), *score);
        }
        put(format!("PM/{word}"), found.pm);
        put(format!("PM_mean/{word}"), found.pm_mean);
        put(format!("PM_worst_tenth/{word}"), found.worst_decile);
        for (metric, by) in &found.further {
            put(format!("GM/{}", metric.word()), by.gm);
            put(format!("PM/{}", metric.word()), by.pm);
            put(format!("PM_worst_tenth/{}", metric.word()), by.worst_decile);
        }
    }
    for (&number, round) in &method.rounds {
        let seconds = elapsed(method, number, false);
        let mut put =
            |tag: &str, value: Option<f64>| series.put(tag.to_owned(), number, seconds, value);
        for (name, phase) in [("shared", Phase::Shared), ("personal", Phase::Personal)] {
            put(&format!("train/{name}_loss"), round.phase(phase).mean_loss());
            put(&format!("train/{name}_terms"), round.phase(phase).mean_terms());
        }
        // A round without its end is still under way.
        if round.seconds.is_some() {
            put("cost/round_seconds", round.seconds);
            put("cost/uploaded_bytes", Some(round.uploaded_bytes as f64));
            put("cost/clock", round.clock);
        }
    }
    for (&round, spectra) in &method.spectra {
        let seconds = elapsed(method, round, true);
        let count = spectra.clients.len() as f64;
        let mean = |figure: fn(&formant_runtime::event::ClientSpectra) -> f64| {
            (count > 0.0).then(|| spectra.clients.iter().map(figure).sum::<f64>() / count)
        };
        let mut put =
            |tag: &str, value: Option<f64>| series.put(tag.to_owned(), round, seconds, value);
        put("spectra/divergence", mean(|client| client.divergence));
        put("spectra/low_divergence", mean(|client| client.low_divergence));
        put("spectra/distance", mean(|client| client.distance));
    }
    series.0
}

#[derive(Default)]
struct Series(BTreeMap<String, Vec<Point>>);

impl Series {
    /// What is not known leaves a gap.
    fn put(&mut self, tag: String, round: usize, seconds: f64, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.0.entry(tag).or_default().push(Point { round, seconds, value });
        }
    }
}

/// Wall time until the end of a round, or until its models were scored.
fn elapsed(method: &MethodLog, round: usize, scored: bool) -> f64 {
    let trained: f64 = method.rounds.range(..=round).filter_map(|(_, round)| round.seconds).sum();
    let evaluations = method.evaluations.iter();
    let evaluations = evaluations.take_while(|(at, _)| **at < round || (scored && **at == round));
    trained + evaluations.map(|(_, evaluation)| evaluation.seconds).sum::<f64>()
}
