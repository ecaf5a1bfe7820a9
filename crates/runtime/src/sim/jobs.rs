//! Work that clients have begun by the virtual clock: it is computed in waves, all that is known at
//! once, when the first of its results is needed.

use super::Course;
use super::aggregation::Inbox;
use super::broadcasts::Broadcasts;
use super::crew::Crew;
use super::order::training_order;
use crate::event::{Event, Phase, Span, finite};
use crate::recorder::{Observer, Recorder};
use crate::store::Store;
use crate::{Hand, Lasting, PhaseRecord, RuntimeError};
use formant_federation::Until;
use formant_methods::{MethodError, Value};
use formant_numerics::Patience;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A phase that is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) round: u64,
    pub(super) phase: Phase,
    /// How long a personal phase lasts, if not for its epochs.
    pub(super) batches: Option<u64>,
    /// From when to when it lasts, by the virtual clock.
    pub(super) clock: Option<Span>,
}

/// Each client's work, in the order in which it is to be done.
pub(super) type Jobs = BTreeMap<usize, Vec<Step>>;

/// What became of one client's job.
pub(super) struct JobRecord {
    pub(super) client: usize,
    pub(super) phases: Vec<(Step, PhaseRecord)>,
    /// The round of its shared phase, if there was one, and the size of its upload, if it succeeded.
    pub(super) shared: Option<(u64, Option<u64>)>,
}

impl JobRecord {
    /// Why the shared phase failed.
    pub(super) fn failure(&self) -> Option<&str> {
        let shared = self.phases.iter().find(|(step, _)| step.phase == Phase::Shared);
        shared.and_then(|(_, record)| record.error.as_deref())
    }
}

/// How a wave ended.
pub(super) enum Wave {
    /// With these results, in client order.
    Done(Vec<JobRecord>),
    /// The aggregation that ran beside it failed: the method cannot go on.
    Stopped(String),
}

impl Course<'_> {
    /// Computes all jobs, in parallel over clients. If they are a whole round of which every upload
    /// counts, the server aggregates meanwhile: then `together` names the round and its server.
    pub(super) fn run_wave(
        &self,
        jobs: &Jobs,
        together: Option<(u64, &mut Value)>,
        (store, broadcasts): (&Store<'_>, &Broadcasts),
        (crew, recorder): (&mut Crew, &mut Recorder<'_>),
    ) -> Result<Wave, RuntimeError> {
        let clients: Vec<usize> = jobs.keys().copied().collect();
        let queue = training_order(&clients, self.plan.threads, |client| {
            self.plan.federation.clients[client].train.len()
        });
        let got = self.gather(jobs, broadcasts, store)?;
        let _ahead = store.read_ahead(&queue);
        let (done, observer) = (AtomicUsize::new(0), recorder.observer());
        let round = jobs.values().flatten().map(|step| step.round).max().unwrap_or(0) as usize;
        let work = |inbox: Option<&Inbox>, crew: &mut Crew| {
            crew.run(&queue, |client, hand| {
                inbox.map_or(Ok(()), Inbox::check)?;
                let record = self.run_job(*client, &jobs[client], &got, store, hand)?;
                if let (Some(inbox), Some((_, bytes))) = (inbox, record.shared) {
                    inbox.done(*client, bytes.is_some());
                }
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                self.tell(observer, round, (done, queue.len()));
                Ok(record)
            })
        };
        let outcome = match together {
            None => work(None, crew),
            Some((round, server)) => {
                let participants = self.rules.participants(round);
                self.aggregate_while(round, (server, &participants), store, |inbox| {
                    work(Some(inbox), crew)
                })
            }
        };
        let mut records = match outcome {
            // What a server trains can diverge as well, and ends its method and not the run.
            Err(RuntimeError::Method(MethodError::Numerics(error))) => {
                let why = format!("the aggregation of round {round} failed: {error}");
                return Ok(Wave::Stopped(why));
            }
            outcome => outcome?,
        };
        records.sort_by_key(|record| record.client);
        for record in &records {
            self.log_phases(record, recorder)?;
        }
        Ok(Wave::Done(records))
    }

    fn tell(&self, observer: &dyn Observer, round: usize, (done, of): (usize, usize)) {
        observer.client_done(&self.method.label, round, done, of);
    }

    /// The broadcasts that jobs need, each read once.
    fn gather(
        &self,
        jobs: &Jobs,
        broadcasts: &Broadcasts,
        store: &Store<'_>,
    ) -> Result<BTreeMap<u64, Arc<Value>>, RuntimeError> {
        let mut got = BTreeMap::new();
        for step in jobs.values().flatten() {
            if let std::collections::btree_map::Entry::Vacant(place) = got.entry(step.round) {
                place.insert(broadcasts.get(step.round, (store, &*self.method.method))?);
            }
        }
        Ok(got)
    }

    fn run_job(
        &self,
        client: usize,
        steps: &[Step],
        got: &BTreeMap<u64, Arc<Value>>,
        store: &Store<'_>,
        hand: &mut Hand,
    ) -> Result<JobRecord, RuntimeError> {
        let desk = self.plan.desk(self.method, client);
        let mut state = self.take_state(store, client)?;
        let mut record = JobRecord { client, phases: Vec::new(), shared: None };
        let (mut upload, mut changed) = (None, false);
        for step in steps {
            let round = step.round as usize;
            let Some(got) = got.get(&step.round) else { continue };
            let done = match step.phase {
                Phase::Shared => {
                    let (sent, done) = desk.shared(round, &mut state, got, hand)?;
                    record.shared = Some((step.round, None));
                    changed |= sent.is_some();
                    upload = sent.map(|sent| (step.round, sent));
                    done
                }
                Phase::Personal => {
                    let after = record.shared.is_some_and(|(shared, _)| shared == step.round);
                    let before = if after { None } else { store.sent(client)? };
                    // Without a shared phase that went well there is nothing to train beside.
                    let Some(sent) = before.as_ref().or(upload.as_ref().map(|(_, sent)| sent))
                    else {
                        continue;
                    };
                    let patience = step.batches.map_or(Patience::Epochs, Patience::Batches);
                    changed = true;
                    let lasting = Lasting { round, patience };
                    desk.personal(lasting, &mut state, got, sent, hand)?
                }
            };
            record.phases.push((*step, done));
        }
        store.give_back(client, state, changed)?;
        if let Some((round, upload)) = upload {
            record.shared = Some((round, Some(upload.encoded_len()? as u64)));
            if self.keeps_sent() {
                store.put_sent(client, &upload)?;
            }
            store.put_upload((client, round), upload)?;
        }
        Ok(record)
    }

    /// Whether a personal phase may come that does not follow a shared phase at once.
    fn keeps_sent(&self) -> bool {
        let personal = self.rules.personal;
        personal.exists && (personal.everyone || personal.until == Until::Broadcast)
    }

    fn log_phases(
        &self,
        record: &JobRecord,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        for (step, done) in &record.phases {
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
                    clock: step.clock,
                },
                Some(error) => {
                    Event::ClientFailed { method, round, client, phase, error: error.clone() }
                }
            })?;
        }
        Ok(())
    }
}
