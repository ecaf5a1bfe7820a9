//! `[data]`: which images, and how they are divided among the clients.

use crate::section::{Decision, Section, key, symbol, whole};
use crate::{Experiment, ExperimentError};
use formant_data::{CATALOGUE, CatalogueEntry, Dataset, Federation, Partition, PartitionPlan};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::Augmentation;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use toml::{Table, Value};

pub(crate) const SECTION: Section = Section {
    complete,
    decisions: &[Decision { key: "partition", owners }],
    ..Section::new("data", "Which images, and how they are divided among the clients.", KEYS)
};

const KEYS: &[Key] = &[
    key(
        "dataset",
        Kind::Choice(&DATASETS),
        Preset::Text("mnist-small"),
        "mnist-small is embedded in the program; the others are read from dir",
    ),
    key(
        DIR,
        Kind::Text,
        Preset::Unset,
        "folder of the datasets, laid out as torchvision does; unset: --data-dir, FORMANT_DATA or the cache folder",
    ),
    key(
        "samples",
        whole(1),
        Preset::Unset,
        "use only this many training images, balanced over the classes; unset: all",
    ),
    symbol(
        "N",
        key(
            "clients",
            Kind::Integer { min: 1, max: 1_000_000 },
            Preset::Integer(20),
            "number of clients",
        ),
    ),
    key(
        "partition",
        Kind::Choice(&[DIRICHLET, IID, PATHOLOGICAL]),
        Preset::Text(DIRICHLET),
        "dirichlet: each class divided by a Dirichlet(alpha) draw; iid: evenly; pathological: classes_per_client classes each",
    ),
    symbol(
        "α",
        key(
            ALPHA,
            Kind::Above { min: 0.0, max: 1e6 },
            Preset::Unset,
            "concentration of the Dirichlet partition, 0.5 unless set; smaller is more heterogeneous",
        ),
    ),
    key(
        CLASSES_PER_CLIENT,
        whole(1),
        Preset::Unset,
        "classes of each client in the pathological partition, 2 unless set",
    ),
    key(
        "min_samples",
        whole(2),
        Preset::Integer(20),
        "smallest number of images of a client, over all three splits",
    ),
    key(
        "seed",
        whole(0),
        Preset::Unset,
        "keys the partition and the splits alone, so that several seeds share one division; unset: the experiment's seed",
    ),
    key(
        "train_fraction",
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Number(0.75),
        "share of a client's images that it trains on",
    ),
    key(
        "validation_fraction",
        Kind::Number { min: 0.0, max: 1.0 },
        Preset::Number(0.0),
        "share kept for choosing hyper-parameters; the rest is the local test set",
    ),
];

/// The key that says where the files lie.
pub(crate) const DIR: &str = "dir";
const DIRICHLET: &str = "dirichlet";
const IID: &str = "iid";
const PATHOLOGICAL: &str = "pathological";
const ALPHA: &str = "alpha";
const CLASSES_PER_CLIENT: &str = "classes_per_client";

/// The names of the catalogue.
const DATASETS: [&str; CATALOGUE.len()] = {
    let (mut names, mut i) = ([""; CATALOGUE.len()], 0);
    while i < names.len() {
        names[i] = CATALOGUE[i].name;
        i += 1;
    }
    names
};

/// Which images, and how they are divided among the clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The dataset.
    #[serde(with = "dataset")]
    pub dataset: &'static CatalogueEntry,
    /// Folder of the datasets; without it, the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Use only so many training images, balanced over the classes; without it, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// `N`: number of clients.
    pub clients: usize,
    /// How the images are divided.
    #[serde(flatten, with = "PartitionKeys")]
    pub partition: Partition,
    /// Smallest number of images of a client, over all three splits.
    pub min_samples: usize,
    /// Keys the partition and the splits alone; without it, the experiment's seed does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Share of a client's images that it trains on.
    pub train_fraction: f64,
    /// Share kept for choosing hyper-parameters; the rest is the local test set.
    pub validation_fraction: f64,
    /// What happens to training samples on the way: the section `[data.augment]`.
    #[serde(skip)]
    pub augment: Augmentation,
}

/// A partition as keys beside each other.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Partition", tag = "partition", rename_all = "lowercase")]
enum PartitionKeys {
    Iid,
    Dirichlet { alpha: f64 },
    Pathological { classes_per_client: usize },
}

mod dataset {
    use formant_data::CatalogueEntry;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(
        entry: &&'static CatalogueEntry,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(entry.name)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<&'static CatalogueEntry, D::Error> {
        CatalogueEntry::named(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The partitions for which a key means something.
fn owners(key: &str) -> Option<Vec<&'static str>> {
    let owned = [(ALPHA, DIRICHLET), (CLASSES_PER_CLIENT, PATHOLOGICAL)];
    owned.into_iter().find(|(name, _)| *name == key).map(|(_, owner)| vec![owner])
}

/// Fills in the parameter of the chosen partition, so that the resolved experiment says it.
fn complete(data: &mut Table) {
    let chosen = data.get("partition").and_then(Value::as_str);
    let presets = [
        // The paper's middle value.
        (DIRICHLET, ALPHA, Value::Float(0.5)),
        // As most papers have it.
        (PATHOLOGICAL, CLASSES_PER_CLIENT, Value::Integer(2)),
    ];
    let preset = presets.into_iter().find(|(owner, ..)| chosen == Some(*owner));
    if let Some((_, key, value)) = preset {
        data.entry(key).or_insert(value);
    }
}

impl Default for Data {
    fn default() -> Self {
        SECTION.defaults()
    }
}

impl Data {
    /// Refuses fractions that leave nothing to judge by.
    pub(crate) fn check(&self) -> Result<(), ExperimentError> {
        let (train, validation) = (self.train_fraction, self.validation_fraction);
        if train + validation < 1.0 {
            return Ok(());
        }
        Err(ExperimentError::combination(
            format!(
                "`data.train_fraction = {train}` and `data.validation_fraction = {validation}` leave nothing for the local test sets"
            ),
            "they must add up to less than 1",
        ))
    }
}

impl Experiment {
    /// Loads the data and divides it among the clients.
    pub fn federation(&self) -> Result<Federation, ExperimentError> {
        let data = &self.data;
        let dataset = Dataset::load(data.dataset.name, data.dir.as_deref())?;
        let plan = PartitionPlan {
            clients: data.clients,
            partition: data.partition.clone(),
            samples: data.samples,
            min_samples: data.min_samples,
            train_fraction: data.train_fraction,
            validation_fraction: data.validation_fraction,
            seed: data.seed.unwrap_or(self.seed),
        };
        Ok(Federation::new(Arc::new(dataset), &plan)?)
    }
}
