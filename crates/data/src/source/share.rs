//! A share as `formant data export` writes it, and images that are in memory already.

use super::fit::{Picture, fit};
use super::{Chunk, Content, Names, Reader, Source, SourceOptions, refusal};
use crate::share::PARTS;
use crate::{DataError, Portion, Share, Split};
use formant_numerics::Shape;
use std::path::Path;
use std::sync::Arc;

/// Opens one part of a share, or all of them in the order train, validation, test.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let share = Share::read(path)?;
    let parts = [share.train(), share.validation(), share.test()];
    let chosen = match options.split {
        Split::Train => 0..1,
        Split::Validation => 1..2,
        Split::Test => 2..3,
        Split::All => 0..3,
    };
    let mut samples = Portion::default();
    for part in &parts[chosen.clone()] {
        samples.pixels.extend_from_slice(&part.pixels);
        samples.labels.extend_from_slice(&part.labels);
    }
    if samples.is_empty() {
        let there: Vec<_> =
            PARTS.iter().zip(parts).filter(|(_, part)| !part.is_empty()).map(|(n, _)| *n).collect();
        return Err(refusal(
            path.display(),
            format!("it has no {} samples; it has {}", PARTS[chosen.start], there.join(", ")),
            "choose another part with --split",
        ));
    }
    let shape = share.shape();
    Ok(Source {
        origin: path.display().to_string(),
        format: "share",
        len: samples.len(),
        shape: Some(shape),
        labels: Ok(samples.labels),
        class_names: None,
        names: Names::Numbered,
        content: Box::new(Memory { shape, pixels: samples.pixels.into() }),
    })
}

/// Images in memory, channel after channel.
pub(crate) struct Memory {
    pub(crate) shape: Shape,
    pub(crate) pixels: Arc<[u8]>,
}

impl Content for Memory {
    fn reader(&self, shape: Shape, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        check_channels(self.shape, shape, "the images")?;
        let (own, pixels) = (self.shape, self.pixels.clone());
        Ok(Box::new(MemoryReader { own, shape, pixels, next: 0 }))
    }
}

struct MemoryReader {
    own: Shape,
    shape: Shape,
    pixels: Arc<[u8]>,
    next: usize,
}

impl Reader for MemoryReader {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let images = self.pixels.chunks_exact(self.own.len()).skip(self.next).take(most);
        for image in images {
            place(image, self.own, self.shape, chunk);
            chunk.indices.push(self.next);
            self.next += 1;
        }
        Ok(())
    }
}

/// Appends an image that lies channel after channel, in the wanted shape.
pub(crate) fn place(image: &[u8], own: Shape, shape: Shape, chunk: &mut Chunk) {
    if own == shape {
        chunk.pixels.extend_from_slice(image);
        return;
    }
    // A fourth channel is alpha.
    let channels = own.channels.min(3);
    let mut bytes = Vec::with_capacity(channels * own.plane());
    for pixel in 0..own.plane() {
        bytes.extend((0..channels).map(|channel| image[channel * own.plane() + pixel]));
    }
    let picture = Picture { channels, width: own.width, height: own.height, bytes };
    let fitting = fit(picture, shape, &mut chunk.pixels);
    chunk.fitting.add(&fitting);
}

/// An error unless images of one shape can be brought into another.
pub(crate) fn check_channels(own: Shape, wanted: Shape, place: &str) -> Result<(), DataError> {
    let converts = matches!(own.channels, 1 | 3 | 4) && matches!(wanted.channels, 1 | 3);
    if own == wanted || converts {
        return Ok(());
    }
    let (has, wants) = (own.channels, wanted.channels);
    Err(refusal(
        place,
        format!("images of {own} (channels x height x width) where {wanted} is wanted"),
        &if has == wants {
            format!("bring the images to {}x{} pixels", wanted.width, wanted.height)
        } else {
            format!("only grey and colour images are converted: give images of {wants} channels")
        },
    ))
}
