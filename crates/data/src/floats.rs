//! Labelled samples of real numbers: rows of a table, or arrays that are not made of bytes.

use crate::images::{check_count, check_normalisation};
use crate::store::Store;
use crate::{DataError, Normalisation};
use formant_numerics::{Samples, Shape};
use std::borrow::Cow;

/// Labelled samples of one shape, kept as they are and normalised on the way out.
///
/// A number that is missing (NaN) becomes zero, which is the mean of its channel.
///
/// ```
/// use formant_data::{Floats, Normalisation, Samples};
/// use formant_numerics::Shape;
///
/// // Two rows of a table with two columns.
/// let (heights, widths) = (Normalisation::new(2.0, 4.0), Normalisation::NONE);
/// let table = Floats::new(Shape::new(2, 1, 1), vec![4.0, 1.0, f32::NAN, 3.0], vec![0, 1], &[heights, widths])?;
/// let mut batch = [0.0; 4];
/// table.gather(&[0, 1], &mut batch);
/// assert_eq!(batch, [0.5, 0.0, 1.0, 3.0]);
/// # Ok::<(), formant_data::DataError>(())
/// ```
#[derive(Clone)]
pub struct Floats {
    shape: Shape,
    values: Store<f32>,
    labels: Vec<u16>,
    normalisation: Vec<Normalisation>,
}

impl Floats {
    /// Samples from their values (NCHW) and labels, with one normalisation per channel.
    pub fn new(
        shape: Shape,
        values: Vec<f32>,
        labels: Vec<u16>,
        normalisation: &[Normalisation],
    ) -> Result<Self, DataError> {
        Self::over(shape, values.into(), labels, normalisation)
    }

    /// The same over values that lie anywhere.
    pub(crate) fn over(
        shape: Shape,
        values: Store<f32>,
        labels: Vec<u16>,
        normalisation: &[Normalisation],
    ) -> Result<Self, DataError> {
        check_count(shape, values.as_slice().len(), labels.len(), "values.len()")?;
        check_normalisation(shape, normalisation)?;
        Ok(Self { shape, values, labels, normalisation: normalisation.to_vec() })
    }

    /// The values of sample `i`, channel after channel. Panics when there is no such sample.
    pub fn values(&self, i: usize) -> &[f32] {
        let size = self.shape.len();
        &self.values.as_slice()[i * size..(i + 1) * size]
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

    fn normalisation(&self) -> &[Normalisation] {
        &self.normalisation
    }

    fn floats(&self, i: usize) -> Option<Cow<'_, [f32]>> {
        Some(Cow::Borrowed(self.values(i)))
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        assert_eq!(
            out.len(),
            indices.len() * self.shape.len(),
            "gather: the batch buffer must hold {} samples of shape {}",
            indices.len(),
            self.shape
        );
        let plane = self.shape.plane();
        let mut rows = out.chunks_exact_mut(plane);
        for (channel, n) in self.normalisation.iter().enumerate() {
            for (&index, row) in indices.iter().zip(rows.by_ref()) {
                let values = &self.values(index as usize)[channel * plane..(channel + 1) * plane];
                for (out, &value) in row.iter_mut().zip(values) {
                    *out = if value.is_nan() { 0.0 } else { (value - n.mean) / n.std };
                }
            }
        }
    }
}

/// Without the values, which would fill the screen.
impl std::fmt::Debug for Floats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Floats")
            .field("len", &self.len())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_is_channel_major_and_fills_what_is_missing() {
        let shape = Shape::new(2, 1, 2);
        let values = vec![0.0, 1.0, 2.0, 3.0, 4.0, f32::NAN, 6.0, 7.0];
        let normalisation = [Normalisation::NONE, Normalisation::new(1.0, 2.0)];
        let floats = Floats::new(shape, values, vec![3, 4], &normalisation).unwrap();
        let mut out = [9.0; 8];
        floats.gather(&[1, 0], &mut out);
        assert_eq!(out, [4.0, 0.0, 0.0, 1.0, 2.5, 3.0, 0.5, 1.0]);
        assert_eq!(floats.labels(), [3, 4]);
        assert_eq!(floats.bytes(0), None);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let error =
            Floats::new(Shape::new(2, 1, 1), vec![0.0; 3], vec![0], &[Normalisation::NONE; 2]);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("values.len() = 3"), "{message}");
    }
}
