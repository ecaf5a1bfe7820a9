//! Where clients' states live and their work is done: the seam between the simulator's driver, which
//! decides who does what and aggregates, and the machines that compute.
//!
//! The driver never sees a client's state. It asks by data that can be encoded (broadcasts, uploads
//! and models encode themselves, the rest is plain), so that an [`Executor`] may be threads of this
//! process ([`Threads`]), other processes or other hosts. Whoever executes, the bits are the same:
//! everything that a client draws is keyed by `(seed, phase, round, client)`, and whatever is summed
//! is summed in client order. [`client`] has what a client does with its state, for all of them.

pub mod client;
mod global;
mod mean;
pub mod newcomer;
pub mod threads;

pub use global::GlobalSet;
pub use mean::MeanModel;
pub use threads::Threads;

use crate::event::{Phase, RankWork, Span};
use crate::store::{Room, Stored};
use crate::{Choice, PhaseRecord, RuntimeError};
use formant_methods::Value;
use formant_numerics::{Confusion, Metric, Model, Pulse, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Holds the states of all clients while a method runs, and computes with them.
///
/// Whoever waits for a wave, a score or newcomers may stop it by its [`Pulse`]; it then ends within seconds, with an
/// error for which [`RuntimeError::is_stop`] holds, and the states are lost: the method has to begin again
/// from what was made durable.
pub trait Executor {
    /// Begins a method, with the states that a checkpoint names and fresh ones for all other clients.
    fn begin(&mut self, start: &Start<'_>) -> Result<(), RuntimeError>;

    /// Ends the method: all states may go. Called however it ended.
    fn end(&mut self);

    /// Computes every client's job, and calls `take` once with an iterator that gives their answers in
    /// client order, each as soon as it and all before it are there: others still compute meanwhile.
    ///
    /// An answer that is there before its turn waits where it was made, on disk if there is no room.
    /// `take` reads to the end; if it fails, jobs that have not begun need not be done. States are as
    /// they should be only after success.
    fn run(&mut self, wave: &Wave<'_>, take: &mut Take<'_>) -> Result<(), RuntimeError>;

    /// Scores every client's personal model, or what it serves in its place, on its own samples. No state changes.
    fn score_personal(&mut self, looked: &Look<'_>) -> Result<PersonalScores, RuntimeError>;

    /// Scores one model on every client's own samples, with the answers added up if that is wanted.
    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError>;

    /// Scores one model on the [`GlobalSet`], with its answers if that is wanted.
    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError>;

    /// Has every newcomer of the plan make personal models for itself; gives what came of it in their order. No
    /// method needs to have begun: newcomers have no states.
    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError>;

    /// Shows every client's encoded state, in client order. A client that never took part has the
    /// state that it would begin with.
    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError>;

    /// Makes all states durable and says where they are. Until the next [`Executor::sweep`], they and
    /// what the last one named stay as they are, whatever is computed.
    fn persist(&mut self) -> Result<Held, RuntimeError>;

    /// Keeps what a checkpoint names until the next one; everything else that was made durable may go.
    /// Some of what is named is the server's.
    fn sweep(&mut self, named: &[Stored]);

    /// Whether clients are in several processes, whose hosts may be lost one by one. What a checkpoint names has to be on
    /// disk then before it counts.
    fn is_spread(&self) -> bool {
        false
    }

    /// Where the method's work was done, if that is more than one place; asked when it has ended.
    fn places(&mut self) -> Vec<RankWork> {
        Vec::new()
    }
}

/// What reads the answers of a wave.
pub type Take<'t> = dyn FnMut(&mut Answers<'_>) -> Result<(), RuntimeError> + 't;

/// The answers of a wave, in client order. After an error there are no more.
pub type Answers<'a> = dyn Iterator<Item = Result<Answer, RuntimeError>> + 'a;

/// How a method begins.
pub struct Start<'a> {
    /// Its place in the plan.
    pub method: usize,
    /// Where what is made durable goes. It exists.
    pub folder: &'a Path,
    /// Memory that states in this process share with uploads; the rest goes to disk.
    pub room: &'a Arc<Room>,
    /// What a checkpoint has of it.
    pub held: &'a Held,
    /// Everything that the checkpoint names: see [`Executor::sweep`].
    pub named: &'a [Stored],
}

/// Where an executor has made states durable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Each client's state, none for clients that never took part. Empty before the first checkpoint.
    pub clients: Vec<Option<Stored>>,
    /// Copies of clients' newest uploads, for personal phases to come.
    pub sent: BTreeMap<usize, Stored>,
}

/// A phase that is to be computed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Whose broadcast it trains from.
    pub round: u64,
    /// Which of the two.
    pub phase: Phase,
    /// How long a personal phase lasts, if not for its epochs.
    pub batches: Option<u64>,
    /// From when to when it lasts, by the virtual clock; for the log.
    pub clock: Option<Span>,
}

