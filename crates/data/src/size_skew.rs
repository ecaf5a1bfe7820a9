//! Divisions in which clients hold samples of everything, as many or not.

use crate::PartitionPlan;
use crate::apportionment::{evenly, largest_remainder, lifted};
use crate::holding::Holding;
use crate::label_skew::proportions;
use crate::repair::Repaired;

impl PartitionPlan {
    pub(crate) fn iid(&self, pool: &[Vec<u32>], clients: usize) -> Vec<Holding> {
        let total = pool.iter().map(Vec::len).sum();
        self.uniform(pool, evenly(total, clients))
    }

    /// The same, with drawn sizes, none below the minimum.
    pub(crate) fn quantity(
        &self,
        pool: &[Vec<u32>],
        clients: usize,
        alpha: f64,
    ) -> (Vec<Holding>, Option<Repaired>) {
        let total = pool.iter().map(Vec::len).sum();
        // The first address is that of the order of the samples.
        let shares = proportions(&mut self.rng(1), alpha, clients);
        let mut sizes = largest_remainder(&shares, total);
        let samples = sizes.iter().map(|size| self.min_samples.saturating_sub(*size)).sum();
        lifted(&mut sizes, self.min_samples);
        let repaired = (samples > 0).then_some(Repaired::Moved { samples, drawn: None });
        (self.uniform(pool, sizes.into_iter()), repaired)
    }

    /// Uniform samples of the given sizes.
    fn uniform(&self, pool: &[Vec<u32>], sizes: impl Iterator<Item = usize>) -> Vec<Holding> {
        let mut samples: Vec<(u16, u32)> = (0u16..)
            .zip(pool)
            .flat_map(|(class, members)| members.iter().map(move |&sample| (class, sample)))
            .collect();
        self.rng(0).shuffle(&mut samples);
        let mut rest = samples.as_slice();
        sizes
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
}
