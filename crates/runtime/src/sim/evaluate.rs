//! Scores both models: the GM on the global test set, every PM on its client's own.

use super::Course;
use super::crew::{Crew, EVALUATION_JOB};
use super::shelf::Shelf;
use super::turns::Turns;
use crate::event::{Candidate, Evaluated, PersonalScore, Score};
use crate::store::Store;
use crate::{RuntimeError, Scored};
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
            gm_candidates.push(Candidate { name: name.into(), score });
        }
        let sizes: Vec<f64> =
            (0..per_client.len()).map(|client| self.plan.scored(client).len() as f64).collect();
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
    fn score_everywhere(&self, model: &Model, crew: &mut Crew) -> Result<Vec<f64>, RuntimeError> {
        let clients: Vec<usize> = (0..self.plan.federation.clients.len()).collect();
        let samples = &*self.plan.federation.dataset.train;
        crew.run(&clients, |client, hand| {
            let indices = self.plan.scored(*client);
            let Tally { right, .. } = hand.worker.score(model, samples, indices);
            Ok(right as f64 / indices.len() as f64)
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
    ) -> Result<Vec<f64>, RuntimeError> {
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
                    // Not a number where there is nothing to score.
                    Ok(right as f64 / indices.len() as f64)
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

    fn score_global(&self, model: &Model, crew: &mut Crew) -> Result<Score, RuntimeError> {
        let data = &self.plan.federation;
        let (samples, indices): (&dyn Samples, Vec<u32>) = match self.plan.evaluation.split {
            Scored::Validation => {
                let union = data.clients.iter().flat_map(|c| &c.validation).copied().collect();
                (&*data.dataset.train, union)
            }
            Scored::Test => (&*data.dataset.test, (0..data.dataset.test.len() as u32).collect()),
        };
        let jobs: Vec<&[u32]> = indices.chunks(EVALUATION_JOB).collect();
        let parts =
            crew.run(&jobs, |indices, hand| Ok(hand.worker.score(model, samples, indices)))?;
        let count = indices.len().max(1) as f64;
        let mut all = Tally::default();
        parts.into_iter().for_each(|part| all.add(part));
        Ok(Score { accuracy: all.right as f64 / count, loss: all.loss / count })
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

/// Means over the clients that have something to score, and the mean of their worst tenth.
fn personal_score(per_client: Vec<f64>, sizes: &[f64]) -> PersonalScore {
    let mut scored: Vec<(f64, f64)> =
        per_client.iter().copied().zip(sizes.iter().copied()).filter(|(_, n)| *n > 0.0).collect();
    let (clients, total) = (scored.len() as f64, scored.iter().map(|(_, n)| n).sum::<f64>());
    let weighted = scored.iter().map(|(a, n)| a * n).sum::<f64>() / total;
    let mean = scored.iter().map(|(a, _)| a).sum::<f64>() / clients;
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tenth = scored.len().div_ceil(10);
    let worst = scored.iter().take(tenth).map(|(a, _)| a).sum::<f64>() / tenth as f64;
    PersonalScore { weighted, mean, worst_decile: worst, per_client }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_scores_are_the_means_they_say() {
        let accuracies: Vec<f64> = (1..=20).map(|i| f64::from(i) / 20.0).collect();
        let sizes: Vec<f64> = (1..=20).map(f64::from).collect();
        let score = personal_score(accuracies, &sizes);
        // Σ i²/20 / Σ i = 2870/20/210; the mean is 10.5/20; the worst two are 1/20 and 2/20.
        assert!((score.weighted - 2870.0 / 20.0 / 210.0).abs() < 1e-12);
        assert!((score.mean - 0.525).abs() < 1e-12);
        assert!((score.worst_decile - 0.075).abs() < 1e-12);
    }

    #[test]
    fn a_client_without_samples_counts_nowhere() {
        let score = personal_score(vec![f64::NAN, 0.5, 1.0], &[0.0, 1.0, 3.0]);
        assert_eq!((score.weighted, score.mean, score.worst_decile), (0.875, 0.75, 0.5));
        assert!(score.per_client[0].is_nan());
        assert!(personal_score(vec![f64::NAN], &[0.0]).mean.is_nan());
    }
}
