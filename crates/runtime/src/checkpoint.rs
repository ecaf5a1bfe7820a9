//! Checkpoints: a small manifest that says where states lie, replaced atomically.

use crate::RuntimeError;
use crate::event_log::LogMark;
use crate::files::{Synced, read, write_sealed};
use crate::seal::{self, Check};
use crate::sim::{Situation, Standing, StoredBest};
use crate::store::{Kept, Stored};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The manifest's name in a run folder.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";

/// The version of the manifest.
const FORMAT: u32 = 4;

/// What every version's manifest says.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Where a run stands. Everything after it can be computed again, bit for bit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    pub(crate) format: u32,
    /// Index of the method under way; equal to the number of methods when the run is complete.
    pub method: usize,
    /// Rounds of it that are done.
    pub round: usize,
    /// Where the event log stood.
    pub log: LogMark,
    /// Wall time of the method so far.
    pub method_seconds: f64,
    /// Wall time of the run so far.
    pub run_seconds: f64,
    /// Highest file version in use.
    pub version: u64,
    /// The server's state, absent before the method's first checkpoint.
    pub server: Option<Stored>,
    /// Every client's state, absent where a client never took part.
    pub clients: Vec<Option<Stored>>,
    /// Uploads that are not aggregated yet, and copies for personal phases to come.
    pub kept: Kept,
    /// Older broadcasts than the newest that somebody may still need.
    pub broadcasts: BTreeMap<u64, Stored>,
    /// The generic model of the best evaluation, absent before the first.
    pub(crate) best: Option<StoredBest>,
    /// The best evaluation of a method with patience, absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) standing: Option<Standing>,
    /// Server, clients and clock, absent before the method's first checkpoint.
    pub situation: Option<Situation>,
}

impl Checkpoint {
    /// The state at the start of a method: nothing stored yet.
    pub(crate) fn at_method(method: usize, log: LogMark, run_seconds: f64) -> Self {
        Self {
            format: FORMAT,
            method,
            round: 0,
            log,
            method_seconds: 0.0,
            run_seconds,
            version: 0,
            server: None,
            clients: Vec::new(),
            kept: Kept::default(),
            broadcasts: BTreeMap::new(),
            best: None,
            standing: None,
            situation: None,
        }
    }

    /// Reads a run folder's checkpoint; `None` if there is none yet.
    pub fn read(run_dir: &Path) -> Result<Option<Self>, RuntimeError> {
        let path = run_dir.join(CHECKPOINT_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let damaged = |found: String| RuntimeError::Damaged {
            path: path.clone(),
            found,
            hint: "start the run again in a new folder".into(),
        };
        let bytes = read(&path)?;
        // Asked first: another version may seal and say everything else differently.
        let Format { format } =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if format != FORMAT {
            return Err(damaged(format!("format {format} where this version reads {FORMAT}")));
        }
        seal::verify(&bytes, Check::default()).map_err(|broken| damaged(broken.to_string()))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// Replaces the manifest.
    pub(crate) fn write(&self, run_dir: &Path) -> Result<(), RuntimeError> {
        let path = run_dir.join(CHECKPOINT_FILE);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| RuntimeError::file("write", &path, error.into()))?;
        // Not its name: after a power cut, the one before will do.
        write_sealed(&path, text, Synced::Content)
    }

    /// The states that the manifest names.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Stored> {
        let uploads = self.kept.uploads.iter().map(|(_, stored)| stored);
        let states = self.server.iter().chain(self.clients.iter().flatten());
        let states = states.chain(self.best.iter().map(|best| &best.file));
        states.chain(uploads).chain(self.kept.sent.values()).chain(self.broadcasts.values())
    }
}
