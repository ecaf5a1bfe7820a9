//! What every task of the server shares.

use super::actor::Message;
use super::aggregation::decode_broadcast;
use super::budget;
use super::door::Door;
use super::measure::Bucket;
use super::metrics::Metrics;
use super::plan::Wiring;
use super::shelf::Shelf;
use super::vault::{Manifest, Vault};
use super::verdict::Fault;
use crate::audit::Entry;
use crate::error::NetworkError;
use crate::wire::proto;
use formant_methods::Value;
use formant_model::folder::GENERIC;
use formant_model::{Role, encode};
use formant_numerics::Model;
use formant_runtime::RuntimeError;
use formant_runtime::files::{self, Synced};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use tokio::sync::{Semaphore, oneshot, watch};

/// Uploads that are checked at the same time: each is in memory while it is.
const CHECKS: usize = 2;
/// Uploads that are made durable at the same time. The disk takes many in hardly more time than one; they are
/// no memory, and leave threads to whoever reads and writes.
const SYNCS: usize = 16;
/// Lines a second that the log has of connections and uploads that are refused.
const LINES: f64 = 5.0;

pub(crate) struct Core {
    pub(crate) wiring: Wiring,
    /// The run's own name.
    pub(crate) run: String,
    /// How often the run was taken back, and after how many rounds it went on.
    pub(crate) generation: u32,
    pub(crate) since: u64,
    /// Clients that were taken out of it.
    pub(crate) excluded: BTreeSet<usize>,
    pub(crate) folder: PathBuf,
    pub(crate) actor: mpsc::Sender<Message>,
    pub(crate) metrics: Metrics,
    /// Who is connected.
    pub(crate) door: Door,
    /// The round that is open.
    pub(crate) opened: watch::Sender<u64>,
    /// Most bytes of an upload, packed or unpacked.
    pub(crate) limit: u64,
    /// Calls that each client may make.
    pub(crate) calls: Vec<Bucket>,
    /// Lines of the log of which others decide how many there are.
    pub(crate) lines: Bucket,
    /// One per client: a newer upload takes the place of an older one under way.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) checking: Semaphore,
    pub(crate) syncing: Semaphore,
    pub(crate) scoring: Mutex<()>,
    /// The round of the generic model that lies in the folder.
    kept: Mutex<u64>,
    pub(crate) sessions: AtomicU64,
    places: HashMap<String, usize>,
    /// Broadcasts that can be downloaded.
    pub(crate) shelf: Shelf,
    /// The broadcast that uploads were last checked against.
    latest: Mutex<Option<(u64, Arc<Value>)>>,
}

/// The one upload of a client that is under way.
pub(crate) struct Lane {
    /// Held by whoever writes to the client's files, also while the request is gone already.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    pub(crate) newest: watch::Sender<u64>,
}

impl Core {
    pub(crate) fn new(
        wiring: Wiring,
        vault: &Vault,
        manifest: &Manifest,
        actor: mpsc::Sender<Message>,
        door: Door,
    ) -> Self {
        let clients = &wiring.settings.clients;
        let calls = f64::from(wiring.settings.max_calls);
        let lane = |_| Lane { turn: Arc::default(), newest: watch::Sender::new(0) };
        let limit = wiring.settings.max_upload.unwrap_or(4 * manifest.broadcast_bytes + (1 << 20));
        Self {
            calls: clients.iter().map(|_| Bucket::new(calls)).collect(),
            lines: Bucket::new(LINES),
            places: clients.iter().enumerate().map(|(i, name)| (name.clone(), i)).collect(),
            lanes: (0..clients.len()).map(lane).collect(),
            run: vault.run.clone(),
            generation: manifest.generation,
            since: manifest.since,
            excluded: manifest.machine.excluded().collect(),
            folder: vault.folder.clone(),
            actor,
            metrics: Metrics::default(),
            door,
            opened: watch::Sender::new(0),
            limit,
            checking: Semaphore::new(CHECKS),
            scoring: Mutex::default(),
            kept: Mutex::default(),
            sessions: AtomicU64::new(0),
            syncing: Semaphore::new(SYNCS),
            shelf: Shelf::new(
                vault.states(),
                budget::sent_chunk(&wiring.settings),
                manifest.broadcasts.clone(),
            ),
            latest: Mutex::default(),
            wiring,
        }
    }

    /// A client's name.
    pub(crate) fn name(&self, client: usize) -> &str {
        self.wiring.settings.clients.get(client).map_or("?", String::as_str)
    }

    /// A client's place, if its name is one of the federation.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The broadcast that an upload answers, decoded; the latest stays in memory.
    pub(crate) fn broadcast(&self, round: u64) -> Result<Option<Arc<Value>>, NetworkError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, value)) = &*latest
            && *at == round
        {
            return Ok(Some(value.clone()));
        }
        let Some(named) = self.shelf.named(round) else { return Ok(None) };
        let value = Arc::new(decode_broadcast(self, &named, &self.folder.join("states"))?);
        *latest = Some((round, value.clone()));
        Ok(Some(value))
    }

    /// Replaces the file of the generic model, unless a newer one is there.
    pub(crate) fn keep_generic(&self, round: u64, model: &Model) -> Result<(), NetworkError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if round < *kept || !model.is_finite() {
            return Ok(());
        }
        let task = &self.wiring.task;
        let card = task.card_of(Role::Generic, round as usize);
        let layout = task.engine.network().layout();
        let bytes = encode(layout, &card, model).map_err(RuntimeError::from)?;
        files::write_secret(&self.folder.join(GENERIC), &bytes, Synced::Name)?;
        *kept = round;
        Ok(())
    }

    /// Has a line written into the audit log.
    pub(crate) fn note(&self, entry: Entry) {
        let _ = self.actor.send(Message::Note(Box::new(entry)));
    }

    /// Asks the actor and waits for its verdict.
    pub(crate) async fn ask(
        &self,
        message: impl FnOnce(super::actor::Reply) -> Message,
    ) -> Result<proto::Verdict, Fault> {
        let (reply, verdict) = oneshot::channel();
        self.actor.send(message(reply)).map_err(|_| Fault::stopping())?;
        verdict.await.map_err(|_| Fault::stopping())?
    }
}