/// Each client's work, in the order in which it is to be done. At most one of a client's phases is
/// shared.
pub type Jobs = BTreeMap<usize, Vec<Step>>;

/// Jobs that are computed together, in parallel over clients.
pub struct Wave<'a> {
    /// Who does what.
    pub jobs: &'a Jobs,
    /// The broadcasts that they need, by the rounds that these open.
    pub broadcasts: &'a BTreeMap<u64, Arc<Value>>,
    /// Who waits for it. An executor elsewhere counts a client's samples when its job is done.
    pub pulse: Pulse<'a>,
}

/// What a client gives back.
pub struct Answer {
    /// What it did.
    pub record: JobRecord,
    /// The upload of its shared phase, if there was one and it went well.
    pub upload: Option<Value>,
}

/// What became of one client's job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Whose.
    pub client: usize,
    /// What was trained, in order. Without a shared phase that went well there is no personal one.
    pub phases: Vec<Trained>,
    /// Its shared phase, if there was one.
    pub shared: Option<Shared>,
}

/// A phase that was computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// What was ordered.
    pub step: Step,
    /// What became of it.
    pub record: PhaseRecord,
}

/// A shared phase that was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// The round that it answers.
    pub round: u64,
    /// Encoded size of its upload; none if it failed.
    pub bytes: Option<u64>,
}

impl JobRecord {
    /// Why the shared phase failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        let shared = self.phases.iter().find(|trained| trained.step.phase == Phase::Shared);
        shared.and_then(|trained| trained.record.error.as_deref())
    }
}

/// A look at all personal models after a round.
pub struct Look<'a> {
    /// Rounds completed.
    pub round: usize,
    /// What clients would get now.
    pub broadcast: &'a Value,
    /// Whether their mean is wanted: by training samples, in client order.
    pub mean: bool,
    /// Where to write them, if they are kept. It exists.
    pub folder: Option<&'a Path>,
    /// Whether all answers are to be added up, in client order.
    pub answers: bool,
    /// Of so many clients, the first by id, the models themselves are wanted, as they were trained.
    pub models: usize,
    /// Who waits for their scores.
    pub pulse: Pulse<'a>,
}

/// What a model is worth on a client's own samples, by accuracy and by each metric that the plan asks
/// for and that has a figure there; empty for a client without samples.
pub type Figures = BTreeMap<Metric, f64>;

/// What a [`Look`] has shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PersonalScores {
    /// Every client's.
    pub clients: Vec<Figures>,
    /// The mean of all models, if it was wanted.
    pub mean: Option<Model>,
    /// What was written.
    pub written: Written,
    /// All answers, if they were wanted.
    pub answers: Option<Confusion>,
    /// The models that were wanted, by client, as they were trained; without those that diverged while they were made.
    pub models: BTreeMap<usize, Model>,
    /// What every client's guard has chosen; none where there was no choice.
    pub choices: Vec<Option<Choice>>,
}

/// What one model is worth on all clients' own samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnScores {
    /// On every client's.
    pub clients: Vec<Figures>,
    /// Its answers on all of them, if they were wanted.
    pub answers: Option<Confusion>,
}

/// Personal models that newcomers are to make.
pub struct Adapting<'a> {
    /// The method's place in the plan.
    pub method: usize,
    /// Its generic model, or the mean of its personal ones.
    pub model: &'a Model,
    /// What clients would get now; without it, there is only fine-tuning.
    pub broadcast: Option<&'a Value>,
    /// For how many epochs.
    pub epochs: usize,
    /// Whether the models are wanted, and not only what they are worth.
    pub keep: bool,
    /// Called from anywhere when a newcomer is through.
    pub done: &'a (dyn Fn() + Sync),
    /// Who waits for them, and may stop them at a batch.
    pub pulse: Pulse<'a>,
}

/// What a newcomer came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adaptation {
    /// By fine-tuning.
    pub fine_tuned: Progress,
    /// By the method's own rule, if it has one that differs.
    pub own: Option<Progress>,
}

/// A personal model in the making.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What it was worth after 0, 1, 2, … epochs.
    pub figures: Vec<Figures>,
    /// Whether an epoch diverged. The model is then what it was before it.
    pub failed: bool,
    /// Wall time.
    pub seconds: f64,
    /// The model in the end, if it was wanted and there is one.
    pub model: Option<Model>,
}

/// How many models were written, and bytes of them all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Models.
    pub models: usize,
    /// Bytes.
    pub bytes: u64,
}

impl Written {
    /// One more file.
    pub fn add(&mut self, bytes: u64) {
        self.merge(Self { models: 1, bytes });
    }

    /// What was written elsewhere.
    pub fn merge(&mut self, other: Self) {
        self.models += other.models;
        self.bytes += other.bytes;
    }
}
