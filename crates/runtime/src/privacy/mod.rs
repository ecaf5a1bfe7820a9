//! Client-level differential privacy: whose change is clipped, where noise is added, and what that costs.
//!
//! With `w` the broadcast that an upload `w_i` answers, its change is `Δ_i = w_i − w`, over all vectors of the
//! message, and `clip(Δ) = Δ · min(1, C/‖Δ‖)`.
//!
//! - at the server (`central.rs`): `w ← w + (Σ_i clip(Δ_i) + N(0, (zC)² I)) / m`. `m` is how many clients are
//!   drawn on average and no count of uploads, and all uploads weigh the same: neither depends on data.
//!   A client whose upload is missing (it failed, or was late) has added 0. Two federations that are
//!   adjacent differ in one client's data; in one of them its change is 0. Then sums differ by `C` at most.
//! - at each client (`local.rs`): it sends `w + clip(Δ_i) + N(0, (zC)² I)`. Whatever its data were instead,
//!   its change would differ by `2C` at most. What a server makes of it costs nothing more.
//!
//! How often noise is added to something of one client is in `ledger.rs`, what that costs in `formant-privacy`.
//! (McMahan et al., *Learning Differentially Private Recurrent Language Models*, ICLR 2018; Kairouz et al.,
//! *Practical and Private (Deep) Learning without Sampling or Shuffling*, ICML 2021, for that adjacency.)

mod central;
mod ledger;
mod local;

pub use central::PrivateMean;
pub use ledger::Ledger;

use crate::event::{NoiseSource, Place};
use formant_federation::Protocol;
use formant_methods::{ErasedMethod, MethodError, Needs};
use formant_numerics::Rng;

/// What uploads may reveal of their clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Privacy {
    /// Who clips and adds noise.
    pub place: Place,
    /// `C`: the norm to which the change of an upload is clipped.
    pub clip: f64,
    /// `z`: the noise's standard deviation, as a multiple of the clip.
    pub noise_multiplier: f64,
    /// `δ`: with which chance more than ε may be revealed.
    pub delta: f64,
    /// Where noise comes from.
    pub noise: NoiseSource,
}

impl Privacy {
    /// Whether each client clips and adds noise itself.
    pub fn is_local(&self) -> bool {
        self.place == Place::Client
    }

    /// The noise multiplier with which all rounds together cost no more than ε, if there is one.
    pub fn multiplier_for(epsilon: f64, delta: f64, place: Place, rules: &Protocol) -> Option<f64> {
        let releases = ledger::releases(place, rules);
        let rate = ledger::rate(rules);
        let multiplier = formant_privacy::noise_multiplier_for(epsilon, releases, rate, delta)?;
        Some(multiplier * ledger::sensitivity(place))
    }

    /// The noise's standard deviation.
    fn deviation(&self) -> f64 {
        self.noise_multiplier * self.clip
    }

    /// What draws it: in a simulation a keyed generator, else one that the operating system has seeded and
    /// nobody can draw from again.
    fn generator(&self, keyed: impl FnOnce() -> Rng) -> Result<Rng, MethodError> {
        match self.noise {
            NoiseSource::Keyed => Ok(keyed()),
            NoiseSource::System => {
                let mut key = [0; 32];
                getrandom::fill(&mut key)
                    .map_err(|error| MethodError::Randomness(error.to_string()))?;
                Ok(Rng::from_key(key))
            }
        }
    }

    /// The factor by which a change is shortened to the clip; none for one that is no number.
    fn factor(&self, change: impl Iterator<Item = f64>) -> Option<f64> {
        let norm = libm::sqrt(change.map(|change| change * change).sum::<f64>());
        norm.is_finite().then(|| (self.clip / norm).min(1.0))
    }

    /// The account of a method's rounds; none if nothing is uploaded in them.
    pub fn ledger(self, method: &dyn ErasedMethod, rules: &Protocol) -> Option<Ledger> {
        (method.needs() != Needs::Nothing).then(|| Ledger::new(self, rules.clone()))
    }
}

/// What an upload has changed, number by number.
fn changes<'v>(sent: &'v [f32], got: &'v [f32]) -> impl Iterator<Item = f64> {
    // Where the broadcast had nothing, the client began with zeros.
    let got = got.iter().copied().chain(std::iter::repeat(0.0));
    sent.iter().zip(got).map(|(sent, got)| f64::from(*sent) - f64::from(got))
}

#[cfg(test)]
mod tests;
