//! Work that clients have begun by the virtual clock: it is computed in waves, all that is known at
//! once, when the first of its results is needed.

use super::Course;
use super::aggregation::History;
use super::attackers::Conspiracy;
use crate::event::{Event, finite};
use crate::executor::{Answer, Executor, JobRecord, Jobs, Trained, Wave};
use crate::recorder::Recorder;
use crate::store::Sender;
use crate::{Arrival, RuntimeError};
use formant_methods::{MethodError, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// What becomes of a wave's uploads.
pub(super) enum Destination<'s> {
    /// They are a whole round of which every upload counts: the server aggregates them as they come.
    Aggregation {
        /// The round.
        round: u64,
        /// The state that they are aggregated into.
        server: &'s mut Value,
        /// How many uploads it needs; with fewer the server stays as it is.
        least: usize,
    },
    /// They wait at the server.
    Store,
}

/// How a wave ended.
pub(super) enum Outcome {
    /// With these results, in client order.
    Done {
        /// What became of every job.
        records: Vec<JobRecord>,
        /// Whether the round was aggregated.
        aggregated: bool,
    },
    /// The aggregation that ran beside it failed: the method cannot go on.
    Stopped(String),
}

impl Course<'_> {
    /// Computes all jobs, in parallel over clients.
    pub(super) fn run_wave(
        &self,
        jobs: &Jobs,
        mut destination: Destination<'_>,
        history: History<'_>,
        executor: &mut dyn Executor,
        recorder: &mut Recorder<'_>,
    ) -> Result<Outcome, RuntimeError> {
        let broadcasts = self.gather(jobs, history)?;
        let wave = Wave { jobs, broadcasts: &broadcasts, pulse: self.training_pulse() };
        let mut records = Vec::with_capacity(jobs.len());
        let (mut stopped, mut aggregated) = (None, false);
        let alone = Conspiracy::default();
        executor.run(&wave, &mut |answers| {
            let mut arrivals = answers.filter_map(|answer| match answer {
                Ok(Answer { record, upload }) => {
                    let (client, shared) = (record.client, record.shared);
                    records.push(record);
                    Some(Ok(self.arrival(client, shared?.round, upload?)))
                }
                Err(error) => Some(Err(error)),
            });
            match &mut destination {
                Destination::Aggregation { round, server, least } => {
                    let (mut came, mut short) = (0, false);
                    let mut counted = std::iter::from_fn(|| match arrivals.next() {
                        Some(arrival) => {
                            came += usize::from(arrival.is_ok());
                            Some(arrival)
                        }
                        // Too many have failed: an error leaves the server as it is.
                        None if came < *least && !short => {
                            short = true;
                            Some(Err(MethodError::NoUploads.into()))
                        }
                        None => None,
                    });
                    let outcome = self.aggregate(*round, server, &mut counted, history, &alone);
                    aggregated = !short;
                    match outcome {
                        Err(_) if short => Ok(()),
                        // What a server trains can diverge as well, and ends its method and not the
                        // run. All clients finish: where the method ends must not depend on who was
                        // how far.
                        Err(RuntimeError::Method(MethodError::Numerics(error))) => {
                            stopped = Some(failed_aggregation(*round, &error));
                            arrivals.try_for_each(|arrival| arrival.map(drop))
                        }
                        outcome => outcome,
                    }
                }
                Destination::Store => arrivals.try_for_each(|arrival| {
                    let Arrival { client, answered: round, message, .. } = arrival?;
                    history.store.uploads.put(Sender { client, round }, message)
                }),
            }
        })?;
        if let Some(why) = stopped {
            return Ok(Outcome::Stopped(why));
        }
        for record in &records {
            self.log_phases(record, recorder)?;
        }
        Ok(Outcome::Done { records, aggregated })
    }

    /// The broadcasts that jobs need, each read once.
    fn gather(
        &self,
        jobs: &Jobs,
        history: History<'_>,
    ) -> Result<BTreeMap<u64, Arc<Value>>, RuntimeError> {
        let mut got = BTreeMap::new();
        for step in jobs.values().flatten() {
            if let Entry::Vacant(place) = got.entry(step.round) {
                place.insert(self.broadcast(step.round, history)?);
            }
        }
        Ok(got)
    }

    fn log_phases(
        &self,
        record: &JobRecord,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        for Trained { step, record: done } in &record.phases {
            let (method, client) = (self.method.label.clone(), record.client);
            let (round, phase) = (step.round as usize, step.phase);
            recorder.record(&match &done.error {
                None => Event::PhaseDone {
                    method,
                    round,
                    client,
                    phase,
                    seconds: done.seconds,
                    samples: done.meter.samples,
                    steps: done.meter.steps,
                    loss: done.meter.mean_objective().and_then(finite),
                    terms: done.meter.mean_terms().and_then(finite),
                    clock: step.clock,
                    // Of the whole federation, when the round closes.
                    privacy: None,
                },
                Some(error) => {
                    Event::ClientFailed { method, round, client, phase, error: error.clone() }
                }
            })?;
        }
        Ok(())
    }
}

/// Why a method ends whose server has diverged.
pub(super) fn failed_aggregation(round: u64, error: &dyn std::fmt::Display) -> String {
    format!("the aggregation of round {round} failed: {error}")
}
