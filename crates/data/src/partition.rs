//! How the training samples are divided among the clients.

use crate::DataError;
use crate::apportionment::{balanced, evenly, largest_remainder};
use crate::holding::Holding;
use crate::repair::{repair_from_anyone, repair_within_classes};
use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};

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
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Iid => write!(f, "IID"),
            Self::Dirichlet { alpha } => write!(f, "Dirichlet({alpha})"),
            Self::Pathological { classes_per_client: 1 } => write!(f, "1 class per client"),
            Self::Pathological { classes_per_client: k } => write!(f, "{k} classes per client"),
        }
    }
}

/// Everything that decides which client holds which samples.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PartitionPlan {
    /// Number of clients.
    pub clients: usize,
    /// How the samples are divided.
    pub partition: Partition,
    /// Use only this many training samples, balanced over the classes and drawn from the seed; a
    /// class that has too few gives all it has. Without it, use all.
    pub samples: Option<usize>,
    /// Samples every client holds at least, over train, validation and test; 1 or more. Clients
    /// that fall short take samples, one at a time, from the largest one's most plentiful class;
    /// in a pathological partition only from clients that share a class with them.
    pub min_samples: usize,
    /// Share of a client's samples that it trains on.
    pub train_fraction: f64,
    /// Share of a client's samples for validation. What is left is its local test set.
    pub validation_fraction: f64,
    /// The seed of all draws.
    pub seed: u64,
}

/// Fractions that miss 1 by less than this are meant to make 1.
const FRACTION_SLACK: f64 = 1e-9;

