//! FedRoD's variant: personal heads come from a hypernetwork that the server averages.

use super::pupil::{Pupil, finite};
use super::{FedRod, Keeper, PersonalHead, Shared, with_head};
use crate::{Central, Hints, Local, Mean, Method, MethodError, Moment, Newcomer, Passes};
use formant_numerics::{Head, Model, Network, vector};
use serde::Deserialize;
use std::borrow::Cow;

/// FedRoD with `P_i = H(a_i)`.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct FedRodHypernetwork(pub FedRod);

impl Method for FedRodHypernetwork {
    type Server = Keeper;
    /// Empty: a head follows from the label frequencies.
    type Client = PersonalHead;
    type Broadcast = Shared;
    type Upload = Shared;
    type Received<'a> = Mean<Shared>;

    fn broadcast(&self, server: &Keeper) -> Shared {
        self.0.broadcast(server)
    }

    fn train_shared(
        &self,
        client: &mut PersonalHead,
        got: &Shared,
        local: &mut Local<'_>,
    ) -> Result<Shared, MethodError> {
        let mut sent = self.0.train_shared(client, got, local)?;
        let (head, frequencies) = (Head::of(local.network()), frequencies(local));
        sent.hyper.resize(length(head), 0.0);
        let mut pupil = Pupil::new(head, local);
        let (mut weights, mut spread) = (vec![0.0; head.weights()], Vec::new());
        let hyper = &mut sent.hyper;
        local.for_each_batch(local.epochs(), |step| {
            mix(hyper, &frequencies, &mut weights);
            let objective = pupil.learn(step, &sent.w, &weights);
            // ∂P/∂H_c = a_c, so every class's head gets its share of the gradient.
            spread.clear();
            spread
                .extend(frequencies.iter().flat_map(|a| pupil.gradient.iter().map(move |g| a * g)));
            pupil.descend_along(hyper, &mut spread);
            step.made(objective)
        })?;
        finite(local, &sent.hyper)?;
        Ok(sent)
    }

    fn aggregate(
        &self,
        server: &mut Keeper,
        received: Mean<Shared>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        self.0.aggregate(server, received, central)
    }

    fn global_model<'a>(&self, server: &'a Keeper) -> Option<Cow<'a, Model>> {
        self.0.global_model(server)
    }

    fn personal_model<'a>(
        &self,
        _client: &'a PersonalHead,
        got: &'a Shared,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        let mut head = vec![0.0; got.hyper.len() / local.network().classes()];
        if !head.is_empty() {
            mix(&got.hyper, &frequencies(local), &mut head);
        }
        Ok(with_head(&got.w, &head, local.network()))
    }

    fn newcomer<'a>(&self, _got: &'a Shared) -> Newcomer<'a> {
        // The label frequencies say it all.
        Newcomer::AtOnce
    }

    fn hints(&self, _at: Moment) -> Hints {
        // The hypernetwork learns after the rest, on as many samples.
        Hints { shared: Passes { an_epoch: 2, besides: 0 }, ..Hints::default() }
    }

    fn broadcast_grows(&self, network: &dyn Network) -> usize {
        length(Head::of(network))
    }

    fn upload_lengths(&self, got: &Shared, network: &dyn Network) -> Vec<usize> {
        vec![got.w.parameters.len(), got.w.buffers.len(), length(Head::of(network))]
    }
}

/// Values of a hypernetwork: a head for each class.
fn length(head: Head) -> usize {
    head.weights() * head.classes
}

/// `a_i`: shares of the classes among the client's training samples.
fn frequencies(local: &Local<'_>) -> Vec<f32> {
    let total = local.samples().max(1) as f32;
    local.label_counts().iter().map(|count| *count as f32 / total).collect()
}

/// `H(a) = Σ_c a_c H_c`.
fn mix(hyper: &[f32], frequencies: &[f32], head: &mut [f32]) {
    head.fill(0.0);
    for (part, a) in hyper.chunks_exact(head.len()).zip(frequencies) {
        vector::axpy(*a, part, head);
    }
}
