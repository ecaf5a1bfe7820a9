//! Labelled images as bytes, normalised on the way out.

use crate::store::Store;
use crate::{DataError, Floats, Values};
use formant_numerics::{Normalisation, Raw, Samples, Shape};
use std::borrow::Cow;

/// Labelled images of one shape.
///
/// Pixels stay bytes, sample after sample and channel after channel within a sample (NCHW), a
/// quarter of the memory of `f32`; [`Samples::gather`] normalises them through a table of the 256
/// values a channel can take.
///
/// ```
/// use formant_data::{Images, Normalisation, Samples};
/// use formant_numerics::Shape;
///
/// let shape = Shape::new(1, 1, 2);
/// let images = Images::new(shape, vec![0, 255, 51, 102], vec![1, 0], &[Normalisation::NONE])?;
/// let mut batch = [0.0; 4];
/// images.gather(&[1, 0], &mut batch);
/// assert_eq!(batch, [0.2, 0.4, 0.0, 1.0]);
/// # Ok::<(), formant_data::DataError>(())
/// ```
#[derive(Clone)]
pub struct Images {
    shape: Shape,
    pixels: Store<u8>,
    labels: Vec<u16>,
    normalisation: Vec<Normalisation>,
    /// One table per channel.
    tables: Vec<[f32; 256]>,
}

impl Images {
    /// Images from their pixels (NCHW) and labels, with one normalisation per channel.
    pub fn new(
        shape: Shape,
        pixels: Vec<u8>,
        labels: Vec<u16>,
        normalisation: &[Normalisation],
    ) -> Result<Self, DataError> {
        Self::over(shape, pixels.into(), labels, normalisation)
    }

    /// The same over pixels that lie anywhere.
    pub(crate) fn over(
        shape: Shape,
        pixels: Store<u8>,
        labels: Vec<u16>,
        normalisation: &[Normalisation],
    ) -> Result<Self, DataError> {
        check_count(shape, pixels.as_slice().len(), labels.len(), "pixels.len()")?;
        check_normalisation(shape, normalisation)?;
        let tables = normalisation.iter().map(|n| n.table()).collect();
        Ok(Self { shape, pixels, labels, normalisation: normalisation.to_vec(), tables })
    }

    /// The classes of all images.
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// The bytes of image `i`, channel after channel. Panics when there is no such image.
    pub fn pixels(&self, i: usize) -> &[u8] {
        let size = self.shape.len();
        &self.pixels.as_slice()[i * size..(i + 1) * size]
    }
}

impl Samples for Images {
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

    fn bytes(&self, i: usize) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(self.pixels(i)))
    }

    fn raw<'s>(&'s self, i: usize, _memory: &'s mut Vec<f32>) -> Raw<'s> {
        Raw::Bytes { pixels: self.pixels(i), tables: &self.tables }
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        assert_eq!(
            out.len(),
            indices.len() * self.shape.len(),
            "gather: the batch buffer must hold {} images of shape {}",
            indices.len(),
            self.shape
        );
        let plane = self.shape.plane();
        let rows = out.chunks_exact_mut(plane);
        let sources =
            self.tables.iter().enumerate().flat_map(|(channel, table)| {
                indices.iter().map(move |&index| (channel, table, index))
            });
        for (row, (channel, table, index)) in rows.zip(sources) {
            let bytes = &self.pixels(index as usize)[channel * plane..(channel + 1) * plane];
            for (value, &byte) in row.iter_mut().zip(bytes) {
                *value = table[usize::from(byte)];
            }
        }
    }

    fn gather_labels(&self, indices: &[u32], out: &mut Vec<u32>) {
        out.clear();
        out.extend(indices.iter().map(|&index| u32::from(self.labels[index as usize])));
    }
}

/// An error unless there are as many values as samples of a shape need.
pub(crate) fn check_count(
    shape: Shape,
    values: usize,
    samples: usize,
    key: &'static str,
) -> Result<(), DataError> {
    let refuse = |key, value: String, remedy: String| Err(DataError::Parts { key, value, remedy });
    if shape.is_empty() {
        return refuse("shape", shape.to_string(), "every extent must be at least 1".into());
    }
    if samples.checked_mul(shape.len()) != Some(values) {
        let needed = format!("{samples} labels of shape {shape} need {} each", shape.len());
        return refuse(key, values.to_string(), needed);
    }
    if u32::try_from(samples).is_err() {
        return refuse(
            "labels.len()",
            samples.to_string(),
            format!("samples are numbered with 32 bits: keep at most {}", u32::MAX),
        );
    }
    Ok(())
}

