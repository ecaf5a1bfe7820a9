//! Where a method's models go when it ends: into a folder that is there whole or not at all.

use super::Course;
use crate::event::Event;
use crate::files::{Synced, create_folder, settle};
use crate::recorder::Recorder;
use crate::store::{Store, Stored};
use crate::{Kept, RuntimeError};
use formant_model::folder::{self, BEST, GENERIC, HALF, MODELS, PERSONAL};
use formant_model::{Role, encode};
use formant_numerics::Model;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The generic model of the best evaluation so far, as the file that it will be.
pub(super) struct Best {
    pub(super) round: usize,
    pub(super) accuracy: f64,
    file: Vec<u8>,
    /// Where the last checkpoint has it.
    stored: Option<Stored>,
}

/// The same in a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredBest {
    round: usize,
    accuracy: f64,
    pub(crate) file: Stored,
}

impl Best {
    /// The best of the evaluations before a checkpoint.
    pub(super) fn restore(stored: &StoredBest, store: &Store<'_>) -> Result<Self, RuntimeError> {
        let file = store.load(&stored.file)?;
        let StoredBest { round, accuracy, file: place } = stored.clone();
        Ok(Self { round, accuracy, file, stored: Some(place) })
    }

    /// Names it in a checkpoint; it is written once.
    pub(super) fn persist(&mut self, store: &Store<'_>) -> Result<StoredBest, RuntimeError> {
        let file = match &self.stored {
            Some(stored) => stored.clone(),
            None => self.stored.insert(store.write_bytes("best", &self.file)?).clone(),
        };
        Ok(StoredBest { round: self.round, accuracy: self.accuracy, file })
    }
}

impl Course<'_> {
    /// Whose model a method's generic one is: without one, it is the mean of the personal ones.
    fn generic_role(&self) -> Role {
        if self.method.method.entry().generic { Role::Generic } else { Role::Averaged }
    }

    fn file_of(&self, role: Role, round: usize, model: &Model) -> Result<Vec<u8>, RuntimeError> {
        let card = self.plan.card_of(self.method, role, round);
        Ok(encode(self.plan.engine.network().layout(), &card, model)?)
    }

    /// Remembers a generic model that has scored better than all before it; the first, if several
    /// score the same.
    pub(super) fn remember(
        &self,
        best: &mut Option<Best>,
        (round, accuracy): (usize, f64),
        model: &Model,
    ) -> Result<(), RuntimeError> {
        let is_better = best.as_ref().is_none_or(|best| accuracy > best.accuracy);
        if is_better && accuracy.is_finite() && model.is_finite() {
            let file = self.file_of(self.generic_role(), round, model)?;
            *best = Some(Best { round, accuracy, file, stored: None });
        }
        Ok(())
    }

    /// A place for the method's models after a round, unless none are kept.
    pub(super) fn shelf(&self, round: usize) -> Result<Option<Shelf<'_>>, RuntimeError> {
        let labels = self.plan.methods.iter().map(|method| method.label.as_str());
        let mut names = folder::method_folders(labels);
        let kept = self.plan.kept()[self.index];
        let name = names.swap_remove(self.index);
        let folder = self.run_dir.join(MODELS).join(&name);
        if !kept.generic {
            // Those of an earlier session would not belong to this run's log.
            remove(&folder)?;
            return Ok(None);
        }
        // A name that no label can have.
        let half = self.run_dir.join(MODELS).join(format!("{HALF}{name}"));
        remove(&half)?;
        create_folder(&half)?;
        if kept.personal {
            create_folder(&half.join(PERSONAL))?;
        }
        let (count, bytes) = Default::default();
        Ok(Some(Shelf { course: self, round, kept, folder, half, count, bytes }))
    }
}

/// The folder of a method's models while it is filled.
pub(super) struct Shelf<'a> {
    course: &'a Course<'a>,
    round: usize,
    kept: Kept,
    folder: PathBuf,
    half: PathBuf,
    /// Personal models and bytes so far.
    count: AtomicUsize,
    bytes: AtomicU64,
}

impl Shelf<'_> {
    /// Puts a client's model on it, if personal models are kept. One that diverged is left out.
    pub(super) fn add(&self, client: usize, model: &Model) -> Result<(), RuntimeError> {
        if !self.kept.personal || !model.is_finite() {
            return Ok(());
        }
        let role = Role::Personal { client, name: None };
        let file = self.course.file_of(role, self.round, model)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.write(&self.half.join(PERSONAL).join(folder::personal(client)), &file)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        // Neither renamed nor synced one by one: the folder is renamed, and a checksum is in each.
        fs::write(path, bytes).map_err(|source| RuntimeError::file("write", path, source))
    }

    /// Adds the generic models and puts the folder in its place.
    pub(super) fn close(
        self,
        generic: &Model,
        best: Option<&Best>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        if generic.is_finite() {
            let file = self.course.file_of(self.course.generic_role(), self.round, generic)?;
            self.write(&self.half.join(GENERIC), &file)?;
        }
        if let Some(best) = best {
            self.write(&self.half.join(BEST), &best.file)?;
        }
        remove(&self.folder)?;
        settle(&self.half, &self.folder, Synced::Nothing)?;
        recorder.record(&Event::ModelsKept {
            method: self.course.method.label.clone(),
            round: self.round,
            best_round: best.map(|best| best.round),
            personal: self.count.into_inner(),
            bytes: self.bytes.into_inner(),
            beyond_limit: (self.kept.beyond > 0).then_some(self.kept.beyond),
        })
    }
}

/// Removes a folder with everything in it, if it is there.
fn remove(folder: &Path) -> Result<(), RuntimeError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RuntimeError::file("replace", folder, error))
        }
        _ => Ok(()),
    }
}
