//! Aggregation that begins with the first upload and keeps pace with the workers.
//!
//! A method reads its uploads in client order, one at a time. Here it reads them on a thread of its
//! own while clients still train: the sum costs no time at the end of a round, and an upload lives
//! only until its turn.

use super::Course;
use super::broadcasts::Broadcasts;
use crate::store::Store;
use crate::sync::{lock, wait};
use crate::{Arrival, OlderBroadcasts, RuntimeError};
use formant_methods::{MethodError, Value};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};

/// Who of a round's participants is done, told by workers, awaited by the aggregation.
pub(super) struct Inbox {
    arrivals: Mutex<Arrivals>,
    arrived: Condvar,
}

#[derive(Default)]
struct Arrivals {
    /// Whether a client that is done has sent something.
    done: HashMap<usize, bool>,
    awaited: Option<usize>,
    end: Option<End>,
}

/// Why nothing more is awaited.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The workers are through, or one of them failed.
    Closed,
    /// The aggregation failed.
    Failed,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { arrivals: Mutex::default(), arrived: Condvar::new() }
    }

    /// A client is done; its upload, if it sent one, is in the store.
    pub(super) fn done(&self, client: usize, sent: bool) {
        let mut arrivals = lock(&self.arrivals);
        arrivals.done.insert(client, sent);
        if arrivals.awaited == Some(client) {
            self.arrived.notify_all();
        }
    }

    /// Whether work for this round still makes sense.
    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        match lock(&self.arrivals).end {
            Some(End::Failed) => Err(given_up().into()),
            _ => Ok(()),
        }
    }

    /// Whether a client has sent something, once it is done; `None` if it never will be.
    fn wait_for(&self, client: usize) -> Option<bool> {
        let mut arrivals = lock(&self.arrivals);
        loop {
            if let Some(sent) = arrivals.done.remove(&client) {
                return Some(sent);
            }
            if arrivals.end.is_some() {
                return None;
            }
            arrivals.awaited = Some(client);
            arrivals = wait(&self.arrived, arrivals);
        }
    }

    fn end(&self, why: End) {
        lock(&self.arrivals).end.get_or_insert(why);
        self.arrived.notify_all();
    }

    fn failed(&self) -> bool {
        lock(&self.arrivals).end == Some(End::Failed)
    }
}

/// Ends the wait however the workers end, so that a panic of one does not hang the other side.
struct Closing<'i>(&'i Inbox);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.end(End::Closed);
    }
}

/// The error of a side that stops because the other one failed; the other one's is reported.
fn given_up() -> MethodError {
    MethodError::Storage("the round was given up".into())
}

impl Course<'_> {
    /// Lets the server aggregate the uploads of `participants` while `work` makes them. Without any
    /// upload, the server is as it was.
    pub(super) fn aggregate_while<T>(
        &self,
        round: u64,
        (server, participants): (&mut Value, &[usize]),
        store: &Store<'_>,
        work: impl FnOnce(&Inbox) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        let inbox = Inbox::new();
        std::thread::scope(|scope| {
            let aggregation = scope.spawn(|| {
                let mut arrivals = participants.iter().filter_map(|&client| {
                    match inbox.wait_for(client) {
                        Some(true) => {}
                        Some(false) => return None,
                        None => return Some(Err(given_up())),
                    }
                    self.arrival((client, round), store)
                });
                let none = |_| Err(given_up());
                let outcome = self.aggregate(round, server, &mut arrivals, &none);
                if outcome.is_err() {
                    inbox.end(End::Failed);
                }
                outcome
            });
            let closing = Closing(&inbox);
            let worked = work(&inbox);
            drop(closing);
            let aggregated = match aggregation.join() {
                Ok(aggregated) => aggregated,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            if inbox.failed() {
                aggregated.and(worked)
            } else {
                let worked = worked?;
                aggregated.map(|()| worked)
            }
        })
    }

    /// Lets the server aggregate uploads that are all there. Those that answer an older broadcast
    /// are brought up to date.
    pub(super) fn aggregate_kept(
        &self,
        round: u64,
        (server, uploads): (&mut Value, &[(usize, u64)]),
        (store, broadcasts): (&Store<'_>, &Broadcasts),
    ) -> Result<(), RuntimeError> {
        let method = &*self.method.method;
        let mut arrivals = uploads.iter().filter_map(|upload| self.arrival(*upload, store));
        let older = |answered| {
            let got = broadcasts.get(answered, (store, method));
            got.map_err(|error| MethodError::Storage(error.to_string()))
        };
        self.aggregate(round, server, &mut arrivals, &older)
    }

    /// An upload from the store.
    fn arrival(
        &self,
        (client, answered): (usize, u64),
        store: &Store<'_>,
    ) -> Option<Result<Arrival, MethodError>> {
        let samples = self.plan.federation.clients[client].train.len() as f64;
        let message = store
            .take_upload((client, answered))
            .map_err(|error| MethodError::Storage(error.to_string()))
            .transpose()?;
        Some(message.map(|message| Arrival { client, answered, samples, message }))
    }

    fn aggregate(
        &self,
        round: u64,
        server: &mut Value,
        arrivals: &mut dyn Iterator<Item = Result<Arrival, MethodError>>,
        older: OlderBroadcasts<'_>,
    ) -> Result<(), RuntimeError> {
        let aggregator = self.plan.aggregator(self.method, &self.rules);
        Ok(aggregator.aggregate(round, server, arrivals, older)?)
    }
}
