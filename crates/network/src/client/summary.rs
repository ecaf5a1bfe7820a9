//! What a client has learnt, in figures.

use crate::error::NetworkError;
use crate::score::{BATCH, score};
use formant_methods::{MethodError, Value};
use formant_numerics::{Model, Worker};
use formant_runtime::RunPlan;
use formant_runtime::event::Score;

/// How a client's run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Rounds that the run has made.
    pub rounds: u64,
    /// Samples that both models are scored on: the client's own, which neither has seen.
    pub samples: usize,
    /// The personal model, if there is one and there are samples.
    pub personal: Option<Score>,
    /// The generic model that the server has sent last, if it sends one.
    pub generic: Option<Score>,
    /// XXH3-128 of the client's state.
    pub fingerprint: String,
}

impl Summary {
    pub(super) fn new(
        plan: &RunPlan,
        client: usize,
        (round, state): (u64, &Value),
        broadcast: Option<&Value>,
    ) -> Result<Self, NetworkError> {
        let mut summary = Self {
            rounds: round,
            samples: plan.scored(client).len(),
            personal: None,
            generic: None,
            fingerprint: crate::wire::fingerprint(&state.encode()?),
        };
        let Some(broadcast) = broadcast else { return Ok(summary) };
        let desk = plan.desk(&plan.methods[0], client);
        let method = &*plan.methods[0].method;
        let batch = plan.largest_batch(&plan.methods[0]).max(BATCH);
        let mut worker = Worker::new(&*plan.network, batch);
        let mine = (&plan.federation.dataset.train, plan.scored(client));
        if let Some(generic) = generic_model(plan, broadcast)? {
            summary.generic = score(&*plan.network, &generic, mine, &mut worker);
        }
        let mut local = desk.evaluation(round as usize, &mut worker);
        let personal = match method.personal_model(state, broadcast, &mut local) {
            Ok(model) => Some(model.into_owned()),
            // A model that diverges while it is fine-tuned has no score.
            Err(MethodError::Numerics(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(personal) = personal {
            summary.personal = score(&*plan.network, &personal, mine, &mut worker);
        }
        Ok(summary)
    }
}

/// The generic model in a broadcast, if a whole one is in it.
fn generic_model(plan: &RunPlan, broadcast: &Value) -> Result<Option<Model>, NetworkError> {
    let method = &*plan.methods[0].method;
    let layout = plan.network.layout();
    let vectors = method.broadcast_vectors(broadcast)?;
    let [parameters, buffers, ..] = vectors[..] else { return Ok(None) };
    let is_whole = parameters.len() == layout.parameters()
        && buffers.len() == layout.buffer_values()
        && method.entry().generic;
    let model = Model { parameters: parameters.to_vec(), buffers: buffers.to_vec() };
    Ok(is_whole.then_some(model))
}
