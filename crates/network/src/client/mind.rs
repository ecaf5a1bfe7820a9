//! The thread that owns the client: it drives the session, makes every step durable, and only then
//! lets anything follow from it.

mod record;

use super::Source;
use super::admission::{Admission, Known};
use super::bound::Bound;
use super::link::Command;
use super::models::{After, Owner, Scribe};
use super::plan::Assignment;
use super::summary::Summary;
use super::training::{Job, Trained, Trainer};
use super::vault::{Manifest, Terms, Vault, decode_broadcast};
use crate::error::NetworkError;
use crate::journal;
use crate::wire::proto::{self, dismiss::Cause, verdict::Kind};
use formant_federation::{Role, Session, SessionAction, SessionEvent, Until};
use formant_methods::Value;
use formant_runtime::event::{Event as Line, Phase, Place, Spent, finite};
use formant_runtime::files::{self, Named};
use formant_runtime::{Ledger, MethodPlan, Privacy, Recorder, RuntimeError};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tracing::{info, warn};

/// What happens to a client.
pub(crate) enum Notice {
    /// The server has let it in.
    Connected(Box<proto::Welcome>),
    /// The connection is lost.
    Disconnected,
    /// A broadcast is on disk.
    Broadcast { round: u64, role: Role, file: Named },
    /// What the server says about an upload or a failure.
    Verdict { round: u64, verdict: proto::Verdict },
    /// The run is over; the last broadcast, if it could be had.
    Dismissed { cause: Cause, last: Option<(u64, Named)> },
    /// A phase is over.
    Trained(Box<Result<Trained, RuntimeError>>),
    /// It cannot go on.
    Failed(NetworkError),
    /// The process ends.
    Stop,
}

/// The client before it knows what to do.
pub(crate) struct Waiting {
    pub(crate) vault: Vault,
    pub(crate) beginning: Beginning,
    /// Where downloads learn what they may be.
    pub(crate) bound: watch::Sender<Option<Bound>>,
    /// The client's own name.
    pub(crate) name: String,
    pub(crate) inbox: Receiver<Notice>,
    pub(crate) notices: Sender<Notice>,
    pub(crate) commands: UnboundedSender<Command>,
}

/// Where a client begins.
pub(crate) enum Beginning {
    /// With what the server will say.
    New(Source, Admission),
    /// With a run that the server has and that was looked at and admitted already.
    Admitted(Terms, Box<Assignment>),
    /// In the middle of a run.
    Begun(Source, Admission, Terms, Box<Manifest>),
}

impl Waiting {
    /// Runs to the end of the run, or until it is told to stop: then there is no summary.
    pub(crate) fn run(self) -> Result<Option<Summary>, NetworkError> {
        let Self { vault, beginning, bound, name, inbox, notices, commands } = self;
        let (terms, assignment, manifest, greeting) = match beginning {
            Beginning::Begun(source, admission, terms, manifest) => {
                let assignment = Assignment::new(&terms, source, &admission, Known::Approved)?;
                (terms, assignment, Some(*manifest), None)
            }
            Beginning::New(source, admission) => {
                let Some(greeting) = welcome(&inbox)? else { return Ok(None) };
                let terms = Terms::of(&greeting);
                let known = Known::of(vault.accepted()?.as_deref(), &terms);
                let assignment = Assignment::new(&terms, source, &admission, known)?;
                (terms, assignment, None, Some(greeting))
            }
            Beginning::Admitted(terms, assignment) => {
                let Some(greeting) = welcome(&inbox)? else { return Ok(None) };
                vault.compare(&terms, &Terms::of(&greeting))?;
                (terms, *assignment, None, Some(greeting))
            }
        };
        vault.accept(&terms.hash())?;
        // Only now is anything fetched.
        bound.send_replace(Some(assignment.bound.clone()));
        let assignment = Arc::new(assignment);
        let ready = Ready { vault, terms, assignment, name, inbox, notices, commands };
        let mut mind = Mind::new(ready, manifest)?;
        let restarted = mind.manifest.session.restart();
        mind.perform(restarted)?;
        if let Some(greeting) = greeting {
            mind.take(Notice::Connected(greeting))?;
        }
        mind.run()
    }
}

/// The client once it knows what to do.
struct Ready {
    vault: Vault,
    terms: Terms,
    assignment: Arc<Assignment>,
    name: String,
    inbox: Receiver<Notice>,
    notices: Sender<Notice>,
    commands: UnboundedSender<Command>,
}

