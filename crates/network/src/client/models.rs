//! A client's models as files in its folder: whoever has the folder can use them, with no server in
//! reach.

use super::plan::Assignment;
use crate::error::NetworkError;
use formant_methods::Value;
use formant_model::folder::{GENERIC, OWN};
use formant_model::{Role, encode};
use formant_numerics::{EVALUATION_BATCH, Model};
use formant_runtime::files::{self, Synced};
use formant_runtime::{Choice, Generic, Hand, RuntimeError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use tracing::warn;

/// Whose models they are, and where they are kept.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) assignment: Arc<Assignment>,
    pub(crate) client: usize,
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

/// Something as it is after so many rounds.
pub(crate) struct After<T> {
    pub(crate) rounds: u64,
    pub(crate) it: T,
}

/// What models are made of.
pub(crate) struct Parts<'a> {
    /// The client's state, and rounds that it has trained.
    pub(crate) state: After<&'a Value>,
    /// What the server has sent, and rounds that are in it.
    pub(crate) broadcast: After<&'a Value>,
}

/// Both models at a moment.
pub(crate) struct Models {
    /// As the server has sent it, if it sends one.
    pub(crate) generic: Option<Model>,
    /// What the client serves: its personal model, or what its guard has chosen. None if it diverged while it was
    /// fine-tuned.
    pub(crate) personal: Option<Model>,
    /// What the guard has chosen, if there was a choice.
    pub(crate) choice: Option<Choice>,
}

impl Owner {
    /// Memory for making and scoring models.
    pub(crate) fn hand(&self) -> Hand {
        let batch = self.assignment.largest_batch().max(EVALUATION_BATCH);
        Hand::new(&*self.assignment.task.engine, batch)
    }

    /// Makes both models as an evaluation does; nothing that training sees is changed.
    pub(crate) fn models(
        &self,
        parts: &Parts<'_>,
        hand: &mut Hand,
    ) -> Result<Models, NetworkError> {
        let desk = self.assignment.desk();
        let (state, broadcast) = (parts.state.it, parts.broadcast.it);
        let generic = Generic::of(&desk, broadcast)?.map(Generic::to_model);
        let (round, guarding) = (parts.state.rounds as usize, self.assignment.guarding());
        let made = (state, broadcast);
        Ok(desk.with_served_model(round, made, &guarding, hand, |served, _| {
            let (personal, choice) = (served.model.cloned(), served.choice);
            Models { generic, personal, choice }
        })?)
    }

    /// Replaces the files; each is whole at any time. Gives the one to use: the personal model, or,
    /// where the method has none, the generic one.
    pub(crate) fn write(
        &self,
        models: &Models,
        parts: &Parts<'_>,
    ) -> Result<Option<PathBuf>, NetworkError> {
        let personal = models.personal.as_ref();
        let personal = personal.filter(|_| self.assignment.task.method.method.entry().personal);
        let role = Role::Personal { client: self.client, name: Some(self.name.clone()) };
        let generic = models.generic.as_ref();
        let generic = self.write_one(GENERIC, Role::Generic, parts.broadcast.rounds, generic)?;
        let personal = self.write_one(OWN, role, parts.state.rounds, personal)?;
        Ok(personal.or(generic))
    }

    fn write_one(
        &self,
        file: &str,
        role: Role,
        rounds: u64,
        model: Option<&Model>,
    ) -> Result<Option<PathBuf>, NetworkError> {
        let Some(model) = model.filter(|model| model.is_finite()) else { return Ok(None) };
        let path = self.folder.join(file);
        let task = &self.assignment.task;
        let card = task.card_of(role, rounds as usize);
        let layout = task.engine.network().layout();
        let bytes = encode(layout, &card, model).map_err(RuntimeError::from)?;
        files::write_secret(&path, &bytes, Synced::Name)?;
        Ok(Some(path))
    }
}

/// A thread that keeps the files up to date beside training. If rounds are quicker than it, it leaves
/// some out: one order waits at most.
pub(crate) struct Scribe {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// Where the thread finds what it is to do.
#[derive(Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    newest: Option<Order>,
    closed: bool,
}

struct Order {
    state: After<Vec<u8>>,
    broadcast: After<Arc<Value>>,
}

impl Desk {
    fn change(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// The next order; none if no more will come.
    fn next(&self) -> Option<Order> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |orders: &mut Orders| orders.newest.is_none() && !orders.closed;
        let orders = self.changed.wait_while(orders, is_idle);
        orders.unwrap_or_else(PoisonError::into_inner).newest.take()
    }
}

impl Scribe {
    /// Starts the thread.
    pub(crate) fn start(owner: Owner) -> Self {
        let desk = Arc::new(Desk::default());
        let own = desk.clone();
        let thread = std::thread::spawn(move || {
            let mut hand = None;
            while let Some(order) = own.next() {
                let hand = hand.get_or_insert_with(|| owner.hand());
                if let Err(error) = follow(&owner, &order, hand) {
                    // The run does not depend on these files, and the last ones are written by it.
                    warn!(folder = %owner.folder.display(), %error, "the model files are not renewed");
                }
            }
        });
        Self { desk, thread: Some(thread) }
    }

    /// Has the files renewed: the state after so many rounds, with what the server has made of so many.
    pub(crate) fn renew(&self, state: After<Vec<u8>>, broadcast: After<Arc<Value>>) {
        self.desk.change(|orders| orders.newest = Some(Order { state, broadcast }));
    }

    /// Waits until it has done what it was told.
    pub(crate) fn finish(&mut self) {
        self.desk.change(|orders| orders.closed = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Nobody writes into the folder when its lock is gone.
impl Drop for Scribe {
    fn drop(&mut self) {
        self.finish();
    }
}

fn follow(owner: &Owner, order: &Order, hand: &mut Hand) -> Result<(), NetworkError> {
    let state = owner.assignment.task.method.method.decode_client(&order.state.it)?;
    let parts = Parts {
        state: After { rounds: order.state.rounds, it: &state },
        broadcast: After { rounds: order.broadcast.rounds, it: &order.broadcast.it },
    };
    let models = owner.models(&parts, hand)?;
    owner.write(&models, &parts).map(|_| ())
}

/// The files that belong to a run: what an archive keeps together.
pub(crate) fn files(folder: &Path) -> [PathBuf; 2] {
    [GENERIC, OWN].map(|name| folder.join(name))
}
