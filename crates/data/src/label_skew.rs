//! Divisions in which clients differ in their labels.

use crate::apportionment::{evenly, largest_remainder, lifted};
use crate::holding::Holding;
use crate::{DataError, PartitionPlan};
use formant_numerics::Rng;

/// Tosses for a client that draws no class, before it gets one at random.
const MOST_TOSSES: usize = 100;

impl PartitionPlan {
    pub(crate) fn dirichlet(
        &self,
        pool: Vec<Vec<u32>>,
        clients: usize,
        alpha: f64,
    ) -> Vec<Holding> {
        let mut holdings = vec![Holding::default(); clients];
        for (class, mut members) in (0u16..).zip(pool) {
            let mut rng = self.rng(usize::from(class));
            let shares = proportions(&mut rng, alpha, clients);
            rng.shuffle(&mut members);
            let counts = largest_remainder(&shares, members.len());
            deal(&members, class, &mut holdings, (0..clients).zip(counts));
        }
        holdings
    }

    /// The clients that own each class. Every client takes the classes that have the fewest owners
    /// so far, equals at random: this keeps the numbers of owners within one of each other.
    pub(crate) fn owners(
        &self,
        pool: &[Vec<u32>],
        clients: usize,
        wanted: usize,
    ) -> Result<Vec<Vec<usize>>, DataError> {
        let mut classes = filled(pool);
        if wanted == 0 || wanted > classes.len() {
            return Err(DataError::Plan {
                key: "classes_per_client",
                value: wanted.to_string(),
                remedy: format!("use 1 to {}, the classes with samples", classes.len()),
            });
        }
        let mut owners = vec![Vec::new(); pool.len()];
        for client in 0..clients {
            self.rng(client).shuffle(&mut classes);
            classes.sort_by_key(|&class| owners[class].len());
            classes[..wanted].iter().for_each(|&class| owners[class].push(client));
        }
        Ok(owners)
    }

