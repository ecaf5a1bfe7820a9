//! `[data]`: which images, and how they are divided among the clients.

use crate::Override;
use crate::origin::{KEYS as ORIGIN, Origin};
use crate::section::{Decision, Section, key, symbol, whole};
use crate::{Experiment, ExperimentError};
use formant_data::{
    Dataset, Federation, Partition, PartitionPlan, Progress, Repair, SamplePart, Skew,
    division_hash,
};
use formant_methods::schema::{Default as Preset, Form, Key, Kind};
use formant_numerics::Augmentation;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use toml::{Table, Value};

pub(crate) const SECTION: Section = Section {
    complete,
    decisions: &[
        Decision { key: "partition", owners },
        Decision { key: "skew", owners: skew_owners },
    ],
    ..Section::new("data", "Which images, and how they are divided among the clients.", KEYS)
};

const KEYS: &[Key] = &KEYS_OF_ALL;

/// Where samples come from, then how they are divided.
const KEYS_OF_ALL: [Key; ORIGIN.len() + DIVISION.len()] = {
    let (mut keys, mut i) = ([DIVISION[0]; ORIGIN.len() + DIVISION.len()], 0);
    while i < keys.len() {
        keys[i] = if i < ORIGIN.len() { ORIGIN[i] } else { DIVISION[i - ORIGIN.len()] };
        i += 1;
    }
    keys
};

const DIVISION: &[Key] = &[
    key(
        PART,
        Kind::Form(&PART_FORM),
        Preset::Unset,
        "use only this part of the training images, \"1/5\" or \"2-5/5\", with the same share of every class; no seed changes it, so that what is chosen on one part is not scored on another; unset: all",
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
            CLIENTS,
            Kind::Integer { min: 1, max: 1_000_000 },
            Preset::Unset,
            "number of clients, 20 unless set; natural: so many of them, all unless set; file: as many as it lists",
        ),
    ),
    key(
        NEW_CLIENTS,
        whole(1),
        Preset::Unset,
        "so many of the clients, the last ones, take no part in training: they join when it is over and are scored apart; unset: none",
    ),
    key(
        "partition",
        Kind::Choice(&[DIRICHLET, IID, PATHOLOGICAL, SHARDS, BERNOULLI, QUANTITY, NATURAL, FILE]),
        Preset::Text(DIRICHLET),
        "dirichlet: each class divided by a Dirichlet(alpha) draw; iid: evenly; pathological: classes_per_client classes each; shards: runs of sorted samples; bernoulli: classes by tosses, each divided by a Dirichlet(alpha) draw; quantity: evenly, but of drawn sizes; natural: the clients that the data name; file: as partition_file says",
    ),
    symbol(
        "α",
        key(
            ALPHA,
            Kind::Above { min: 0.0, max: 1e6 },
            Preset::Unset,
            "concentration of dirichlet and quantity, 0.5 unless set, and of bernoulli, 10 unless set; smaller is more heterogeneous",
        ),
    ),
    key(
        CLASSES_PER_CLIENT,
        whole(1),
        Preset::Unset,
        "classes of each client in the pathological partition, 2 unless set",
    ),
    key(
        SHARDS_PER_CLIENT,
        whole(1),
        Preset::Unset,
        "runs of each client in the partition into shards, 2 unless set",
    ),
    symbol(
        "p",
        key(
            CLASS_PROBABILITY,
            Kind::Above { min: 0.0, max: 1.0 },
            Preset::Unset,
            "how likely a client of the bernoulli partition holds a class, 0.7 unless set",
        ),
    ),
    key(
        PARTITION_FILE,
        Kind::Text,
        Preset::Unset,
        "JSON file of the clients' samples for the partition file; `formant data split` writes one",
    ),
    key(
        PARTITION_HASH,
        Kind::Form(&HASH),
        Preset::Unset,
        "XXH3-128 of partition_file, which a run notes: with another content it is not resumed",
    ),
    key(
        "skew",
        Kind::Choice(&[NONE, ROTATION, NOISE, COLOUR]),
        Preset::Text(NONE),
        "what makes the images of each client look different, besides any partition; the global test set stays as it is",
    ),
    key(
        SKEW_STRENGTH,
        Kind::Above { min: 0.0, max: 180.0 },
        Preset::Unset,
        "largest angle in degrees, 45 unless set; largest deviation of noise, 0.1 unless set; largest change of a colour channel, 0.5 unless set",
    ),
    key(
        "min_samples",
        whole(2),
        Preset::Integer(20),
        "smallest number of images of a client, over all three splits",
    ),
    key(
        REPAIR,
        Kind::Choice(&[MOVE, REDRAW]),
        Preset::Text(MOVE),
        "how clients below min_samples get it. move: images of large clients go to them, which evens labels out; redraw (dirichlet alone): they draw all their shares again, so that the mix of labels keeps its law",
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

const PART: &str = "part";
const DIRICHLET: &str = "dirichlet";
const IID: &str = "iid";
const PATHOLOGICAL: &str = "pathological";
const ALPHA: &str = "alpha";
const CLASSES_PER_CLIENT: &str = "classes_per_client";
const SHARDS: &str = "shards";
const SHARDS_PER_CLIENT: &str = "shards_per_client";
const BERNOULLI: &str = "bernoulli";
const CLASS_PROBABILITY: &str = "class_probability";
const QUANTITY: &str = "quantity";
const NATURAL: &str = "natural";
const FILE: &str = "file";
const PARTITION_FILE: &str = "partition_file";
const PARTITION_HASH: &str = "partition_hash";
const CLIENTS: &str = "clients";
pub(crate) const NEW_CLIENTS: &str = "new_clients";
const NONE: &str = "none";
const ROTATION: &str = "rotation";
const NOISE: &str = "noise";
const COLOUR: &str = "colour";
const REPAIR: &str = "repair";
const MOVE: &str = "move";
const REDRAW: &str = "redraw";
const SKEW_STRENGTH: &str = "skew_strength";

const HASH: Form = Form {
    description: "32 hexadecimal digits",
    accepts: |text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()),
};

