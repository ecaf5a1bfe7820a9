//! The server's half of a round, fed with uploads that clients may still be making.
//!
//! A method reads its uploads in client order, one at a time. The iterator may wait for them: while
//! clients still train, the sum costs no time at the end of a round, and an upload lives only until
//! its turn.

use super::Course;
use super::attackers::Conspiracy;
use super::broadcasts::Broadcasts;
use crate::store::ServerStore;
use crate::{Arrival, RuntimeError};
use formant_methods::{MethodError, Value};
use std::sync::Arc;

/// Where broadcasts are found: those of waves, and older ones that late uploads answer.
#[derive(Clone, Copy)]
pub(super) struct History<'a> {
    pub(super) broadcasts: &'a Broadcasts,
    pub(super) store: &'a ServerStore<'a>,
}

impl Course<'_> {
    /// The broadcast of a round.
    pub(super) fn broadcast(
        &self,
        round: u64,
        history: History<'_>,
    ) -> Result<Arc<Value>, RuntimeError> {
        history.broadcasts.get(round, history.store, &*self.method.method)
    }

    /// An upload as the server gets it.
    pub(super) fn arrival(&self, client: usize, answered: u64, message: Value) -> Arrival {
        let samples = self.plan.federation.clients[client].train.len() as f64;
        Arrival { client, answered, samples, message }
    }

    /// Aggregates a round's uploads, which come in client order, as attackers send them.
    pub(super) fn aggregate(
        &self,
        round: u64,
        server: &mut Value,
        arrivals: &mut dyn Iterator<Item = Result<Arrival, RuntimeError>>,
        history: History<'_>,
        conspiracy: &Conspiracy,
    ) -> Result<(), RuntimeError> {
        let arrivals = arrivals.filter_map(|arrival| {
            arrival.and_then(|arrival| self.deceive(arrival, history, conspiracy)).transpose()
        });
        // A method knows only its own errors; what else goes wrong is told as it was.
        let mut broken = None;
        let mut arrivals = arrivals.map(|arrival| {
            arrival.map_err(|error| match error {
                RuntimeError::Method(error) => error,
                other => {
                    let told = MethodError::Storage(other.to_string());
                    broken = Some(other);
                    told
                }
            })
        });
        let older = |answered| {
            let got = self.broadcast(answered, history);
            got.map_err(|error| MethodError::Storage(error.to_string()))
        };
        let aggregator = self.plan.aggregator(self.method, &self.rules);
        let outcome = aggregator.aggregate(round, server, &mut arrivals, &older);
        drop(arrivals);
        broken.map_or(outcome.map_err(RuntimeError::from), Err)
    }
}
