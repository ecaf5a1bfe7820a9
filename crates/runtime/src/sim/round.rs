//! One round: broadcast, both phases of every participant, aggregation.

use super::Session;
use super::crew::Crew;
use super::order::training_order;
use crate::event::{Event, Phase};
use crate::recorder::Recorder;
use crate::store::Store;
use crate::{Hand, PhaseRecord, RuntimeError};
use formant_methods::{MethodError, Patience, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What one client did in a round.
struct ClientRound {
    client: usize,
    shared: PhaseRecord,
    personal: Option<PhaseRecord>,
    upload_bytes: Option<u64>,
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
        let participants = self.plan.protocol.participants(round as u64);
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

    fn run_client(
        &self,
        round: usize,
        client: usize,
        broadcast: &Value,
        store: &Store<'_>,
        hand: &mut Hand,
    ) -> Result<ClientRound, RuntimeError> {
        let desk = self.plan.desk(self.method, client);
        let mut state = self.take_state(store, client)?;
        let (upload, shared) = desk.shared(round, &mut state, broadcast, hand)?;
        let mut record = ClientRound { client, shared, personal: None, upload_bytes: None };
        let Some(upload) = upload else {
            store.give_back(client, state, false)?;
            return Ok(record);
        };
        if self.method.method.has_personal_phase() {
            let messages = (broadcast, &upload);
            record.personal =
                Some(desk.personal((round, Patience::Epochs), &mut state, messages, hand)?);
        }
        store.give_back(client, state, true)?;
        record.upload_bytes = Some(upload.encoded_len()? as u64);
        store.put_upload(client, upload)?;
        Ok(record)
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
