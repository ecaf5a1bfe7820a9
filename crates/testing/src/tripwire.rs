//! Stops a run at any batch.

use formant_numerics::{Normalisation, Raw, Samples, Shape};
use formant_runtime::RunPlan;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the batches that a plan's samples are gathered for, trained and scored ones, and wants the run to stop with
/// one of them.
#[derive(Debug, Clone, Default)]
pub struct Tripwire {
    /// Batches so far; of augmented ones, samples.
    pub batches: Arc<AtomicU64>,
    /// What a run looks at.
    pub stop: Arc<AtomicBool>,
    at: Option<u64>,
}

impl Tripwire {
    /// One that is stepped on by the batch with this number, from 1.
    pub fn at(batch: u64) -> Self {
        Self { at: Some(batch), ..Self::default() }
    }

    /// Lays it over the samples of a plan.
    pub fn lay(&self, plan: &mut RunPlan) {
        let mut dataset = (*plan.federation.dataset).clone();
        dataset.train = Arc::new(Watched { samples: dataset.train, wire: self.clone() });
        dataset.test = Arc::new(Watched { samples: dataset.test, wire: self.clone() });
        plan.federation.dataset = Arc::new(dataset);
    }

    fn step(&self) {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        if Some(batch) == self.at {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Watched {
    samples: Arc<dyn Samples>,
    wire: Tripwire,
}

impl Samples for Watched {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn shape(&self) -> Shape {
        self.samples.shape()
    }

    fn label(&self, i: usize) -> usize {
        self.samples.label(i)
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        self.wire.step();
        self.samples.gather(indices, out);
    }

    fn normalisation(&self) -> &[Normalisation] {
        self.samples.normalisation()
    }

    fn bytes(&self, i: usize) -> Option<Cow<'_, [u8]>> {
        self.samples.bytes(i)
    }

    fn floats(&self, i: usize) -> Option<Cow<'_, [f32]>> {
        self.samples.floats(i)
    }

    fn raw<'s>(&'s self, i: usize, memory: &'s mut Vec<f32>) -> Raw<'s> {
        self.wire.step();
        self.samples.raw(i, memory)
    }
}
