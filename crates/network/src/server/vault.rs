//! The server's folder: what survives `kill -9` and a power cut.
//!
//! - `run.json`: which run this is; written once.
//! - `manifest.json`: the round protocol's state and the names of the files that go with it. Replaced
//!   before anything is said to anybody.
//! - `states/`: the method's server state and the broadcasts, each under a name of its own.
//! - `uploads/`: what clients have sent and what they are sending.
//! - `certificates/`: the certificate that every client has last sent something with.
//! - `revocations.json`: the number of the newest list of revoked certificates.
//! - `audit.jsonl`: [what happened](crate::audit).

mod history;

pub(crate) use history::Past;

use super::plan::Wiring;
use crate::audit;
use crate::codec::compress;
use crate::error::NetworkError;
use formant_federation::Server;
use formant_methods::Value;
use formant_runtime::files::{self, Named, Synced};
use formant_runtime::{LogMark, RuntimeError, first_difference};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What to do with a folder that cannot be trusted.
const RESTORE: &str = "restore the whole state folder from a copy, or start again in a new one";

/// Where certificates are.
pub(crate) const CERTIFICATES: &str = "certificates";

/// The version of the folder's layout.
const FORMAT: u32 = 2;

/// Which run a folder belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Run {
    format: u32,
    formant: String,
    /// Told to clients, whose folders belong to one run too.
    id: String,
    clients: Vec<String>,
    /// How messages are packed, of which some lie here.
    packing: String,
    config: serde_json::Value,
}

/// Where a run stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) machine: Server,
    /// The method's server state.
    pub(crate) server: Named,
    /// Broadcasts that somebody may still need, by the round that they open.
    pub(crate) broadcasts: BTreeMap<u64, Named>,
    /// Encoded size of a broadcast, before compression.
    pub(crate) broadcast_bytes: u64,
    /// The samples that each client has claimed, once and for all.
    pub(crate) samples: BTreeMap<usize, u64>,
    /// Wall time of earlier sessions and of this one.
    pub(crate) seconds: f64,
    /// When the open round began, on the same clock.
    pub(crate) round_began: f64,
    /// Where the event log stood.
    pub(crate) log: LogMark,
    /// How the run ended, if it has.
    pub(crate) end: Option<End>,
    /// States to which the run can go back, by the rounds that are in them; the last is the present one.
    #[serde(default)]
    pub(crate) history: BTreeMap<u64, Past>,
    /// How often it has gone back, and after how many rounds it went on the last time.
    #[serde(default)]
    pub(crate) generation: u32,
    #[serde(default)]
    pub(crate) since: u64,
    /// What the generic model was worth at its best.
    #[serde(default)]
    pub(crate) best: Option<Best>,
    /// Where the audit log stood.
    #[serde(default)]
    pub(crate) audit: audit::Head,
}

/// The best evaluation of the generic model so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Best {
    pub(crate) round: u64,
    pub(crate) accuracy: f64,
    /// Evaluations in a row, since then, at which it was far below.
    pub(crate) low: u32,
}

impl Manifest {
    /// Aggregations that are done: the newest broadcast opens the round after the last one.
    pub(crate) fn aggregations(&self) -> u64 {
        self.broadcasts.keys().next_back().map_or(0, |opens| opens.saturating_sub(1))
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Aggregations that were made.
    pub rounds: u64,
    /// XXH3-128 of the final server state.
    pub fingerprint: String,
    /// Why it ended before the last round, if it did.
    pub stopped: Option<String>,
}

/// The folder, locked.
pub(crate) struct Vault {
    pub(crate) folder: PathBuf,
    pub(crate) run: String,
    _lock: File,
}

/// What an aggregation leaves: files that are synced, but that no manifest names yet.
pub(crate) struct Kept {
    pub(crate) server: Named,
    pub(crate) broadcast: Named,
    pub(crate) broadcast_bytes: u64,
}

impl Vault {
    /// Opens a folder and says where its run stands; a new folder gets a run before its first round.
    pub(crate) fn open(folder: &Path, wiring: &Wiring) -> Result<(Self, Manifest), NetworkError> {
        files::create_private(folder)?;
        for name in ["states", "uploads", CERTIFICATES] {
            files::create_folder(&folder.join(name))?;
        }
        let lock = files::lock(folder)?;
        let run = Self::claim(folder, wiring)?;
        let vault = Self { folder: folder.into(), run: run.id, _lock: lock };
        let kept = files::read_manifest::<Manifest>(&vault.manifest_path(), RESTORE)?;
        let mut manifest = if let Some(mut manifest) = kept {
            // How long rounds are waited for is the server's to decide, at any time.
            manifest.machine.set_deadline(&wiring.task.rules);
            if !manifest.machine.fits(&wiring.task.rules) {
                return Err(vault.unfit());
            }
            manifest
        } else {
            vault.begin(wiring)?
        };
        if let Some(rollback) = &wiring.settings.rollback {
            vault.roll_back(&mut manifest, wiring, rollback)?;
        }
        vault.mend(&mut manifest, wiring)?;
        vault.sweep(&manifest)?;
        vault.check_uploads(&manifest.machine)?;
        Ok((vault, manifest))
    }

