//! Clients whose images look different: everyone has a rotation, a level of noise or a tint of his own.

use crate::{ClientData, DataError, Split};
use formant_numerics::{Normalisation, Rng, Samples, Shape, Stream};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// How the images of the clients differ, whoever holds which. All of a client's samples are changed alike, those for
/// training, validation and test; the global test set is not.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Default)]
#[serde(tag = "skew", rename_all = "lowercase")]
pub enum Skew {
    /// They do not.
    #[default]
    None,
    /// Turned about their centre, by an angle between minus and plus `skew_strength` degrees.
    Rotation {
        /// The largest angle in degrees, up to 180.
        skew_strength: f64,
    },
    /// With noise on every value, of a standard deviation between 0 and `skew_strength`.
    Noise {
        /// The largest standard deviation; from black to white is 1.
        skew_strength: f64,
    },
    /// Every channel brighter or darker, by a factor between 1 - `skew_strength` and 1 + `skew_strength`.
    Colour {
        /// The largest change of a channel, up to 1.
        skew_strength: f64,
    },
}

impl Skew {
    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rotation { .. } => "rotation",
            Self::Noise { .. } => "noise",
            Self::Colour { .. } => "colour",
        }
    }

    /// The strength, and the largest there is.
    fn strength(self) -> (f64, f64) {
        match self {
            Self::None => (1.0, 1.0),
            Self::Rotation { skew_strength } => (skew_strength, 180.0),
            Self::Noise { skew_strength } | Self::Colour { skew_strength } => (skew_strength, 1.0),
        }
    }

    /// An error if the strength is out of range.
    pub fn check(self) -> Result<(), DataError> {
        let (strength, most) = self.strength();
        if strength > 0.0 && strength <= most {
            return Ok(());
        }
        let place = format!("skew_strength = {strength} with skew = \"{}\"", self.word());
        let found = "it is out of range".into();
        Err(DataError::Input {
            place,
            found,
            remedy: format!("use a number above 0, up to {most}"),
        })
    }

    /// What a run should say about it.
    pub(crate) fn remark(self) -> String {
        let (strength, _) = self.strength();
        let what = match self {
            Self::None => return String::new(),
            Self::Rotation { .. } => {
                format!("rotated by an angle of its own, up to {strength} degrees")
            }
            Self::Noise { .. } => format!("noisy at a level of its own, up to {strength}"),
            Self::Colour { .. } => format!("tinted by factors of its own, up to 1 ± {strength}"),
        };
        format!("every client's samples are {what}; those of the global test set are not")
    }
}

/// A sample that no client holds.
const NOBODY: u32 = u32::MAX;

/// Quantiles of the standard normal distribution, as many as fit into [`QUANTILE_BITS`].
const QUANTILES: usize = 1 << QUANTILE_BITS;
const QUANTILE_BITS: u32 = 12;

/// Samples as their clients see them. They are changed on the way out, so that the data may stay where they are.
pub(crate) struct Skewed {
    inner: Arc<dyn Samples>,
    skew: Skew,
    seed: u64,
    /// The client of every sample.
    of: Vec<u32>,
    /// Each client's cosine and sine, deviation, or factor for every channel.
    factors: Vec<f32>,
    /// How many numbers these are.
    each: usize,
    /// Normalised values of bytes, channel by channel; empty if samples are not bytes.
    tables: Vec<[f32; 256]>,
    /// Quantiles from which noise is drawn.
    quantiles: Vec<f32>,
}

