//! The keys of `[data]` that say where samples come from: a known dataset, or files of the user's.

use crate::section::key;
use crate::units::{PIXELS, Pixels};
use crate::{ExperimentError, OneMethod, Override};
use formant_data::{
    CatalogueEntry, Dataset, Description, Progress, Reading, SourceOptions, TEST_FRACTION,
};
use formant_methods::schema::{Default as Preset, Key, Kind, resolve};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The keys, for the table of `[data]`.
pub(crate) const KEYS: [Key; 11] = [
    key(
        SOURCE,
        Kind::Text,
        Preset::Text("mnist-small"),
        "a known dataset (`formant data list`) or a file or folder of yours, whose format is found from what is there; mnist-small is part of the program",
    ),
    key(
        DIR,
        Kind::Text,
        Preset::Unset,
        "folder of the known datasets, laid out as torchvision does; unset: --data-dir, FORMANT_DATA or the cache folder",
    ),
    key(
        "label",
        Kind::Text,
        Preset::Unset,
        "column of a table, or array of an .npz file, that holds the labels; unset: label, class, target or y",
    ),
    key(
        "features",
        Kind::Text,
        Preset::Unset,
        "array of an .npz file that holds the samples; unset: x, images or data",
    ),
    key(
        "exclude",
        Kind::Texts,
        Preset::Unset,
        "columns of a table that are no features, such as ids",
    ),
    key(
        "client",
        Kind::Text,
        Preset::Unset,
        "column of a table that says whose a row is, or \"folder\" if images lie in CLIENT/CLASS/IMAGE; for partition = \"natural\"",
    ),
    key(
        "size",
        Kind::Form(&PIXELS),
        Preset::Unset,
        "width and height to which pictures are brought; unset: their own, or one that suits them",
    ),
    key(
        "normalisation",
        Kind::Text,
        Preset::Unset,
        "a known dataset whose published mean and deviation are used, such as \"cifar10\" for its images in other files; unset: those of the training samples",
    ),
    key(
        "test_fraction",
        Kind::Number { min: 0.0, max: 0.9 },
        Preset::Unset,
        "share of each class that becomes the global test set, 0.2 unless set, of files that have none",
    ),
    key(
        "skip_bad",
        Kind::Flag,
        Preset::Unset,
        "leave out pictures that cannot be read, instead of giving up",
    ),
    key(
        DESCRIPTION,
        Kind::Table,
        Preset::Unset,
        "shape, classes and normalisation of data that are not here: for a server without data; `formant data describe` writes it",
    ),
];

/// The key that names the data.
pub(crate) const SOURCE: &str = "source";
/// What the key was called when there were known datasets only.
pub(crate) const FORMERLY: &str = "dataset";
/// The key that says where the files of known datasets lie.
pub(crate) const DIR: &str = "dir";
const DESCRIPTION: &str = "description";

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of a known dataset, or a path.
    pub source: String,
    /// Folder of the known datasets; without it, the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Column or array of the labels; without it, one of the usual names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Array of the samples; without it, one of the usual names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// Columns that are no features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// What says whose a sample is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The size to which pictures are brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Pixels>,
    /// A known dataset by whose published values samples are normalised; without it, by their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalisation: Option<String>,
    /// Share of each class that becomes the global test set, of data that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_fraction: Option<f64>,
    /// Leave out pictures that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_bad: Option<bool>,
    /// What is known of data that are not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
}

