//! Batch and group normalisation: they differ only in which values are normalised together.

use super::Rows;
use formant_numerics::Shape;

/// One channel of one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    sample: usize,
    channel: usize,
}

/// Where one value stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    sample: usize,
    /// Within the sample's row.
    at: usize,
    channel: usize,
}

/// Planes that are normalised together.
pub(super) type Set = Vec<Plane>;

/// For each channel, the planes of all samples.
pub(super) fn batch_sets(shape: Shape, samples: usize) -> Vec<Set> {
    let planes = |channel| (0..samples).map(move |sample| Plane { sample, channel }).collect();
    (0..shape.channels).map(planes).collect()
}

/// For each sample and each group of neighbouring channels, their planes.
pub(super) fn group_sets(shape: Shape, samples: usize, groups: usize) -> Vec<Set> {
    let width = shape.channels / groups;
    let mut sets = Vec::new();
    for sample in 0..samples {
        for group in 0..groups {
            let channels = group * width..(group + 1) * width;
            sets.push(channels.map(|channel| Plane { sample, channel }).collect());
        }
    }
    sets
}

/// Mean and biased variance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statistics {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// A normalisation with its slopes and offsets, one a channel.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) shape: Shape,
    pub(super) weight: Vec<f64>,
    pub(super) bias: Vec<f64>,
    pub(super) epsilon: f64,
    pub(super) sets: Vec<Set>,
}

/// What a normalisation sends back.
#[derive(Debug)]
pub(super) struct NormGradient {
    pub(super) input: Rows,
    pub(super) weight: Vec<f64>,
    pub(super) bias: Vec<f64>,
}

impl Norm {
    /// Number of values in a set.
    pub(super) fn count(&self, set: &Set) -> f64 {
        (set.len() * self.shape.plane()) as f64
    }

    /// Where the values of a set stand.
    fn places<'a>(&self, set: &'a Set) -> impl Iterator<Item = Place> + use<'a> {
        let plane = self.shape.plane();
        set.iter().flat_map(move |&Plane { sample, channel }| {
            (channel * plane..(channel + 1) * plane).map(move |at| Place { sample, at, channel })
        })
    }

    /// The statistics of a set.
    pub(super) fn statistics(&self, x: &Rows, set: &Set) -> Statistics {
        let values = || self.places(set).map(|place| x[place.sample][place.at]);
        let mean = values().sum::<f64>() / self.count(set);
        let variance = values().map(|x| (x - mean).powi(2)).sum::<f64>() / self.count(set);
        Statistics { mean, variance }
    }

    /// `(x − mean) / √(variance + ε) · weight + bias`, with statistics for each set.
    pub(super) fn forward(&self, x: &Rows, statistics: &[Statistics]) -> Rows {
        let mut y = x.clone();
        for (set, Statistics { mean, variance }) in self.sets.iter().zip(statistics) {
            let inverse = 1.0 / (variance + self.epsilon).sqrt();
            for Place { sample, at, channel } in self.places(set) {
                let normal = (x[sample][at] - mean) * inverse;
                y[sample][at] = normal * self.weight[channel] + self.bias[channel];
            }
        }
        y
    }

    /// Through [`Norm::forward`] with each set's own statistics. With `x̂` the normalised values and
    /// `e = ∂/∂x̂`, a value gets `(e − mean(e) − x̂ · mean(e x̂)) / √(variance + ε)`.
    pub(super) fn backward(&self, x: &Rows, d: &Rows) -> NormGradient {
        let channels = self.shape.channels;
        let mut gradient = NormGradient {
            input: x.clone(),
            weight: vec![0.0; channels],
            bias: vec![0.0; channels],
        };
        for set in &self.sets {
            let Statistics { mean, variance } = self.statistics(x, set);
            let inverse = 1.0 / (variance + self.epsilon).sqrt();
            let (mut sum, mut along) = (0.0, 0.0);
            for Place { sample, at, channel } in self.places(set) {
                let (d, normal) = (d[sample][at], (x[sample][at] - mean) * inverse);
                gradient.weight[channel] += d * normal;
                gradient.bias[channel] += d;
                sum += d * self.weight[channel];
                along += d * self.weight[channel] * normal;
            }
            let (sum, along) = (sum / self.count(set), along / self.count(set));
            for Place { sample, at, channel } in self.places(set) {
                let normal = (x[sample][at] - mean) * inverse;
                let e = d[sample][at] * self.weight[channel];
                gradient.input[sample][at] = inverse * (e - sum - normal * along);
            }
        }
        gradient
    }
}
