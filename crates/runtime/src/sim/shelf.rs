//! Where a method's models go when it ends: into a folder that is there whole or not at all.

use super::Course;
use crate::event::Event;
use crate::executor::Written;
use crate::files::{Synced, create_folder, settle};
use crate::recorder::Recorder;
use crate::store::{ServerStore, Stored};
use crate::{Kept, RuntimeError};
use formant_model::folder::{self, BEST, GENERIC, HALF, MODELS, PERSONAL};
use formant_model::{Role, encode};
use formant_numerics::Model;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

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
    pub(super) fn restore(
        stored: &StoredBest,
        store: &ServerStore<'_>,
    ) -> Result<Self, RuntimeError> {
        let file = store.load(&stored.file)?;
        let StoredBest { round, accuracy, file: place } = stored.clone();
        Ok(Self { round, accuracy, file, stored: Some(place) })
    }

    /// Names it in a checkpoint; it is written once.
    pub(super) fn persist(&mut self, store: &ServerStore<'_>) -> Result<StoredBest, RuntimeError> {
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
        round: usize,
        accuracy: f64,
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
        Ok(Some(Shelf { course: self, round, kept, folder, half }))
    }
}

/// The folder of a method's models while it is filled.
pub(super) struct Shelf<'a> {
    course: &'a Course<'a>,
    round: usize,
    kept: Kept,
    folder: PathBuf,
    half: PathBuf,
}

impl Shelf<'_> {
    /// Where personal models go, if they are kept.
    pub(super) fn personal(&self) -> Option<PathBuf> {
        self.kept.personal.then(|| self.half.join(PERSONAL))
    }

    /// Adds the generic models to the personal ones that were written, and puts the folder in its
    /// place.
    pub(super) fn close(
        self,
        generic: &Model,
        best: Option<&Best>,
        personal: Written,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let mut bytes = personal.bytes;
        if generic.is_finite() {
            let file = self.course.file_of(self.course.generic_role(), self.round, generic)?;
            bytes += write(&self.half.join(GENERIC), &file)?;
        }
        if let Some(best) = best {
            bytes += write(&self.half.join(BEST), &best.file)?;
        }
        remove(&self.folder)?;
        settle(&self.half, &self.folder, Synced::Nothing)?;
        recorder.record(&Event::ModelsKept {
            method: self.course.method.label.clone(),
            round: self.round,
            best_round: best.map(|best| best.round),
            personal: personal.models,
            bytes,
            beyond_limit: (self.kept.beyond > 0).then_some(self.kept.beyond),
        })
    }
}

/// Writes a file; gives its length. It is neither renamed nor synced: the folder is renamed, and a
/// checksum is in each file.
fn write(path: &Path, bytes: &[u8]) -> Result<u64, RuntimeError> {
    fs::write(path, bytes).map_err(|source| RuntimeError::file("write", path, source))?;
    Ok(bytes.len() as u64)
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
