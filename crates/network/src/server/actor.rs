//! The one thread that owns the run: it drives the round protocol, makes every step durable, and only
//! then lets anybody know.

use super::aggregation::{self, Aggregation};
use super::core::Core;
use super::status::Status;
use super::vault::{End, Manifest, Vault};
use super::verdict::{Fault, of_actions};
use crate::durable;
use crate::error::NetworkError;
use crate::journal::Journal;
use crate::wire::{fingerprint, proto, role_to_wire};
use formant_federation::{Action, Event, Late, Schedule, Time};
use formant_methods::Value;
use formant_runtime::event::{self, Event as Line};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

/// Where orders to one client go.
pub(crate) type Orders = mpsc::Sender<Result<proto::Order, tonic::Status>>;
/// Where a verdict is awaited.
pub(crate) type Reply = oneshot::Sender<Result<proto::Verdict, Fault>>;

/// What happens to the server.
pub(crate) enum Message {
    /// A control stream has opened.
    Joined { client: usize, session: u64, orders: Orders },
    /// It has ended.
    Left { client: usize, session: u64 },
    /// Would an upload be taken? Nothing changes.
    Ask { client: usize, round: u64, reply: Reply },
    /// An upload is whole, checked and synced.
    Uploaded { client: usize, round: u64, bytes: u64, reply: Reply },
    /// A client cannot answer.
    Failed { client: usize, round: u64, why: String, reply: Option<Reply> },
    /// The aggregation is done.
    Aggregated(Box<Result<Aggregation, NetworkError>>),
    /// The generic model has been scored.
    Scored { round: u64, score: event::Score, seconds: f64 },
    /// Some time has passed.
    Tick,
    /// Somebody wants to know.
    Status { reply: oneshot::Sender<Status> },
    /// The process ends.
    Stop,
}

/// Messages that are made durable together.
const BATCH: usize = 256;
/// Rounds for which a client may still answer, as the protocol remembers them.
const REMEMBERED: u64 = 8;

pub(crate) struct Actor {
    core: Arc<Core>,
    vault: Arc<Vault>,
    manifest: Manifest,
    journal: Journal,
    inbox: Receiver<Message>,
    /// The method's state; away while an aggregation works on it.
    server: Option<Value>,
    present: BTreeMap<usize, (u64, Orders)>,
    /// Who has been told that the run is over.
    dismissed: HashSet<usize>,
    /// Uploads that have been aggregated, to be removed once that is durable.
    spent: Vec<(usize, u64)>,
    wake: Option<Time>,
    started: Instant,
    before: f64,
    over: watch::Sender<Over>,
}

/// How the run ended, and who knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Over {
    pub(crate) end: Option<End>,
    /// Everybody has been told and has gone.
    pub(crate) everybody_knows: bool,
}

/// What a message leads to, once it is durable.
struct Outcome {
    actions: Vec<Action>,
    reply: Option<(Reply, (usize, u64))>,
}

impl Actor {
    pub(crate) fn new(
        core: Arc<Core>,
        (vault, manifest): (Arc<Vault>, Manifest),
        inbox: Receiver<Message>,
        over: watch::Sender<Over>,
    ) -> Result<Self, NetworkError> {
        let bytes = manifest.server.read(&vault.states())?;
        let server = core.wiring.method().method.decode_server(&bytes)?;
        let journal = Journal::open(&vault.folder, manifest.log_bytes)?;
        Ok(Self {
            before: manifest.seconds,
            core,
            vault,
            manifest,
            journal,
            inbox,
            server: Some(server),
            present: BTreeMap::new(),
            dismissed: HashSet::new(),
            spent: Vec::new(),
            wake: None,
            started: Instant::now(),
            over,
        })
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(mut self) -> Result<(), NetworkError> {
        if self.journal.bytes() == 0 {
            self.journal.record(&Line::RunStarted(self.core.wiring.plan.header.clone()))?;
            self.journal.record(&Line::MethodStarted { method: self.label() })?;
        }
        let now = self.now();
        let before = self.manifest.machine.round();
        let actions = self.manifest.machine.start(now);
        self.note(before, &actions)?;
        self.commit()?;
        info!(
            run = self.vault.run,
            round = self.manifest.machine.round(),
            kept = self.manifest.machine.kept().count(),
            "the run begins, or goes on"
        );
        self.act(actions)?;
        while self.turn()? {}
        Ok(())
    }

    /// Takes in what has come since, makes it durable, acts. False at the end.
    fn turn(&mut self) -> Result<bool, NetworkError> {
        let (mut outcomes, mut changed) = (Vec::new(), false);
        let mut message = self.wait();
        for taken in 1.. {
            if matches!(message, Message::Stop) {
                self.commit()?;
                return Ok(false);
            }
            changed |= self.take(message, &mut outcomes)?;
            match if taken < BATCH { self.inbox.try_recv().ok() } else { None } {
                Some(next) => message = next,
                None => break,
            }
        }
        if changed {
            self.commit()?;
            self.vault.tidy(&self.manifest, &std::mem::take(&mut self.spent))?;
        }
        for Outcome { actions, reply } in outcomes {
            if let Some((reply, answer)) = reply {
                // A client that has gone will ask again.
                let _ = reply.send(of_actions(&actions, answer));
            }
            self.act(actions)?;
        }
        Ok(true)
    }

    /// The next message, or a tick when it is time.
    fn wait(&mut self) -> Message {
        let now = self.now();
        let timeout = self.wake.map_or(Duration::from_secs(3_600), |at| at - now);
        match self.inbox.recv_timeout(timeout) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Message::Tick,
            Err(RecvTimeoutError::Disconnected) => Message::Stop,
        }
    }