impl Skewed {
    pub(crate) fn new(
        inner: Arc<dyn Samples>,
        skew: Skew,
        seed: u64,
        clients: &[ClientData],
    ) -> Result<Self, DataError> {
        skew.check()?;
        let channels = inner.shape().channels;
        let bytes = !inner.is_empty()
            && inner.bytes(0).is_some()
            && inner.normalisation().len() == channels;
        if !bytes && matches!(skew, Skew::Rotation { .. } | Skew::Colour { .. }) {
            return Err(DataError::Input {
                place: format!("skew = \"{}\"", skew.word()),
                found: "the samples are no images of bytes".into(),
                remedy: "use skew = \"noise\" or \"none\" with such data".into(),
            });
        }
        let mut of = vec![NOBODY; inner.len()];
        for (client, held) in (0u32..).zip(clients) {
            held.indices(Split::All).for_each(|index| of[index as usize] = client);
        }
        let mut factors = Vec::new();
        for client in 0..clients.len() {
            // The rounds from 1 on belong to the samples.
            let mut rng = Rng::new(seed, Stream::Skew, 0, client as u64);
            match skew {
                Skew::None => {}
                Skew::Rotation { skew_strength } => {
                    let angle = (2.0 * rng.uniform() - 1.0) * skew_strength.to_radians();
                    factors.extend([libm::cos(angle) as f32, libm::sin(angle) as f32]);
                }
                Skew::Noise { skew_strength } => {
                    factors.push((rng.uniform() * skew_strength) as f32);
                }
                Skew::Colour { skew_strength } => factors.extend(
                    (0..channels)
                        .map(|_| (1.0 + (2.0 * rng.uniform() - 1.0) * skew_strength) as f32),
                ),
            }
        }
        let tables = inner.normalisation().iter().map(|n| n.table()).collect::<Vec<_>>();
        Ok(Self {
            skew,
            seed,
            of,
            each: factors.len() / clients.len().max(1),
            factors,
            tables: if bytes { tables } else { Vec::new() },
            quantiles: if let Skew::Noise { .. } = skew { quantiles() } else { Vec::new() },
            inner,
        })
    }

    /// Hands out the changed bytes of sample `i`, each with its channel and its place there.
    fn change(&self, i: usize, bytes: &[u8], mut put: impl FnMut(usize, usize, u8)) {
        let client = self.of[i];
        let skew = if client == NOBODY { Skew::None } else { self.skew };
        let factors = match skew {
            Skew::None => &[],
            _ => &self.factors[client as usize * self.each..][..self.each],
        };
        let mut noise = self.noise(i, client);
        for (channel, pixels) in bytes.chunks(self.inner.shape().plane()).enumerate() {
            match skew {
                Skew::None => {
                    pixels.iter().enumerate().for_each(|(place, &byte)| put(channel, place, byte));
                }
                Skew::Rotation { .. } => {
                    let put = |place, byte| put(channel, place, byte);
                    self.turn(pixels, [factors[0], factors[1]], put);
                }
                Skew::Noise { .. } => {
                    let deviation = 255.0 * factors[0];
                    for (place, &byte) in pixels.iter().enumerate() {
                        let value = f32::from(byte) + deviation * noise.next();
                        put(channel, place, rounded(value));
                    }
                }
                Skew::Colour { .. } => {
                    for (place, &byte) in pixels.iter().enumerate() {
                        put(channel, place, rounded(f32::from(byte) * factors[channel]));
                    }
                }
            }
        }
    }

    /// Every pixel takes the value of the place from which it was turned, between four pixels in proportion to
    /// its distance from them. What comes from outside is black.
    fn turn(&self, pixels: &[u8], [cos, sin]: [f32; 2], mut put: impl FnMut(usize, u8)) {
        let Shape { height, width, .. } = self.inner.shape();
        let (middle_y, middle_x) = ((height - 1) as f32 / 2.0, (width - 1) as f32 / 2.0);
        let at = |y: f32, x: f32| {
            let inside = y >= 0.0 && x >= 0.0 && y < height as f32 && x < width as f32;
            if inside { f32::from(pixels[y as usize * width + x as usize]) } else { 0.0 }
        };
        for row in 0..height {
            for column in 0..width {
                let (dy, dx) = (row as f32 - middle_y, column as f32 - middle_x);
                let (y, x) = (middle_y + cos * dy - sin * dx, middle_x + sin * dy + cos * dx);
                let (top, left) = (y.floor(), x.floor());
                let (down, right) = (y - top, x - left);
                let upper = at(top, left) * (1.0 - right) + at(top, left + 1.0) * right;
                let lower = at(top + 1.0, left) * (1.0 - right) + at(top + 1.0, left + 1.0) * right;
                put(row * width + column, rounded(upper * (1.0 - down) + lower * down));
            }
        }
    }

    fn noise(&self, i: usize, client: u32) -> Noise<'_> {
        let rng = Rng::new(self.seed, Stream::Skew, 1 + i as u64, u64::from(client));
        Noise { rng, quantiles: &self.quantiles, bits: 0, left: 0 }
    }

    /// Noise on samples that are no bytes.
    fn disturb(&self, indices: &[u32], out: &mut [f32]) {
        let (size, plane) = (self.inner.shape().len(), self.inner.shape().plane());
        for (slot, &index) in indices.iter().enumerate() {
            let client = self.of[index as usize];
            if client == NOBODY || self.skew == Skew::None {
                continue;
            }
            let deviation = self.factors[client as usize * self.each];
            let mut noise = self.noise(index as usize, client);
            for place in 0..size {
                let row = (place / plane) * indices.len() + slot;
                out[row * plane + place % plane] += deviation * noise.next();
            }
        }
    }
}

