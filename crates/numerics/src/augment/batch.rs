//! The samples of a batch with what happens to them.

use super::{Augmenter, Draw, colour, geometry};
use crate::samples::Raw;
use crate::{Samples, Shape};

/// Which samples a batch is made of, and what happens to them on the way.
#[derive(Debug)]
pub struct Selection<'b> {
    samples: &'b dyn Samples,
    indices: &'b [u32],
    augmented: Option<Augmented<'b>>,
}

#[derive(Debug)]
struct Augmented<'b> {
    draws: &'b [Draw],
    share: Option<f32>,
    memory: &'b mut Vec<f32>,
}

/// Memory of the draws of a batch, kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    draws: Vec<Draw>,
    /// For one sample.
    values: Vec<f32>,
}

impl Scratch {
    /// For batches of up to so many samples.
    pub(crate) fn new(batch: usize, shape: Shape) -> Self {
        Self { draws: Vec::with_capacity(batch), values: Vec::with_capacity(shape.len()) }
    }

    /// A batch of an epoch: the samples at some positions of the client's training set, which are at some
    /// indices of what it holds.
    pub(crate) fn select<'b>(
        &'b mut self,
        samples: &'b dyn Samples,
        indices: &'b [u32],
        augmenter: &Augmenter,
        positions: &[u32],
        batch: u32,
    ) -> Selection<'b> {
        let shape = samples.shape();
        self.draws.clear();
        self.draws.extend(positions.iter().map(|position| augmenter.draw(*position, shape)));
        let share = augmenter.share(batch);
        Selection::drawn(samples, indices, &self.draws, share, &mut self.values)
    }
}

impl<'b> Selection<'b> {
    /// Samples as they are.
    pub fn plain(samples: &'b dyn Samples, indices: &'b [u32]) -> Self {
        Self { samples, indices, augmented: None }
    }

    /// Samples to which something happens.
    pub(super) fn drawn(
        samples: &'b dyn Samples,
        indices: &'b [u32],
        draws: &'b [Draw],
        share: Option<f32>,
        memory: &'b mut Vec<f32>,
    ) -> Self {
        Self { samples, indices, augmented: Some(Augmented { draws, share, memory }) }
    }

    /// Where they come from.
    pub fn samples(&self) -> &'b dyn Samples {
        self.samples
    }

    /// Whether samples are taken as they are.
    pub fn is_plain(&self) -> bool {
        self.augmented.is_none()
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Where the samples are.
    pub fn indices(&self) -> &'b [u32] {
        self.indices
    }

    /// The shape of one sample.
    pub fn shape(&self) -> Shape {
        self.samples.shape()
    }

    /// Writes the samples, ready for a network and channel-major over the batch (C, N, H, W), to `out`.
    ///
    /// Panics when `out` has another length.
    pub fn gather(&mut self, out: &mut [f32]) {
        let Some(Augmented { draws, share, memory }) = &mut self.augmented else {
            return self.samples.gather(self.indices, out);
        };
        let (shape, n) = (self.samples.shape(), self.indices.len());
        assert_eq!(out.len(), n * shape.len(), "gather: {n} samples of shape {shape}");
        for (nth, (index, draw)) in self.indices.iter().zip(*draws).enumerate() {
            let raw = self.samples.raw(*index as usize, memory);
            write(self.samples, raw, draw, &mut Planes { out, nth, n, size: shape.plane() });
        }
        if let Some(share) = share {
            mix(out, n, shape.plane(), *share, memory);
        }
    }

    /// Replaces `out` by the classes of the samples; allocates only when `out` is too small.
    pub fn gather_labels(&self, out: &mut Vec<u32>) {
        self.samples.gather_labels(self.indices, out);
    }

    /// Replaces `out` by the classes of the samples that are mixed into those of the batch: into each the next one,
    /// and into the last the first. Batches are in random order, so partners are random.
    pub fn gather_partners(&self, out: &mut Vec<u32>) {
        self.gather_labels(out);
        if !out.is_empty() {
            out.rotate_left(1);
        }
    }

    /// If samples are mixed: how much of each is its own; the rest is its partner's.
    pub fn share(&self) -> Option<f32> {
        self.augmented.as_ref().and_then(|augmented| augmented.share)
    }
}

