//! The memory of passes.

use super::timing::{LayerTime, Stopwatch};
use crate::layer::{Saved, Scratch};

/// Everything that a pass writes, allocated once per worker.
#[derive(Debug)]
pub struct Workspace {
    pub(super) capacity: usize,
    pub(super) n: usize,
    pub(super) activations: Vec<Vec<f32>>,
    pub(super) gradients: Vec<Vec<f32>>,
    pub(super) saved: Vec<Saved>,
    pub(super) scratch: Scratch,
    pub(super) stopwatch: Stopwatch,
}

impl Workspace {
    /// From now on, passes are timed layer by layer.
    #[doc(hidden)]
    pub fn time_layers(&mut self) {
        self.stopwatch.switch_on();
    }

    /// What [`Workspace::time_layers`] has seen.
    #[doc(hidden)]
    pub fn layer_times(&self) -> &[LayerTime] {
        self.stopwatch.layers()
    }
}

#[cfg(test)]
impl Workspace {
    /// Leaves NaN wherever a pass of a diverged client could.
    pub(super) fn poison(&mut self) {
        let Scratch { padded, columns, weights, transforms, .. } = &mut self.scratch;
        for values in self
            .activations
            .iter_mut()
            .chain(&mut self.gradients)
            .chain([padded, columns, weights])
            .chain(transforms.buffers())
            .chain(self.saved.iter_mut().map(|saved| &mut saved.values))
        {
            values.fill(f32::NAN);
        }
    }
}
