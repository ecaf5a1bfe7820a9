//! The presets that are part of the program.

use super::preset::{File, Scale};
use crate::{StudyError, Tuned};
use formant_data::CatalogueEntry;
use formant_methods::schema::suggest;
use std::path::Path;

/// A table or figure of the paper, or a question that it leaves to its appendix.
#[derive(Debug)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    text: &'static str,
    /// What `formant tune` chose for it.
    tuned: &'static str,
}

/// A preset with its file; behind `tuned`, the settings that were chosen for it are a file too.
macro_rules! preset {
    ($name:literal) => {
        preset!($name, tuned "")
    };
    ($name:literal, tuned $tuned:expr) => {
        Preset {
            name: $name,
            text: include_str!(concat!("../../../../experiments/", $name, ".toml")),
            tuned: $tuned,
        }
    };
}

/// All of them, in the paper's order.
pub const PRESETS: &[Preset] = &[
    preset!("cifar10"),
    preset!("cifar100"),
    preset!("inat"),
    preset!("communication"),
    preset!("ablation"),
    preset!("new-clients"),
    preset!("participation"),
    preset!("asynchronous"),
    preset!("sensitivity"),
    preset!("cost"),
    preset!("controls"),
    preset!("guards", tuned include_str!("../../../../experiments/tuned/duel.toml")),
    preset!("poison"),
    preset!("duel", tuned include_str!("../../../../experiments/tuned/duel.toml")),
];

impl Preset {
    /// The preset of a name.
    pub fn named(name: &str) -> Result<&'static Self, StudyError> {
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let known = PRESETS.iter().map(|preset| preset.name);
            StudyError::UnknownPreset { name: name.into(), hint: suggest(name, known, "presets") }
        })
    }

    /// The commented file.
    pub fn text(&self) -> &'static str {
        self.text
    }

    pub(crate) fn file(&self) -> Result<File, StudyError> {
        let mut file = File::parse(self.name, self.text)?;
        file.tuned = Tuned::parse(self.tuned).map_err(|reason| {
            let name = format!("tuned/{}", self.name);
            StudyError::Preset { name, reason }
        })?;
        Ok(file)
    }

    /// What of the paper it is about, such as `Table 1`.
    pub fn of_the_paper(&self) -> Result<String, StudyError> {
        Ok(self.file()?.of_the_paper)
    }

    /// One line about it.
    pub fn summary(&self) -> Result<String, StudyError> {
        Ok(self.file()?.summary)
    }

    /// The data that it needs at a scale, and whether they are in a folder of datasets.
    pub fn data(&self, scale: Scale, dir: &Path) -> Result<(String, bool), StudyError> {
        let file = self.file()?;
        if let Some(folder) = file.folder {
            let is_there = dir.join(&folder).is_dir();
            return Ok((folder, is_there));
        }
        let source = file.source(scale);
        let is_there = CatalogueEntry::named(&source).is_ok_and(|entry| entry.is_in(dir));
        Ok((source, is_there))
    }
}
