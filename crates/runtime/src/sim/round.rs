//! One round: broadcast, both phases of every participant, aggregation.

use super::Session;
use super::crew::{Crew, Hand};
use super::order::training_order;
use crate::event::{Event, Phase};
use crate::recorder::Recorder;
use crate::store::Store;
use crate::{PhasePlan, RuntimeError};
use formant_methods::{Local, Meter, MethodError, Value};
use formant_numerics::{Rng, Stream, Worker};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What one client did in a round.
struct ClientRound {
    client: usize,
    shared: PhaseRecord,
    personal: Option<PhaseRecord>,
    upload_bytes: Option<u64>,
}

/// What one phase did: its work, or why it failed.
struct PhaseRecord {
    seconds: f64,
    meter: Meter,
    error: Option<String>,
}

/// Copies a state into memory that is there already.
fn remember(state: &Value, before: &mut Vec<u8>) -> Result<(), MethodError> {
    before.clear();
    state.encode_to(before)
}

impl Session<'_> {
    /// Runs a round; gives the reason if the method cannot go on.
    pub(super) fn run_round(
        &self,
        round: usize,
        server: &mut Value,
        store: &Store<'_>,
        crew: &mut Crew,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<String>, RuntimeError> {
        let started = Instant::now();
        let method = &*self.method.method;
        let label = &self.method.label;
        let participants = self.participants(round);
        recorder.record(&Event::RoundStarted {
            method: label.clone(),
            round,
            participants: participants.clone(),
        })?;
        let broadcast = method.broadcast(server)?;
        let queue = training_order(&participants, self.plan.threads, |client| {
            self.plan.federation.clients[client].train.len()
        });
        let _ahead = store.read_ahead(&queue);
        let done = AtomicUsize::new(0);
        let observer = recorder.observer();
        let outcome = self.aggregate_while(round, (server, &participants), store, |inbox| {
            crew.run(&queue, |client, hand| {
                inbox.check()?;
                let record = self.run_client(round, *client, &broadcast, store, hand)?;
                inbox.done(*client, record.upload_bytes.is_some());
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                observer.client_done(label, round, done, queue.len());
                Ok(record)
            })
        });
        let (mut records, any) = match outcome {
            // What a server trains can diverge as well, and ends its method and not the run.
            Err(RuntimeError::Method(MethodError::Numerics(error))) => {
                return Ok(Some(format!("the aggregation of round {round} failed: {error}")));
            }
            outcome => outcome?,
        };
        records.sort_by_key(|record| record.client);
        for record in &records {
            self.log_client(round, record, recorder)?;
        }
        if !any {
            let why =
                records.iter().find_map(|r| r.shared.error.as_deref()).unwrap_or("no participant");
            return Ok(Some(format!(
                "no client finished its shared phase in round {round}: {why}"
            )));
        }
        recorder.record(&Event::RoundFinished {
            method: label.clone(),
            round,
            seconds: started.elapsed().as_secs_f64(),
            broadcast_bytes: broadcast.encoded_len()? as u64,
        })?;
        Ok(None)
    }

    /// Clients of a round, ascending.
    fn participants(&self, round: usize) -> Vec<usize> {
        let clients = self.plan.federation.clients.len();
        let mut chosen: Vec<usize> = (0..clients).collect();
        let count = ((clients as f64 * self.plan.participation).round() as usize).clamp(1, clients);
        if count < clients {
            Rng::new(self.plan.seed, Stream::Participation, round as u64, 0).shuffle(&mut chosen);
            chosen.truncate(count);
            chosen.sort_unstable();
        }
        chosen
    }

    fn run_client(
        &self,
        round: usize,
        client: usize,
        broadcast: &Value,
        store: &Store<'_>,
        hand: &mut Hand,
    ) -> Result<ClientRound, RuntimeError> {
        let method = &*self.method.method;
        let mut state = self.take_state(store, client)?;
        let mut record = ClientRound {
            client,
            shared: PhaseRecord { seconds: 0.0, meter: Meter::default(), error: None },
            personal: None,
            upload_bytes: None,
        };
        let Hand { worker, before } = hand;
        remember(&state, before)?;
        let (outcome, shared) = self.phase(round, client, Phase::Shared, worker, |local| {
            method.train_shared(&mut state, broadcast, local)
        })?;
        record.shared = shared;
        let Some(upload) = outcome else {
            // A failed phase leaves no trace: the state is what it was before.
            store.give_back(client, method.decode_client(before)?, false)?;
            return Ok(record);
        };
        if method.has_personal_phase() {
            remember(&state, before)?;
            let (outcome, personal) =
                self.phase(round, client, Phase::Personal, worker, |local| {
                    method.train_personal(&mut state, broadcast, &upload, local)
                })?;
            record.personal = Some(personal);
            if outcome.is_none() {
                state = method.decode_client(before)?;
            }
        }
        store.give_back(client, state, true)?;
        record.upload_bytes = Some(upload.encoded_len()? as u64);
        store.put_upload(client, upload)?;
        Ok(record)
    }

    /// Lends a client's data to one phase. A divergence is an outcome, any other failure an error.
    fn phase<T>(
        &self,
        round: usize,
        client: usize,
        phase: Phase,
        worker: &mut Worker,
        train: impl FnOnce(&mut Local<'_>) -> Result<T, MethodError>,
    ) -> Result<(Option<T>, PhaseRecord), RuntimeError> {
        let (stream, plan): (_, &PhasePlan) = match phase {
            Phase::Shared => (Stream::SharedPhase, &self.method.shared),
            Phase::Personal => (Stream::PersonalPhase, &self.method.personal),
        };
        let data = &self.plan.federation;
        let rng = Rng::new(self.plan.seed, stream, round as u64, client as u64);
        let mut local = Local::new(
            &*self.plan.network,
            (&data.dataset.train, &data.clients[client].train),
            worker,
            (rng, plan.at(round)),
            (round, self.plan.rounds),
        );
        let started = Instant::now();
        let outcome = train(&mut local);
        let mut record = PhaseRecord {
            seconds: started.elapsed().as_secs_f64(),
            meter: local.meter(),
            error: None,
        };
        match outcome {
            Ok(value) => Ok((Some(value), record)),
            Err(error @ MethodError::Numerics(_)) => {
                record.error = Some(error.to_string());
                Ok((None, record))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn log_client(
        &self,
        round: usize,
        record: &ClientRound,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let (method, client) = (self.method.label.clone(), record.client);
        let personal = record.personal.as_ref().map(|p| (Phase::Personal, p));
        for (phase, done) in [(Phase::Shared, &record.shared)].into_iter().chain(personal) {
            recorder.record(&match &done.error {
                None => Event::PhaseDone {
                    method: method.clone(),
                    round,
                    client,
                    phase,
                    seconds: done.seconds,
                    samples: done.meter.samples,
                    steps: done.meter.steps,
                    loss: done.meter.mean_objective(),
                },
                Some(error) => Event::ClientFailed {
                    method: method.clone(),
                    round,
                    client,
                    phase,
                    error: error.clone(),
                },
            })?;
        }
        if let Some(bytes) = record.upload_bytes {
            recorder.record(&Event::Uploaded { method, round, client, bytes })?;
        }
        Ok(())
    }
}
