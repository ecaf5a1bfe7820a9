//! A server that clips and adds noise: the mean of a round with the noise of all of it.

use super::{Privacy, changes};
use formant_federation::Protocol;
use formant_methods::{
    Combine, Combining, Contribution, Judgements, MethodError, Round, Treatment,
};
use formant_numerics::Rng;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// `w + (Σ clip(w_i − w) + N(0, (zC)² I)) / m` over the clients that were drawn; see the module.
#[derive(Debug, Clone)]
pub struct PrivateMean {
    privacy: Privacy,
    rules: Protocol,
}

impl PrivateMean {
    /// Of rounds under these rules, which say who is drawn.
    pub fn new(privacy: Privacy, rules: Protocol) -> Self {
        Self { privacy, rules }
    }
}

impl Combine for PrivateMean {
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
        let keyed = round.rng;
        Ok(Box::new(NoisySum {
            privacy: self.privacy,
            expected: self.rules.expected_participants(),
            drawn: self.rules.drawn(round.number as u64).into_iter().collect(),
            reference: round.reference,
            sums: round.reference.iter().map(|vector| vec![0.0; vector.len()]).collect(),
            noise: self.privacy.generator(|| keyed)?,
            judgements: round.judgements,
        }))
    }
}

struct NoisySum<'r> {
    privacy: Privacy,
    expected: f64,
    /// Who was drawn and has added nothing yet. Whoever was asked in the place of one who failed is not among
    /// them, and adds nothing: that one has failed may follow from its data.
    drawn: BTreeSet<usize>,
    reference: &'r [Cow<'r, [f32]>],
    sums: Vec<Vec<f64>>,
    noise: Rng,
    judgements: Option<&'r Judgements>,
}

impl NoisySum<'_> {
    fn judge(&self, client: usize, treatment: Treatment, share: f64) {
        if let Some(judgements) = self.judgements {
            judgements.add(client, treatment, share);
        }
    }
}

impl Combining for NoisySum<'_> {
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
        // Samples do not count: they are data too.
        let Contribution { client, vectors, .. } = upload;
        if !self.drawn.remove(&client) {
            self.judge(client, Treatment::LeftOut, 0.0);
            return Ok(());
        }
        let pairs = || vectors.iter().zip(self.reference);
        let Some(factor) = self.privacy.factor(pairs().flat_map(|(sent, got)| changes(sent, got)))
        else {
            self.judge(client, Treatment::LeftOut, 0.0);
            return Ok(());
        };
        self.judge(client, Treatment::Clipped, factor);
        for (sum, (sent, got)) in self.sums.iter_mut().zip(pairs()) {
            sum.iter_mut()
                .zip(changes(sent, got))
                .for_each(|(sum, change)| *sum += factor * change);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
        let deviation = self.privacy.deviation();
        let mut noisy = Vec::with_capacity(self.sums.len());
        for (sum, got) in self.sums.iter().zip(self.reference) {
            let values = sum.iter().zip(got.iter()).map(|(sum, got)| {
                let change = (sum + deviation * self.noise.normal()) / self.expected;
                (f64::from(*got) + change) as f32
            });
            noisy.push(values.collect());
        }
        Ok(Some(noisy))
    }
}
