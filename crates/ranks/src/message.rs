//! What ranks say to each other.

use crate::link::Traffic;
use formant_numerics::{Confusion, Model, Tally};
use formant_runtime::executor::{Adaptation, Figures, Held, JobRecord, Jobs, Written};
use formant_runtime::{Choice, Stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// From rank 0. All but [`Order::Keep`], [`Order::Sweep`], [`Order::End`] and [`Order::Quit`] are answered by
/// [`Report::Ended`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// What a client holds, for a rank that does not see the run folder. It follows, encoded.
    Stow { client: usize, what: Holding },
    /// A method begins, with these clients. A rank that does not see the run folder has been given what they hold.
    Begin {
        method: usize,
        /// What files of this session are known by.
        session: u64,
        clients: Vec<usize>,
        /// Client, whether it is its state, and where that is.
        held: Vec<(usize, bool, Stored)>,
        /// What the last checkpoint names of the rank's own file.
        named: Vec<Stored>,
    },
    /// Something that further orders speak of. It follows, encoded.
    Keep(Slot),
    /// Jobs, with the broadcasts that were kept. Those of other rounds are not needed any more.
    Work { jobs: Jobs, rounds: Vec<u64> },
    /// Score the personal models, by the broadcast that was kept, and show them or their answers.
    Look { round: usize, folder: Option<PathBuf>, answers: bool, models: usize, shows: bool },
    /// Score the model that was kept on each client's own samples.
    Own { answers: bool },
    /// Score it on parts of the global set.
    Parts { parts: Vec<usize>, answers: bool },
    /// Have newcomers make personal models out of it, and of the broadcast if there is one.
    Adapt { method: usize, places: Vec<usize>, epochs: usize, keep: bool, receives: bool },
    /// Show all states.
    States,
    /// Make all states durable; a rank that does not see the run folder shows what has changed.
    Persist,
    /// Keep what is named.
    Sweep(Vec<Stored>),
    /// The method has ended.
    End,
    /// The run has ended, or does not begin.
    Quit,
}

/// What is kept of a client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Holding {
    /// Its state.
    State,
    /// A copy of its newest upload.
    Sent,
}

/// Where something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Slot {
    /// The broadcast that opens a round.
    Round(u64),
    /// The broadcast by which personal models are looked at or made.
    Broadcast,
    /// The model that is scored.
    Model,
}

/// To rank 0. All but the last of an order wait for a pass, and come in client order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A client has done its job. Its upload follows, if there is one.
    Answer(JobRecord),
    /// What a client serves and what it answers.
    Seen { client: usize, model: Option<Model>, answers: Option<Box<Confusion>> },
    /// A client's state, which follows.
    State { client: usize },
    /// What a client holds that has changed since it was carried last: its state and the copy of its upload, which
    /// follow in this order.
    Carried { client: usize, state: Carried, sent: Carried },
    /// An order is done.
    Ended(Ended),
}

/// A value that a rank holds which does not see the run folder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Carried {
    /// There is none.
    Nothing,
    /// It is what it was.
    Same,
    /// It has so many bytes.
    New(u64),
}

/// How an order ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) outcome: Result<Done, Failure>,
    /// Seconds in which workers had something to do, since the process began.
    pub(crate) busy: f64,
    /// What the rank has exchanged since then.
    pub(crate) traffic: Traffic,
}

/// Why an order failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// Somebody wanted it to.
    Stopped,
    /// Something went wrong.
    Other(String),
}

/// What an order has come to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Done {
    /// There is nothing to say.
    Well,
    /// Of a look at personal models.
    Looked(Looked),
    /// Of one model on the clients' samples.
    Figures(Vec<Figures>),
    /// Of one model on parts of the global set.
    Tallies(Vec<Tally>),
    /// Of newcomers.
    Adapted(Vec<Adaptation>),
    /// Where states are.
    Held(Held),
}

/// What a look at personal models has shown, by client of the rank, ascending.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) clients: Vec<(Figures, Option<Choice>)>,
    pub(crate) written: Written,
    pub(crate) models: BTreeMap<usize, Model>,
}
