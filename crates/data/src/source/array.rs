//! Numbers in rows, as IDX and NumPy files have them.

use super::npz::Entry;
use super::share::{check_channels, place};
use super::{Chunk, Content, Reader, Wanted, refusal};
use crate::share::file_error;
use crate::{DataError, Values};
use flate2::read::MultiGzDecoder;
use formant_numerics::Shape;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest image: more would have to be read before anything can be said about it.
const MOST_IMAGE_BYTES: usize = 256 << 20;

/// The most samples of one array: more are claimed by nobody but a file that wants to fill the memory.
const MOST_ROWS: usize = 1 << 27;

/// How one number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    /// `u`, `i` or `f`, as NumPy has them.
    pub(crate) kind: u8,
    /// Bytes.
    pub(crate) size: usize,
    /// The most significant byte comes first.
    pub(crate) big_endian: bool,
}

impl Element {
    fn value(self, bytes: &[u8]) -> Number {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        if self.big_endian {
            word[..bytes.len()].reverse();
        }
        let number = u64::from_le_bytes(word);
        // What is left of the word above a signed number's own bits.
        let unused = 64 - 8 * self.size as u32;
        match (self.kind, self.size) {
            (b'f', 4) => Number::Real(f64::from(f32::from_bits(number as u32))),
            (b'f', _) => Number::Real(f64::from_bits(number)),
            (b'i', _) => Number::Whole(i128::from(((number << unused) as i64) >> unused)),
            _ => Number::Whole(i128::from(number)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

/// Where the numbers lie.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In a file, plain or compressed, after a header of this many bytes.
    File(PathBuf, u64),
    /// In an archive, after a header of this many bytes.
    Archive(Arc<Entry>, u64),
}

/// Numbers of one kind in rows, not yet read.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    /// What a message calls it.
    pub(crate) origin: String,
    pub(crate) extents: Vec<usize>,
    pub(crate) element: Element,
    pub(crate) place: Place,
}

/// How the images of an array lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrangement {
    /// The shape of one of them.
    pub(crate) shape: Shape,
    /// Pixel after pixel, not channel after channel.
    pub(crate) channels_last: bool,
}

/// The content of a file, decompressed if it is a gzip stream.
pub(crate) fn opened(path: &Path) -> Result<Box<dyn Read + Send>, DataError> {
    let fail = |source| file_error("read", path, source);
    let mut file = File::open(path).map_err(fail)?;
    let mut start = Vec::new();
    (&mut file).take(2).read_to_end(&mut start).map_err(fail)?;
    file.seek(SeekFrom::Start(0)).map_err(fail)?;
    let file = BufReader::new(file);
    Ok(if start == [0x1f, 0x8b] { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

impl Array {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.extents.first().copied().unwrap_or(0)
    }

    /// An error unless a plain file is as long as its header says.
    pub(crate) fn check_length(&self) -> Result<(), DataError> {
        let Place::File(path, header) = &self.place else { return Ok(()) };
        let mut start = [0; 2];
        let fail = |source| file_error("read", path, source);
        let mut file = File::open(path).map_err(fail)?;
        file.read_exact(&mut start).map_err(fail)?;
        if start == [0x1f, 0x8b] {
            return Ok(());
        }
        let length = file.metadata().map_err(fail)?.len();
        let numbers = self.extents.iter().map(|&extent| extent as u128);
        // Extents have 32 bits (IDX), or their product was checked (NumPy).
        let claimed = numbers.fold(self.element.size as u128, u128::saturating_mul);
        let claimed = claimed.saturating_add(u128::from(*header));
        if claimed == u128::from(length) {
            return Ok(());
        }
        let fault = if claimed > u128::from(length) { "truncated" } else { "too long" };
        Err(refusal(
            &self.origin,
            format!(
                "it is {fault}: {length} bytes where its header {:?} means {claimed}",
                self.extents
            ),
            "take another copy of the file",
        ))
    }

    /// A stream of the numbers' bytes.
    fn bytes(&self) -> Result<Box<dyn Read + Send>, DataError> {
        let (mut stream, header) = match &self.place {
            Place::File(path, header) => (opened(path)?, *header),
            Place::Archive(entry, header) => (entry.opened()?, *header),
        };
        let copied = std::io::copy(&mut (&mut stream).take(header), &mut std::io::sink());
        copied.map_err(|error| self.broken(0, &error))?;
        Ok(stream)
    }

    fn broken(&self, row: usize, error: &std::io::Error) -> DataError {
        let (rows, what) = (self.len(), error.to_string());
        let found = if error.kind() == std::io::ErrorKind::UnexpectedEof {
            format!("it is truncated: it ends in row {row} of {rows}")
        } else {
            format!("it is damaged in or before row {row} of {rows} ({what})")
        };
        refusal(&self.origin, found, "take another copy of the file")
    }

    /// The numbers as classes.
    pub(crate) fn labels(&self, count: usize) -> Result<Vec<u16>, DataError> {
        let one_each = self.extents.iter().skip(1).all(|extent| *extent == 1);
        if self.extents.is_empty() || !one_each {
            return Err(refusal(
                &self.origin,
                format!(
                    "labels have the extents {:?}, expected one number per image",
                    self.extents
                ),
                "store the class of each image as a number; for one-hot rows use labels.argmax(1)",
            ));
        }
        if self.len() != count {
            return Err(refusal(
                &self.origin,
                format!("it has {} labels for {count} images", self.len()),
                "give every image one label",
            ));
        }
        let mut stream = BufReader::new(self.bytes()?);
        let mut labels = Vec::new();
        let mut number = vec![0; self.element.size];
        for row in 0..count {
            stream.read_exact(&mut number).map_err(|error| self.broken(row, &error))?;
            let class = match self.element.value(&number) {
                Number::Whole(value) => u16::try_from(value).map_err(|_| value.to_string()),
                Number::Real(value) => Err(value.to_string()),
            };
            labels.push(class.map_err(|value| {
                refusal(
                    format!("{}[{row}]", self.origin),
                    format!("{value} is not a class"),
                    "number the classes with whole numbers from 0, in Python labels.astype(\"int64\")",
                )
            })?);
        }
        self.check_end(&mut stream)?;
        Ok(labels)
    }

    /// What follows the last number must be nothing. The end also verifies checksums.
    fn check_end(&self, stream: &mut dyn Read) -> Result<(), DataError> {
        match stream.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(refusal(
                &self.origin,
                format!("it goes on after the {} rows of its header", self.len()),
                "take another copy of the file",
            )),
            Err(error) => Err(self.broken(self.len(), &error)),
        }
    }

    /// An error unless the extents are those of images; none are read yet.
    pub(crate) fn check_images(&self) -> Result<(), DataError> {
        let row = self.extents.iter().skip(1);
        let bytes = row.fold(self.element.size as u128, |a, &b| a.saturating_mul(b as u128));
        if !matches!(self.extents.len(), 2..=4) || bytes == 0 {
            return Err(refusal(
                &self.origin,
                format!("the extents {:?} are not those of images", self.extents),
                "give (n, features), (n, height, width), (n, channels, height, width) or (n, height, width, channels)",
            ));
        }
        if bytes > MOST_IMAGE_BYTES as u128 {
            return Err(refusal(
                &self.origin,
                format!("the extents {:?} mean images of {bytes} bytes each", self.extents),
                &format!("images may have {} MiB: make them smaller", MOST_IMAGE_BYTES >> 20),
            ));
        }
        if self.len() == 0 || self.len() > MOST_ROWS {
            return Err(refusal(
                &self.origin,
                format!("it holds {} images", self.len()),
                &format!("give between 1 and {MOST_ROWS} images"),
            ));
        }
        Ok(())
    }

    /// Bytes of images are pixels; whatever else there is are numbers.
    pub(crate) fn values(&self) -> Values {
        let bytes = (self.element.kind, self.element.size) == (b'u', 1);
        if bytes && self.extents.len() > 2 { Values::Bytes } else { Values::Floats }
    }

    /// How the images lie, where the extents leave no doubt.
    pub(crate) fn arrangement(&self) -> Option<Arrangement> {
        let first = |shape| Some(Arrangement { shape, channels_last: false });
        let colours = |extent: usize| matches!(extent, 1 | 3 | 4);
        match *self.extents.as_slice() {
            [_, features] => first(Shape::new(features, 1, 1)),
            [_, height, width] => first(Shape::new(1, height, width)),
            [_, a, b, c] if colours(a) && !colours(c) => first(Shape::new(a, b, c)),
            [_, a, b, c] if colours(c) && !colours(a) => {
                Some(Arrangement { shape: Shape::new(c, a, b), channels_last: true })
            }
            _ => None,
        }
    }

    /// The same, by the shape that is wanted.
    fn arrangement_for(&self, wanted: Shape) -> Result<Arrangement, DataError> {
        let as_wanted = |channels_last| Ok(Arrangement { shape: wanted, channels_last });
        let Shape { channels, height, width } = wanted;
        match *self.extents.as_slice() {
            [_, a, b, c] if (a, b, c) == (channels, height, width) => return as_wanted(false),
            [_, a, b, c] if (a, b, c) == (height, width, channels) => return as_wanted(true),
            _ => {}
        }
        self.arrangement().ok_or_else(|| {
            refusal(
                &self.origin,
                format!(
                    "the extents {:?} do not say which of them are channels, and images of {wanted} (channels x height x width) are wanted",
                    self.extents
                ),
                "give (n, channels, height, width), in Python images.transpose(0, 3, 1, 2)",
            )
        })
    }
}

impl Content for Array {
    fn reader(&self, wanted: Wanted, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let Arrangement { shape: own, channels_last } = self.arrangement_for(wanted.shape)?;
        check_channels(own, wanted.shape, &self.origin)?;
        if wanted.values == Values::Floats && own != wanted.shape {
            return Err(refusal(
                &self.origin,
                format!("samples of {own} where {} is wanted", wanted.shape),
                "only pixels are resized: give an array of that shape",
            ));
        }
        let stream = self.bytes()?;
        Ok(Box::new(Rows { array: self.clone(), own, channels_last, wanted, stream, next: 0 }))
    }
}

/// Reads an array image by image.
struct Rows {
    array: Array,
    own: Shape,
    channels_last: bool,
    wanted: Wanted,
    stream: Box<dyn Read + Send>,
    next: usize,
}

impl Reader for Rows {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let mut raw = vec![0; self.own.len() * self.array.element.size];
        for row in self.next..self.array.len().min(self.next + most) {
            self.stream.read_exact(&mut raw).map_err(|error| self.array.broken(row, &error))?;
            match self.wanted.values {
                Values::Bytes => {
                    let image = self.planar(self.pixels(row, &raw)?);
                    place(&image, self.own, self.wanted.shape, chunk);
                }
                Values::Floats => {
                    let numbers = self.planar(self.numbers(row, &raw)?);
                    chunk.floats.extend_from_slice(&numbers);
                }
            }
            chunk.indices.push(row);
            self.next = row + 1;
        }
        if self.next == self.array.len() {
            self.array.check_end(&mut self.stream)?;
        }
        Ok(())
    }
}

impl Rows {
    /// Channel after channel instead of pixel after pixel.
    fn planar<T: Copy>(&self, sample: Vec<T>) -> Vec<T> {
        if !self.channels_last {
            return sample;
        }
        let channels = self.own.channels;
        let of = |c| sample.iter().skip(c).step_by(channels).copied();
        (0..channels).flat_map(of).collect()
    }