/// The first thing that a new client needs; `None` if it is told to stop.
pub(super) fn welcome(
    inbox: &Receiver<Notice>,
) -> Result<Option<Box<proto::Welcome>>, NetworkError> {
    loop {
        match inbox.recv() {
            Ok(Notice::Connected(welcome)) => return Ok(Some(welcome)),
            Ok(Notice::Failed(error)) => return Err(error),
            Ok(Notice::Stop) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

struct Mind {
    vault: Vault,
    terms: Terms,
    manifest: Manifest,
    assignment: Arc<Assignment>,
    journal: Recorder<'static>,
    /// What is revealed of this client, if that is counted.
    ledger: Option<Ledger>,
    started: Instant,
    /// Wall time of earlier sessions.
    before: f64,
    inbox: Receiver<Notice>,
    commands: UnboundedSender<Command>,
    trainer: Trainer,
    owner: Owner,
    scribe: Scribe,
    /// The client's state; away while a phase works on it.
    state: Option<Value>,
    /// The broadcast and the upload that were last used, decoded.
    broadcast: Option<(u64, Arc<Value>)>,
    upload: Option<(u64, Arc<Value>)>,
    /// The mean loss of the newest upload's phase, which nothing but an operator's curiosity stands on.
    loss: Option<(u64, f64)>,
    summary: Option<Summary>,
}

impl Mind {
    fn new(ready: Ready, manifest: Option<Manifest>) -> Result<Self, NetworkError> {
        let Ready { vault, terms, assignment, name, inbox, notices, commands } = ready;
        let (task, method) = (&assignment.task, &assignment.task.method);
        let manifest = if let Some(manifest) = manifest {
            manifest
        } else {
            let manifest = Manifest::new(Session::new(&task.rules));
            vault.begin(&terms, &manifest)?;
            manifest
        };
        let state = if let Some(named) = &manifest.state {
            method.method.decode_client(&named.read(&vault.states())?)?
        } else {
            method.method.start_client(&task.init())
        };
        let mut journal = journal::open(&vault.folder, manifest.log)?;
        if journal.end().bytes == 0 {
            journal.record(&Line::RunStarted(Box::new(assignment.header.clone())))?;
            journal.record_now(&Line::MethodStarted { method: method.label.clone() })?;
        }
        info!(
            run = terms.run,
            place = terms.client,
            samples = assignment.samples(),
            "the run begins, or goes on"
        );
        if let Some(privacy) = task.privacy.filter(Privacy::is_local) {
            let Privacy { clip, noise_multiplier, .. } = privacy;
            info!(clip, noise_multiplier, "uploads leave with noise of the operating system's");
        }
        let ledger = task.privacy.and_then(|p| p.ledger(&*task.method.method, &task.rules));
        let before = manifest.seconds;
        let trainer = Trainer::start(assignment.clone(), notices);
        let (client, folder) = (terms.client, vault.folder.clone());
        let owner = Owner { assignment: assignment.clone(), client, name, folder };
        Ok(Self {
            vault,
            terms,
            manifest,
            assignment,
            journal,
            ledger,
            loss: None,
            started: Instant::now(),
            before,
            inbox,
            commands,
            trainer,
            scribe: Scribe::start(owner.clone()),
            owner,
            state: Some(state),
            broadcast: None,
            upload: None,
            summary: None,
        })
    }

    fn run(mut self) -> Result<Option<Summary>, NetworkError> {
        while self.summary.is_none() {
            match self.inbox.recv() {
                Ok(Notice::Stop) | Err(_) => return Ok(None),
                Ok(notice) => self.take(notice)?,
            }
        }
        Ok(self.summary)
    }

    fn take(&mut self, notice: Notice) -> Result<(), NetworkError> {
        match notice {
            Notice::Connected(welcome) => {
                self.vault.compare(&self.terms, &Terms::of(&welcome))?;
                if let Some(actions) = self.manifest.follow(&welcome) {
                    (self.broadcast, self.upload) = (None, None);
                    self.perform(actions)?;
                }
                self.handle(SessionEvent::Connected)
            }
            Notice::Disconnected => self.handle(SessionEvent::Disconnected),
            Notice::Broadcast { round, role, file } => {
                info!(round, bytes = file.bytes, "broadcast");
                self.manifest.broadcasts.insert(round, file);
                self.handle(SessionEvent::Broadcast { round, role })
            }
            Notice::Verdict { round, verdict } => self.judged(round, &verdict),
            Notice::Dismissed { cause, last } => {
                info!("the run is over");
                self.manifest.broadcasts.extend(last);
                self.manifest.abandoned = cause == Cause::Abandoned;
                self.handle(SessionEvent::Finished)
            }
            Notice::Trained(trained) => self.trained(trained.map_err(NetworkError::from)?),
            Notice::Failed(error) => Err(error),
            Notice::Stop => Ok(()),
        }
    }

    fn judged(&mut self, round: u64, verdict: &proto::Verdict) -> Result<(), NetworkError> {
        match verdict.kind() {
            Kind::Accepted | Kind::Kept => {
                info!(round, "the server has it");
                self.manifest.failures.remove(&round);
                self.handle(SessionEvent::Acknowledged { round })
            }
            _ => {
                let (reason, detail) = (&verdict.reason, &verdict.detail);
                warn!(round, reason, detail, "the server refuses the upload");
                self.log_refusal(round, verdict)?;
                self.handle(SessionEvent::Refused { round })
            }
        }
    }

    /// A phase is over: its state, and what it is to send, are kept before anything follows.
    fn trained(&mut self, trained: Trained) -> Result<(), NetworkError> {
        let Trained { round, phase, state, upload, record } = trained;
        let states = self.vault.states();
        // Of a round that the run has gone back behind: the state counts, the answer does not.
        let void = self.manifest.session.is_void();
        let upload = upload.filter(|_| !void);
        self.manifest.made += u64::from(upload.is_some());
        self.log_phase(round, phase, &record, upload.is_some())?;
        let event = match (phase, upload) {
            (Phase::Shared, None) if void => SessionEvent::SharedFailed { round },
            (Phase::Personal, _) => SessionEvent::PersonalDone { round },
            (Phase::Shared, None) => {
                self.manifest.failures.insert(round, record.error.clone().unwrap_or_default());
                SessionEvent::SharedFailed { round }
            }
            (Phase::Shared, Some(mut upload)) => {
                let method = &*self.method().method;
                let bytes = self.terms.packing().pack(method, &mut upload)?;
                let named = files::store(&states, &format!("upload-{round}.bin"), &bytes)?;
                self.manifest.uploads.insert(round, named);
                self.upload = Some((round, Arc::new(upload)));
                self.loss =
                    record.meter.mean_objective().and_then(finite).map(|loss| (round, loss));
                SessionEvent::SharedDone { round }
            }
        };
        if record.error.is_none() {
            self.manifest.version += 1;
            let name = format!("state-{}.bin", self.manifest.version);
            let bytes = state.encode()?;
            self.manifest.state = Some(files::store(&states, &name, &bytes)?);
            if let (Phase::Personal, Some((at, got))) = (phase, &self.broadcast) {
                let state = After { rounds: round, it: bytes };
                let sent = After { rounds: at.saturating_sub(1), it: got.clone() };
                self.scribe.renew(state, sent);
            }
        }
        self.state = Some(state);
        self.manifest.working = None;
        self.handle(event)
    }

    /// Hands an event to the session, keeps what it has become, then acts.
    fn handle(&mut self, event: SessionEvent) -> Result<(), NetworkError> {
        let actions = self.manifest.session.handle(event);
        self.perform(actions)
    }

    fn perform(&mut self, actions: Vec<SessionAction>) -> Result<(), NetworkError> {
        for action in &actions {
            if let SessionAction::TrainShared { round }
            | SessionAction::TrainPersonal { round, .. } = action
            {
                self.manifest.working = Some(*round);
            }
        }
        self.manifest.forget();
        self.commit()?;
        for action in actions {
            self.act(action)?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), NetworkError> {
        self.manifest.seconds = self.seconds();
        self.manifest.log = self.journal.end();
        self.vault.commit(&self.manifest)
    }

    fn act(&mut self, action: SessionAction) -> Result<(), NetworkError> {
        match action {
            SessionAction::TrainShared { round } => self.begin(round, None)?,
            SessionAction::TrainPersonal { round, until } => self.begin(round, Some(until))?,
            SessionAction::StopPersonal => self.trainer.stop(),
            SessionAction::Upload { round } => {
                let Some(file) = self.manifest.uploads.get(&round).cloned() else { return Ok(()) };
                let samples = self.assignment.samples() as u64;
                let loss = self.loss.filter(|(of, _)| self.assignment.sends_loss && *of == round);
                let loss = loss.map(|(_, loss)| loss);
                let _ = self.commands.send(Command::Upload { round, file, samples, loss });
            }
            SessionAction::ReportFailure { round } => {
                let why = self.manifest.failures.get(&round).cloned().unwrap_or_default();
                let _ = self.commands.send(Command::Fail { round, why });
            }
            SessionAction::End => self.end()?,
        }
        Ok(())
    }

    fn begin(&mut self, round: u64, personal: Option<Until>) -> Result<(), NetworkError> {
        let broadcast = self.broadcast(round)?;
        let personal = match personal {
            None => None,
            Some(until) => Some((self.latest_upload()?, until)),
        };
        let Some(state) = self.state.take() else {
            return Err(NetworkError::Stopped { what: "training" });
        };
        if personal.is_none() && round > 1 {
            let rounds = round - 1;
            let sent = After { rounds, it: broadcast.clone() };
            self.scribe.renew(After { rounds, it: state.encode()? }, sent);
        }
        self.trainer.begin(Job { round, state, broadcast, personal });
        Ok(())
    }

    fn broadcast(&mut self, round: u64) -> Result<Arc<Value>, NetworkError> {
        if let Some((at, value)) = &self.broadcast
            && *at == round
        {
            return Ok(value.clone());
        }
        let states = self.vault.states();
        let named = missing(self.manifest.broadcasts.get(&round), &states, "broadcast", round)?;
        let method = &*self.method().method;
        let how = (self.terms.packing(), &self.assignment.bound);
        let value = Arc::new(decode_broadcast(method, (round, named), &states, how)?);
        self.broadcast = Some((round, value.clone()));
        Ok(value)
    }

    /// What was sent last: a personal phase trains beside it.
    fn latest_upload(&mut self) -> Result<Arc<Value>, NetworkError> {
        let states = self.vault.states();
        let latest = self.manifest.uploads.last_key_value().map(|(round, _)| *round);
        let round = latest.unwrap_or_default();
        if let Some((at, value)) = &self.upload
            && *at == round
        {
            return Ok(value.clone());
        }
        let named = missing(self.manifest.uploads.get(&round), &states, "upload", round)?;
        let bytes = named.read(&states)?;
        let unpacked = self.terms.packing().unpack(&*self.method().method, bytes, u64::MAX - 1);
        let value = unpacked.map_err(|error| crate::wire::confused(error.to_string()))?;
        let value = Arc::new(value);
        self.upload = Some((round, value.clone()));
        Ok(value)
    }

    /// Scores what has been learnt, on samples that never leave this machine.
    fn end(&mut self) -> Result<(), NetworkError> {
        let newest = self.manifest.broadcasts.keys().next_back().copied();
        let broadcast = newest.map(|round| self.broadcast(round)).transpose()?;
        let round = newest.unwrap_or(1).saturating_sub(1);
        let Some(state) = &self.state else { return Ok(()) };
        let got = broadcast.as_deref();
        self.scribe.finish();
        let mut summary = Summary::new(&self.owner, (round, state), got)?;
        summary.privacy = self.spent(round);
        self.log_end(round)?;
        self.commit()?;
        self.summary = Some(summary);
        Ok(())
    }

    /// What has been revealed of this client once an upload of its counts that answers a round. Of its own noise it
    /// knows itself, of the server's what the experiment promises.
    fn spent(&mut self, round: u64) -> Option<Spent> {
        let made = self.manifest.made;
        let place = self.assignment.task.privacy?.place;
        self.ledger.as_mut().map(|ledger| match place {
            Place::Client => ledger.of(made),
            Place::Server => ledger.spent(round),
        })
    }

    /// Seconds of the run, over all sessions of this client.
    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    fn method(&self) -> &MethodPlan {
        &self.assignment.task.method
    }
}

fn missing<'n>(
    named: Option<&'n Named>,
    states: &Path,
    what: &str,
    round: u64,
) -> Result<&'n Named, NetworkError> {
    named.ok_or_else(|| {
        RuntimeError::Damaged {
            path: states.into(),
            found: format!("the {what} of round {round} is missing"),
            hint: "restore the whole state folder from a copy, or join anew with another".into(),
        }
        .into()
    })
}
