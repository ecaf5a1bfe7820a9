//! The weighted mean, in which nobody counts for more than a share of the whole.
//!
//! With a share of a half or more only one upload can be too heavy, and it is known to be when all are there. So
//! the sum goes on as it always does, in client order, and as long as some upload may turn out too heavy it is
//! held beside a sum without it. Once the others weigh enough it is let go: without a claim that is out of all
//! proportion this is the plain mean, bit for bit.

use formant_methods::{Combining, Contribution, Judgements, MethodError, Round, Treatment};
use formant_numerics::vector::WeightedMean;

pub(super) struct Dominant<'r> {
    share: f64,
    /// The mean of all.
    all: Vec<WeightedMean>,
    weight: f64,
    count: usize,
    heaviest: Option<Heaviest>,
    judgements: Option<&'r Judgements>,
}

/// An upload that has more than its share of what has come.
struct Heaviest {
    client: usize,
    weight: f64,
    vectors: Vec<Vec<f32>>,
    /// The mean of all others.
    others: Vec<WeightedMean>,
    others_weight: f64,
}

impl<'r> Dominant<'r> {
    pub(super) fn new(round: &Round<'r>, share: f64) -> Self {
        let all = round.reference.iter().map(|vector| WeightedMean::new(vector.len())).collect();
        let judgements = round.judgements;
        Self { share, all, weight: 0.0, count: 0, heaviest: None, judgements }
    }

    /// Whether an upload of some weight has more than its share beside others of some weight.
    fn is_too_heavy(&self, weight: f64, others: f64) -> bool {
        weight > self.share * (weight + others)
    }
}

fn add(means: &mut [WeightedMean], weight: f64, vectors: &[&[f32]]) {
    means.iter_mut().zip(vectors).for_each(|(mean, vector)| mean.add(weight, vector));
}

impl Combining for Dominant<'_> {
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
        let Contribution { client, weight, vectors, .. } = upload;
        if self.share < 1.0 && self.is_too_heavy(weight, self.weight) {
            // It outweighs all that have come, so whoever did so before does not any more.
            self.heaviest = Some(Heaviest {
                client,
                weight,
                vectors: vectors.iter().map(|vector| vector.to_vec()).collect(),
                others: self.all.clone(),
                others_weight: self.weight,
            });
        } else if let Some(heaviest) = &mut self.heaviest {
            add(&mut heaviest.others, weight, vectors);
            heaviest.others_weight += weight;
        }
        if let Some(heaviest) = &self.heaviest
            && !self.is_too_heavy(heaviest.weight, heaviest.others_weight)
        {
            self.heaviest = None;
        }
        add(&mut self.all, weight, vectors);
        self.weight += weight;
        self.count += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
        let Self { share, all, count, heaviest, judgements, .. } = *self;
        let means = match heaviest {
            Some(Heaviest { client, weight, vectors, mut others, others_weight })
                if count > 1 && others_weight > 0.0 =>
            {
                let most = share * others_weight / (1.0 - share);
                if let Some(judgements) = judgements {
                    judgements.add(client, Treatment::Capped, most / weight);
                }
                let vectors: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
                add(&mut others, most, &vectors);
                others
            }
            _ => all,
        };
        Ok(means.into_iter().map(WeightedMean::finish).collect())
    }
}
