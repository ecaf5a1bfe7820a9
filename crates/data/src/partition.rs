//! How the training samples are divided among the clients.

use crate::apportionment::balanced;
use crate::holding::Holding;
use crate::label_skew::holders;
use crate::repair::{Repaired, from_anyone, repaired, within_classes};
use crate::{ClientData, DataError, Dataset, SamplePart, division_file, natural};
use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The rule by which samples are divided among clients.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Partition {
    /// Every client holds a uniform sample of everything; sizes differ by one at most.
    Iid,
    /// Every class is divided in proportions drawn from a symmetric Dirichlet distribution over the
    /// clients. Every sample is used once.
    Dirichlet {
        /// The concentration: near 0 a class has one owner, towards infinity the division is even.
        alpha: f64,
    },
    /// Every client holds the same number of classes. The classes have the same number of owners
    /// within one, and each is divided evenly among its owners. Classes without an owner, which
    /// there are when `clients * classes_per_client` is below the number of classes, are left out.
    Pathological {
        /// Distinct classes a client holds.
        classes_per_client: usize,
    },
    /// Every client draws its classes by tosses of a coin, and each class is divided among the clients
    /// that drew it in proportions of a symmetric Dirichlet distribution. Whoever draws no class tosses
    /// again; classes that nobody drew are left out. (Xu et al., "FedCorr", CVPR 2022.)
    Bernoulli {
        /// `p`: how likely a client is to draw a class.
        class_probability: f64,
        /// The concentration of the division within a class.
        alpha: f64,
    },
    /// The samples, sorted by class, are cut into equal runs, and every client is dealt the same number
    /// of these. (McMahan et al., AISTATS 2017.)
    Shards {
        /// Runs a client holds.
        shards_per_client: usize,
    },
    /// Every client holds a uniform sample of everything, and the sizes are drawn from a symmetric
    /// Dirichlet distribution. (Li et al., "Federated Learning on Non-IID Data Silos", ICDE 2022.)
    Quantity {
        /// The concentration: near 0 one client holds nearly all, towards infinity sizes are equal.
        alpha: f64,
    },
    /// The clients that exist already: [`Dataset::owners`].
    Natural,
    /// The division that a file says, [as it is](crate::Federation::to_json).
    File {
        /// The file.
        partition_file: PathBuf,
        /// XXH3-128 of its content, if another content is to be refused.
        partition_hash: Option<String>,
    },
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Iid => write!(f, "IID"),
            Self::Dirichlet { alpha } => write!(f, "Dirichlet({alpha})"),
            Self::Pathological { classes_per_client: 1 } => write!(f, "1 class per client"),
            Self::Pathological { classes_per_client: k } => write!(f, "{k} classes per client"),
            Self::Bernoulli { class_probability, alpha } => {
                write!(f, "Bernoulli({class_probability}) and Dirichlet({alpha})")
            }
            Self::Shards { shards_per_client: 1 } => write!(f, "1 shard per client"),
            Self::Shards { shards_per_client: k } => write!(f, "{k} shards per client"),
            Self::Quantity { alpha } => write!(f, "IID with sizes from Dirichlet({alpha})"),
            Self::Natural => write!(f, "the clients of the data"),
            Self::File { partition_file, .. } => write!(f, "{}", partition_file.display()),
        }
    }
}

/// How clients get their minimum.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Samples move from large clients to those that are too small.
    #[default]
    Move,
    /// Clients that are too small draw their shares of all classes again, until everybody has the minimum.
    /// Of [`Partition::Dirichlet`] alone.
    Redraw,
}

impl Repair {
    /// Whether samples are moved.
    pub fn is_move(&self) -> bool {
        *self == Self::Move
    }
}

/// Everything that decides which client holds which samples.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PartitionPlan {
    /// Number of clients. Clients that exist already, or that a file lists, need none: of the former so
    /// many are then drawn, and the latter must be so many.
    pub clients: Option<usize>,
    /// How the samples are divided.
    pub partition: Partition,
    /// Use only this part of the training samples, the same for every seed. Without it, use all.
    #[serde(default)]
    pub part: Option<SamplePart>,
    /// Use only this many training samples, balanced over the classes and drawn from the seed; a
    /// class that has too few gives all it has. Without it, use all.
    pub samples: Option<usize>,
    /// Samples every client holds at least, over train, validation and test; 1 or more. Clients
    /// that fall short take samples, one at a time, from the largest one's most plentiful class;
    /// in a partition by classes only from clients that share a class with them. Clients that exist already
    /// are left out instead, and what a file says stays as it is.
    pub min_samples: usize,
    /// How clients of a division that is drawn get this minimum.
    #[serde(default)]
    pub repair: Repair,
    /// Share of a client's samples that it trains on.
    pub train_fraction: f64,
    /// Share of a client's samples for validation. What is left is its local test set.
    pub validation_fraction: f64,
    /// The seed of all draws.
    pub seed: u64,
}

