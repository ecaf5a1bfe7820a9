//! Memory that layers share while they work.

use super::winograd::{Sizes, Transforms};
use crate::gemm::{Entries, Panels, Shifts};

/// What layers work with, sized once.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) panels: Panels,
    /// A zero-padded copy of a convolution's input or output gradient.
    pub(crate) padded: Vec<f32>,
    /// One chunk of a column matrix, or sums on their way to a gradient.
    pub(crate) columns: Vec<f32>,
    /// Rearranged weights.
    pub(crate) weights: Vec<f32>,
    /// Where the taps of a kernel lie.
    pub(crate) shifts: Shifts,
    /// The non-zero entries of a gradient's plane.
    pub(crate) entries: Entries,
    /// Tiles and filters of fast convolutions.
    pub(crate) transforms: Transforms,
}

/// How much of [`Scratch`] a layer uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Need {
    pub(super) padded: usize,
    pub(super) columns: usize,
    pub(super) weights: usize,
    pub(super) taps: usize,
    pub(super) positions: usize,
    pub(super) transforms: Sizes,
}

impl Need {
    /// Floats in [`Scratch::columns`] alone.
    pub(crate) fn columns(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            padded: self.padded.max(other.padded),
            columns: self.columns.max(other.columns),
            weights: self.weights.max(other.weights),
            taps: self.taps.max(other.taps),
            positions: self.positions.max(other.positions),
            transforms: self.transforms.max(other.transforms),
        }
    }

    /// Bytes that [`Need::allocate`] takes.
    pub(crate) fn bytes(self) -> u64 {
        let floats = self.padded + self.columns + self.weights;
        let pairs = self.taps + self.positions;
        4 * floats as u64 + 8 * pairs as u64 + self.transforms.bytes()
    }

    pub(crate) fn allocate(self) -> Scratch {
        Scratch {
            panels: Panels::new(),
            padded: vec![0.0; self.padded],
            columns: vec![0.0; self.columns],
            weights: vec![0.0; self.weights],
            shifts: Shifts::with_room(self.taps),
            entries: Entries::with_room(self.positions),
            transforms: self.transforms.allocate(),
        }
    }
}
