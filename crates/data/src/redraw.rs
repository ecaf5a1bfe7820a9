//! A Dirichlet division in which clients that are too small draw again.
//!
//! Shares of a class are Gamma draws over their sum, so all of a client's shares hang on draws of its own:
//! its column. Clients below the minimum replace theirs, all at once, until nobody is below it. Only a
//! client's size decides whether it draws again, and of a column of Gamma draws the sum says nothing about
//! the proportions (Lukacs 1955): the mix of classes keeps its law, and the sizes are those of a draw that
//! has nobody below the minimum.

use crate::apportionment::largest_remainder;
use crate::holding::Holding;
use crate::label_skew::deal;
use crate::repair::Repaired;
use crate::{DataError, PartitionPlan};
use formant_numerics::{Rng, Stream};

/// Draws of a client, besides the first.
const MOST_DRAWS: u64 = 1_000;

impl PartitionPlan {
    /// As [`PartitionPlan::dirichlet`], the same bits if nobody is below the minimum, and else with columns
    /// drawn again.
    pub(crate) fn redrawn(
        &self,
        mut pool: Vec<Vec<u32>>,
        clients: usize,
        alpha: f64,
    ) -> Result<(Vec<Holding>, Option<Repaired>), DataError> {
        // Logarithms of the draws, by class and in it by client.
        let mut logs: Vec<Vec<f64>> = Vec::with_capacity(pool.len());
        for (class, members) in pool.iter_mut().enumerate() {
            let mut rng = self.rng(class);
            logs.push((0..clients).map(|_| rng.log_gamma_draw(alpha)).collect());
            rng.shuffle(members);
        }
        let mut redrawn = vec![false; clients];
        let mut draw = 0;
        loop {
            let counts: Vec<Vec<usize>> = logs
                .iter()
                .zip(&pool)
                .map(|(logs, members)| largest_remainder(&Rng::shares(logs), members.len()))
                .collect();
            let size = |client: &usize| counts.iter().map(|class| class[*client]).sum::<usize>();
            let short: Vec<usize> =
                (0..clients).filter(|client| size(client) < self.min_samples).collect();
            if short.is_empty() {
                let mut holdings = vec![Holding::default(); clients];
                for (class, (members, counts)) in (0u16..).zip(pool.iter().zip(counts)) {
                    deal(members, class, &mut holdings, (0..clients).zip(counts));
                }
                let again = redrawn.iter().filter(|again| **again).count();
                let repaired = (again > 0).then_some(Repaired::Redrawn { clients: again });
                return Ok((holdings, repaired));
            }
            if draw == MOST_DRAWS {
                return Err(DataError::Undrawn {
                    min_samples: self.min_samples,
                    draws: MOST_DRAWS,
                    short: short.len(),
                    clients,
                    available: pool.iter().map(Vec::len).sum(),
                });
            }
            draw += 1;
            for client in short {
                redrawn[client] = true;
                let mut rng = Rng::new(self.seed, Stream::Partition, draw, client as u64);
                for class in &mut logs {
                    class[client] = rng.log_gamma_draw(alpha);
                }
            }
        }
    }
}