    fn unfit(&self) -> NetworkError {
        NetworkError::Runtime(RuntimeError::Damaged {
            path: self.manifest_path(),
            found: "its rounds are not those of the experiment".into(),
            hint: RESTORE.into(),
        })
    }

    /// Writes down which run this is, or refuses if the folder belongs to another.
    fn claim(folder: &Path, wiring: &Wiring) -> Result<Run, NetworkError> {
        let path = folder.join("run.json");
        let header = &wiring.header;
        let mut now = Run {
            format: FORMAT,
            formant: header.formant.clone(),
            id: String::new(),
            clients: wiring.settings.clients.clone(),
            packing: format!("{:?}", wiring.settings.packing),
            config: header.config.clone(),
        };
        // How the machine is used changes no result.
        if let Some(sections) = now.config.as_object_mut() {
            sections.remove("runtime");
        }
        let Some(before) = files::read_manifest::<Run>(&path, RESTORE)? else {
            now.id = fresh_id(folder);
            files::write_manifest(&path, &now, Synced::Name)?;
            return Ok(now);
        };
        now.id.clone_from(&before.id);
        let as_json = |run: &Run| serde_json::to_value(run).unwrap_or_default();
        if let Some((key, was, is)) = first_difference(&as_json(&before), &as_json(&now)) {
            return Err(NetworkError::Foreign {
                path: folder.into(),
                found: format!("`{key}` was {was} when it began and is {is} now"),
                hint: "undo the change in the server's file, or choose another folder with --state",
            });
        }
        Ok(before)
    }

    /// A run before its first round.
    fn begin(&self, wiring: &Wiring) -> Result<Manifest, NetworkError> {
        let task = &wiring.task;
        let server = task.method.method.start_server(&task.init());
        let kept = self.keep(wiring, &server, 0)?;
        let start = Past::of(&kept, LogMark::default(), 0.0, None);
        let manifest = Manifest {
            machine: Server::new(task.rules.clone()),
            server: kept.server,
            broadcasts: BTreeMap::from([(1, kept.broadcast)]),
            broadcast_bytes: kept.broadcast_bytes,
            history: BTreeMap::from([(0, start)]),
            generation: 0,
            since: 0,
            best: None,
            audit: audit::Head::default(),
            samples: BTreeMap::new(),
            seconds: 0.0,
            round_began: 0.0,
            log: LogMark::default(),
            end: None,
        };
        self.commit(&manifest)?;
        Ok(manifest)
    }

    /// Writes the server's state after so many aggregations, and the broadcast that follows from it.
    pub(crate) fn keep(
        &self,
        wiring: &Wiring,
        server: &Value,
        aggregations: u64,
    ) -> Result<Kept, NetworkError> {
        keep(&self.states(), wiring, server, aggregations)
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.folder.join("states")
    }

    pub(crate) fn uploads(&self) -> PathBuf {
        self.folder.join("uploads")
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join("manifest.json")
    }

    /// Makes what has happened durable. Only then may anybody be told.
    pub(crate) fn commit(&self, manifest: &Manifest) -> Result<(), NetworkError> {
        // Uploads were renamed into place one by one; here their names are made durable together.
        files::sync_folder(&self.uploads())?;
        Ok(files::write_manifest(&self.manifest_path(), manifest, Synced::Name)?)
    }

    /// Removes what no manifest names. Uploads on their way stay.
    fn sweep(&self, manifest: &Manifest) -> Result<(), NetworkError> {
        self.sweep_states(manifest)?;
        let kept: HashSet<(usize, u64)> = manifest.machine.kept().collect();
        let open = manifest.machine.open_rounds();
        for name in files::names(&self.uploads())? {
            let path = self.uploads().join(&name);
            match UploadFile::parse(&name) {
                Some(file) if file.stage == Stage::Part && open.contains(&file.round) => {}
                Some(file) if file.stage == Stage::Whole && kept.contains(&file.answer()) => {}
                Some(file) if open.contains(&file.round) => {
                    // It came, but nobody was told: the client will offer it again and need not send
                    // it.
                    let part = UploadFile { stage: Stage::Part, ..file };
                    files::settle(&path, &self.uploads().join(part.name()), Synced::Nothing)?;
                }
                _ => files::remove(&path)?,
            }
        }
        Ok(())
    }

