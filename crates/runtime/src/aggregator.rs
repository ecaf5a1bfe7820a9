//! The server's half of a round, beside [`Desk`](crate::Desk), the client's: uploads are checked, brought
//! up to date, weighed and combined. Simulator, network and pace all aggregate here.

use crate::{MethodPlan, RunPlan};
use formant_federation::Protocol;
use formant_methods::{
    Central, Combine, Judged, Judgement, Judgements, MethodError, Parcel, Value,
};
use formant_numerics::{Network, Rng, Stream};
use std::sync::Arc;

/// An upload that has come, as it was sent.
#[derive(Debug)]
pub struct Arrival {
    /// Who sent it.
    pub client: usize,
    /// The round whose broadcast it answers.
    pub answered: u64,
    /// `n_i`, the training samples of its client.
    pub samples: f64,
    /// What was sent.
    pub message: Value,
}

/// What the server knows of a method, wherever it runs.
pub struct Aggregator<'a> {
    /// The network that all models belong to.
    pub network: &'a dyn Network,
    /// The method.
    pub method: &'a MethodPlan,
    /// How rounds proceed.
    pub rules: &'a Protocol,
    /// Keys all randomness.
    pub seed: u64,
    /// How uploads are combined.
    pub combine: &'a dyn Combine,
}

impl RunPlan {
    /// The server's half of a method's rounds.
    pub fn aggregator<'a>(&'a self, method: &'a MethodPlan, rules: &'a Protocol) -> Aggregator<'a> {
        let network = self.engine.network();
        Aggregator { network, method, rules, seed: self.seed, combine: &*self.combine }
    }
}

/// Older broadcasts than the newest, by the round that they open.
pub type OlderBroadcasts<'a> = &'a dyn Fn(u64) -> Result<Arc<Value>, MethodError>;

impl Aggregator<'_> {
    /// Aggregates a round's uploads, which come in client order, one at a time. An upload that answers an
    /// older broadcast is turned into one that answers the newest. Without any upload the server is as it
    /// was.
    pub fn aggregate(
        &self,
        round: u64,
        server: &mut Value,
        arrivals: &mut dyn Iterator<Item = Result<Arrival, MethodError>>,
        older: OlderBroadcasts<'_>,
    ) -> Result<(), MethodError> {
        // Not before there is something to aggregate: a method may refuse to start with nothing.
        let Some(first) = arrivals.next() else { return Ok(()) };
        let method = &*self.method.method;
        let now = method.broadcast(server)?;
        let reference = method.broadcast_vectors(&now)?;
        let mut parcels = std::iter::once(first)
            .chain(arrivals)
            .map(|arrival| self.accept(round, arrival?, &now, older));
        let mut central = Central {
            network: self.network,
            rng: Rng::new(self.seed, Stream::Server, round, 0),
            round: round as usize,
            clients: self.rules.clients,
            reference: &reference,
            combine: self.combine,
        };
        method.aggregate(server, &mut parcels, &mut central)?;
        // A method that does not look at its uploads (Local) leaves them behind.
        parcels.try_for_each(|parcel| parcel.map(drop))
    }

    /// The same, and which uploads did not count as they were sent.
    pub fn aggregate_judged(
        &self,
        round: u64,
        server: &mut Value,
        arrivals: &mut dyn Iterator<Item = Result<Arrival, MethodError>>,
        older: OlderBroadcasts<'_>,
    ) -> Result<Vec<Judgement>, MethodError> {
        let judgements = Judgements::default();
        let judged = Judged { combine: self.combine, judgements: &judgements };
        let Self { network, method, rules, seed, .. } = *self;
        let telling = Aggregator { network, method, rules, seed, combine: &judged };
        telling.aggregate(round, server, arrivals, older)?;
        Ok(judgements.into_vec())
    }

    /// Checks, rebases and weighs an upload.
    fn accept(
        &self,
        round: u64,
        arrival: Arrival,
        now: &Value,
        older: OlderBroadcasts<'_>,
    ) -> Result<Parcel, MethodError> {
        let Arrival { client, answered, samples, mut message } = arrival;
        let method = &*self.method.method;
        let staleness = round.saturating_sub(answered);
        let mut share = 1.0;
        if staleness == 0 {
            method.check_upload(client, &message, now, self.network)?;
        } else {
            let got = older(answered)?;
            method.check_upload(client, &message, &got, self.network)?;
            let (change, weight) = self.rules.shares(staleness);
            share = weight;
            method.rebase(&mut message, &got, now, change)?;
        }
        Ok(Parcel { client, samples, share, staleness: staleness as usize, message })
    }
}
