//! Randomness keyed by what it is for, never by when it is drawn.
//!
//! A generator is addressed by `(seed, stream, round, client)`: the four numbers *are* the 256-bit
//! ChaCha key, so two different addresses never share a sequence and no thread can disturb another.
//! The distributions are written here, on top of the raw ChaCha8 words and `libm`, because a
//! library that improves its sampler would otherwise change every published result.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng};

/// What a sequence of random numbers is used for. The discriminants are part of the results: a
/// stream keeps its number for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Stream {
    /// Initial parameters of the network.
    Init = 1,
    /// Division of the samples among the clients.
    Partition = 2,
    /// Division of a client's samples into train, validation and test.
    Split = 3,
    /// Which clients take part in a round.
    Participation = 4,
    /// Batch order of the shared phase.
    SharedPhase = 5,
    /// Batch order of the personal phase.
    PersonalPhase = 6,
    /// Fine-tuning of a copy at evaluation time.
    Evaluation = 7,
    /// Randomness of the server.
    Server = 8,
    /// Subsampling of a dataset.
    Sample = 9,
    /// Virtual devices and links.
    Equipment = 10,
    /// What makes the images of clients look different.
    Skew = 12,
    /// Resampling of scores for the intervals of a report.
    Resampling = 14,
    /// Training of clients that join when the others are through.
    Adaptation = 16,
    /// Frequencies of a random band.
    Band = 18,
    /// Who attacks a simulation, and what attackers draw.
    Attack = 20,
    /// Noise that a simulated client adds to its upload.
    Privacy = 24,
    /// For tests and benchmarks.
    Test = 1_000,
}

/// A counter-based generator at one address.
///
/// ```
/// use formant_numerics::{Rng, Stream};
/// let mut a = Rng::new(7, Stream::Test, 0, 3);
/// let mut b = Rng::new(7, Stream::Test, 0, 3);
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    words: ChaCha8Rng,
}

impl Rng {
    /// The generator at an address.
    pub fn new(seed: u64, stream: Stream, round: u64, client: u64) -> Self {
        let mut key = [0u8; 32];
        for (slot, word) in key.chunks_exact_mut(8).zip([seed, stream as u64, round, client]) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        Self::from_key(key)
    }

    /// A generator with a key of its own, from wherever that comes: with one that nobody knows, nobody can
    /// predict what is drawn.
    pub fn from_key(key: [u8; 32]) -> Self {
        Self { words: ChaCha8Rng::from_seed(key) }
    }

    /// Another generator at the same address: the same key, another of ChaCha's streams. Drawing from
    /// it changes nothing of what this one draws.
    #[must_use]
    pub fn beside(&self) -> Self {
        self.apart(1)
    }

    /// Any of the generators [beside](Self::beside) this one, by number; 0 is this one at its beginning.
    #[must_use]
    pub fn apart(&self, number: u64) -> Self {
        let mut words = self.words.clone();
        words.set_stream(number);
        words.set_word_pos(0);
        Self { words }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `(0, 1]`: safe under a logarithm.
    pub fn uniform_positive(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Uniform integer in `0..n`, without bias (Lemire's multiplication method).
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "Rng::below needs a non-empty range");
        let n = n as u64;
        let threshold = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if (wide as u64) >= threshold {
                return (wide >> 64) as usize;
            }
        }
    }

    /// Standard normal (Box–Muller, one value per call so that no hidden half is carried over).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform_positive()));
        radius * libm::cos(core::f64::consts::TAU * self.uniform())
    }

    /// The logarithm of a Gamma(shape, 1) draw (Marsaglia and Tsang 2000).
    ///
    /// In the logarithm, because at a shape of 0.01 most draws are far below the smallest `f64`.
    pub fn log_gamma_draw(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::log(self.uniform_positive()) / shape;
            return self.log_gamma_draw(shape + 1.0) + boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = self.uniform_positive();
            if libm::log(u) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return libm::log(d) + libm::log(v);
            }
        }
    }

    /// A symmetric Dirichlet(`alpha`) draw of length `n`; it sums to one.
    pub fn dirichlet(&mut self, alpha: f64, n: usize) -> Vec<f64> {
        let logs: Vec<f64> = (0..n).map(|_| self.log_gamma_draw(alpha)).collect();
        Self::shares(&logs)
    }

    /// The shares of parts in their sum, by their logarithms: of [Gamma draws](Self::log_gamma_draw) a
    /// [Dirichlet draw](Self::dirichlet). Not numbers if all parts are 0.
    pub fn shares(logs: &[f64]) -> Vec<f64> {
        let peak = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| libm::exp(l - peak)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect()
    }

    /// Fisher–Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_independent() {
        let first = |s, st, r, c| Rng::new(s, st, r, c).next_u64();
        let base = first(1, Stream::Test, 2, 3);
        assert_eq!(base, first(1, Stream::Test, 2, 3));
        for other in [
            first(2, Stream::Test, 2, 3),
            first(1, Stream::Init, 2, 3),
            first(1, Stream::Test, 3, 3),
            first(1, Stream::Test, 2, 4),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_sequence_is_pinned() {
        // A change here changes every result ever published with a seed: see CHANGELOG, Numerics.
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(first, PINNED);
    }

    const PINNED: [u64; 2] = [1_870_968_701_710_962_528, 7_565_027_423_942_691_148];

    #[test]
    fn moments_are_right() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let n = 40_000;
        let draws: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let var = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "mean {mean}, variance {var}");
        let gamma = (0..n).map(|_| rng.log_gamma_draw(2.5).exp()).sum::<f64>() / n as f64;
        assert!((gamma - 2.5).abs() < 0.05, "gamma mean {gamma}");
        let small = (0..n).map(|_| rng.log_gamma_draw(0.3).exp()).sum::<f64>() / n as f64;
        assert!((small - 0.3).abs() < 0.02, "gamma mean {small}");
    }

    #[test]
    fn dirichlet_survives_tiny_concentrations() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        for alpha in [1e-4, 0.01, 0.5, 100.0] {
            let draw = rng.dirichlet(alpha, 1_000);
            assert!(draw.iter().all(|p| p.is_finite() && *p >= 0.0));
            assert!((draw.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
