//! Where a method's models go when it ends: into a folder that is there whole or not at all.

use super::Course;
use super::patience::Standing;
use crate::event::Event;
use crate::executor::Written;
use crate::files::faults::{Call, pass};
use crate::files::{Synced, create_folder, names, raw, settle, sync_folder};
use crate::recorder::Recorder;
use crate::store::{ServerStore, Stored};
use crate::{Kept, RuntimeError};
use formant_methods::{Newcomer, Value};
use formant_model::folder::{self, BEST, BROADCAST, GENERIC, HALF, MODELS, PERSONAL};
use formant_model::{Role, encode, seal_broadcast};
use formant_numerics::Model;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The generic model of the best evaluation so far, as the file that it will be.
pub(super) struct Best {
    pub(super) round: usize,
    /// By the first metric.
    pub(super) figure: f64,
    file: Vec<u8>,
    /// Where the last checkpoint has it.
    stored: Option<Stored>,
}

/// The same in a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredBest {
    round: usize,
    #[serde(alias = "accuracy")]
    figure: f64,
    pub(crate) file: Stored,
}

impl Best {
    /// The best of the evaluations before a checkpoint.
    pub(super) fn restore(
        stored: &StoredBest,
        store: &ServerStore<'_>,
    ) -> Result<Self, RuntimeError> {
        let file = store.load(&stored.file)?;
        let StoredBest { round, figure, file: place } = stored.clone();
        Ok(Self { round, figure, file, stored: Some(place) })
    }

    /// Names it in a checkpoint; it is written once.
    pub(super) fn persist(&mut self, store: &ServerStore<'_>) -> Result<StoredBest, RuntimeError> {
        let file = match &self.stored {
            Some(stored) => stored.clone(),
            None => self.stored.insert(store.write_bytes("best", &self.file)?).clone(),
        };
        Ok(StoredBest { round: self.round, figure: self.figure, file })
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
        figure: f64,
        model: &Model,
    ) -> Result<(), RuntimeError> {
        let metric = self.plan.evaluation.metrics.first();
        let is_better = best.as_ref().is_none_or(|best| metric.is_better(figure, best.figure));
        if is_better && figure.is_finite() && model.is_finite() {
            let file = self.file_of(self.generic_role(), round, model)?;
            *best = Some(Best { round, figure, file, stored: None });
        }
        Ok(())
    }

    fn folder_name(&self) -> String {
        let labels = self.plan.methods.iter().map(|method| method.label.as_str());
        folder::method_folders(labels).swap_remove(self.index)
    }

    /// Where the models of the best evaluation wait for the end of a method with patience. No label
    /// gives such a name, and none that is being filled has it.
    fn best_place(&self) -> PathBuf {
        self.run_dir.join(MODELS).join(format!("{HALF}{HALF}{}", self.folder_name()))
    }

    /// Has the disk keep the models that a checkpoint is about to name.
    pub(super) fn sync_best(&self, standing: &mut Standing) -> Result<(), RuntimeError> {
        let place = self.best_place();
        if !standing.unsynced || !place.is_dir() {
            return Ok(());
        }
        let personal = place.join(PERSONAL);
        for folder in [&personal, &place].into_iter().filter(|folder| folder.is_dir()) {
            for name in names(folder)? {
                sync_folder(&folder.join(name))?;
            }
            sync_folder(folder)?;
        }
        sync_folder(&self.run_dir.join(MODELS))?;
        standing.unsynced = false;
        Ok(())
    }

    /// A place for the method's models after a round, unless none are kept.
    pub(super) fn shelf(&self, round: usize) -> Result<Option<Shelf<'_>>, RuntimeError> {
        let kept = self.plan.kept()[self.index];
        let name = self.folder_name();
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
        server: &Value,
        best: Option<&Best>,
        personal: Written,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let bytes = personal.bytes + self.add_generic(generic, server)?;
        self.settle(&self.half, best, Written { bytes, ..personal }, self.round, recorder)?;
        remove(&self.course.best_place())
    }

    /// Puts the models by as those of the best evaluation so far; gives the bytes that it adds.
    pub(super) fn put_by(self, generic: &Model, server: &Value) -> Result<u64, RuntimeError> {
        let (bytes, place) = (self.add_generic(generic, server)?, self.course.best_place());
        remove(&place)?;
        settle(&self.half, &place, Synced::Nothing)?;
        Ok(bytes)
    }

    /// Drops what was written.
    pub(super) fn discard(self) -> Result<(), RuntimeError> {
        remove(&self.half)
    }

    /// Puts the models of the best evaluation in their place, and not those that were written.
    pub(super) fn go_back(
        self,
        standing: &Standing,
        best: Option<&Best>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        remove(&self.half)?;
        let place = self.course.best_place();
        if !place.exists() {
            // A session that was killed after this has done it already.
            if !self.folder.exists() {
                return Err(RuntimeError::Damaged {
                    path: place,
                    found: format!("the models of round {} are missing", standing.round),
                    hint: "start the run again in a new folder".into(),
                });
            }
            settle(&self.folder, &place, Synced::Nothing)?;
        }
        self.settle(&place, best, standing.written, standing.round, recorder)
    }

    /// Adds the generic model of the round, and for newcomers the broadcast if that is something else; gives the
    /// bytes of the files.
    fn add_generic(&self, generic: &Model, server: &Value) -> Result<u64, RuntimeError> {
        if !generic.is_finite() {
            return Ok(0);
        }
        let file = self.course.file_of(self.course.generic_role(), self.round, generic)?;
        let bytes = write(&self.half.join(GENERIC), &file)?;
        let method = &*self.course.method.method;
        let broadcast = method.broadcast(server)?;
        if method.newcomer(&broadcast)? == Newcomer::FineTuning {
            return Ok(bytes);
        }
        let (message, alone) = (broadcast.encode()?, method.broadcast_of(generic));
        let alone = alone.map(|alone| alone.encode()).transpose()?;
        if method.entry().generic && alone.as_ref() == Some(&message) {
            return Ok(bytes);
        }
        Ok(bytes + write(&self.half.join(BROADCAST), &seal_broadcast(&message))?)
    }

    /// Adds the best generic model to a folder, gives it its final name, and says so.
    fn settle(
        &self,
        from: &Path,
        best: Option<&Best>,
        written: Written,
        round: usize,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let mut bytes = written.bytes;
        if let Some(best) = best {
            bytes += write(&from.join(BEST), &best.file)?;
        }
        remove(&self.folder)?;
        settle(from, &self.folder, Synced::Nothing)?;
        recorder.record(&Event::ModelsKept {
            method: self.course.method.label.clone(),
            round,
            best_round: best.map(|best| best.round),
            personal: written.models,
            bytes,
            beyond_limit: (self.kept.beyond > 0).then_some(self.kept.beyond),
        })
    }
}

/// Writes a file; gives its length. It is neither renamed nor synced: the folder is renamed, and a
/// checksum is in each file.
fn write(path: &Path, bytes: &[u8]) -> Result<u64, RuntimeError> {
    let written = pass(Call::Write, path).and_then(|()| fs::write(path, bytes));
    written.map_err(|source| RuntimeError::file("write", path, source))?;
    Ok(bytes.len() as u64)
}

/// Removes a folder with everything in it, if it is there.
fn remove(folder: &Path) -> Result<(), RuntimeError> {
    match raw::remove_folder(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RuntimeError::file("replace", folder, error))
        }
        _ => Ok(()),
    }
}