/// Fractions that miss 1 by less than this are meant to make 1.
const FRACTION_SLACK: f64 = 1e-9;

/// Below this concentration, the logarithms of draws may be infinite, and a class may have no owner.
const LEAST_REDRAWN: f64 = 1e-9;

impl PartitionPlan {
    /// The shares of train, validation and test, once every setting has been found in range.
    pub(crate) fn fractions(&self) -> Result<[f64; 3], DataError> {
        let refuse = |key, value: String, remedy: &str| {
            Err(DataError::Plan { key, value, remedy: remedy.to_string() })
        };
        if self.clients == Some(0) {
            return refuse("clients", "0".into(), "use 1 or more");
        }
        if self.min_samples == 0 {
            let remedy = "a client without samples cannot train: use 1 or more";
            return refuse("min_samples", "0".into(), remedy);
        }
        if let Partition::Dirichlet { alpha }
        | Partition::Quantity { alpha }
        | Partition::Bernoulli { alpha, .. } = self.partition
            && !(alpha.is_finite() && alpha > 0.0)
        {
            return refuse("alpha", alpha.to_string(), "use a finite number above 0, such as 0.1");
        }
        if let Partition::Bernoulli { class_probability: p, .. } = self.partition
            && !(p > 0.0 && p <= 1.0)
        {
            return refuse("class_probability", p.to_string(), "use a number in (0, 1]");
        }
        if self.repair == Repair::Redraw && !matches!(self.partition, Partition::Dirichlet { .. }) {
            let remedy = "only the Dirichlet partition can be drawn again: use \"move\"";
            return refuse("repair", "\"redraw\"".into(), remedy);
        }
        if let Partition::Dirichlet { alpha } = self.partition
            && self.repair == Repair::Redraw
            && alpha < LEAST_REDRAWN
        {
            let remedy = format!("use {LEAST_REDRAWN} or more, or repair = \"move\"");
            return refuse("alpha", alpha.to_string(), &remedy);
        }
        let (train, validation) = (self.train_fraction, self.validation_fraction);
        if !(train > 0.0 && train <= 1.0) {
            return refuse("train_fraction", train.to_string(), "use a number in (0, 1]");
        }
        if !(0.0..1.0).contains(&validation) {
            return refuse("validation_fraction", validation.to_string(), "use a number in [0, 1)");
        }
        let test = 1.0 - train - validation;
        if test < -FRACTION_SLACK {
            let value = format!("{train} + {validation}");
            let remedy = "their sum must not exceed 1; what is left is the local test set";
            return refuse("train_fraction + validation_fraction", value, remedy);
        }
        Ok([train, validation, if test < FRACTION_SLACK { 0.0 } else { test }])
    }

    /// What each client holds. The settings are in range.
    pub(crate) fn divide(&self, dataset: &Dataset) -> Result<Division, DataError> {
        if let Partition::File { partition_file, partition_hash } = &self.partition {
            return division_file::read(self, partition_file, partition_hash.as_deref(), dataset);
        }
        let pool = self.pool(&dataset.train.labels(), dataset.classes)?;
        if self.partition == Partition::Natural {
            return natural::divide(self, &pool, dataset);
        }
        let (holdings, repaired) = self.drawn(pool)?;
        Ok(Division { shares: Shares::Whole(holdings), repaired, ..Division::default() })
    }

    /// What each client holds in a partition that is drawn, and what it took to give everybody the minimum.
    fn drawn(&self, pool: Vec<Vec<u32>>) -> Result<(Vec<Holding>, Option<Repaired>), DataError> {
        let clients = self.clients.ok_or_else(|| DataError::Plan {
            key: "clients",
            value: "unset".into(),
            remedy: "say how many clients there are; only natural clients and a file need none"
                .into(),
        })?;
        self.check_supply(clients, pool.iter().map(Vec::len).sum())?;
        let min = self.min_samples;
        match self.partition {
            // These two are no draws; `divide` has dealt with them.
            Partition::Iid | Partition::Natural | Partition::File { .. } => {
                Ok((self.iid(&pool, clients), None))
            }
            Partition::Quantity { alpha } => Ok(self.quantity(&pool, clients, alpha)),
            Partition::Dirichlet { alpha } if self.repair == Repair::Redraw => {
                self.redrawn(pool, clients, alpha)
            }
            Partition::Dirichlet { alpha } => {
                let holdings = self.dirichlet(pool, clients, alpha);
                repaired(holdings, min, |holdings| {
                    from_anyone(holdings, min);
                    Ok(())
                })
            }
            Partition::Pathological { classes_per_client } => {
                let owners = self.owners(&pool, clients, classes_per_client)?;
                let holdings = self.shared_evenly(pool, clients, &owners, classes_per_client)?;
                let spread = "classes_per_client";
                repaired(holdings, min, |all| within_classes(all, &owners, min, spread))
            }
            Partition::Bernoulli { class_probability, alpha } => {
                let owners = self.tossed(&pool, clients, class_probability);
                let holdings = self.shared_unevenly(pool, clients, &owners, alpha)?;
                let spread = "class_probability";
                repaired(holdings, min, |all| within_classes(all, &owners, min, spread))
            }
            Partition::Shards { shards_per_client } => {
                let holdings = self.shards(pool, clients, shards_per_client)?;
                let owners = holders(&holdings);
                let spread = "shards_per_client";
                repaired(holdings, min, |all| within_classes(all, &owners, min, spread))
            }
        }
    }

