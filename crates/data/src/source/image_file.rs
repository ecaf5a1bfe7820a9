//! PNG, JPEG, WebP and BMP files, each one picture.

use super::fit::{self, Fitting, Picture, fit};
use super::share::check_bytes;
use super::{Chunk, Content, Reader, Suitable, Wanted, refusal};
use crate::DataError;
use crate::share::file_error;
use formant_numerics::{Shape, Size};
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the names of image files end.
pub(crate) const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "webp", "bmp", "dib"];

/// What a decoded picture may need: one of 100 million pixels fits, and a few hundred bytes that
/// claim to be one of ten billion do not.
const MOST_BYTES: u64 = 512 << 20;
/// Pictures that are decoded at the same time, each of up to [`MOST_BYTES`].
const MOST_THREADS: usize = 8;

/// Whether a file is an image by its name.
pub(crate) fn is_named_so(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
}

/// Image files, in the order in which they were given.
pub(crate) struct Files {
    pub(crate) paths: Arc<Vec<PathBuf>>,
    pub(crate) skip_bad: bool,
}

impl Content for Files {
    fn reader(&self, wanted: Wanted, threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let path = self.paths.first().map_or(Path::new(""), PathBuf::as_path);
        check_picture(wanted, &path.display().to_string())?;
        let shape = wanted.shape;
        let (paths, skip_bad) = (self.paths.clone(), self.skip_bad);
        Ok(Box::new(Decoder { paths, skip_bad, shape, threads, next: 0 }))
    }

    fn suitable(&self, size: Option<Size>) -> Result<Option<Suitable>, DataError> {
        let step = self.paths.len().div_ceil(LOOKED_AT).max(1);
        let mut seen = Vec::new();
        for path in self.paths.iter().step_by(step) {
            match extents(path) {
                Ok(found) => seen.push(found),
                Err(_) if self.skip_bad => {}
                Err(error) => return Err(error),
            }
        }
        Ok(fit::suitable(&seen, size))
    }
}

/// How many files are looked at to find a size that suits them.
const LOOKED_AT: usize = 256;

/// An error unless pictures can be brought into what is wanted.
pub(crate) fn check_picture(wanted: Wanted, place: &str) -> Result<(), DataError> {
    check_bytes(wanted, "the images")?;
    if matches!(wanted.shape.channels, 1 | 3) {
        return Ok(());
    }
    Err(refusal(
        place,
        format!("a picture cannot be brought into {} channels", wanted.shape.channels),
        "give images with that many channels as a NumPy array (n, channels, height, width)",
    ))
}

/// Height, width and whether there are colours, from a file's header.
fn extents(path: &Path) -> Result<(Size, bool), DataError> {
    measured(opened(path)?, &path.display().to_string())
}

/// The same from the bytes of a file.
pub(crate) fn extents_of(bytes: &[u8], place: &str) -> Result<(Size, bool), DataError> {
    measured(within(bytes, place)?, place)
}

fn measured(
    reader: ImageReader<impl BufRead + Seek>,
    place: &str,
) -> Result<(Size, bool), DataError> {
    let decoder = reader.into_decoder().map_err(|error| explained(place, error))?;
    let (width, height) = decoder.dimensions();
    let size = Size { height: height as usize, width: width as usize };
    Ok((size, decoder.color_type().has_color()))
}

struct Decoder {
    paths: Arc<Vec<PathBuf>>,
    skip_bad: bool,
    shape: Shape,
    threads: usize,
    next: usize,
}

