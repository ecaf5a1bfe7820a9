//! The one thread that owns the run: it drives the round protocol, makes every step durable, and only
//! then lets anybody know.

use super::aggregation::{self, Aggregation, Committed};
use super::core::Core;
use super::presence::Present;
use super::refusals::Refusals;
use super::status::Status;
use super::vault::{End, Manifest, Vault};
use super::verdict::{Fault, told};
use crate::audit::{Book, Entry};
use crate::error::NetworkError;
use crate::journal;
use crate::wire::{proto, role_to_wire};
use formant_federation::{Action, Event, Refusal, Time, Verdict};
use formant_methods::Value;
use formant_runtime::event::{self, Event as Line};
use formant_runtime::{EVENTS_FILE, Ledger, Recorder, files};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::info;

/// Where orders to one client go.
pub(crate) type Orders = mpsc::Sender<Result<proto::Order, tonic::Status>>;
/// What a client is told about its answer.
pub(crate) type Told = Result<proto::Verdict, Fault>;
/// Where that is awaited.
pub(crate) type Reply = oneshot::Sender<Told>;

/// What happens to the server.
pub(crate) enum Message {
    /// A control stream has opened.
    Joined { client: usize, present: Present },
    /// It has ended.
    Left { client: usize, session: u64 },
    /// A client knows that the run is over, and has the last model.
    Farewell { client: usize },
    /// Would an upload be taken? Nothing changes.
    Ask { client: usize, round: u64, samples: u64, reply: Reply },
    /// An upload is whole, checked and synced.
    Uploaded { upload: Upload, reply: Reply },
    /// An upload is refused for good.
    Refused { offer: Offer, fault: Fault, reply: Reply },
    /// A client cannot answer.
    Failed { client: usize, round: u64, why: String, reply: Option<Reply> },
    /// A client's certificate is revoked: nothing that it has sent counts any more.
    Withdrawn { client: usize },
    /// Something for the audit log.
    Note(Box<Entry>),
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

/// An upload that is whole.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) client: usize,
    pub(crate) round: u64,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
    /// XXH3-128 of what was sent, as hexadecimal digits.
    pub(crate) hash: String,
    /// How far it is from the broadcast that it answers.
    pub(crate) norm: f64,
    /// The mean loss of the phase that has made it, if the client says it.
    pub(crate) loss: Option<f64>,
}

/// What a client has said of its upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) client: usize,
    pub(crate) round: u64,
    /// Its size, if it is plausible.
    pub(crate) bytes: Option<u64>,
}

/// Messages that are made durable together.
const BATCH: usize = 256;

pub(crate) struct Actor {
    pub(super) core: Arc<Core>,
    pub(super) vault: Vault,
    pub(super) manifest: Manifest,
    pub(super) journal: Recorder<'static>,
    /// Which refusals the log speaks of already.
    pub(super) refusals: Refusals,
    pub(super) book: Book,
    /// Why the run must stop, while an aggregation is under way.
    pub(super) doom: Option<String>,
    pub(super) inbox: Receiver<Message>,
    /// The method's state; away while an aggregation works on it.
    pub(super) server: Option<Value>,
    pub(super) present: BTreeMap<usize, Present>,
    /// Who has said that it needs nothing more.
    pub(super) content: HashSet<usize>,
    /// Uploads that have been aggregated, to be removed once that is durable.
    pub(super) spent: Vec<(usize, u64)>,
    /// An aggregation that waits until it is durable.
    pub(super) waiting: Option<std::sync::mpsc::Sender<Committed>>,
    /// What uploads have revealed so far, if that is counted.
    pub(super) ledger: Option<Ledger>,
    pub(super) started: Instant,
    pub(super) before: f64,
    pub(super) over: watch::Sender<Over>,
}

/// How the run ended, and who knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Over {
    pub(crate) end: Option<End>,
    /// Everybody has said so and has gone.
    pub(crate) everybody_knows: bool,
}

/// What a message leads to, once it is durable.
struct Outcome {
    actions: Vec<Action>,
    reply: Option<(Reply, Told)>,
}