    /// The samples to divide, by class, ascending.
    fn pool(&self, labels: &[u16], classes: usize) -> Result<Vec<Vec<u32>>, DataError> {
        let mut pool = vec![Vec::new(); classes];
        for (sample, &label) in (0u32..).zip(labels) {
            pool[usize::from(label)].push(sample);
        }
        if let Some(part) = self.part {
            part.keep(&mut pool);
        }
        let Some(samples) = self.samples else { return Ok(pool) };
        let stocks: Vec<usize> = pool.iter().map(Vec::len).collect();
        let available: usize = stocks.iter().sum();
        if samples == 0 || samples > available {
            return Err(DataError::Plan {
                key: "samples",
                value: samples.to_string(),
                remedy: format!("use 1 to {available}, or leave it out to use all"),
            });
        }
        for (class, (members, quota)) in pool.iter_mut().zip(balanced(&stocks, samples)).enumerate()
        {
            Rng::new(self.seed, Stream::Sample, 0, class as u64).shuffle(members);
            members.truncate(quota);
            members.sort_unstable();
        }
        Ok(pool)
    }

    pub(crate) fn check_supply(&self, clients: usize, available: usize) -> Result<(), DataError> {
        if clients.saturating_mul(self.min_samples) <= available {
            return Ok(());
        }
        let more = if self.samples.is_some() { ", or raise samples" } else { "" };
        Err(DataError::TooFewSamples { clients, min_samples: self.min_samples, available, more })
    }

    pub(crate) fn rng(&self, address: usize) -> Rng {
        Rng::new(self.seed, Stream::Partition, 0, address as u64)
    }
}

/// Who holds what, and what there is to say about it.
#[derive(Debug, Default)]
pub(crate) struct Division {
    pub(crate) shares: Shares,
    /// What the clients are called, if they have names.
    pub(crate) names: Option<Vec<String>>,
    pub(crate) remarks: Vec<String>,
    /// What it took to give everybody the minimum, if it took anything.
    pub(crate) repaired: Option<Repaired>,
}

/// What each client holds.
#[derive(Debug)]
pub(crate) enum Shares {
    /// To be split into train, validation and test.
    Whole(Vec<Holding>),
    /// Split already.
    Split(Vec<ClientData>),
}

impl Default for Shares {
    fn default() -> Self {
        Self::Whole(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, MapAccessDeserializer, MapDeserializer};
    use std::collections::BTreeMap;

    #[test]
    fn partitions_are_spelt_in_lower_case() {
        let iid: Result<_, Error> = Partition::deserialize("iid".into_deserializer());
        assert_eq!(iid, Ok(Partition::Iid));
        let dirichlet = |key| {
            let entries = [("dirichlet", BTreeMap::from([(key, 0.5)]))];
            let map = MapDeserializer::<_, Error>::new(entries.into_iter());
            Partition::deserialize(MapAccessDeserializer::new(map))
        };
        assert_eq!(dirichlet("alpha"), Ok(Partition::Dirichlet { alpha: 0.5 }));
        assert!(dirichlet("beta").is_err());
    }

    #[test]
    fn partitions_read_well() {
        let read = [
            Partition::Iid,
            Partition::Dirichlet { alpha: 0.1 },
            Partition::Pathological { classes_per_client: 1 },
            Partition::Pathological { classes_per_client: 2 },
            Partition::Bernoulli { class_probability: 0.7, alpha: 10.0 },
            Partition::Shards { shards_per_client: 2 },
            Partition::Quantity { alpha: 0.5 },
            Partition::Natural,
            Partition::File { partition_file: "a/b.json".into(), partition_hash: None },
        ]
        .map(|partition| partition.to_string());
        let expected = [
            "IID",
            "Dirichlet(0.1)",
            "1 class per client",
            "2 classes per client",
            "Bernoulli(0.7) and Dirichlet(10)",
            "2 shards per client",
            "IID with sizes from Dirichlet(0.5)",
            "the clients of the data",
            "a/b.json",
        ];
        assert_eq!(read, expected);
    }
}