/// An error unless every channel has a usable normalisation.
pub(crate) fn check_normalisation(
    shape: Shape,
    normalisation: &[Normalisation],
) -> Result<(), DataError> {
    let refuse = |key, value: String, remedy: String| Err(DataError::Parts { key, value, remedy });
    if normalisation.len() != shape.channels {
        return refuse(
            "normalisation.len()",
            normalisation.len().to_string(),
            format!("give one normalisation for each of the {} channels", shape.channels),
        );
    }
    let usable = |n: &&Normalisation| n.mean.is_finite() && n.std.is_finite() && n.std > 0.0;
    match normalisation.iter().find(|n| !usable(n)) {
        None => Ok(()),
        Some(bad) => refuse(
            "normalisation",
            format!("{bad:?}"),
            "the mean must be finite, the standard deviation finite and positive".into(),
        ),
    }
}

/// The values of samples (NCHW) as they were read.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlabelled {
    /// Pixels.
    Bytes(Vec<u8>),
    /// Real numbers; NaN where one is missing.
    Floats(Vec<f32>),
}

impl From<Vec<u8>> for Unlabelled {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<f32>> for Unlabelled {
    fn from(floats: Vec<f32>) -> Self {
        Self::Floats(floats)
    }
}

impl Unlabelled {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Floats(floats) => floats.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they are.
    pub fn values(&self) -> Values {
        match self {
            Self::Bytes(_) => Values::Bytes,
            Self::Floats(_) => Values::Floats,
        }
    }

    /// Samples of one shape, of whose classes nothing is known.
    pub fn samples(
        self,
        shape: Shape,
        normalisation: &[Normalisation],
    ) -> Result<Box<dyn Samples>, DataError> {
        let labels = vec![0; self.len() / shape.len().max(1)];
        Ok(match self {
            Self::Bytes(bytes) => Box::new(Images::new(shape, bytes, labels, normalisation)?),
            Self::Floats(floats) => Box::new(Floats::new(shape, floats, labels, normalisation)?),
        })
    }
}

/// Without the pixels, which would fill the screen.
impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images")
            .field("len", &self.len())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_channels() -> Images {
        // Three images of 2x1x2; the bytes count up.
        let normalisation = [Normalisation::NONE, Normalisation::new(0.5, 0.25)];
        Images::new(Shape::new(2, 1, 2), (0..12).collect(), vec![7, 8, 9], &normalisation).unwrap()
    }

    #[test]
    fn gather_is_channel_major_over_the_batch() {
        let mut out = vec![f32::NAN; 8];
        two_channels().gather(&[2, 0], &mut out);
        let plain = |byte: u8| f32::from(byte) / 255.0;
        let shifted = |byte: u8| (plain(byte) - 0.5) / 0.25;
        let expected = [
            [plain(8), plain(9), plain(0), plain(1)],
            [shifted(10), shifted(11), shifted(2), shifted(3)],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn gathering_labels_reuses_the_buffer() {
        let mut out = Vec::with_capacity(4);
        out.push(99);
        let before = out.as_ptr();
        two_channels().gather_labels(&[1, 1, 0], &mut out);
        assert_eq!(out, [8, 8, 7]);
        assert_eq!(out.as_ptr(), before);
    }

    #[test]
    fn gathering_nothing_is_allowed() {
        two_channels().gather(&[], &mut []);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let none = [Normalisation::NONE];
        let message = |result: Result<Images, DataError>| result.unwrap_err().to_string();
        let shape = Shape::new(1, 2, 2);
        let cases = [
            (message(Images::new(Shape::new(1, 0, 2), vec![], vec![], &none)), "shape = 1x0x2"),
            (message(Images::new(shape, vec![0; 7], vec![0; 2], &none)), "pixels.len() = 7"),
            (message(Images::new(shape, vec![0; 8], vec![0; 2], &[])), "normalisation.len() = 0"),
            (
                message(Images::new(shape, vec![0; 4], vec![0], &[Normalisation::new(0.0, 0.0)])),
                "std: 0.0",
            ),
        ];
        for (message, part) in cases {
            assert!(message.contains(part), "{message}");
        }
    }
}
