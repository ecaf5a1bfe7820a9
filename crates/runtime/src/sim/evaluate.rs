//! Scores both models: the GM on the global test set, every PM on its client's own.

use super::Course;
use super::insight::{Answered, accuracies};
use crate::RuntimeError;
use crate::event::{Candidate, Errors, Evaluated, Guarded, PersonalScore, Score};
use crate::executor::{Executor, Figures, Look, OwnScores, PersonalScores, Written};
use formant_methods::Value;
use formant_numerics::{Measures, Metric, Model};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// What an evaluation has found.
pub(super) struct Found<'s> {
    pub(super) evaluated: Evaluated,
    /// The generic model that was scored.
    pub(super) generic: Cow<'s, Model>,
    /// Personal models that were written.
    pub(super) written: Written,
    /// Where the models err, if that was asked.
    pub(super) answered: Option<Answered>,
    /// Personal models whose spectra are to be shown.
    pub(super) models: BTreeMap<usize, Model>,
}

/// What an evaluation is to find besides scores.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Where personal models go while they are there.
    pub(super) folder: Option<&'a Path>,
    /// Whether it is asked where models err.
    pub(super) answers: bool,
    /// Of how many clients the personal models themselves are wanted.
    pub(super) models: usize,
}

impl Course<'_> {
    /// Scores both models after a round; personal ones are written into a folder, if there is one,
    /// while they are there. Nothing that training sees is changed.
    pub(super) fn evaluate<'s>(
        &self,
        round: usize,
        server: &'s Value,
        wanted: Wanted<'_>,
        executor: &mut dyn Executor,
    ) -> Result<Found<'s>, RuntimeError> {
        let started = Instant::now();
        let pulse = self.scoring_pulse();
        self.progress.scoring(false);
        let (method, measures) = (&*self.method.method, &self.plan.evaluation.metrics);
        let broadcast = method.broadcast(server)?;
        let Wanted { folder, answers, models } = wanted;
        let look =
            |mean| Look { round, broadcast: &broadcast, mean, folder, answers, models, pulse };
        let mut gm_on_clients = None;
        // The paper's remark: without a PM, the GM is scored in its place, and without a GM the
        // averaged PM.
        let (generic, scores) = match method.global_model(server)? {
            Some(model) if method.entry().personal => {
                (model, executor.score_personal(&look(false))?)
            }
            Some(model) => {
                let OwnScores { clients, answers } = executor.score_own(&model, answers, pulse)?;
                gm_on_clients = Some(accuracies(&clients));
                (model, PersonalScores { clients, answers, ..PersonalScores::default() })
            }
            None => {
                let mut scores = executor.score_personal(&look(true))?;
                (Cow::Owned(scores.mean.take().unwrap_or_default()), scores)
            }
        };
        let gm = executor.score_global(&generic, answers, pulse)?;
        let mut gm_candidates = Vec::new();
        for (name, model) in method.other_global_models(server)? {
            let score = Score::of(&executor.score_global(&model, false, pulse)?, measures);
            gm_candidates.extend(score.map(|score| Candidate { name: name.into(), score }));
        }
        let PersonalScores { clients, written, models, choices, .. } = scores;
        let held = &self.plan.federation.clients;
        let sizes: Vec<usize> =
            held.iter().map(|data| self.plan.evaluation.scored_samples(data)).collect();
        let [honest, attackers] = self.plan.attacks.apart(clients);
        let evaluated = Evaluated {
            method: self.method.label.clone(),
            round,
            gm: Score::of(&gm, measures),
            gm_candidates,
            pm: personal_score(&honest, &sizes, measures),
            attackers: personal_score(&attackers, &sizes, measures),
            guard: Guarded::of(&choices),
            seconds: started.elapsed().as_secs_f64(),
            clock: None,
        };
        self.progress.scoring(true);
        let answered = answers.then(|| Answered {
            gm: gm.confusion().and_then(Errors::of),
            pm: scores.answers.as_ref().and_then(Errors::of),
            gm_on_clients,
        });
        Ok(Found { evaluated, generic, written, answered, models })
    }
}

