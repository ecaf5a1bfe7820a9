//! A share as `formant data export` writes it, and images that are in memory already.

use super::fit::{Picture, fit};
use super::format::{Format, Parts};
use super::sight::Sight;
use super::{Chunk, Content, Reader, Source, SourceOptions, Wanted, refusal};
use crate::share::PARTS;
use crate::{DataError, Owners, Portion, Share, Split};
use formant_numerics::Shape;
use std::path::Path;
use std::sync::Arc;

pub(crate) const FORMAT: Format = Format {
    name: "share",
    summary: "a client's samples as `formant data export` writes them (safetensors)",
    is_it: |sight| sight.kind() == Some(super::Kind::Safetensors),
    open: |sight, _| {
        let share = Share::read(&sight.path)?;
        let origin = sight.path.display().to_string();
        Ok(Parts { train: source(origin, share.shape(), everything(&share)), test: None })
    },
};

pub(crate) const FOLDER_FORMAT: Format = Format {
    name: "shares",
    summary: "a folder of such files, each of them a client",
    is_it: |sight| {
        let files = sight.entries.iter().filter(|name| !name.ends_with('/'));
        let mut files = files.peekable();
        files.peek().is_some() && files.all(|name| name.ends_with(".safetensors"))
    },
    open: open_folder,
};

/// All parts of a share, one after the other.
fn everything(share: &Share) -> Portion {
    let mut all = Portion::default();
    for part in [share.train(), share.validation(), share.test()] {
        all.pixels.extend_from_slice(&part.pixels);
        all.labels.extend_from_slice(&part.labels);
    }
    all
}

/// Every file of a folder is a client.
fn open_folder(sight: &Sight, _options: &SourceOptions) -> Result<Parts, DataError> {
    let (mut all, mut shape) = (Portion::default(), None);
    let mut owners = Owners { names: Vec::new(), of: Vec::new() };
    for name in sight.entries.iter().filter(|name| name.ends_with(".safetensors")) {
        let share = Share::read(&sight.path.join(name))?;
        let wanted = *shape.get_or_insert(share.shape());
        share.check(wanted, usize::from(u16::MAX) + 1)?;
        let own = everything(&share);
        owners.of.extend(vec![owners.names.len() as u32; own.len()]);
        owners.names.push(name.trim_end_matches(".safetensors").to_owned());
        all.pixels.extend_from_slice(&own.pixels);
        all.labels.extend_from_slice(&own.labels);
    }
    let Some(shape) = shape else {
        return Err(refusal(
            sight.path.display(),
            "it holds no share".into(),
            "name another folder",
        ));
    };
    let train = source(sight.path.display().to_string(), shape, all);
    Ok(Parts { train: Source { owners: Some(owners), ..train }, test: None })
}

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
    Ok(source(path.display().to_string(), shape, samples))
}

/// A source of images in memory.
fn source(origin: String, shape: Shape, samples: Portion) -> Source {
    let content = Memory { shape, pixels: samples.pixels.into() };
    let source = Source::new(origin, "share", samples.labels.len(), Ok(samples.labels), content);
    Source { shape: Some(shape), ..source }
}

/// Images in memory, channel after channel.
pub(crate) struct Memory {
    pub(crate) shape: Shape,
    pub(crate) pixels: Arc<Vec<u8>>,
}

impl Content for Memory {
    fn reader(&self, wanted: Wanted, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        check_bytes(wanted, "the images")?;
        let shape = wanted.shape;
        check_channels(self.shape, shape, "the images")?;
        let (own, pixels) = (self.shape, self.pixels.clone());
        Ok(Box::new(MemoryReader { own, shape, pixels, next: 0 }))
    }
}

struct MemoryReader {
    own: Shape,
    shape: Shape,
    pixels: Arc<Vec<u8>>,
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

/// An error unless pixels are wanted.
pub(crate) fn check_bytes(wanted: Wanted, place: &str) -> Result<(), DataError> {
    if wanted.values.are_bytes() {
        return Ok(());
    }
    Err(refusal(
        place,
        "they are pictures, and real numbers are wanted".into(),
        "give a NumPy array of floats or a table, like the data that the model was trained on",
    ))
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
