//! Samples that are floats.

use formant_numerics::{Rng, Samples, Shape, Stream};

/// Labelled samples whose values are ready for a network.
#[derive(Debug, Clone)]
pub struct Floats {
    /// Of one sample.
    pub shape: Shape,
    /// Sample after sample, channel after channel within a sample.
    pub values: Vec<f32>,
    /// One class a sample.
    pub labels: Vec<u16>,
}

impl Floats {
    /// So many samples of normally distributed values, and labels that have nothing to do with them.
    pub fn random(shape: Shape, classes: usize, len: usize) -> Self {
        let mut rng = Rng::new(5, Stream::Test, 0, 0);
        let values = (0..len * shape.len()).map(|_| rng.normal() as f32).collect();
        let labels = (0..len).map(|_| rng.below(classes) as u16).collect();
        Self { shape, values, labels }
    }
}

impl Samples for Floats {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn label(&self, i: usize) -> usize {
        usize::from(self.labels[i])
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        let (size, plane) = (self.shape.len(), self.shape.plane());
        assert_eq!(out.len(), indices.len() * size);
        let mut rows = out.chunks_exact_mut(plane);
        for channel in 0..self.shape.channels {
            for index in indices {
                let sample = &self.values[*index as usize * size..][..size];
                let row = rows.next().expect("a row for each channel of each sample");
                row.copy_from_slice(&sample[channel * plane..][..plane]);
            }
        }
    }
}