/// All clients' scores by accuracy and by the metrics that were asked for; nothing if no client has
/// something to score.
pub(crate) fn personal_score(
    clients: &[Figures],
    sizes: &[usize],
    measures: &Measures,
) -> Option<PersonalScore> {
    let by = |metric| {
        let of_clients = clients.iter().map(|figures| figures.get(&metric).copied());
        spread(metric, of_clients.collect(), sizes)
    };
    let further = measures.further().filter_map(|metric| Some((metric, by(metric)?))).collect();
    Some(PersonalScore { further, ..by(Metric::Accuracy)? })
}

/// Means over the clients that have a figure, and the mean of their worst tenth; nothing if there is no
/// such client.
fn spread(metric: Metric, per_client: Vec<Option<f64>>, sizes: &[usize]) -> Option<PersonalScore> {
    let scored = per_client.iter().zip(sizes).filter_map(|(a, n)| Some(((*a)?, *n as f64)));
    let mut scored: Vec<(f64, f64)> = scored.collect();
    if scored.is_empty() {
        return None;
    }
    let (clients, total) = (scored.len() as f64, scored.iter().map(|(_, n)| n).sum::<f64>());
    let weighted = scored.iter().map(|(a, n)| a * n).sum::<f64>() / total;
    let mean = scored.iter().map(|(a, _)| a).sum::<f64>() / clients;
    scored.sort_by(|a, b| metric.order(b.0, a.0));
    let tenth = scored.len().div_ceil(10);
    let worst_decile = scored.iter().take(tenth).map(|(a, _)| a).sum::<f64>() / tenth as f64;
    let further = BTreeMap::new();
    Some(PersonalScore { weighted, mean, worst_decile, per_client, further })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_scores_are_the_means_they_say() {
        let accuracies: Vec<_> = (1..=20).map(|i| Some(f64::from(i) / 20.0)).collect();
        let sizes: Vec<usize> = (1..=20).collect();
        let score = spread(Metric::Accuracy, accuracies.clone(), &sizes).unwrap();
        // Σ i²/20 / Σ i = 2870/20/210; the mean is 10.5/20; the worst two are 1/20 and 2/20.
        assert!((score.weighted - 2870.0 / 20.0 / 210.0).abs() < 1e-12);
        assert!((score.mean - 0.525).abs() < 1e-12);
        assert!((score.worst_decile - 0.075).abs() < 1e-12);
        // Of a calibration error, the worst two are the largest.
        let score = spread(Metric::CalibrationError, accuracies, &sizes).unwrap();
        assert!((score.worst_decile - 0.975).abs() < 1e-12);
    }

    #[test]
    fn a_client_without_samples_counts_nowhere() {
        let measures = Measures::new(vec![Metric::Auroc, Metric::Accuracy]).unwrap();
        let one = Figures::from([(Metric::Accuracy, 0.5), (Metric::Auroc, 0.25)]);
        // All samples of one class: no AUROC.
        let other = Figures::from([(Metric::Accuracy, 1.0)]);
        let clients = [Figures::new(), one, other];
        let score = personal_score(&clients, &[0, 1, 3], &measures).unwrap();
        assert_eq!((score.weighted, score.mean, score.worst_decile), (0.875, 0.75, 0.5));
        assert_eq!(score.per_client, [None, Some(0.5), Some(1.0)]);
        let auroc = score.by(Metric::Auroc).unwrap();
        assert_eq!((auroc.weighted, auroc.mean, auroc.worst_decile), (0.25, 0.25, 0.25));
        assert_eq!(auroc.per_client, [None, Some(0.25), None]);
        assert_eq!(personal_score(&clients[..1], &[0], &measures), None);
    }
}