impl PartitionPlan {
    /// The shares of train, validation and test, once every setting has been found in range.
    pub(crate) fn fractions(&self) -> Result<[f64; 3], DataError> {
        let refuse = |key, value: String, remedy: &str| {
            Err(DataError::Plan { key, value, remedy: remedy.to_string() })
        };
        if self.clients == 0 {
            return refuse("clients", "0".into(), "use 1 or more");
        }
        if self.min_samples == 0 {
            let remedy = "a client without samples cannot train: use 1 or more";
            return refuse("min_samples", "0".into(), remedy);
        }
        if let Partition::Dirichlet { alpha } = self.partition
            && !(alpha.is_finite() && alpha > 0.0)
        {
            return refuse("alpha", alpha.to_string(), "use a finite number above 0, such as 0.1");
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

    /// What each client holds, of samples with the given labels. The settings are in range.
    pub(crate) fn divide(&self, labels: &[u16], classes: usize) -> Result<Vec<Holding>, DataError> {
        let pool = self.pool(labels, classes)?;
        self.check_supply(pool.iter().map(Vec::len).sum())?;
        match self.partition {
            Partition::Iid => Ok(self.iid(&pool)),
            Partition::Dirichlet { alpha } => {
                let mut holdings = self.dirichlet(pool, alpha);
                repair_from_anyone(&mut holdings, self.min_samples);
                Ok(holdings)
            }
            Partition::Pathological { classes_per_client } => {
                let owners = self.owners(&pool, classes_per_client)?;
                let mut holdings = self.shared_among(pool, &owners, classes_per_client)?;
                repair_within_classes(&mut holdings, &owners, self.min_samples)?;
                Ok(holdings)
            }
        }
    }

    /// The samples to divide, by class, ascending.
    fn pool(&self, labels: &[u16], classes: usize) -> Result<Vec<Vec<u32>>, DataError> {
        let mut pool = vec![Vec::new(); classes];
        for (sample, &label) in (0u32..).zip(labels) {
            pool[usize::from(label)].push(sample);
        }
        let Some(samples) = self.samples else { return Ok(pool) };
        if samples == 0 || samples > labels.len() {
            return Err(DataError::Plan {
                key: "samples",
                value: samples.to_string(),
                remedy: format!("use 1 to {}, or leave it out to use all", labels.len()),
            });
        }
        let stocks: Vec<usize> = pool.iter().map(Vec::len).collect();
        for (class, (members, quota)) in pool.iter_mut().zip(balanced(&stocks, samples)).enumerate()
        {
            Rng::new(self.seed, Stream::Sample, 0, class as u64).shuffle(members);
            members.truncate(quota);
            members.sort_unstable();
        }
        Ok(pool)
    }

    fn check_supply(&self, available: usize) -> Result<(), DataError> {
        if self.clients.saturating_mul(self.min_samples) <= available {
            return Ok(());
        }
        let more = if self.samples.is_some() { ", or raise samples" } else { "" };
        let (clients, min_samples) = (self.clients, self.min_samples);
        Err(DataError::TooFewSamples { clients, min_samples, available, more })
    }

    fn rng(&self, address: usize) -> Rng {
        Rng::new(self.seed, Stream::Partition, 0, address as u64)
    }

    fn iid(&self, pool: &[Vec<u32>]) -> Vec<Holding> {
        let mut samples: Vec<(u16, u32)> = (0u16..)
            .zip(pool)
            .flat_map(|(class, members)| members.iter().map(move |&sample| (class, sample)))
            .collect();
        self.rng(0).shuffle(&mut samples);
        let mut rest = samples.as_slice();
        evenly(samples.len(), self.clients)
            .map(|size| {
                let (share, left) = rest.split_at(size);
                rest = left;
                let mut holding = Holding::default();
                for &(class, sample) in share {
                    holding.add(class, &[sample]);
                }
                holding
            })
            .collect()
    }

    fn dirichlet(&self, pool: Vec<Vec<u32>>, alpha: f64) -> Vec<Holding> {
        let mut holdings = vec![Holding::default(); self.clients];
        for (class, mut members) in (0u16..).zip(pool) {
            let mut rng = self.rng(usize::from(class));
            let mut shares = rng.dirichlet(alpha, self.clients);
            if shares.iter().any(|share| !share.is_finite()) {
                // At a concentration near the smallest float even the logarithms of the draws
                // overflow. The limit of the distribution is one owner for the whole class.
                shares.fill(0.0);
                shares[rng.below(self.clients)] = 1.0;
            }
            rng.shuffle(&mut members);
            let counts = largest_remainder(&shares, members.len());
            deal(&members, class, &mut holdings, (0..self.clients).zip(counts));
        }
        holdings
    }

    /// The clients that own each class. Every client takes the classes that have the fewest owners
    /// so far, equals at random: this keeps the numbers of owners within one of each other.
    fn owners(&self, pool: &[Vec<u32>], wanted: usize) -> Result<Vec<Vec<usize>>, DataError> {
        let mut classes: Vec<usize> = (0..pool.len()).filter(|&c| !pool[c].is_empty()).collect();
        if wanted == 0 || wanted > classes.len() {
            return Err(DataError::Plan {
                key: "classes_per_client",
                value: wanted.to_string(),
                remedy: format!("use 1 to {}, the classes with samples", classes.len()),
            });
        }
        let mut owners = vec![Vec::new(); pool.len()];
        for client in 0..self.clients {
            self.rng(client).shuffle(&mut classes);
            classes.sort_by_key(|&class| owners[class].len());
            classes[..wanted].iter().for_each(|&class| owners[class].push(client));
        }
        Ok(owners)
    }

    fn shared_among(
        &self,
        pool: Vec<Vec<u32>>,
        owners: &[Vec<usize>],
        classes_per_client: usize,
    ) -> Result<Vec<Holding>, DataError> {
        let owned = pool.iter().zip(owners).filter(|(_, o)| !o.is_empty());
        self.check_supply(owned.map(|(members, _)| members.len()).sum())?;
        let mut holdings = vec![Holding::default(); self.clients];
        for (class, (mut members, owners)) in (0u16..).zip(pool.into_iter().zip(owners)) {
            if members.len() < owners.len() {
                return Err(DataError::ClassTooSmall {
                    class: usize::from(class),
                    available: members.len(),
                    owners: owners.len(),
                    classes_per_client,
                });
            }
            // The first addresses belong to the clients' draws of classes.
            self.rng(self.clients + usize::from(class)).shuffle(&mut members);
            let counts = evenly(members.len(), owners.len());
            deal(&members, class, &mut holdings, owners.iter().copied().zip(counts));
        }
        Ok(holdings)
    }
}

/// Deals the samples of a class, in consecutive runs, to clients that get a number each.
fn deal(
    members: &[u32],
    class: u16,
    holdings: &mut [Holding],
    receivers: impl Iterator<Item = (usize, usize)>,
) {
    let mut rest = members;
    for (client, count) in receivers {
        let (share, left) = rest.split_at(count);
        rest = left;
        holdings[client].add(class, share);
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
        ]
        .map(|partition| partition.to_string());
        assert_eq!(read, ["IID", "Dirichlet(0.1)", "1 class per client", "2 classes per client"]);
    }
}