impl Reader for Decoder {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let end = self.paths.len().min(self.next + most);
        let (first, paths) = (self.next, &self.paths[self.next..end]);
        self.next = end;
        let decoded = decode_all(paths, self.shape, self.threads);
        for (place, picture) in decoded.into_iter().enumerate() {
            match picture {
                Ok((pixels, fitting)) => {
                    chunk.pixels.extend_from_slice(&pixels);
                    chunk.indices.push(first + place);
                    chunk.fitting.add(&fitting);
                }
                Err(error) if self.skip_bad => chunk.skipped.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

type Decoded = Result<(Vec<u8>, Fitting), DataError>;

/// Every file's pixels in the wanted shape, in the order of the files.
fn decode_all(paths: &[PathBuf], shape: Shape, threads: usize) -> Vec<Decoded> {
    in_parallel(paths, threads, &|path: &PathBuf| Ok(fitted(decode(path)?, shape)))
}

/// A picture's pixels in the wanted shape.
pub(crate) fn fitted(picture: Picture, shape: Shape) -> (Vec<u8>, Fitting) {
    let mut pixels = Vec::with_capacity(shape.len());
    let fitting = fit(picture, shape, &mut pixels);
    (pixels, fitting)
}

/// What is made of each thing, in their order and by several threads.
pub(crate) fn in_parallel<T: Sync, U: Send>(
    things: &[T],
    threads: usize,
    make: &(impl Fn(&T) -> U + Sync),
) -> Vec<U> {
    let threads = threads.clamp(1, MOST_THREADS);
    if threads == 1 || things.len() <= 1 {
        return things.iter().map(make).collect();
    }
    let parts = things.chunks(things.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(make).collect::<Vec<U>>()))
            .collect();
        let joined = running.into_iter().map(|thread| match thread.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}

/// Reads one picture as people see it: turned as its EXIF entry says, without its alpha channel.
pub(crate) fn decode(path: &Path) -> Result<Picture, DataError> {
    decoded(opened(path)?, &path.display().to_string())
}

/// The same of the bytes of a file.
pub(crate) fn decode_bytes(bytes: &[u8], place: &str) -> Result<Picture, DataError> {
    decoded(within(bytes, place)?, place)
}

fn decoded(reader: ImageReader<impl BufRead + Seek>, place: &str) -> Result<Picture, DataError> {
    let image = (|| {
        let mut decoder = reader.into_decoder()?;
        if decoder.total_bytes() > MOST_BYTES {
            let (width, height) = decoder.dimensions();
            return Ok(Err((width, height)));
        }
        let orientation = decoder.orientation()?;
        let mut image = DynamicImage::from_decoder(decoder)?;
        image.apply_orientation(orientation);
        Ok(Ok(image))
    })();
    match image {
        Ok(Ok(image)) => Ok(pixels(image)),
        Ok(Err((width, height))) => Err(too_large(place, &format!("{width}x{height} pixels"))),
        Err(error) => Err(explained(place, error)),
    }
}

fn opened(path: &Path) -> Result<ImageReader<BufReader<File>>, DataError> {
    let fail = |source| file_error("read", path, source);
    let file = File::open(path).map_err(fail)?;
    Ok(limited(ImageReader::new(BufReader::new(file)).with_guessed_format().map_err(fail)?))
}

fn within<'b>(bytes: &'b [u8], place: &str) -> Result<ImageReader<Cursor<&'b [u8]>>, DataError> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    reader.map(limited).map_err(|error| broken(place, &error.to_string()))
}

fn limited<R: BufRead + Seek>(mut reader: ImageReader<R>) -> ImageReader<R> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    reader
}

fn pixels(image: DynamicImage) -> Picture {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (channels, bytes) = if image.color().has_color() {
        (3, image.into_rgb8().into_raw())
    } else {
        (1, image.into_luma8().into_raw())
    };
    Picture { channels, width, height, bytes }
}

fn too_large(place: &str, size: &str) -> DataError {
    refusal(
        place,
        format!("its {size} need more than {} MiB", MOST_BYTES >> 20),
        "make the picture smaller, or leave it out",
    )
}

fn explained(place: &str, error: ImageError) -> DataError {
    match error {
        ImageError::IoError(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
            broken(place, &source.to_string())
        }
        ImageError::Limits(_) => too_large(place, "pixels"),
        ImageError::Unsupported(error) => refusal(
            place,
            format!("this kind of image is not read ({error})"),
            "save it as PNG, JPEG, WebP or BMP",
        ),
        error => broken(place, &error.to_string()),
    }
}

fn broken(place: &str, error: &str) -> DataError {
    let found = format!("it is not a complete image ({error})");
    refusal(place, found, "take another copy of it, or leave it out with --skip-bad")
}
