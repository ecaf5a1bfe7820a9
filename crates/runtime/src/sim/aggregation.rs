//! The server's half of a round: uploads in client order become the server's new state.
//!
//! A method reads its uploads one at a time. The iterator may wait for them: while clients still
//! train, the sum costs no time at the end of a round, and an upload lives only until its turn.

use super::Course;
use super::broadcasts::Broadcasts;
use crate::RuntimeError;
use crate::store::ServerStore;
use formant_methods::{Central, MethodError, Parcel, Value};
use formant_numerics::{Rng, Stream};

/// An upload that is to be aggregated.
pub(super) struct Sent {
    pub(super) client: usize,
    /// The round whose broadcast it answers.
    pub(super) answered: u64,
    pub(super) upload: Value,
}

/// Where older broadcasts are found, which late uploads are brought up to date by.
#[derive(Clone, Copy)]
pub(super) struct History<'a> {
    pub(super) broadcasts: &'a Broadcasts,
    pub(super) store: &'a ServerStore<'a>,
}

impl Course<'_> {
    /// Aggregates uploads, in client order. Those that answer an older broadcast are brought up to
    /// date. Without any upload, the server is as it was.
    pub(super) fn aggregate(
        &self,
        round: u64,
        server: &mut Value,
        uploads: &mut dyn Iterator<Item = Result<Sent, RuntimeError>>,
        history: History<'_>,
    ) -> Result<(), RuntimeError> {
        // A method knows only its own errors; what else goes wrong is told as it was.
        let mut broken = None;
        let mut parcels = uploads.map(|sent| {
            let parcel = sent.and_then(|sent| self.parcel(round, sent, history));
            parcel.map_err(|error| match error {
                RuntimeError::Method(error) => error,
                other => {
                    let told = MethodError::Storage(other.to_string());
                    broken = Some(other);
                    told
                }
            })
        });
        let outcome = self.combine(round, server, &mut parcels);
        drop(parcels);
        broken.map_or(outcome, Err)
    }

    /// An upload with its weight, brought up to date if it is late.
    fn parcel(&self, round: u64, sent: Sent, history: History<'_>) -> Result<Parcel, RuntimeError> {
        let Sent { client, answered, upload: message } = sent;
        let weight = self.plan.federation.clients[client].train.len() as f64;
        let mut parcel = Parcel { client, weight, staleness: 0, message };
        if answered < round {
            let method = &*self.method.method;
            let History { broadcasts, store } = history;
            let (old, now) =
                (broadcasts.get(answered, store, method)?, broadcasts.get(round, store, method)?);
            let (change, weight) = self.rules.shares(round - answered);
            parcel.weight *= weight;
            method.rebase(&mut parcel.message, &old, &now, change)?;
            parcel.staleness = (round - answered) as usize;
        }
        Ok(parcel)
    }

    fn combine(
        &self,
        round: u64,
        server: &mut Value,
        parcels: &mut dyn Iterator<Item = Result<Parcel, MethodError>>,
    ) -> Result<(), RuntimeError> {
        // Not before there is something to aggregate: a method may refuse to start with nothing.
        let Some(first) = parcels.next() else { return Ok(()) };
        let mut parcels = std::iter::once(first).chain(parcels);
        let rng = Rng::new(self.plan.seed, Stream::Server, round, 0);
        let clients = self.plan.federation.clients.len();
        let network = &*self.plan.network;
        let mut central = Central { network, rng, round: round as usize, clients };
        self.method.method.aggregate(server, &mut parcels, &mut central)?;
        // A method that does not look at its uploads (Local) leaves them behind.
        for parcel in parcels {
            parcel?;
        }
        Ok(())
    }
}
