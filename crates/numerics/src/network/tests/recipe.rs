//! Numbers without a seed; `tests/fixtures/recipe.py` holds the same formulas and explains them.

use crate::{Batch, Layout, Model, Shape, Tensor};

/// 32 random-looking bits for an index under a name.
fn mixed(name: &str) -> impl Fn(usize) -> u32 {
    let tag = name
        .bytes()
        .fold(0x811C_9DC5u32, |tag, byte| (tag ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    move |index| {
        let mut x = tag.wrapping_add((index as u32).wrapping_mul(0x9E37_79B9));
        x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
        x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
        x ^ (x >> 16)
    }
}

/// Uniform in `[-1, 1)`.
pub(super) fn values(name: &str, count: usize) -> Vec<f32> {
    let bits = mixed(name);
    (0..count).map(|i| (bits(i) >> 12) as f32 / (1 << 19) as f32 - 1.0).collect()
}

/// The part of the features' gradient that does not come through the head.
pub(super) fn feature_seed(count: usize) -> Vec<f32> {
    values("features", count).into_iter().map(|x| x / 16.0).collect()
}

fn parameter(tensor: &Tensor) -> Vec<f32> {
    let draw = values(&tensor.name, tensor.range.len()).into_iter();
    let is = |suffix: &str| tensor.name.ends_with(suffix);
    if is("bias") || is("running_mean") {
        return draw.map(|u| u / 4.0).collect();
    }
    if tensor.name.contains(".bn") && !is("running_var") {
        return draw.map(|u| 0.25 + u / 8.0).collect();
    }
    if tensor.shape.len() == 1 {
        return draw.map(|u| 1.0 + u / 2.0).collect();
    }
    let fan_in = tensor.shape[1..].iter().product::<usize>() as f32;
    let mut scale = 1.0;
    while scale * scale * fan_in > 3.0 {
        scale /= 2.0;
    }
    draw.map(|u| u * scale).collect()
}

/// A model whose every value follows from its tensor's name.
pub(super) fn model(layout: &Layout) -> Model {
    Model {
        parameters: layout.tensors().iter().flat_map(parameter).collect(),
        buffers: layout.buffers().iter().flat_map(parameter).collect(),
    }
}

/// The labels of a batch.
pub(super) fn labels(count: usize, classes: usize) -> Vec<u32> {
    let bits = mixed("labels");
    (0..count).map(|i| bits(i) % classes as u32).collect()
}

/// Inputs and labels of a batch.
pub(super) struct Samples {
    pub(super) inputs: Vec<f32>,
    pub(super) labels: Vec<u32>,
}

impl Samples {
    /// PyTorch numbers its inputs sample by sample; ours are channel-major.
    pub(super) fn new(shape: Shape, n: usize, classes: usize) -> Self {
        let sample_major = values("inputs", n * shape.len());
        let inputs = transposed(&sample_major, n, shape.channels, shape.plane());
        Self { inputs, labels: labels(n, classes) }
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch { inputs: &self.inputs, labels: &self.labels }
    }
}

/// Exchanges the two outer axes of an `(a, b, plane)` tensor.
pub(super) fn transposed(x: &[f32], a: usize, b: usize, plane: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for j in 0..b {
        for i in 0..a {
            out.extend_from_slice(&x[(i * b + j) * plane..][..plane]);
        }
    }
    out
}

/// Which entries of a tensor a fixture stores.
pub(super) fn sampled(len: usize, samples: usize) -> impl Iterator<Item = usize> {
    (0..len.min(samples)).map(move |j| if len <= samples { j } else { j * 7919 % len })
}