    /// Divides each class evenly among its owners.
    pub(crate) fn shared_evenly(
        &self,
        pool: Vec<Vec<u32>>,
        clients: usize,
        owners: &[Vec<usize>],
        classes_per_client: usize,
    ) -> Result<Vec<Holding>, DataError> {
        self.check_owned(&pool, clients, owners)?;
        let mut holdings = vec![Holding::default(); clients];
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
            self.rng(clients + usize::from(class)).shuffle(&mut members);
            let counts = evenly(members.len(), owners.len());
            deal(&members, class, &mut holdings, owners.iter().copied().zip(counts));
        }
        Ok(holdings)
    }

    /// The clients that draw each class, of those with samples, with the given probability.
    pub(crate) fn tossed(&self, pool: &[Vec<u32>], clients: usize, p: f64) -> Vec<Vec<usize>> {
        let classes = filled(pool);
        let mut owners = vec![Vec::new(); pool.len()];
        for client in 0..clients {
            let mut rng = self.rng(client);
            let mut toss = || classes.iter().map(|_| rng.uniform() < p).collect::<Vec<bool>>();
            let drawn = (0..MOST_TOSSES).map(|_| toss()).find(|drawn| drawn.contains(&true));
            let drawn = drawn.unwrap_or_else(|| {
                // At a tiny probability nearly every client that has a class at all has one.
                let one = rng.below(classes.len());
                (0..classes.len()).map(|i| i == one).collect()
            });
            for (&class, _) in classes.iter().zip(drawn).filter(|(_, drawn)| *drawn) {
                owners[class].push(client);
            }
        }
        owners
    }

    /// Divides each class among its owners in drawn proportions; everyone gets at least one sample of it
    /// if there are enough.
    pub(crate) fn shared_unevenly(
        &self,
        pool: Vec<Vec<u32>>,
        clients: usize,
        owners: &[Vec<usize>],
        alpha: f64,
    ) -> Result<Vec<Holding>, DataError> {
        self.check_owned(&pool, clients, owners)?;
        let mut holdings = vec![Holding::default(); clients];
        for (class, (mut members, owners)) in (0u16..).zip(pool.into_iter().zip(owners)) {
            if owners.is_empty() {
                continue;
            }
            // The first addresses belong to the clients' tosses.
            let mut rng = self.rng(clients + usize::from(class));
            let shares = proportions(&mut rng, alpha, owners.len());
            rng.shuffle(&mut members);
            let mut counts = largest_remainder(&shares, members.len());
            if members.len() >= owners.len() {
                lifted(&mut counts, 1);
            }
            deal(&members, class, &mut holdings, owners.iter().copied().zip(counts));
        }
        Ok(holdings)
    }

    /// Cuts the samples, sorted by class, into equal runs and deals these.
    pub(crate) fn shards(
        &self,
        pool: Vec<Vec<u32>>,
        clients: usize,
        each: usize,
    ) -> Result<Vec<Holding>, DataError> {
        let available: usize = pool.iter().map(Vec::len).sum();
        let shards = clients.saturating_mul(each);
        if each == 0 || shards > available {
            return Err(DataError::Plan {
                key: "shards_per_client",
                value: each.to_string(),
                remedy: format!(
                    "use 1 to {}: {clients} clients share {available} samples",
                    available / clients
                ),
            });
        }
        // A run is one sample of a class after the other; which of a class is left to chance.
        let mut sorted: Vec<(u16, u32)> = Vec::with_capacity(available);
        for (class, mut members) in (0u16..).zip(pool) {
            self.rng(1 + usize::from(class)).shuffle(&mut members);
            sorted.extend(members.into_iter().map(|sample| (class, sample)));
        }
        let mut rest = sorted.as_slice();
        let mut runs: Vec<&[(u16, u32)]> = Vec::with_capacity(shards);
        for size in evenly(available, shards) {
            let (run, left) = rest.split_at(size);
            runs.push(run);
            rest = left;
        }
        self.rng(0).shuffle(&mut runs);
        let hold = |runs: &[&[(u16, u32)]]| {
            let mut holding = Holding::default();
            for &(class, sample) in runs.iter().copied().flatten() {
                holding.add(class, &[sample]);
            }
            holding
        };
        Ok(runs.chunks(each).map(hold).collect())
    }

    /// Whether the classes that somebody owns have samples enough.
    fn check_owned(
        &self,
        pool: &[Vec<u32>],
        clients: usize,
        owners: &[Vec<usize>],
    ) -> Result<(), DataError> {
        let owned = pool.iter().zip(owners).filter(|(_, o)| !o.is_empty());
        self.check_supply(clients, owned.map(|(members, _)| members.len()).sum())
    }
}

/// The classes with samples.
fn filled(pool: &[Vec<u32>]) -> Vec<usize> {
    (0..pool.len()).filter(|&class| !pool[class].is_empty()).collect()
}

/// The clients that hold each class.
pub(crate) fn holders(holdings: &[Holding]) -> Vec<Vec<usize>> {
    let mut holders: Vec<Vec<usize>> = Vec::new();
    for (client, holding) in holdings.iter().enumerate() {
        for class in holding.classes().map(usize::from) {
            if holders.len() <= class {
                holders.resize(class + 1, Vec::new());
            }
            holders[class].push(client);
        }
    }
    holders
}

/// A Dirichlet draw over so many.
pub(crate) fn proportions(rng: &mut Rng, alpha: f64, parts: usize) -> Vec<f64> {
    let mut shares = rng.dirichlet(alpha, parts);
    if shares.iter().any(|share| !share.is_finite()) {
        // At a concentration near the smallest float even the logarithms of the draws
        // overflow. The limit of the distribution is one owner of everything.
        shares.fill(0.0);
        shares[rng.below(parts)] = 1.0;
    }
    shares
}

/// Deals the samples of a class, in consecutive runs, to clients that get a number each.
pub(crate) fn deal(
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
