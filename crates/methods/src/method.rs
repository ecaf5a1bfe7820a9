//! What a federated method is.

#[cfg(doc)]
use crate::{Averaging, ErasedMethod, Uploads};
use crate::{Central, Local, MethodError, Needs, Receive};
use formant_numerics::{Model, Network, Part};
use serde::{Serialize, de::DeserializeOwned};
use std::borrow::Cow;

/// Something kept between rounds: checkpointed and spilled by the runtime, never sent.
///
/// Deliberately apart from [`Message`]: a personal model that is only a `State` cannot be put into
/// an upload by mistake.
pub trait State: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Before the first round, where every model is `init`.
    fn start(init: &Model) -> Self;

    /// The personal model in a client's state, if it keeps one.
    fn personal(&self) -> Option<&Model> {
        None
    }
}

/// Something that crosses the network.
pub trait Message: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Which of the vectors holds statistics of what was seen, as in a [`Model`]. These are averages: a
    /// difference of two variances is none.
    const STATISTICS: usize = 1;

    /// Whether it is its vectors and nothing besides. Differential privacy covers vectors, and a site may forbid
    /// what goes beyond them: a message that holds more, such as label counts, says so by leaving this as it is.
    const ONLY_VECTORS: bool = false;

    /// What was learnt in it, always in the same order: for whoever must check, compress, average or
    /// [rebase](ErasedMethod::rebase) a message without knowing what it is.
    fn vectors(&self) -> Vec<&[f32]>;
    /// The same, to be changed.
    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>>;
}

impl State for () {
    fn start(_init: &Model) {}
}

impl Message for () {
    const ONLY_VECTORS: bool = true;

    fn vectors(&self) -> Vec<&[f32]> {
        Vec::new()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        Vec::new()
    }
}

impl Message for Model {
    const ONLY_VECTORS: bool = true;

    fn vectors(&self) -> Vec<&[f32]> {
        vec![&self.parameters, &self.buffers]
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        vec![&mut self.parameters, &mut self.buffers]
    }
}

/// One federated method: what a client learns, what it sends, what the server makes of it. The
/// implementing struct *is* the hyper-parameters.
///
/// Most methods send `w`, average what comes back and keep a model at each client: they implement
/// [`Averaging`], of which the rest follows.
pub trait Method: Send + Sync + 'static {
    /// Kept by the server between rounds.
    type Server: State;
    /// Kept by one client between rounds, never sent.
    type Client: State;
    /// From the server to every participant.
    type Broadcast: Message;
    /// From a participant to the server.
    type Upload: Message;
    /// What the server needs of a round's uploads: their [`Mean`](crate::Mean) or, where a sum is not
    /// enough, [`Uploads`] themselves; `()` for a server that needs nothing.
    type Received<'a>: Receive<'a, Self::Upload>;

    /// What the server sends at the start of a round.
    fn broadcast(&self, server: &Self::Server) -> Self::Broadcast;
    /// The shared phase: trains what is uploaded.
    fn train_shared(
        &self,
        client: &mut Self::Client,
        got: &Self::Broadcast,
        local: &mut Local<'_>,
    ) -> Result<Self::Upload, MethodError>;
    /// The personal phase, if [`Hints`] say that there is one: trains what stays. It needs nothing that
    /// is in flight, so a runtime may run it while the upload is on the network.
    fn train_personal(
        &self,
        _client: &mut Self::Client,
        _got: &Self::Broadcast,
        _sent: &Self::Upload,
        _local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }
    /// What the server makes of a round's uploads.
    fn aggregate(
        &self,
        server: &mut Self::Server,
        received: Self::Received<'_>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError>;
    /// The generic model, if the method trains one.
    fn global_model<'a>(&self, server: &'a Self::Server) -> Option<Cow<'a, Model>>;
    /// The personal model of a client. It gets `&Client`: fine-tuning happens on a copy, so
    /// evaluation cannot train.
    fn personal_model<'a>(
        &self,
        client: &'a Self::Client,
        got: &'a Self::Broadcast,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError>;

    /// Further models that could be called the generic one, each with a name for tables.
    fn other_global_models<'a>(
        &self,
        _server: &'a Self::Server,
    ) -> Vec<(&'static str, Cow<'a, Model>)> {
        Vec::new()
    }
    /// What the runtime wants to know of a round.
    fn hints(&self, _at: Moment) -> Hints {
        Hints::default()
    }
    /// What a client does for a personal model that joins when training is over; unless told, what clients do
    /// in a round. Asked only of methods that train personal models.
    fn newcomer<'a>(&self, _got: &'a Self::Broadcast) -> Newcomer<'a> {
        Newcomer::Phases
    }
    /// Whether the server's way to [combine](crate::Combine) uploads decides over anything: whether it asks for a
    /// [`Mean`](crate::Mean), by its type or with [`Mean::of`](crate::Mean::of).
    fn combines(&self) -> bool {
        <Self::Received<'static> as Receive<'static, Self::Upload>>::NEEDS == Needs::Sums
    }
    /// How long the [vectors](Message::vectors) of an upload are that answers a broadcast.
    fn upload_lengths(&self, got: &Self::Broadcast, _network: &dyn Network) -> Vec<usize> {
        got.vectors().into_iter().map(<[f32]>::len).collect()
    }
    /// Numbers that a later broadcast may have beside those of the first one, such as a generator that
    /// the server makes in the first round: a client takes nothing that is larger than it can be.
    fn broadcast_grows(&self, _network: &dyn Network) -> usize {
        0
    }
    /// What is wrong with an upload besides its vectors, if anything.
    fn upload_fault(&self, _upload: &Self::Upload, _network: &dyn Network) -> Option<String> {
        None
    }
}