/// To the nearest byte.
fn rounded(value: f32) -> u8 {
    // The conversion saturates, so that nothing wraps around.
    (value + 0.5) as u8
}

/// Standard normal numbers from a table: several to a random word, where a logarithm and a cosine for each would take
/// longer than a small network takes to train on the sample.
struct Noise<'q> {
    rng: Rng,
    quantiles: &'q [f32],
    bits: u64,
    left: u32,
}

impl Noise<'_> {
    fn next(&mut self) -> f32 {
        if self.left == 0 {
            (self.bits, self.left) = (self.rng.next_u64(), u64::BITS / QUANTILE_BITS);
        }
        let place = self.bits as usize % QUANTILES;
        self.bits >>= QUANTILE_BITS;
        self.left -= 1;
        self.quantiles[place]
    }
}

/// The middles of so many parts of equal probability, by bisection.
fn quantiles() -> Vec<f32> {
    let quantile = |part: usize| {
        let beyond = 1.0 - (part as f64 + 0.5) / QUANTILES as f64;
        let (mut low, mut high) = (0.0, 8.0);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            let further = 0.5 * libm::erfc(middle * core::f64::consts::FRAC_1_SQRT_2) > beyond;
            *(if further { &mut low } else { &mut high }) = middle;
        }
        (0.5 * (low + high)) as f32
    };
    let upper: Vec<f32> = (QUANTILES / 2..QUANTILES).map(quantile).collect();
    upper.iter().rev().map(|value| -value).chain(upper.iter().copied()).collect()
}

impl Samples for Skewed {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn label(&self, i: usize) -> usize {
        self.inner.label(i)
    }

    fn labels(&self) -> Vec<u16> {
        self.inner.labels()
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        if self.tables.is_empty() {
            self.inner.gather(indices, out);
            self.disturb(indices, out);
            return;
        }
        let shape = self.inner.shape();
        assert_eq!(
            out.len(),
            indices.len() * shape.len(),
            "gather: the batch buffer must hold {} images of shape {shape}",
            indices.len()
        );
        let plane = shape.plane();
        for (slot, &index) in indices.iter().enumerate() {
            // There are bytes of all samples or of none.
            let Some(bytes) = self.inner.bytes(index as usize) else { continue };
            self.change(index as usize, &bytes, |channel, place, byte| {
                let row = channel * indices.len() + slot;
                out[row * plane + place] = self.tables[channel][usize::from(byte)];
            });
        }
    }

    fn gather_labels(&self, indices: &[u32], out: &mut Vec<u32>) {
        self.inner.gather_labels(indices, out);
    }

    fn normalisation(&self) -> &[Normalisation] {
        self.inner.normalisation()
    }

    fn bytes(&self, i: usize) -> Option<Cow<'_, [u8]>> {
        if self.tables.is_empty() {
            return None;
        }
        let bytes = self.inner.bytes(i)?;
        let mut changed = vec![0; bytes.len()];
        let plane = self.inner.shape().plane();
        self.change(i, &bytes, |channel, place, byte| changed[channel * plane + place] = byte);
        Some(Cow::Owned(changed))
    }
}

/// Without the client of every sample, which would fill the screen.
impl std::fmt::Debug for Skewed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Skewed")
            .field("skew", &self.skew)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_standard_normal() {
        let table = quantiles();
        assert!(table.is_sorted() && table.len() == QUANTILES);
        let moment = |power: i32| {
            table.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / QUANTILES as f64
        };
        assert!(moment(1).abs() < 1e-9 && (moment(2) - 1.0).abs() < 0.002, "{}", moment(2));
        // The 97.5 % quantile, which everybody knows.
        assert!((table[QUANTILES * 975 / 1000] - 1.96).abs() < 0.01);
    }

    #[test]
    fn values_round_to_the_nearest_byte_and_stay_in_range() {
        assert_eq!([-3.0, 0.49, 0.5, 254.6, 300.0].map(rounded), [0, 0, 1, 255, 255]);
    }
}
