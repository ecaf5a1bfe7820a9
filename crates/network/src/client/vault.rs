//! A client's folder: what survives `kill -9` and a power cut, and never leaves this machine.
//!
//! - `run.json`: which run this is, and the experiment that the server has sent; written once.
//! - `accepted.json`: the experiment that was approved last, so that it is asked for once.
//! - `manifest.json`: where the client stands and the names of the files that go with it. Replaced
//!   before anything follows from it.
//! - `generic.safetensors`, `personal.safetensors`: the newest models, to be used; made of the rest.
//! - `archive/`: runs that are over and made room for another.
//! - `states/`: the client's state with its personal model, broadcasts, and uploads that the server
//!   has not confirmed.

use super::bound::Bound;
use crate::approval::experiment_hash;
use crate::codec::{Packing, expand};
use crate::error::NetworkError;
use crate::wire::{confused, proto};
use formant_federation::{Session, SessionAction};
use formant_methods::{ErasedMethod, Value};
use formant_runtime::files::{self, Named, Synced};
use formant_runtime::{EVENTS_FILE, LogMark};
use proto::{Encoding, Precision};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where runs go that are over.
const ARCHIVE: &str = "archive";

/// What to do with a folder that cannot be trusted.
const RESTORE: &str = "restore the whole state folder from a copy, or start again in a new one";

/// The version of the folder's layout.
const FORMAT: u32 = 2;

/// What the server has said in its welcome: the same for the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Terms {
    format: u32,
    formant: String,
    pub(crate) run: String,
    pub(crate) client: usize,
    pub(crate) experiment: String,
    zstd: bool,
    f16: bool,
}

impl Terms {
    pub(crate) fn of(welcome: &proto::Welcome) -> Self {
        Self {
            format: FORMAT,
            formant: env!("CARGO_PKG_VERSION").into(),
            run: welcome.run.clone(),
            client: welcome.client as usize,
            experiment: welcome.experiment.clone(),
            zstd: welcome.encoding() == Encoding::Zstd,
            f16: welcome.precision() == Precision::F16,
        }
    }

    /// Whether uploads have 16-bit floats.
    pub(crate) fn sends_halves(&self) -> bool {
        self.f16
    }

    pub(crate) fn packing(&self) -> Packing {
        Packing {
            encoding: if self.zstd { Encoding::Zstd } else { Encoding::None },
            precision: if self.f16 { Precision::F16 } else { Precision::F32 },
        }
    }

    /// What a site approves.
    pub(crate) fn hash(&self) -> String {
        experiment_hash(&self.experiment, self.packing())
    }

    /// What differs between a folder and a server, in words.
    fn difference(&self, now: &Self) -> Option<String> {
        let texts = |terms: &Self| {
            [
                ("version of formant", terms.formant.clone()),
                ("run", terms.run.clone()),
                ("place", terms.client.to_string()),
                ("experiment", terms.experiment.clone()),
                ("zstd", terms.zstd.to_string()),
                ("f16", terms.f16.to_string()),
            ]
        };
        let pairs = texts(self).into_iter().zip(texts(now));
        pairs
            .filter(|(was, is)| was.1 != is.1)
            .map(|((what, was), (_, is))| match what {
                "experiment" => "the experiment has changed".to_owned(),
                what => format!("its {what} is {was}, and the server's is {is}"),
            })
            .next()
    }
}

/// Where a client stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) session: Session,
    /// The method's client state; none before the first phase.
    pub(crate) state: Option<Named>,
    /// Numbers the states.
    pub(crate) version: u64,
    pub(crate) broadcasts: BTreeMap<u64, Named>,
    pub(crate) uploads: BTreeMap<u64, Named>,
    /// Why there is no upload for a round.
    pub(crate) failures: BTreeMap<u64, String>,
    /// The round whose phase is under way.
    pub(crate) working: Option<u64>,
    /// Where the event log stood.
    pub(crate) log: LogMark,
    /// Wall time of earlier sessions and of this one.
    #[serde(default)]
    pub(crate) seconds: f64,
    /// Whether the server has given the run up.
    #[serde(default)]
    pub(crate) abandoned: bool,
    /// Whether the log has its end.
    #[serde(default)]
    pub(crate) ended: bool,
    /// Where the log stood before its end.
    #[serde(default)]
    pub(crate) before_end: LogMark,
    /// How often the run was taken back, as far as this client knows.
    #[serde(default)]
    pub(crate) generation: u32,
    /// Uploads that were made, each with noise of its own where there is noise.
    #[serde(default)]
    pub(crate) made: u64,
}