/// What a client does for a personal model that joins when training is over, epoch by epoch. Nothing of it reaches
/// the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Newcomer<'a> {
    /// It fine-tunes the generic model, as it could that of any method.
    FineTuning,
    /// It begins with the generic model, or with the common initial one where there is none, and takes the phases of
    /// a round, again and again; uploads are thrown away.
    Phases,
    /// It trains a part of a received model by plain steps; the rest stays as it came.
    Part {
        /// The model.
        of: &'a Model,
        /// What it trains.
        part: Part,
    },
    /// Its personal model is there at once, and no training changes it.
    AtOnce,
}

/// A round of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Counted from 1.
    pub round: usize,
    /// Rounds of the whole run, `T`.
    pub rounds: usize,
}

/// What the runtime wants to know of a method in a round. The defaults are those of a method without a
/// personal phase that trains its epochs once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// Whether there is a personal phase; the same in all rounds.
    pub personal_phase: bool,
    /// Whether uploads may answer an older broadcast than the newest: if not, the method needs
    /// synchronous rounds. The same in all rounds.
    pub stale_uploads: bool,
    /// Whether the shared phase is plain training, without what the method adds: it then takes no longer
    /// than that.
    pub is_plain: bool,
    /// Passes over a client's samples in the shared phase.
    pub shared: Passes,
    /// The same of the personal phase.
    pub personal: Passes,
    /// Passes with which a copy is fine-tuned before it is scored.
    pub scoring: usize,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            personal_phase: false,
            stale_uploads: true,
            is_plain: false,
            shared: Passes::EPOCHS,
            personal: Passes::EPOCHS,
            scoring: 0,
        }
    }
}

impl Hints {
    /// Of a method with a personal phase.
    pub const fn with_personal_phase() -> Self {
        Self {
            personal_phase: true,
            stale_uploads: true,
            is_plain: false,
            shared: Passes::EPOCHS,
            personal: Passes::EPOCHS,
            scoring: 0,
        }
    }
}

/// How often a phase passes over a client's samples, forwards and backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passes {
    /// In each of the experiment's epochs.
    pub an_epoch: usize,
    /// Besides.
    pub besides: usize,
}

impl Passes {
    /// Once in each epoch.
    pub const EPOCHS: Self = Self { an_epoch: 1, besides: 0 };
    /// Never: there is nothing to train.
    pub const NONE: Self = Self { an_epoch: 0, besides: 0 };

    /// Samples that go forward and backward at a client with so many.
    pub fn samples(self, held: usize, epochs: usize) -> usize {
        held * self.of(epochs)
    }

    /// How often each sample does.
    pub fn of(self, epochs: usize) -> usize {
        self.an_epoch.saturating_mul(epochs).saturating_add(self.besides)
    }
}

/// One client's contribution to a round.
#[derive(Debug)]
pub struct Upload<U> {
    /// Who sent it.
    pub client: usize,
    /// `n_i`, the number of training samples.
    pub samples: f64,
    /// How much of it counts: less than 1 if it is stale.
    pub share: f64,
    /// Rounds since the broadcast that it answers; 0 in a synchronous round.
    pub staleness: usize,
    /// What was sent.
    pub message: U,
}