/// What a message makes of the run.
pub(super) struct Step {
    pub(super) actions: Vec<Action>,
    /// Whether the run is another one than before, so that a commit must follow. A client may repeat
    /// itself.
    pub(super) changed: bool,
}

impl Actor {
    pub(crate) fn new(
        core: Arc<Core>,
        vault: Vault,
        manifest: Manifest,
        inbox: Receiver<Message>,
        over: watch::Sender<Over>,
    ) -> Result<Self, NetworkError> {
        let bytes = manifest.server.read(&vault.states())?;
        let server = core.wiring.method().method.decode_server(&bytes)?;
        let journal = journal::open(&vault.folder, manifest.log)?;
        let task = &core.wiring.task;
        let ledger = task.privacy.and_then(|p| p.ledger(&*task.method.method, &task.rules));
        files::make_private(&vault.folder.join(EVENTS_FILE))?;
        let book = Book::open(&vault.folder, &manifest.audit)?;
        Ok(Self {
            before: manifest.seconds,
            book,
            doom: None,
            core,
            vault,
            manifest,
            journal,
            refusals: Refusals::default(),
            inbox,
            server: Some(server),
            present: BTreeMap::new(),
            content: HashSet::new(),
            spent: Vec::new(),
            waiting: None,
            ledger,
            started: Instant::now(),
            over,
        })
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(mut self) -> Result<(), NetworkError> {
        if self.journal.end().bytes == 0 {
            self.journal.record(&Line::RunStarted(Box::new(self.core.wiring.header.clone())))?;
            self.journal.record_now(&Line::MethodStarted { method: self.label() })?;
        }
        self.book.note(Entry::Opened {
            run: self.vault.run.clone(),
            generation: self.manifest.generation,
            formant: self.core.wiring.header.formant.clone(),
        })?;
        let now = self.now();
        let before = self.manifest.machine.round();
        let actions = self.manifest.machine.start(now);
        let actions = self.without_revoked(actions)?;
        self.note(before, &actions)?;
        self.commit()?;
        info!(
            run = self.vault.run,
            round = self.manifest.machine.round(),
            kept = self.manifest.machine.kept().count(),
            "the run begins, or goes on"
        );
        self.act(actions);
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
                self.wait_for_aggregation();
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
            if let Some(waiting) = self.waiting.take() {
                // One that has gone needs no answer.
                let _ = waiting.send(Committed);
            }
        }
        for Outcome { actions, reply } in outcomes {
            if let Some((reply, told)) = reply {
                // A client that has gone will ask again.
                let _ = reply.send(told);
            }
            self.act(actions);
        }
        Ok(true)
    }

    /// Lets an aggregation under way come to its end, which is not counted: it works in the folder, and
    /// whoever opens that next must have it alone.
    fn wait_for_aggregation(&self) {
        while self.server.is_none()
            && let Ok(message) = self.inbox.recv()
            && !matches!(message, Message::Aggregated(_))
        {}
    }

