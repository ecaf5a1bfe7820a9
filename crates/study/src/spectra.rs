//! Do low frequencies of personal and generic models agree more than others? Looked at in the models that a
//! run has kept, band by band, beside controls that know nothing of frequencies.

mod controls;
mod figures;

pub use controls::Control;
pub use figures::{Figures, Looked, Seen, Side};

use crate::StudyError;
use controls::Rivals;
use formant_model::{Card, ModelFile, folder};
use formant_numerics::{Rng, SpectrumKind, Stream, Tape};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How thoroughly to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpectraEffort {
    /// Clients at most, the first by number.
    pub clients: usize,
    /// Random orders of units and of coordinates.
    pub orders: usize,
    /// Random bands.
    pub bands: usize,
}

impl Default for SpectraEffort {
    fn default() -> Self {
        Self { clients: 20, orders: 5, bands: 40 }
    }
}

/// The models of one method in a run.
pub struct MethodModels {
    card: Card,
    network: Arc<Tape>,
    generic: Vec<f32>,
    /// By client.
    personal: Vec<Vec<f32>>,
    /// What all of them began with.
    start: Vec<f32>,
}

impl core::fmt::Debug for MethodModels {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "MethodModels of {}, {} clients", self.card.method.label, self.personal.len())
    }
}

impl MethodModels {
    /// The methods of a run folder that keep a generic model and personal ones; or one of them.
    pub fn of_run(
        run: &Path,
        method: Option<&str>,
        effort: &SpectraEffort,
    ) -> Result<Vec<Self>, StudyError> {
        if !run.is_dir() {
            return Err(StudyError::NoRun { folder: run.into() });
        }
        let files = folder::all(run, method)?;
        let generic = files.iter().filter(|file| file.ends_with(folder::GENERIC));
        let folders: Vec<PathBuf> =
            generic.filter_map(|file| Some(file.parent()?.into())).collect();
        let mut found = Vec::new();
        for folder in folders.iter().filter(|folder| folder::clients(folder).len() > 1) {
            found.push(Self::read(folder, effort.clients)?);
        }
        if found.is_empty() {
            return Err(StudyError::NoPersonalModels { folder: run.into() });
        }
        Ok(found)
    }

    fn read(from: &Path, clients: usize) -> Result<Self, StudyError> {
        let path = from.join(folder::GENERIC);
        let ModelFile { card, model } = ModelFile::read(&path)?;
        let network = card.build(&path.display().to_string())?;
        let start = network.init(&mut Rng::new(card.seed, Stream::Init, 0, 0)).parameters;
        let mut personal = Vec::new();
        for client in folder::clients(from).into_iter().take(clients) {
            let path = from.join(folder::PERSONAL).join(folder::personal(client));
            personal.push(ModelFile::read(&path)?.model.parameters);
        }
        Ok(Self { card, network, generic: model.parameters, personal, start })
    }

    /// Its label in the experiment.
    pub fn label(&self) -> &str {
        &self.card.method.label
    }

    /// Looks at them in one kind of spectrum.
    pub fn look(&self, kind: SpectrumKind, effort: &SpectraEffort) -> Looked {
        let rivals = Rivals::new(&self.network, kind, effort, self.card.seed);
        let minus = |w: &[f32]| w.iter().zip(&self.start).map(|(w, s)| w - s).collect::<Vec<f32>>();
        let (updates, update): (Vec<Vec<f32>>, _) =
            (self.personal.iter().map(|w| minus(w)).collect(), minus(&self.generic));
        let units = self.network.units();
        let orders: Vec<_> =
            self.personal.iter().map(|w| units.aligned(w, &self.generic)).collect();
        let with = |students: &[Vec<f32>], teacher: &[f32]| {
            let pairs = students.iter().map(|w| (w.clone(), teacher.to_vec()));
            rivals.all(&pairs.collect::<Vec<_>>(), Some(&orders))
        };
        // Every client with the next one.
        let next = updates.iter().cycle().skip(1);
        let peers: Vec<_> = updates.iter().cloned().zip(next.cloned()).collect();
        Looked {
            method: self.label().into(),
            network: self.card.network.name.clone(),
            dataset: self.card.dataset.clone(),
            round: self.card.round,
            seed: self.card.seed,
            clients: self.personal.len(),
            kind,
            moved: orders.iter().map(formant_numerics::UnitOrder::moved).sum::<f64>()
                / orders.len() as f64,
            weights: with(&self.personal, &self.generic),
            updates: with(&updates, &update),
            peers: rivals.all(&peers, None),
        }
    }
}