    /// The numbers as they are.
    fn numbers(&self, row: usize, raw: &[u8]) -> Result<Vec<f32>, DataError> {
        let element = self.array.element;
        let number = |bytes: &[u8]| {
            let value = match element.value(bytes) {
                Number::Whole(value) => value as f32,
                Number::Real(value) => value as f32,
            };
            if value.is_finite() { Ok(value) } else { Err(value) }
        };
        let numbers: Result<Vec<f32>, f32> = raw.chunks_exact(element.size).map(number).collect();
        numbers.map_err(|value| {
            refusal(
                format!("{}[{row}]", self.array.origin),
                format!("{value} is not a number that can be trained on"),
                "replace it, in Python numpy.nan_to_num(array)",
            )
        })
    }

    /// Whole numbers are bytes; others are fractions of white.
    fn pixels(&self, row: usize, raw: &[u8]) -> Result<Vec<u8>, DataError> {
        let element = self.array.element;
        if (element.kind, element.size) == (b'u', 1) {
            return Ok(raw.to_vec());
        }
        let byte = |bytes: &[u8]| match element.value(bytes) {
            Number::Whole(value) => u8::try_from(value).map_err(|_| {
                (
                    format!("{value} is not a pixel value"),
                    "store pixels as whole numbers from 0 to 255",
                )
            }),
            Number::Real(value) if (0.0..=1.0).contains(&value) => {
                Ok((value * 255.0).round() as u8)
            }
            Number::Real(value) => Err((
                format!(
                    "{} is not a pixel value: numbers with a fraction are read as pixels from 0 to 1",
                    value as f32
                ),
                "store raw pixels from 0 to 255, in Python images.astype(\"uint8\"); Formant normalises them itself",
            )),
        };
        let numbers = raw.chunks_exact(element.size);
        let pixels: Result<Vec<u8>, _> = numbers.map(byte).collect();
        pixels.map_err(|(found, remedy)| {
            refusal(format!("{}[{row}]", self.array.origin), found, remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_kind_are_read() {
        let whole =
            |kind, size, big_endian, bytes: &[u8]| match (Element { kind, size, big_endian })
                .value(bytes)
            {
                Number::Whole(value) => value,
                Number::Real(value) => panic!("{value}"),
            };
        assert_eq!(whole(b'u', 1, false, &[255]), 255);
        assert_eq!(whole(b'i', 1, false, &[255]), -1);
        assert_eq!(whole(b'u', 2, true, &[1, 2]), 258);
        assert_eq!(whole(b'i', 2, false, &[0xfe, 0xff]), -2);
        assert_eq!(whole(b'i', 4, true, &[0xff, 0xff, 0xff, 0xfd]), -3);
        assert_eq!(whole(b'i', 8, false, &(-5_i64).to_le_bytes()), -5);
        assert_eq!(whole(b'u', 8, false, &u64::MAX.to_le_bytes()), i128::from(u64::MAX));
        let real = |size, big_endian, bytes: &[u8]| match (Element { kind: b'f', size, big_endian })
            .value(bytes)
        {
            Number::Real(value) => value,
            Number::Whole(value) => panic!("{value}"),
        };
        assert_eq!(real(4, false, &0.5_f32.to_le_bytes()), 0.5);
        assert_eq!(real(4, true, &0.5_f32.to_be_bytes()), 0.5);
        assert_eq!(real(8, true, &(-0.25_f64).to_be_bytes()), -0.25);
    }
}