    /// The next message, or a tick when it is time.
    fn wait(&mut self) -> Message {
        let now = self.now();
        // What the machine waits for, not what it once asked for: rounds may have closed since.
        let deadline = self.manifest.machine.deadline();
        let timeout = deadline.map_or(Duration::from_secs(3_600), |at| at - now);
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
            Message::Joined { client, present } => {
                if self.joined(client, present)? {
                    let actions = self.handle(Event::Joined { client })?;
                    outcomes.push(Outcome { actions, reply: None });
                }
                return Ok(false);
            }
            Message::Left { client, session } => {
                self.left(client, session)?;
                return Ok(false);
            }
            Message::Farewell { client } => {
                if self.manifest.end.is_some() {
                    self.content.insert(client);
                    self.tell_whether_everybody_knows();
                }
                return Ok(false);
            }
            Message::Ask { client, round, samples, reply } => {
                if let Some(fault) = self.samples_fault(client, samples) {
                    let _ = reply.send(Err(fault));
                    return Ok(false);
                }
                let _ = reply.send(told(self.manifest.machine.verdict(client, round)));
                return Ok(false);
            }
            Message::Uploaded { upload, reply } => {
                let told = told(self.manifest.machine.verdict(upload.client, upload.round));
                let Step { actions, changed } = self.uploaded(upload)?;
                outcomes.push(Outcome { actions, reply: Some((reply, told)) });
                return Ok(changed);
            }
            Message::Refused { offer, fault, reply } => {
                let Step { actions, changed } = self.refused(offer, &fault)?;
                outcomes.push(Outcome { actions, reply: Some((reply, Err(fault))) });
                return Ok(changed);
            }
            Message::Failed { client, round, why, reply } => {
                let Step { actions, changed } = self.failed(client, round, why)?;
                // It is known from now on, or was known before.
                let reply = reply.map(|reply| (reply, told(Verdict::Acknowledge)));
                outcomes.push(Outcome { actions, reply });
                return Ok(changed);
            }
            Message::Withdrawn { client } => {
                let actions = self.withdrawn(client)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Note(entry) => {
                self.book.note(*entry)?;
                return Ok(false);
            }
            Message::Aggregated(aggregation) => {
                let actions = self.aggregated(*aggregation)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Scored { round, score, seconds } => {
                let actions = self.watch(round, &score)?;
                self.scored(round, score, seconds)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Tick => {
                let actions = self.handle(Event::Tick)?;
                outcomes.push(Outcome { actions, reply: None });
            }
            Message::Status { reply } => {
                let present = self.present.keys().copied();
                let (seconds, done) = (self.seconds(), self.manifest.aggregations());
                let privacy = self.ledger.as_mut().map(|ledger| ledger.spent(done));
                let status = Status::of(&self.core, &self.manifest, present, seconds, privacy);
                let _ = reply.send(status);
                return Ok(false);
            }
            Message::Stop => {}
        }
        Ok(true)
    }

    pub(super) fn commit(&mut self) -> Result<(), NetworkError> {
        self.manifest.seconds = self.seconds();
        self.manifest.log = self.journal.end();
        self.manifest.audit = self.book.sync()?;
        self.vault.commit(&self.manifest)
    }

    /// Does what the machine says. Everything it follows from is durable.
    fn act(&mut self, actions: Vec<Action>) {
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
                Action::Dismiss { client } => {
                    let cause = match &self.manifest.end {
                        Some(End { stopped: Some(_), .. }) => proto::dismiss::Cause::Abandoned,
                        _ => proto::dismiss::Cause::Finished,
                    };
                    if let Some(present) = self.present.get(&client) {
                        let _ = present.orders.try_send(Ok(self.dismissal(cause)));
                    }
                }
                // Verdicts went out with the reply; the end is in the manifest; `wait` knows when to
                // wake.
                Action::Acknowledge { .. }
                | Action::Wake { .. }
                | Action::Refuse { .. }
                | Action::Finish
                | Action::Abandon { .. } => {}
            }
        }
        if self.manifest.end.is_some() {
            self.tell_whether_everybody_knows();
        }
    }

    /// Begins an aggregation on a thread of its own; what earlier ones have left behind goes first.
    fn aggregate(&mut self, round: u64, uploads: Vec<(usize, u64)>) {
        let Some(server) = self.server.take() else { return };
        let job = aggregation::Job {
            core: self.core.clone(),
            states: self.vault.states(),
            received: self.vault.uploads(),
            broadcasts: self.manifest.broadcasts.clone(),
            round,
            uploads,
        };
        let actor = self.core.actor.clone();
        std::thread::spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| job.run(server));
            if std::panic::catch_unwind(run).is_err() {
                // Nobody would wait for what never comes.
                let stopped = NetworkError::Stopped { what: "aggregation" };
                let _ = actor.send(Message::Aggregated(Box::new(Err(stopped))));
            }
        });
    }

    /// A client's samples are its weight: what it has said once stands.
    fn samples_fault(&self, client: usize, samples: u64) -> Option<Fault> {
        let before = *self.manifest.samples.get(&client)?;
        let detail = format!("{samples} samples, where it said {before} before");
        (before != samples).then(|| Fault::in_content(Refusal::Samples, detail))
    }

    pub(super) fn label(&self) -> String {
        self.core.wiring.method().label.clone()
    }

    /// Seconds of the run, over all its sessions.
    pub(super) fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    pub(super) fn now(&self) -> Time {
        Time::from_seconds(self.seconds())
    }
}
