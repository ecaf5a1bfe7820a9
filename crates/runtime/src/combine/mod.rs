//! How a server combines uploads: the weighted mean, or a rule that one poisoner cannot move far.
//!
//! Weights: a mean, a clipped mean and a geometric median weigh uploads as their method does, by the samples
//! that clients claim; nobody counts for more than [`Combination::max_share`] of a round. A median, a trimmed
//! mean and Krum are published without weights, and what a client claims is nothing to them.
//!
//! Statistics of batch norm have no scale in common with weights. A clipped mean clips them by a norm of their
//! own, medians and trimmed means take them like any other coordinate, and the rules that judge uploads as a
//! whole (Krum, geometric median) judge by what was trained and take the median of every statistic.

mod ceiling;
mod clipped;
mod dominant;
mod geometric;
mod krum;
mod order;
mod spool;
#[cfg(test)]
mod tests;

pub use krum::fault as krum_fault;

use dominant::Dominant;
use formant_methods::{Combine, Combining, Contribution, MethodError, Round, Treatment};
use spool::Spool;

/// A way to combine uploads, and what it is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Combination {
    /// The way.
    pub rule: Rule,
    /// The greatest share of a round's weight that one upload may have.
    pub max_share: f64,
    /// Bytes of a round's uploads that may stay in memory; the rest goes to a temporary file.
    pub memory: u64,
}

/// A way to combine uploads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `Σ n_k w_k / Σ n_k`.
    Mean,
    /// The mean of updates none of which is longer than a multiple of the round's median norm.
    Clipped {
        /// That multiple.
        clip: f64,
    },
    /// The median of each coordinate.
    Median,
    /// The mean of each coordinate without its smallest and greatest values.
    TrimmedMean {
        /// The share of the uploads that is left out at either end.
        trim: f64,
    },
    /// The uploads that are nearest to their neighbours.
    Krum {
        /// `f`: attackers that it withstands.
        attackers: usize,
        /// `m`: how many uploads are averaged; 1 is Krum, more are Multi-Krum.
        selected: usize,
    },
    /// The point with the least weighted sum of distances to all uploads.
    GeometricMedian {
        /// Steps of Weiszfeld's algorithm.
        steps: usize,
    },
}

impl Rule {
    /// Whether it is told apart who has more samples.
    const fn weighs(self) -> bool {
        match self {
            Self::Mean | Self::Clipped { .. } | Self::GeometricMedian { .. } => true,
            Self::Median | Self::TrimmedMean { .. } | Self::Krum { .. } => false,
        }
    }
}

impl Combine for Combination {
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
        // Only one upload can have more than half of the weight, and holding one back costs no file.
        if self.rule == Rule::Mean && self.max_share >= 0.5 {
            return Ok(Box::new(Dominant::new(&round, self.max_share)));
        }
        let lengths = round.reference.iter().map(|vector| vector.len()).collect();
        let spool = Spool::new(lengths, self.memory);
        Ok(Box::new(Kept {
            combination: *self,
            round,
            spool,
            weights: Vec::new(),
            clients: Vec::new(),
        }))
    }
}

/// Uploads that are kept until the last of them is there.
struct Kept<'r> {
    combination: Combination,
    round: Round<'r>,
    spool: Spool,
    weights: Vec<f64>,
    clients: Vec<usize>,
}

impl Combining for Kept<'_> {
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
        self.weights.push(upload.weight);
        self.clients.push(upload.client);
        self.spool.push(upload.vectors)
    }

    fn finish(mut self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
        let Combination { rule, max_share, .. } = self.combination;
        let most = ceiling::ceiling(&self.weights, max_share);
        let weights: Vec<f64> = self.weights.iter().map(|weight| weight.min(most)).collect();
        if weights.is_empty() || weights.iter().sum::<f64>() <= 0.0 {
            return Ok(None);
        }
        let uploads = &mut Uploads {
            round: &self.round,
            weights: &weights,
            clients: &self.clients,
            spool: &mut self.spool,
        };
        if rule.weighs() {
            let cut = weights.iter().zip(&self.weights).map(|(less, weight)| less / weight);
            uploads.judge(Treatment::Capped, cut);
        }
        let flat = match rule {
            Rule::Mean => clipped::mean(uploads),
            Rule::Clipped { clip } => clipped::clipped(uploads, clip),
            Rule::Median => order::median(uploads),
            Rule::TrimmedMean { trim } => order::trimmed_mean(uploads, trim),
            Rule::Krum { attackers, selected } => krum::krum(uploads, attackers, selected),
            Rule::GeometricMedian { steps } => geometric::geometric_median(uploads, steps),
        }?;
        let mut rest = flat.as_slice();
        let vectors = self.round.reference.iter().map(|vector| {
            let (own, later) = rest.split_at(vector.len());
            rest = later;
            own.to_vec()
        });
        Ok(Some(vectors.collect()))
    }
}

/// All uploads of a round, for the rule that makes one of them.
struct Uploads<'u> {
    round: &'u Round<'u>,
    /// How much each counts, none more than it may.
    weights: &'u [f64],
    /// Whose they are.
    clients: &'u [usize],
    spool: &'u mut Spool,
}

/// Coordinates of one vector, in a row of all vectors.
struct Group {
    coordinates: std::ops::Range<usize>,
    is_statistics: bool,
}

impl Uploads<'_> {
    fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether somebody asks what becomes of single uploads.
    fn is_judged(&self) -> bool {
        self.round.judgements.is_some()
    }

    /// Tells how much of each upload counts.
    fn judge(&self, treatment: Treatment, shares: impl IntoIterator<Item = f64>) {
        let Some(judgements) = self.round.judgements else { return };
        for (client, share) in self.clients.iter().zip(shares) {
            judgements.add(*client, treatment, share);
        }
    }

    /// The vectors, one after the other.
    fn groups(&self) -> Vec<Group> {
        let mut begin = 0;
        let groups = self.round.reference.iter().enumerate().map(|(place, vector)| {
            let coordinates = begin..begin + vector.len();
            begin = coordinates.end;
            Group { coordinates, is_statistics: place == self.round.statistics }
        });
        groups.collect()
    }
}