/// The channels of one sample in a batch.
pub(super) struct Planes<'o> {
    out: &'o mut [f32],
    nth: usize,
    n: usize,
    size: usize,
}

impl Planes<'_> {
    pub(super) fn channels(&self) -> usize {
        self.out.len() / (self.n * self.size)
    }

    pub(super) fn of(&mut self, channel: usize) -> &mut [f32] {
        let start = (channel * self.n + self.nth) * self.size;
        &mut self.out[start..start + self.size]
    }

    /// Three channels at once, if there are three.
    pub(super) fn colours(&mut self) -> Option<[&mut [f32]; 3]> {
        if self.channels() != 3 {
            return None;
        }
        let start = |channel: usize| (channel * self.n + self.nth) * self.size;
        let ranges = [0, 1, 2].map(|channel| start(channel)..start(channel) + self.size);
        self.out.get_disjoint_mut(ranges).ok()
    }
}

/// One sample, moved, coloured and blanked as drawn.
fn write(samples: &dyn Samples, raw: Raw<'_>, draw: &Draw, planes: &mut Planes<'_>) {
    let (shape, normalisation) = (samples.shape(), samples.normalisation());
    let size = shape.plane();
    for channel in 0..shape.channels {
        let out = planes.of(channel);
        let known = normalisation.get(channel);
        match (&raw, draw.colour.and(known)) {
            (Raw::Bytes { pixels, tables }, None) => {
                let (source, table) = (&pixels[channel * size..][..size], &tables[channel]);
                geometry::place(
                    shape,
                    source,
                    |byte| table[usize::from(byte)],
                    table[0],
                    draw,
                    out,
                );
            }
            (Raw::Bytes { pixels, .. }, Some(_)) => {
                let source = &pixels[channel * size..][..size];
                geometry::place(shape, source, |byte| f32::from(byte) / 255.0, 0.0, draw, out);
            }
            (Raw::Values(values), None) => {
                let black = known.map_or(0.0, |n| n.of(0));
                let source = &values[channel * size..][..size];
                geometry::place(shape, source, |value| value, black, draw, out);
            }
            (Raw::Values(values), Some(n)) => {
                let source = &values[channel * size..][..size];
                geometry::place(shape, source, |value| value * n.std + n.mean, 0.0, draw, out);
            }
        }
    }
    if let Some(factors) = draw.colour
        && !normalisation.is_empty()
    {
        colour::jitter(factors, planes);
        for (channel, n) in normalisation.iter().enumerate() {
            planes.of(channel).iter_mut().for_each(|x| *x = (*x - n.mean) / n.std);
        }
    }
    let [rows, columns] = &draw.hole;
    for channel in 0..shape.channels {
        for row in planes.of(channel).chunks_exact_mut(shape.width).take(rows.end).skip(rows.start)
        {
            row[columns.clone()].fill(0.0);
        }
    }
}

/// Mixes each sample with the next; `memory` is for one plane.
fn mix(out: &mut [f32], n: usize, plane: usize, share: f32, memory: &mut Vec<f32>) {
    let rest = 1.0 - share;
    for channel in out.chunks_exact_mut(n * plane) {
        memory.clear();
        memory.extend_from_slice(&channel[..plane]);
        for nth in 0..n {
            let (own, later) = channel[nth * plane..].split_at_mut(plane);
            let partner = later.get(..plane).unwrap_or(memory);
            own.iter_mut().zip(partner).for_each(|(x, y)| *x = share * *x + rest * *y);
        }
    }
}