impl Origin {
    /// A known dataset or a path, and nothing more to say about it.
    pub fn of(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            dir: None,
            label: None,
            features: None,
            exclude: None,
            client: None,
            size: None,
            normalisation: None,
            test_fraction: None,
            skip_bad: None,
            description: None,
        }
    }

    /// What changes say of it, if they name a source.
    pub fn changed(changes: &[Override]) -> Result<Option<Self>, ExperimentError> {
        let mut given = Table::new();
        for (path, value) in changes.iter().filter_map(Override::set) {
            if let [section, key] = path
                && section == "data"
                && KEYS.iter().any(|known| known.name == key)
            {
                given.insert(key.clone(), value.clone());
            }
        }
        if !given.contains_key(SOURCE) {
            return Ok(None);
        }
        let table = resolve("data", &KEYS, &given)?;
        let wrong = |error: toml::de::Error| ExperimentError::Syntax {
            origin: "section [data]".into(),
            reason: error.to_string(),
        };
        Ok(Some(table.try_into().map_err(wrong)?))
    }

    /// The known dataset, if it is one.
    pub fn known(&self) -> Option<&'static CatalogueEntry> {
        CatalogueEntry::named(&self.source).ok()
    }

    /// How its files are read, by so many threads.
    pub fn reading(&self, threads: usize) -> Reading {
        Reading {
            options: SourceOptions {
                label: self.label.clone(),
                images_key: self.features.clone(),
                client: self.client.clone(),
                exclude: self.exclude.clone().unwrap_or_default(),
                size: self.size.map(|Pixels(size)| size),
                skip_bad: self.skip_bad.unwrap_or_default(),
                ..SourceOptions::default()
            },
            test_fraction: self.test_fraction.unwrap_or(TEST_FRACTION),
            normalisation: self.normalisation.clone(),
            threads,
            memory: formant_runtime::available(),
        }
    }

    /// Loads the samples.
    pub fn load(&self, threads: usize, progress: Progress<'_>) -> Result<Dataset, ExperimentError> {
        let dir = self.dir.as_deref();
        Ok(Dataset::find(&self.source, dir, &self.reading(threads), progress)?)
    }

    /// What is known of the data without the data, if anything is.
    pub fn described(&self) -> Option<Description> {
        self.description.clone().or_else(|| self.known().map(CatalogueEntry::description))
    }

    /// What messages call the data.
    pub fn name(&self) -> String {
        if self.known().is_some() {
            return self.source.clone();
        }
        let name = Path::new(&self.source).file_name();
        name.map_or_else(|| self.source.clone(), |name| name.to_string_lossy().into_owned())
    }

    pub(crate) fn check(&self) -> Result<(), ExperimentError> {
        if let Some(description) = &self.description {
            description.check()?;
        }
        let said = [
            ("label", self.label.is_some()),
            ("features", self.features.is_some()),
            ("exclude", self.exclude.is_some()),
            ("client", self.client.is_some()),
            ("size", self.size.is_some()),
            ("normalisation", self.normalisation.is_some()),
            ("test_fraction", self.test_fraction.is_some()),
            ("skip_bad", self.skip_bad.is_some()),
            (DESCRIPTION, self.description.is_some()),
        ];
        if let Some((key, _)) = said.into_iter().find(|(_, is_said)| *is_said)
            && self.known().is_some()
        {
            let source = &self.source;
            return Err(ExperimentError::combination(
                format!(
                    "`data.{key}` does nothing with the known dataset `data.source = \"{source}\"`"
                ),
                format!("remove it, or name the files themselves, such as ./{source}"),
            ));
        }
        Ok(())
    }
}

/// Gives `data.dataset`, as the key was called once, its name of today.
pub(crate) fn rename(file: &mut Table) {
    if let Some(Value::Table(data)) = file.get_mut("data")
        && let Some(source) = data.remove(FORMERLY)
    {
        data.entry(SOURCE).or_insert(source);
    }
}

/// What clients are told of the data in place of where the server has them.
pub(crate) fn for_clients(
    data: &mut Table,
    experiment: &OneMethod,
    seen: &Description,
) -> Result<(), ExperimentError> {
    let origin = &experiment.data.origin;
    data.remove(DIR);
    // Where on the server a division lies is its own business; what it is called is not.
    if let Some(Value::String(file)) = data.get_mut("partition_file") {
        *file = Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    if origin.known().is_some() {
        return Ok(());
    }
    let description = Table::try_from(seen).map_err(|error| ExperimentError::Syntax {
        origin: "the description of the data".into(),
        reason: error.to_string(),
    })?;
    data.insert(SOURCE.into(), Value::String(origin.name()));
    data.insert(DESCRIPTION.into(), Value::Table(description));
    Ok(())
}