const PART_FORM: Form = Form {
    description: "one of so many parts or several, such as \"1/5\" or \"2-5/5\"",
    accepts: |text| text.parse::<SamplePart>().is_ok(),
};

/// Which images, and how they are divided among the clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// Where the samples come from.
    #[serde(flatten)]
    pub origin: Origin,
    /// Use only this part of the training images, the same for every seed; without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<SamplePart>,
    /// Use only so many training images, balanced over the classes; without it, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// `N`: number of clients; without it, as many as the data or the file of a division name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// How many of the clients, the last ones, join only when training is over; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_clients: Option<usize>,
    /// How the images are divided.
    #[serde(flatten, with = "PartitionKeys")]
    pub partition: Partition,
    /// What makes the images of each client look different.
    #[serde(flatten)]
    pub skew: Skew,
    /// Smallest number of images of a client, over all three splits.
    pub min_samples: usize,
    /// How clients below it get it.
    #[serde(default, skip_serializing_if = "Repair::is_move")]
    pub repair: Repair,
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
    Dirichlet {
        alpha: f64,
    },
    Pathological {
        classes_per_client: usize,
    },
    Bernoulli {
        class_probability: f64,
        alpha: f64,
    },
    Shards {
        shards_per_client: usize,
    },
    Quantity {
        alpha: f64,
    },
    Natural,
    File {
        /// Nothing if it is not given, which [`Data::check`] refuses.
        #[serde(default)]
        partition_file: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition_hash: Option<String>,
    },
}

/// The partitions for which a key means something.
fn owners(key: &str) -> Option<Vec<&'static str>> {
    match key {
        ALPHA => Some(vec![DIRICHLET, QUANTITY, BERNOULLI]),
        CLASSES_PER_CLIENT => Some(vec![PATHOLOGICAL]),
        SHARDS_PER_CLIENT => Some(vec![SHARDS]),
        CLASS_PROBABILITY => Some(vec![BERNOULLI]),
        // Only the value that is not everybody's is ever in a resolved section.
        REPAIR => Some(vec![DIRICHLET]),
        PARTITION_FILE | PARTITION_HASH => Some(vec![FILE]),
        // A file says itself which samples are used.
        "samples" | PART => {
            Some(vec![DIRICHLET, IID, PATHOLOGICAL, SHARDS, BERNOULLI, QUANTITY, NATURAL])
        }
        _ => None,
    }
}

/// The skews for which a key means something.
fn skew_owners(key: &str) -> Option<Vec<&'static str>> {
    (key == SKEW_STRENGTH).then(|| vec![ROTATION, NOISE, COLOUR])
}

