//! A run whose generic model has collapsed: it stops, and can be taken back.

use super::actor::Actor;
use super::vault::Best;
use crate::error::NetworkError;
use formant_federation::Action;
use formant_methods::{ErasedMethod, MethodError, Value};
use formant_numerics::vector::all_finite;
use formant_runtime::event::Score;

/// Evaluations in a row that must be far below the best: one may be chance.
const LOW: u32 = 2;
/// Accuracy above chance from which on there is something to lose.
const WORTH: f64 = 0.05;

/// Whether everything that clients would be sent is finite.
pub(crate) fn is_finite(method: &dyn ErasedMethod, server: &Value) -> Result<bool, MethodError> {
    let broadcast = method.broadcast(server)?;
    Ok(method.broadcast_vectors(&broadcast)?.iter().all(|vector| all_finite(vector)))
}

/// Takes in an evaluation of the generic model; says why the run must stop, if it must.
fn weigh(
    best: &mut Option<Best>,
    least: f64,
    classes: usize,
    round: u64,
    gm: &Score,
) -> Option<String> {
    if least == 0.0 {
        return None;
    }
    let Some(loss) = gm.loss else {
        return Some(format!("the loss of the GM after round {round} is not finite"));
    };
    // What a model without any idea has.
    let classes = classes.max(2) as f64;
    let (chance, clueless) = (1.0 / classes, classes.ln());
    let above = |accuracy: f64| (accuracy - chance).max(0.0);
    let accuracy = gm.accuracy;
    let Some(best) = best.as_mut().filter(|best| best.accuracy >= accuracy) else {
        *best = Some(Best { round, accuracy, low: 0 });
        return None;
    };
    let far_below = above(best.accuracy) >= WORTH && above(accuracy) < least * above(best.accuracy);
    let is_low = far_below || loss * least > clueless;
    best.low = if is_low { best.low + 1 } else { 0 };
    (best.low >= LOW).then(|| {
        let (best, at) = (best.accuracy, best.round);
        format!(
            "the GM has collapsed: its accuracy is {accuracy:.3} after round {round} (loss {loss:.3}) and was {best:.3} after round {at}; server.collapse = {least} allows no less"
        )
    })
}

impl Actor {
    /// Whether the run must stop after this evaluation. One that is being aggregated stops when that is done.
    pub(super) fn watch(&mut self, round: u64, gm: &Score) -> Result<Vec<Action>, NetworkError> {
        let wiring = &self.core.wiring;
        let classes = wiring.task.engine.network().classes();
        // Noise alone can look like a collapse, and a run with noise is not taken back.
        let is_private = wiring.task.privacy.is_some();
        let least = if is_private { 0.0 } else { wiring.settings.collapse };
        if self.manifest.end.is_some() {
            return Ok(Vec::new());
        }
        match weigh(&mut self.manifest.best, least, classes, round, gm) {
            Some(why) => {
                self.doom = Some(why);
                self.give_up()
            }
            None => Ok(Vec::new()),
        }
    }

    /// Stops the run if it must and nothing works on its state.
    pub(super) fn give_up(&mut self) -> Result<Vec<Action>, NetworkError> {
        if self.server.is_none() {
            return Ok(Vec::new());
        }
        let Some(why) = self.doom.take() else { return Ok(Vec::new()) };
        let rounds = self.rounds_done();
        tracing::error!(rounds, why, "the run stops; `formant serve --rollback` takes it back");
        self.finish(rounds, Some(why))?;
        Ok(self.manifest.machine.abandon())
    }

    /// Aggregations that are in the server's state.
    pub(super) fn rounds_done(&self) -> u64 {
        self.manifest.history.last_key_value().map_or(0, |(rounds, _)| *rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn score(accuracy: f64) -> Score {
        Score { accuracy, loss: Some(1.0), further: BTreeMap::default() }
    }

    /// The round at which a run with these accuracies stops.
    fn stops(least: f64, accuracies: &[f64]) -> Option<usize> {
        let mut best = None;
        let mut rounds = accuracies.iter().enumerate();
        rounds.position(|(round, accuracy)| {
            weigh(&mut best, least, 10, round as u64, &score(*accuracy)).is_some()
        })
    }

    #[test]
    fn a_model_that_falls_far_below_its_best_and_stays_there_has_collapsed() {
        assert_eq!(stops(0.25, &[0.1, 0.5, 0.6, 0.1, 0.1]), Some(4));
        assert_eq!(stops(0.25, &[0.6, 0.2, 0.2]), Some(2), "0.1 above chance of 0.5");
        assert_eq!(stops(0.25, &[0.6, 0.23, 0.23]), None);
        // Once is chance, and what was never worth much has nothing to lose.
        assert_eq!(stops(0.25, &[0.6, 0.1, 0.5, 0.1, 0.6]), None);
        assert_eq!(stops(0.25, &[0.12, 0.08, 0.1, 0.09]), None);
        assert_eq!(stops(0.0, &[0.6, 0.1, 0.1, 0.1]), None);
        // Sure of itself and wrong: no accuracy is so bad as its loss.
        let mut best = None;
        let sure = Score { loss: Some(80.0), ..score(0.3) };
        let stops = [score(0.6), sure.clone(), sure].map(|gm| weigh(&mut best, 0.25, 10, 1, &gm));
        assert!(matches!(stops, [None, None, Some(_)]), "{stops:?}");
        let nan = Score { loss: None, ..score(0.1) };
        assert!(weigh(&mut None, 0.25, 10, 1, &nan).is_some());
        assert!(weigh(&mut None, 0.0, 10, 1, &nan).is_none());
    }
}
