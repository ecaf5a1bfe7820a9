//! The paper's tables and figures as studies: presets, their parts, and what is collected of them.

mod calibration;
mod catalogue;
mod collection;
mod part;
mod preset;
mod shard;

pub use calibration::Estimate;
pub use catalogue::{PRESETS, Preset};
pub use collection::{results_of, write_results};
pub use part::Part;
pub(crate) use part::{alone, data_place, same, shown};
pub use preset::Scale;
pub(crate) use preset::{Cell, File, flattened, flattened_below};
pub use shard::Shard;

use crate::divided::SharedData;
use crate::{Observer, StudyError, Tuned};
use formant_experiment::Override;
use formant_methods::Zoo;
use formant_report::results::Outcome;
use formant_runtime::RuntimeError;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which preset.
    pub name: String,
    /// Which of its sizes.
    pub scale: Scale,
    /// Folder of the datasets; without it, the usual one.
    pub data_dir: Option<PathBuf>,
    /// Changes as `KEY=VALUE`, for instance to try a preset out.
    pub set: Vec<String>,
    /// Only these methods, or these values of an axis as `KEY=VALUE`; nothing means everything.
    pub only: Vec<String>,
    /// Seeds in place of the preset's; none means those.
    pub seeds: Vec<i64>,
    /// Settings in place of those that were chosen for the preset; none means those.
    pub tuned: Option<Tuned>,
    /// What is laid over everything and changes no result, such as the number of threads.
    pub last: Vec<Override>,
}

impl Request {
    /// Whether other data are asked for than those of the preset.
    fn names_data(&self) -> bool {
        self.set.iter().any(|text| text.trim_start().starts_with("data.source"))
    }
}

/// A table or figure, divided into parts that are run once and kept.
pub struct Reproduction {
    request: Request,
    preset: preset::File,
    /// By cell, then seed, then method: parts that share their data follow each other.
    parts: Vec<Part>,
    data: SharedData,
}

/// How a reproduction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All parts that were asked for are there.
    Complete,
    /// It was asked to stop; the same request goes on.
    Interrupted,
    /// Nothing is left to do here, but other processes are at work on so many parts.
    Elsewhere(usize),
}

impl Reproduction {
    /// Builds every part, so that whatever is wrong is refused before anything runs. No data are read.
    pub fn new(request: Request, zoo: &Zoo) -> Result<Self, StudyError> {
        let preset = Preset::named(&request.name)?.file()?;
        let parts = part::all(&request, &preset, zoo)?;
        Ok(Self { request, preset, parts, data: SharedData::default() })
    }

    /// All parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts of a shard, by their places.
    pub fn shard(&self, shard: Shard) -> Vec<usize> {
        let works: Vec<f64> = self.parts.iter().map(|part| part.work).collect();
        shard.of(&works)
    }

    /// Those of some parts that a folder does not hold yet.
    pub fn unfinished(&self, folder: &Path, places: &[usize]) -> Vec<usize> {
        let is_done = |place: &usize| self.parts[*place].outcomes(folder).is_some();
        places.iter().copied().filter(|place| !is_done(place)).collect()
    }

    /// Refuses to begin without the data.
    pub fn check_data(&self) -> Result<(), StudyError> {
        let dir = formant_data::data_dir(self.request.data_dir.as_deref());
        match self.parts.iter().find_map(|part| part.lacks(&dir)) {
            Some(lack) => Err(lack),
            None => Ok(()),
        }
    }

    /// How long some parts will take on this machine, and how much disk: a short calibration.
    pub fn estimate(
        &mut self,
        places: &[usize],
        observer: &dyn Observer,
    ) -> Result<Estimate, StudyError> {
        let parts: Vec<&Part> = places.iter().map(|place| &self.parts[*place]).collect();
        calibration::estimate(&parts, &mut self.data, observer)
    }

    /// Runs some parts one after the other. What is there is not run again, what was interrupted goes on, and
    /// what another process has under way is left to it.
    pub fn run(
        &mut self,
        folder: &Path,
        places: &[usize],
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Ended, StudyError> {
        let mut elsewhere = 0;
        for place in places {
            let part = &self.parts[*place];
            if part.outcomes(folder).is_some() {
                observer.part_done(part);
                continue;
            }
            match part.run(folder, &mut self.data, observer, stop) {
                Ok(true) => observer.part_done(part),
                Ok(false) => return Ok(Ended::Interrupted),
                Err(StudyError::Runtime(RuntimeError::Locked { .. })) => elsewhere += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(if elsewhere == 0 { Ended::Complete } else { Ended::Elsewhere(elsewhere) })
    }

    /// All outcomes that a folder has of a part.
    fn outcomes(&self, folder: &Path, place: usize) -> Option<Vec<Outcome>> {
        self.parts[place].outcomes(folder)
    }
}