/// Fills in the parameters of the chosen partition and skew, so that the resolved experiment says them.
fn complete(data: &mut Table) {
    let presets = [
        // The paper's middle value.
        (DIRICHLET, ALPHA, Value::Float(0.5)),
        // As most papers have it.
        (PATHOLOGICAL, CLASSES_PER_CLIENT, Value::Integer(2)),
        (SHARDS, SHARDS_PER_CLIENT, Value::Integer(2)),
        (QUANTITY, ALPHA, Value::Float(0.5)),
        // As FedCorr has them.
        (BERNOULLI, CLASS_PROBABILITY, Value::Float(0.7)),
        (BERNOULLI, ALPHA, Value::Float(10.0)),
        (ROTATION, SKEW_STRENGTH, Value::Float(45.0)),
        (NOISE, SKEW_STRENGTH, Value::Float(0.1)),
        (COLOUR, SKEW_STRENGTH, Value::Float(0.5)),
    ];
    // What everybody has need not be written, so that logs and keys of results stay what they were.
    data.retain(|key, value| key != REPAIR || value.as_str() != Some(MOVE));
    for decisive in ["partition", "skew"] {
        let Some(chosen) = data.get(decisive).and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        if decisive == "partition" && ![NATURAL, FILE].contains(&&*chosen) {
            data.entry(CLIENTS).or_insert(Value::Integer(20));
        }
        for (_, key, value) in presets.iter().filter(|(owner, ..)| chosen == *owner) {
            data.entry(*key).or_insert_with(|| value.clone());
        }
    }
}

impl Default for Data {
    fn default() -> Self {
        SECTION.defaults()
    }
}

impl Data {
    /// How many clients take part in training, if that is known without the data.
    pub(crate) fn trained(&self) -> Option<usize> {
        self.clients.map(|clients| clients.saturating_sub(self.new_clients.unwrap_or(0)))
    }

    /// Refuses what cannot be divided, and fractions that leave nothing to judge by.
    pub(crate) fn check(&self) -> Result<(), ExperimentError> {
        self.origin.check()?;
        let needed = |key: &str, example: &str| {
            Err(ExperimentError::combination(
                format!("`data.{key}` is not set, and `data.partition` needs it"),
                format!("set data.{key}, e.g. to {example}"),
            ))
        };
        match &self.partition {
            Partition::File { partition_file, .. } if partition_file.as_os_str().is_empty() => {
                return needed(PARTITION_FILE, "\"split.json\"");
            }
            Partition::File { .. } | Partition::Natural => {}
            _ if self.clients.is_none() => return needed(CLIENTS, "20"),
            _ => {}
        }
        if let (Some(clients), Some(newcomers)) = (self.clients, self.new_clients)
            && newcomers >= clients
        {
            return Err(ExperimentError::combination(
                format!(
                    "`data.new_clients = {newcomers}` leaves nobody to train of `data.clients = {clients}`"
                ),
                format!("set data.new_clients to less than {clients}, or data.clients to more"),
            ));
        }
        self.skew.check()?;
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
        self.federation_with(&mut |_, _| {})
    }

    /// The same, for somebody who wants to know how far it is: samples read, and of how many.
    pub fn federation_with(&self, progress: Progress<'_>) -> Result<Federation, ExperimentError> {
        self.divide(self.data.origin.load(self.runtime.threads(), progress)?)
    }

    /// Divides data that are there already among the clients.
    pub fn divide(&self, dataset: Dataset) -> Result<Federation, ExperimentError> {
        let data = &self.data;
        let seed = data.seed.unwrap_or(self.seed);
        let plan = PartitionPlan {
            clients: data.clients,
            partition: data.partition.clone(),
            part: data.part,
            samples: data.samples,
            min_samples: data.min_samples,
            repair: data.repair,
            train_fraction: data.train_fraction,
            validation_fraction: data.validation_fraction,
            seed,
        };
        let federation = Federation::new(Arc::new(dataset), &plan)?.skewed(data.skew, seed)?;
        Ok(federation.setting_aside(data.new_clients.unwrap_or(0))?)
    }

    /// Changes by which the experiment says what files hold that it only names, so that a run that goes on later, and
    /// elsewhere, goes on with the same: the whole path and the hash of the file of a division.
    pub fn pins(&self) -> Result<Vec<Override>, ExperimentError> {
        let mut pins = Vec::new();
        let origin = &self.data.origin;
        if origin.known().is_none()
            && let Ok(path) = std::path::absolute(&origin.source)
            && path.exists()
        {
            pins.push(Override::new(&[SECTION.name, "source"], path.display().to_string()));
        }
        let Partition::File { partition_file: file, partition_hash } = &self.data.partition else {
            return Ok(pins);
        };
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        let hash = match partition_hash {
            // To be compared when the file is read.
            Some(hash) => hash.clone(),
            None => division_hash(file)?,
        };
        pins.push(Override::new(&[SECTION.name, PARTITION_FILE], path.display().to_string()));
        pins.push(Override::new(&[SECTION.name, PARTITION_HASH], hash));
        Ok(pins)
    }
}