    /// Takes in one message. True if the run has changed, so that a commit must follow.
    fn take(
        &mut self,
        message: Message,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<bool, NetworkError> {
        match message {
            Message::Joined { client, session, orders } => {
                self.joined(client, session, orders);
                let actions = self.handle(Event::Joined { client })?;
                outcomes.push(Outcome { actions, reply: None });
                return Ok(false);
            }
            Message::Left { client, session } => {
                self.left(client, session)?;
                return Ok(false);
            }
            Message::Ask { client, round, reply } => {
                // The machine itself says what it would do, on a copy.
                let actions = self
                    .manifest
                    .machine
                    .clone()
                    .handle(self.now(), Event::Uploaded { client, round });
                let _ = reply.send(of_actions(&actions, (client, round)));
                return Ok(false);
            }
            Message::Uploaded { client, round, bytes, reply } => {
                let (actions, changed) = self.uploaded(client, round, bytes)?;
                outcomes.push(Outcome { actions, reply: Some((reply, (client, round))) });
                return Ok(changed);
            }
            Message::Failed { client, round, why, reply } => {
                let (actions, changed) = self.failed(client, round, why)?;
                let reply = reply.map(|reply| (reply, (client, round)));
                outcomes.push(Outcome { actions, reply });
                return Ok(changed);
            }
            Message::Aggregated(aggregation) => {
                let actions = self.aggregated(*aggregation)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Scored { round, score, seconds } => self.scored(round, score, seconds)?,
            Message::Tick => {
                self.wake = None;
                let actions = self.handle(Event::Tick)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Status { reply } => {
                let present = self.present.keys().copied();
                let status = Status::of(&self.core, &self.manifest, present, self.seconds());
                let _ = reply.send(status);
                return Ok(false);
            }
            Message::Stop => {}
        }
        Ok(true)
    }

    fn joined(&mut self, client: usize, session: u64, orders: Orders) {
        info!(client = self.core.name(client), "joined");
        if let Some((_, replaced)) = self.present.insert(client, (session, orders)) {
            let cause = proto::dismiss::Cause::Replaced;
            let _ = replaced.try_send(Ok(self.dismissal(cause)));
        }
        self.core.metrics.present.store(self.present.len() as u64, Relaxed);
    }

    fn left(&mut self, client: usize, session: u64) -> Result<(), NetworkError> {
        // Another connection of the same client may have taken its place.
        if self.present.get(&client).is_none_or(|(current, _)| *current != session) {
            return Ok(());
        }
        info!(client = self.core.name(client), "left");
        self.present.remove(&client);
        self.core.metrics.present.store(self.present.len() as u64, Relaxed);
        self.handle(Event::Left { client })?;
        self.tell_whether_everybody_knows();
        Ok(())
    }

    /// Gives what follows, and whether anything has changed: a client may repeat itself.
    fn uploaded(
        &mut self,
        client: usize,
        round: u64,
        bytes: u64,
    ) -> Result<(Vec<Action>, bool), NetworkError> {
        let before = self.manifest.machine.clone();
        let actions = self.handle(Event::Uploaded { client, round })?;
        if actions.contains(&Action::Accept { client, round }) {
            let (method, round) = (self.label(), round as usize);
            self.journal.record(&Line::Uploaded { method, round, client, bytes, clock: None })?;
        } else if !self.manifest.machine.kept().any(|kept| kept == (client, round)) {
            self.vault.discard(client, round)?;
        }
        Ok((actions, self.manifest.machine != before))
    }

    /// The same of a client that cannot answer.
    fn failed(
        &mut self,
        client: usize,
        round: u64,
        error: String,
    ) -> Result<(Vec<Action>, bool), NetworkError> {
        let before = self.manifest.machine.clone();
        let actions = self.handle(Event::Failed { client, round })?;
        let changed = self.manifest.machine != before;
        if changed {
            warn!(client = self.core.name(client), round, error, "a client cannot answer");
            self.core.metrics.failures.fetch_add(1, Relaxed);
            let (method, phase) = (self.label(), event::Phase::Shared);
            let round = round as usize;
            self.journal.record(&Line::ClientFailed { method, round, client, phase, error })?;
        }
        Ok((actions, changed))
    }

    /// The aggregation is done and its files are synced; from this commit on, they count.
    fn aggregated(
        &mut self,
        aggregation: Result<Aggregation, NetworkError>,
    ) -> Result<Vec<Action>, NetworkError> {
        let Aggregation { round, server, uploads, outcome } = aggregation?;
        let done = match outcome {
            Ok(done) => done,
            Err(why) => {
                self.server = Some(server);
                return self.stop(round, why);
            }
        };
        let seconds = self.seconds() - self.manifest.round_began;
        info!(round, seconds, aggregation = done.seconds, uploads = uploads.len(), "round done");
        self.core.metrics.aggregations.fetch_add(1, Relaxed);
        self.core.metrics.aggregation_took(done.seconds);
        self.core.metrics.round_took(seconds);
        self.journal.record(&Line::RoundFinished {
            method: self.label(),
            round: round as usize,
            seconds,
            broadcast_bytes: self.manifest.broadcast_bytes,
            clock: None,
        })?;
        if let Some((score, seconds)) = done.score {
            self.scored(round, score, seconds)?;
        }
        self.server = Some(server);
        self.manifest.server = done.kept.server;
        self.manifest.broadcast_bytes = done.kept.broadcast_bytes;
        self.manifest.broadcasts.insert(round + 1, done.kept.broadcast);
        let actions = self.handle(Event::Aggregated { round })?;
        let oldest = self.oldest_needed();
        self.manifest.broadcasts.retain(|round, _| *round >= oldest);
        self.core.shelve(&self.manifest.broadcasts);
        self.spent = uploads;
        Ok(actions)
    }

    /// The oldest broadcast that somebody may still be sent, or that an upload may still answer.
    fn oldest_needed(&self) -> u64 {
        let machine = &self.manifest.machine;
        let protocol = machine.protocol();
        let buffered = matches!(protocol.schedule, Schedule::Buffered { .. });
        let answers = if buffered || protocol.late != Late::Drop { REMEMBERED } else { 0 };
        let kept = machine.kept().map(|(_, round)| round).min().unwrap_or(u64::MAX);
        machine.oldest_due().min(machine.round().saturating_sub(answers)).min(kept)
    }

    /// What the server trains can diverge as well; that ends the run.
    fn stop(&mut self, round: u64, why: String) -> Result<Vec<Action>, NetworkError> {
        let why = format!("the aggregation of round {round} failed: {why}");
        self.finish(round - 1, Some(why))?;
        Ok(self.present.keys().map(|client| Action::Dismiss { client: *client }).collect())
    }

    fn scored(&mut self, round: u64, gm: event::Score, seconds: f64) -> Result<(), NetworkError> {
        info!(round, accuracy = gm.accuracy, loss = gm.loss, "the generic model");
        // Personal models never leave their clients, and neither do their scores.
        let pm = event::PersonalScore {
            weighted: f64::NAN,
            mean: f64::NAN,
            worst_decile: f64::NAN,
            per_client: Vec::new(),
        };
        let evaluated = event::Evaluated {
            method: self.label(),
            round: round as usize,
            gm,
            gm_candidates: Vec::new(),
            pm,
            seconds,
            clock: None,
        };
        Ok(self.journal.record(&Line::Evaluated(evaluated))?)
    }

    /// Hands an event to the machine and notes what follows from it for the log.
    fn handle(&mut self, event: Event) -> Result<Vec<Action>, NetworkError> {
        let (now, before) = (self.now(), self.manifest.machine.round());
        let actions = self.manifest.machine.handle(now, event);
        self.note(before, &actions)?;
        Ok(actions)
    }

    fn note(&mut self, before: u64, actions: &[Action]) -> Result<(), NetworkError> {
        let round = self.manifest.machine.round();
        self.core.metrics.round.store(round, Relaxed);
        self.core.opened.send_replace(round);
        if round > before {
            self.manifest.round_began = self.seconds();
            let protocol = self.manifest.machine.protocol();
            let buffered = matches!(protocol.schedule, Schedule::Buffered { .. });
            let participants = if buffered { Vec::new() } else { protocol.participants(round) };
            info!(round, "round open");
            self.journal.record(&Line::RoundStarted {
                method: self.label(),
                round: round as usize,
                participants,
            })?;
        }
        for action in actions {
            match action {
                Action::Finish => self.finish(round, None)?,
                Action::Abandon { round } => {
                    let why = format!("no client could answer round {round}");
                    self.finish(round - 1, Some(why))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The run is over: once in its life.
    fn finish(&mut self, rounds: u64, stopped: Option<String>) -> Result<(), NetworkError> {
        if self.manifest.end.is_some() {
            return Ok(());
        }
        let Some(server) = &self.server else { return Ok(()) };
        let fingerprint = fingerprint(&server.encode()?);
        let method = &*self.core.wiring.method().method;
        if let Some(model) = method.global_model(server)? {
            let layout = self.core.wiring.plan.network.layout();
            let bytes = crate::model::safetensors(layout, &model);
            durable::write(&self.vault.folder.join("model.safetensors"), &bytes)?;
        }
        let seconds = self.seconds();
        info!(rounds, fingerprint, stopped, seconds, "the run is over");
        self.journal.record(&Line::MethodFinished {
            method: self.label(),
            rounds: rounds as usize,
            seconds,
            fingerprint: String::new(),
            server_fingerprint: Some(fingerprint.clone()),
            clock: None,
            stopped: stopped.clone(),
        })?;
        self.journal.record(&Line::RunFinished { seconds })?;
        self.manifest.end = Some(End { rounds, fingerprint, stopped });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), NetworkError> {
        self.manifest.seconds = self.seconds();
        self.manifest.log_bytes = self.journal.bytes();
        self.vault.commit(&self.manifest)
    }

    /// Does what the machine says. Everything it follows from is durable.
    fn act(&mut self, actions: Vec<Action>) -> Result<(), NetworkError> {
        for action in actions {
            match action {
                Action::Broadcast { client, round, role } => {
                    let order = self.broadcast(round, role_to_wire(role));
                    self.send(client, proto::order::Order::Broadcast(order));
                }
                Action::Accept { client, round } => {
                    self.core.metrics.accepted.fetch_add(1, Relaxed);
                    info!(client = self.core.name(client), round, "upload kept");
                }
                Action::Aggregate { round, uploads } => self.aggregate(round, uploads),
                Action::Wake { at } => {
                    self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
                }
                Action::Dismiss { client } => {
                    let cause = match &self.manifest.end {
                        Some(End { stopped: Some(_), .. }) => proto::dismiss::Cause::Abandoned,
                        _ => proto::dismiss::Cause::Finished,
                    };
                    self.dismissed.insert(client);
                    if let Some((_, orders)) = self.present.get(&client) {
                        let _ = orders.try_send(Ok(self.dismissal(cause)));
                    }
                }
                // Verdicts went out with the reply; the end is in the manifest.
                Action::Acknowledge { .. } | Action::Refuse { .. } => {}
                Action::Finish | Action::Abandon { .. } => {}
            }
        }
        if self.manifest.end.is_some() {
            self.tell_whether_everybody_knows();
        }
        Ok(())
    }

    /// Begins an aggregation on a thread of its own; what earlier ones have left behind goes first.
    fn aggregate(&mut self, round: u64, uploads: Vec<(usize, u64)>) {
        let Some(server) = self.server.take() else { return };
        let job = aggregation::Job {
            core: self.core.clone(),
            vault: self.vault.clone(),
            broadcasts: self.manifest.broadcasts.clone(),
            round,
            uploads,
        };
        std::thread::spawn(move || job.run(server));
    }

    fn broadcast(&self, round: u64, role: proto::Role) -> proto::Broadcast {
        let file = self
            .manifest
            .broadcasts
            .get(&round)
            .map(|named| proto::File { bytes: named.bytes, hash: named.hash_bytes() });
        proto::Broadcast { round, role: role.into(), file }
    }

    fn dismissal(&self, cause: proto::dismiss::Cause) -> proto::Order {
        let last = self
            .manifest
            .end
            .as_ref()
            .map(|end| self.broadcast(end.rounds + 1, proto::Role::Bystander));
        let dismiss = proto::Dismiss { cause: cause.into(), last };
        proto::Order { order: Some(proto::order::Order::Dismiss(dismiss)) }
    }

    /// Sends an order. A client that does not read its orders is cut off and may come back.
    fn send(&mut self, client: usize, order: proto::order::Order) {
        let Some((_, orders)) = self.present.get(&client) else { return };
        if orders.try_send(Ok(proto::Order { order: Some(order) })).is_err() {
            warn!(client = self.core.name(client), "does not read its orders");
            self.present.remove(&client);
        }
    }

    fn tell_whether_everybody_knows(&mut self) {
        let Some(end) = &self.manifest.end else { return };
        let everybody = self.dismissed.len() == self.core.wiring.settings.clients.len();
        let everybody_knows = everybody && self.present.is_empty();
        let over = Over { end: Some(end.clone()), everybody_knows };
        self.over.send_replace(over);
    }

    fn label(&self) -> String {
        self.core.wiring.method().label.clone()
    }

    /// Seconds of the run, over all its sessions.
    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    fn now(&self) -> Time {
        Time::from_seconds(self.seconds())
    }
}
