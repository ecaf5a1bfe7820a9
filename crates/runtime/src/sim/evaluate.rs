//! Scores both models: the GM on the global test set, every PM on its client's own.

use super::Course;
use super::crew::{Crew, EVALUATION_JOB};
use super::shelf::Shelf;
use super::turns::Turns;
use crate::RuntimeError;
use crate::event::{Candidate, Evaluated, PersonalScore, Score};
use crate::store::Store;
use formant_data::Split;
use formant_methods::{MethodError, Value};
use formant_numerics::vector::WeightedMean;
use formant_numerics::{Model, NumericsError, Samples, Tally, Worker};
use std::borrow::Cow;
use std::time::Instant;

impl Course<'_> {
    /// Scores both models after a round, and gives the generic one; personal ones go to the shelf, if
    /// there is one, while they are there. Nothing that training sees is changed.
    pub(super) fn evaluate<'s>(
        &self,
        round: usize,
        server: &'s Value,
        places: (&Store<'_>, Option<&Shelf<'_>>),
        crew: &mut Crew,
    ) -> Result<(Evaluated, Cow<'s, Model>), RuntimeError> {
        let started = Instant::now();
        let method = &*self.method.method;
        let broadcast = method.broadcast(server)?;
        // The paper's remark: without a PM, the GM is scored in its place, and without a GM the
        // averaged PM.
        let (generic, per_client) = match method.global_model(server)? {
            Some(model) if method.entry().personal => {
                (model, self.score_clients(round, &broadcast, places, (crew, None))?)
            }
            Some(model) => {
                let scores = self.score_everywhere(&model, crew)?;
                (model, scores)
            }
            None => {
                let mean = Turns::new(MeanModel::of(self.init));
                let scores = self.score_clients(round, &broadcast, places, (crew, Some(&mean)))?;
                (Cow::Owned(mean.into_inner().finish()), scores)
            }
        };
        let gm = self.score_global(&generic, crew)?;
        let mut gm_candidates = Vec::new();
        for (name, model) in method.other_global_models(server)? {
            let score = self.score_global(&model, crew)?;
            gm_candidates.extend(score.map(|score| Candidate { name: name.into(), score }));
        }
        let sizes: Vec<usize> =
            (0..per_client.len()).map(|client| self.plan.scored(client).len()).collect();
        let evaluated = Evaluated {
            method: self.method.label.clone(),
            round,
            gm,
            gm_candidates,
            pm: personal_score(per_client, &sizes),
            seconds: started.elapsed().as_secs_f64(),
            clock: None,
        };
        Ok((evaluated, generic))
    }

    /// Scores one model on every client's own samples.
    fn score_everywhere(
        &self,
        model: &Model,
        crew: &mut Crew,
    ) -> Result<Vec<Option<f64>>, RuntimeError> {
        let clients: Vec<usize> = (0..self.plan.federation.clients.len()).collect();
        let samples = &*self.plan.federation.dataset.train;
        crew.run(&clients, |client, hand| {
            let indices = self.plan.scored(*client);
            let Tally { right, .. } = hand.worker.score(model, samples, indices);
            Ok(share(right, indices.len()))
        })
    }

    /// Scores every PM on its client's own samples and, while it is there, puts it on a shelf and adds
    /// it to a mean in client order.
    fn score_clients(
        &self,
        round: usize,
        broadcast: &Value,
        (store, shelf): (&Store<'_>, Option<&Shelf<'_>>),
        (crew, mean): (&mut Crew, Option<&Turns<MeanModel>>),
    ) -> Result<Vec<Option<f64>>, RuntimeError> {
        let clients: Vec<usize> = (0..self.plan.federation.clients.len()).collect();
        let samples = &*self.plan.federation.dataset.train;
        let _ahead = store.read_ahead(&clients);
        crew.run(&clients, |client, hand| {
            let turn = mean.map(|mean| mean.turn(*client));
            self.with_personal_model(
                round,
                *client,
                broadcast,
                store,
                &mut *hand.worker,
                |model, worker| {
                    let indices = self.plan.scored(*client);
                    // A model that diverges while it is fine-tuned gets nothing right.
                    let right =
                        model.map_or(0, |model| worker.score(model, samples, indices).right);
                    if let Some(turn) = turn {
                        let weight = self.plan.federation.clients[*client].train.len() as f64;
                        turn.take(|mean| model.into_iter().for_each(|m| mean.add(weight, m)));
                    }
                    if let (Some(shelf), Some(model)) = (shelf, model) {
                        shelf.add(*client, model)?;
                    }
                    Ok(share(right, indices.len()))
                },
            )?
        })
    }

    /// Lends a client's personal model, none if making it diverged, and gives its state back
    /// unchanged.
    fn with_personal_model<T>(
        &self,
        round: usize,
        client: usize,
        broadcast: &Value,
        store: &Store<'_>,
        worker: &mut dyn Worker,
        look: impl FnOnce(Option<&Model>, &mut dyn Worker) -> T,
    ) -> Result<T, RuntimeError> {
        let state = self.take_state(store, client)?;
        let desk = self.plan.desk(self.method, client);
        let mut local = desk.evaluation(round, worker);
        let model = match self.method.method.personal_model(&state, broadcast, &mut local) {
            Ok(model) => Some(model),
            Err(MethodError::Numerics(NumericsError::Diverged { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        let seen = look(model.as_deref(), worker);
        drop(model);
        store.give_back(client, state, false)?;
        Ok(seen)
    }

    fn score_global(&self, model: &Model, crew: &mut Crew) -> Result<Option<Score>, RuntimeError> {
        let data = &self.plan.federation;
        let (samples, indices): (&dyn Samples, Vec<u32>) = match self.plan.evaluation.split {
            Split::Validation => {
                let union = data.clients.iter().flat_map(|c| &c.validation).copied().collect();
                (&*data.dataset.train, union)
            }
            _ => (&*data.dataset.test, (0..data.dataset.test.len() as u32).collect()),
        };
        let jobs: Vec<&[u32]> = indices.chunks(EVALUATION_JOB).collect();
        let parts =
            crew.run(&jobs, |indices, hand| Ok(hand.worker.score(model, samples, indices)))?;
        let mut all = Tally::default();
        parts.into_iter().for_each(|part| all.add(part));
        Ok(Score::of(all, indices.len()))
    }
}

/// A running mean of models, buffers included.
struct MeanModel {
    parameters: WeightedMean,
    buffers: WeightedMean,
}

impl MeanModel {
    /// The mean of no model yet, all of them to be of the shape of this one.
    fn of(model: &Model) -> Self {
        Self {
            parameters: WeightedMean::new(model.parameters.len()),
            buffers: WeightedMean::new(model.buffers.len()),
        }
    }

    fn add(&mut self, weight: f64, model: &Model) {
        self.parameters.add(weight, &model.parameters);
        self.buffers.add(weight, &model.buffers);
    }

    fn finish(self) -> Model {
        Model {
            parameters: self.parameters.finish().unwrap_or_default(),
            buffers: self.buffers.finish().unwrap_or_default(),
        }
    }
}

/// The share of samples that are right; none where there is nothing to score.
fn share(right: usize, samples: usize) -> Option<f64> {
    (samples > 0).then(|| right as f64 / samples as f64)
}

/// Means over the clients that have something to score, and the mean of their worst tenth; nothing if
/// there is no such client.
fn personal_score(per_client: Vec<Option<f64>>, sizes: &[usize]) -> Option<PersonalScore> {
    let scored = per_client.iter().zip(sizes).filter_map(|(a, n)| Some(((*a)?, *n as f64)));
    let mut scored: Vec<(f64, f64)> = scored.collect();
    if scored.is_empty() {
        return None;
    }
    let (clients, total) = (scored.len() as f64, scored.iter().map(|(_, n)| n).sum::<f64>());
    let weighted = scored.iter().map(|(a, n)| a * n).sum::<f64>() / total;
    let mean = scored.iter().map(|(a, _)| a).sum::<f64>() / clients;
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tenth = scored.len().div_ceil(10);
    let worst_decile = scored.iter().take(tenth).map(|(a, _)| a).sum::<f64>() / tenth as f64;
    Some(PersonalScore { weighted, mean, worst_decile, per_client })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_scores_are_the_means_they_say() {
        let accuracies: Vec<_> = (1..=20).map(|i| Some(f64::from(i) / 20.0)).collect();
        let sizes: Vec<usize> = (1..=20).collect();
        let score = personal_score(accuracies, &sizes).unwrap();
        // Σ i²/20 / Σ i = 2870/20/210; the mean is 10.5/20; the worst two are 1/20 and 2/20.
        assert!((score.weighted - 2870.0 / 20.0 / 210.0).abs() < 1e-12);
        assert!((score.mean - 0.525).abs() < 1e-12);
        assert!((score.worst_decile - 0.075).abs() < 1e-12);
    }

    #[test]
    fn a_client_without_samples_counts_nowhere() {
        let per_client = vec![share(0, 0), share(1, 2), share(3, 3)];
        let score = personal_score(per_client, &[0, 1, 3]).unwrap();
        assert_eq!((score.weighted, score.mean, score.worst_decile), (0.875, 0.75, 0.5));
        assert_eq!(score.per_client, [None, Some(0.5), Some(1.0)]);
        assert_eq!(personal_score(vec![None], &[0]), None);
    }
}