    /// Removes what an aggregation has made superfluous. Uploads that have come since are not touched.
    pub(crate) fn tidy(
        &self,
        manifest: &Manifest,
        spent: &[(usize, u64)],
    ) -> Result<(), NetworkError> {
        if spent.is_empty() {
            return Ok(());
        }
        for (client, round) in spent {
            self.discard(*client, *round)?;
        }
        let (open, now) = (manifest.machine.open_rounds(), manifest.machine.round());
        for name in files::names(&self.uploads())? {
            // One whose round has just closed may still be written to.
            if let Some(UploadFile { round, stage: Stage::Part, .. }) = UploadFile::parse(&name)
                && round.saturating_add(1) < now
                && !open.contains(&round)
            {
                files::remove(&self.uploads().join(&name))?;
            }
        }
        self.sweep_states(manifest)
    }

    /// Removes an upload that does not count.
    pub(crate) fn discard(&self, client: usize, round: u64) -> Result<(), NetworkError> {
        Ok(files::remove(&self.uploads().join(UploadFile::whole(client, round).name()))?)
    }

    fn sweep_states(&self, manifest: &Manifest) -> Result<(), NetworkError> {
        let past = manifest.history.values().flat_map(Past::files);
        let named =
            std::iter::once(&manifest.server).chain(manifest.broadcasts.values()).chain(past);
        let named: HashSet<&str> = named.map(|named| &*named.file).collect();
        Ok(files::sweep(&self.states(), |name| named.contains(name))?)
    }

    fn check_uploads(&self, machine: &Server) -> Result<(), NetworkError> {
        for (client, round) in machine.kept() {
            let path = self.uploads().join(UploadFile::whole(client, round).name());
            if !path.exists() {
                return Err(RuntimeError::Damaged {
                    found: "it is missing, though it was accepted".into(),
                    hint: "restore the whole state folder from a copy".into(),
                    path,
                }
                .into());
            }
        }
        Ok(())
    }
}

/// See [`Vault::keep`].
pub(crate) fn keep(
    states: &Path,
    wiring: &Wiring,
    server: &Value,
    aggregations: u64,
) -> Result<Kept, NetworkError> {
    let broadcast = wiring.method().method.broadcast(server)?.encode()?;
    let broadcast_bytes = broadcast.len() as u64;
    let packed = compress(broadcast, wiring.settings.packing.encoding);
    Ok(Kept {
        server: files::store(states, &format!("server-{aggregations}.bin"), &server.encode()?)?,
        broadcast: files::store(states, &format!("broadcast-{}.bin", aggregations + 1), &packed)?,
        broadcast_bytes,
    })
}

/// A file of an upload: `CLIENT-ROUND.upload`, or `.part` while it is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UploadFile {
    client: usize,
    round: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Part,
    Whole,
}

impl Stage {
    const fn extension(self) -> &'static str {
        match self {
            Self::Part => "part",
            Self::Whole => "upload",
        }
    }
}

impl UploadFile {
    /// An upload on its way.
    pub(crate) fn part(client: usize, round: u64) -> Self {
        Self { client, round, stage: Stage::Part }
    }

    /// One that is there, checked and synced.
    pub(crate) fn whole(client: usize, round: u64) -> Self {
        Self { client, round, stage: Stage::Whole }
    }

    pub(crate) fn name(self) -> String {
        let Self { client, round, stage } = self;
        format!("{client}-{round}.{}", stage.extension())
    }

    fn parse(name: &str) -> Option<Self> {
        let (stem, kind) = name.split_once('.')?;
        let (client, round) = stem.split_once('-')?;
        let stage = [Stage::Part, Stage::Whole].into_iter().find(|s| s.extension() == kind)?;
        Some(Self { client: client.parse().ok()?, round: round.parse().ok()?, stage })
    }

    /// Who answers which round with it.
    fn answer(self) -> (usize, u64) {
        (self.client, self.round)
    }
}

/// A name that no other run has.
fn fresh_id(folder: &Path) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let parts = format!("{:?} {} {}", now.ok(), std::process::id(), folder.display());
    crate::wire::fingerprint(parts.as_bytes())
}
