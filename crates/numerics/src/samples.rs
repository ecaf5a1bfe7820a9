//! Labelled samples, as training and scoring see them.

use crate::Shape;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Labelled samples of one shape, from which batches are gathered. What they are made of (bytes, floats, a
/// mapped file) is known to nobody but the implementation.
pub trait Samples: Send + Sync + std::fmt::Debug {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of one sample.
    fn shape(&self) -> Shape;

    /// The class of sample `i`. Panics when there is no such sample, as a slice does.
    fn label(&self, i: usize) -> usize;

    /// The classes of all samples, in order.
    fn labels(&self) -> Vec<u16> {
        (0..self.len()).map(|i| self.label(i) as u16).collect()
    }

    /// Writes the chosen samples, ready for a network and channel-major over the batch (C, N, H, W), to
    /// `out`, without allocating.
    ///
    /// Panics when an index is out of range or `out` is not `indices.len() * shape().len()` long.
    fn gather(&self, indices: &[u32], out: &mut [f32]);

    /// Replaces `out` by the classes of the chosen samples; allocates only when `out` is too small.
    fn gather_labels(&self, indices: &[u32], out: &mut Vec<u32>) {
        out.clear();
        out.extend(indices.iter().map(|&index| self.label(index as usize) as u32));
    }

    /// How raw values are normalised on the way out, channel by channel; empty if they are not.
    fn normalisation(&self) -> &[Normalisation] {
        &[]
    }

    /// The raw bytes of sample `i`, channel after channel, if samples are kept as bytes.
    fn bytes(&self, _i: usize) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The raw numbers of sample `i`, channel after channel, if samples are kept as real numbers; one that is
    /// missing is NaN.
    fn floats(&self, _i: usize) -> Option<Cow<'_, [f32]>> {
        None
    }

    /// Sample `i` before it is augmented. What is kept as bytes says so here, and the table is then part of
    /// the augmentation; anything else is gathered into `memory` first, which allocates only when it is too small.
    fn raw<'s>(&'s self, i: usize, memory: &'s mut Vec<f32>) -> Raw<'s> {
        memory.resize(self.shape().len(), 0.0);
        self.gather(&[i as u32], memory);
        Raw::Values(memory)
    }
}

/// One sample, channel after channel.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'s> {
    /// Bytes, and what they stand for in each channel.
    Bytes {
        /// The bytes.
        pixels: &'s [u8],
        /// The normalised value of each byte, one table a channel.
        tables: &'s [[f32; 256]],
    },
    /// Values as a network sees them.
    Values(&'s [f32]),
}

/// Mean and standard deviation of one channel, of byte values scaled to `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Normalisation {
    /// Subtracted from the scaled value.
    pub mean: f32,
    /// Divides what is left.
    pub std: f32,
}

impl Normalisation {
    /// Leaves the scaled value as it is.
    pub const NONE: Self = Self::new(0.0, 1.0);

    /// Normalisation by a mean and a standard deviation.
    pub const fn new(mean: f32, std: f32) -> Self {
        Self { mean, std }
    }

    /// The normalised value of every byte. All in `f32` and in this order, so that the values are
    /// bit for bit those of the usual PyTorch transforms.
    pub fn table(self) -> [f32; 256] {
        std::array::from_fn(|byte| self.of(byte as u8))
    }

    /// The normalised value of a byte.
    pub fn of(self, byte: u8) -> f32 {
        (f32::from(byte) / 255.0 - self.mean) / self.std
    }
}