impl Manifest {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            state: None,
            version: 0,
            broadcasts: BTreeMap::new(),
            uploads: BTreeMap::new(),
            failures: BTreeMap::new(),
            working: None,
            log: LogMark::default(),
            seconds: 0.0,
            abandoned: false,
            ended: false,
            before_end: LogMark::default(),
            generation: 0,
            made: 0,
        }
    }

    /// Follows a run that was taken back, if this client does not know of it yet. Its state stays, with
    /// its personal model; what it has got and sent in later rounds does not count any more.
    pub(crate) fn follow(&mut self, welcome: &proto::Welcome) -> Option<Vec<SessionAction>> {
        if welcome.generation <= self.generation {
            return None;
        }
        let since = welcome.since;
        self.generation = welcome.generation;
        self.broadcasts.retain(|round, _| *round <= since);
        self.uploads.retain(|round, _| *round <= since);
        self.failures.retain(|round, _| *round <= since);
        self.abandoned = false;
        if std::mem::take(&mut self.ended) {
            self.log = self.before_end;
        }
        tracing::warn!(
            since,
            "the run was taken back: this client goes on from there, with its own model"
        );
        Some(self.session.go_back(since, !self.uploads.is_empty()))
    }

    /// Forgets what nothing can need any more.
    pub(crate) fn forget(&mut self) {
        let newest = self.broadcasts.keys().next_back().copied();
        let working = self.working;
        self.broadcasts.retain(|round, _| Some(*round) == newest || Some(*round) == working);
        let unconfirmed: HashSet<u64> = self.session.unconfirmed().collect();
        // The latest upload is what a personal phase trains beside.
        let latest = self.uploads.keys().next_back().copied();
        self.uploads.retain(|round, _| unconfirmed.contains(round) || Some(*round) == latest);
    }

    fn files(&self) -> impl Iterator<Item = &Named> {
        self.state.iter().chain(self.broadcasts.values()).chain(self.uploads.values())
    }

    fn named(&self) -> HashSet<String> {
        self.files().map(|named| named.file.clone()).collect()
    }
}

/// The experiment that was approved last.
#[derive(Serialize, Deserialize)]
struct Accepted {
    experiment: String,
}

/// When a folder is swept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    AtStart,
    UnderWay,
}

/// The folder, locked.
pub(crate) struct Vault {
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Vault {
    /// Opens a folder; gives the run that it belongs to, if there is one.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Option<(Terms, Manifest)>), NetworkError> {
        files::create_private(folder)?;
        files::create_folder(&folder.join("states"))?;
        let vault = Self { folder: folder.into(), _lock: files::lock(folder)? };
        let terms: Option<Terms> = files::read_manifest(&vault.terms_path(), RESTORE)?;
        let manifest: Option<Manifest> = files::read_manifest(&vault.manifest_path(), RESTORE)?;
        let begun = terms.zip(manifest);
        if let Some((_, manifest)) = &begun {
            vault.sweep(manifest, When::AtStart)?;
            // All of it, before anybody is called: what is damaged would be offered to the server again and again.
            for named in manifest.files() {
                named.read(&vault.states())?;
            }
        }
        Ok((vault, begun))
    }

    /// Writes down which run this is.
    pub(crate) fn begin(&self, terms: &Terms, manifest: &Manifest) -> Result<(), NetworkError> {
        files::write_manifest(&self.terms_path(), terms, Synced::Name)?;
        self.commit(manifest)
    }

    /// The hash of the experiment that was approved last.
    pub(crate) fn accepted(&self) -> Result<Option<String>, NetworkError> {
        let accepted: Option<Accepted> = files::read_manifest(&self.accepted_path(), RESTORE)?;
        Ok(accepted.map(|accepted| accepted.experiment))
    }

