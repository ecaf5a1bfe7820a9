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
const FORMAT: u32 = 5;

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
    /// The broadcast of the round that was aggregated last, present if neither was it scored nor the next
    /// one opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Stored>,
    /// The generic model of the best evaluation, absent before the first.
    pub(crate) best: Option<StoredBest>,
    /// The best evaluation of a method with patience, absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) standing: Option<Standing>,
    /// Server, clients and clock, absent before the method's first checkpoint.
    pub situation: Option<Situation>,
    /// Where in the log the run was opened last: an extension opens it again.
    #[serde(default)]
    pub header: u64,
    /// What became of the methods that have ended, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ended: Vec<Ended>,
}

/// What became of a method, and whether it can go on to more rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    /// It has done all rounds, and stood here when the last one was aggregated.
    Kept(Box<Checkpoint>),
    /// It has done all rounds, and what more of them need was not kept.
    Unkept,
    /// It has ended earlier, as it would have with more rounds to go.
    Early,
}

impl Ended {
    /// Rounds that are done, of so many; all of them if it does not go on.
    pub(crate) fn rounds(&self, of: usize) -> usize {
        match self {
            Self::Kept(end) => end.round,
            Self::Unkept | Self::Early => of,
        }
    }
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
            newest: None,
            best: None,
            standing: None,
            situation: None,
            header: 0,
            ended: Vec::new(),
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

    /// Whether its last round is aggregated, and what follows that has yet to happen.
    pub(crate) fn is_closed(&self) -> bool {
        self.newest.is_some()
    }

    /// The states that the manifest names.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Stored> {
        let ended = self.ended.iter().filter_map(|ended| match ended {
            Ended::Kept(end) => Some(end.of_its_method()),
            Ended::Unkept | Ended::Early => None,
        });
        self.of_its_method().chain(ended.flatten())
    }

    /// Those of the method under way.
    fn of_its_method(&self) -> impl Iterator<Item = &Stored> {
        let uploads = self.kept.uploads.iter().map(|(_, stored)| stored);
        let states = self.server.iter().chain(self.clients.iter().flatten());
        let states = states.chain(self.best.iter().map(|best| &best.file));
        let broadcasts = self.broadcasts.values().chain(&self.newest);
        states.chain(uploads).chain(self.kept.sent.values()).chain(broadcasts)
    }

    /// The method that comes next, from this one on: of those that have ended, one that can go on to so many
    /// rounds. The number of methods if there is none.
    pub(crate) fn next_method(&self, methods: usize, rounds: usize) -> usize {
        let goes_on = |method: &usize| {
            self.ended.get(*method).is_none_or(|ended| ended.rounds(rounds) < rounds)
        };
        (self.method..methods).find(goes_on).unwrap_or(methods)
    }

    /// Whether nothing is left to do of a run with so many methods and rounds.
    pub fn is_complete(&self, methods: usize, rounds: usize) -> bool {
        self.method >= methods && self.ended.iter().all(|ended| ended.rounds(rounds) >= rounds)
    }

    /// Where the method under way goes on: here or, if it had ended, where it stood then.
    pub(crate) fn at_work(&self, rounds: usize) -> Self {
        let Some(Ended::Kept(end)) = self.ended.get(self.method).filter(|_| self.round == 0) else {
            return self.clone();
        };
        let mut situation = end.situation.clone();
        if let Some(situation) = &mut situation {
            situation.go_on_to(rounds);
        }
        Self {
            method: self.method,
            log: self.log,
            run_seconds: self.run_seconds,
            version: self.version.max(end.version),
            header: self.header,
            ended: self.ended.clone(),
            situation,
            ..(**end).clone()
        }
    }
}