    /// Keeps that an experiment is approved.
    pub(crate) fn accept(&self, hash: &str) -> Result<(), NetworkError> {
        if self.accepted()?.as_deref() == Some(hash) {
            return Ok(());
        }
        let accepted = Accepted { experiment: hash.to_owned() };
        Ok(files::write_manifest(&self.accepted_path(), &accepted, Synced::Name)?)
    }

    /// Refuses a server that says something else than the one before.
    pub(crate) fn compare(&self, before: &Terms, now: &Terms) -> Result<(), NetworkError> {
        match before.difference(now) {
            None => Ok(()),
            Some(found) => Err(NetworkError::Foreign {
                path: self.folder.clone(),
                found,
                hint: "join with another folder (--state), or connect to the server that it belongs to",
            }),
        }
    }

    /// Refuses a new run in a folder whose run is over, unless that may go into the archive.
    pub(crate) fn may_make_room(
        &self,
        over: &Terms,
        now: &Terms,
        again: bool,
    ) -> Result<(), NetworkError> {
        if again {
            return Ok(());
        }
        Err(NetworkError::Over {
            path: self.folder.clone(),
            over: over.run.clone(),
            now: now.run.clone(),
        })
    }

    /// Moves a run that is over into the archive.
    pub(crate) fn make_room(&self, over: &Terms) -> Result<(), NetworkError> {
        let safe = |c: char| if c.is_alphanumeric() || c == '-' { c } else { '_' };
        // The server has chosen the name.
        let name: String = over.run.chars().take(64).map(safe).collect();
        let archive = self.folder.join(ARCHIVE).join(format!("run-{name}"));
        files::create_folder(&archive)?;
        // The manifests go last: until then the folder is known to be of a run that is over.
        let [generic, own] = super::models::files(&self.folder);
        let log = self.folder.join(EVENTS_FILE);
        for path in [generic, own, log, self.states(), self.manifest_path(), self.terms_path()] {
            files::move_into(&path, &archive)?;
        }
        files::create_folder(&self.states())?;
        tracing::info!(archive = %archive.display(), "the run that is over is in the archive");
        Ok(())
    }

    /// Makes what has happened durable, and removes what it has made superfluous.
    pub(crate) fn commit(&self, manifest: &Manifest) -> Result<(), NetworkError> {
        files::write_manifest(&self.manifest_path(), manifest, Synced::Name)?;
        self.sweep(manifest, When::UnderWay)
    }

    /// Removes files that nobody names. Downloads are written by another task while this runs, so
    /// they are touched only at the start, and then only those that are old.
    fn sweep(&self, manifest: &Manifest, when: When) -> Result<(), NetworkError> {
        let named = manifest.named();
        let newest = manifest.broadcasts.keys().next_back().copied().unwrap_or(0);
        for name in files::names(&self.states())? {
            let round = name
                .strip_prefix("broadcast-")
                .and_then(|rest| rest.split(['.', '-']).next()?.parse::<u64>().ok());
            let is_old = round.is_none_or(|round| round < newest);
            // A file that is being written has no name yet, and at the start nobody writes.
            let is_half = Path::new(&name).extension().is_some_and(|kind| kind == "tmp");
            let is_waste =
                if is_half { when == When::AtStart } else { is_old && !named.contains(&name) };
            if is_waste {
                files::remove(&self.states().join(name))?;
            }
        }
        Ok(())
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    fn terms_path(&self) -> PathBuf {
        self.folder.join("run.json")
    }

    fn accepted_path(&self) -> PathBuf {
        self.folder.join("accepted.json")
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join("manifest.json")
    }
}

/// Reads a broadcast back, if it is one of this run's network.
pub(crate) fn decode_broadcast(
    method: &dyn ErasedMethod,
    (round, named): (u64, &Named),
    states: &Path,
    (packing, bound): (Packing, &Bound),
) -> Result<Value, NetworkError> {
    let bytes = expand(named.read(states)?, packing.encoding, bound.bytes())
        .map_err(|error| confused(format!("the broadcast {}: {error}", named.file)))?;
    let broadcast = method
        .decode_broadcast(&bytes)
        .map_err(|error| confused(format!("the broadcast {}: {error}", named.file)))?;
    bound.check(method, round, &broadcast)?;
    Ok(broadcast)
}
