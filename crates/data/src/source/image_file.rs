//! PNG, JPEG, WebP and BMP files, each one picture.

use super::fit::{self, Fitting, Picture, fit};
use super::share::check_bytes;
use super::{Chunk, Content, Reader, Suitable, Wanted, refusal};
use crate::DataError;
use crate::share::file_error;
use formant_numerics::{Shape, Size};
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};
use std::fs::File;
use std::io::BufReader;
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
        let shape = wanted.shape;
        check_bytes(wanted, "the images")?;
        if !matches!(shape.channels, 1 | 3) {
            let path = self.paths.first().map_or(Path::new(""), PathBuf::as_path);
            return Err(refusal(
                path.display(),
                format!("a picture cannot be brought into {} channels", shape.channels),
                "give images with that many channels as a NumPy array (n, channels, height, width)",
            ));
        }
        let (paths, skip_bad) = (self.paths.clone(), self.skip_bad);
        let threads = threads.clamp(1, MOST_THREADS);
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

/// Height, width and whether there are colours, from a file's header.
fn extents(path: &Path) -> Result<(Size, bool), DataError> {
    let reader = opened(path)?;
    let decoder = reader.into_decoder().map_err(|error| explained(path, error))?;
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
    let one = |path: &PathBuf| {
        let picture = decode(path)?;
        let mut pixels = Vec::with_capacity(shape.len());
        let fitting = fit(picture, shape, &mut pixels);
        Ok((pixels, fitting))
    };
    if threads == 1 || paths.len() == 1 {
        return paths.iter().map(one).collect();
    }
    let parts = paths.chunks(paths.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<Decoded>>()))
            .collect();
        let joined = running.into_iter().map(|thread| match thread.join() {
            Ok(decoded) => decoded,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}

/// Reads one picture as people see it: turned as its EXIF entry says, without its alpha channel.
pub(crate) fn decode(path: &Path) -> Result<Picture, DataError> {
    let reader = opened(path)?;
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
        Ok(Err((width, height))) => Err(too_large(path, &format!("{width}x{height} pixels"))),
        Err(error) => Err(explained(path, error)),
    }
}

fn opened(path: &Path) -> Result<ImageReader<BufReader<File>>, DataError> {
    let file = File::open(path).map_err(|source| file_error("read", path, source))?;
    let mut reader = ImageReader::new(BufReader::new(file))
        .with_guessed_format()
        .map_err(|source| file_error("read", path, source))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    Ok(reader)
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

fn too_large(path: &Path, size: &str) -> DataError {
    refusal(
        path.display(),
        format!("its {size} need more than {} MiB", MOST_BYTES >> 20),
        "make the picture smaller, or leave it out",
    )
}

fn explained(path: &Path, error: ImageError) -> DataError {
    match error {
        ImageError::IoError(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
            broken(path, &source.to_string())
        }
        ImageError::Limits(_) => too_large(path, "pixels"),
        ImageError::Unsupported(error) => refusal(
            path.display(),
            format!("this kind of image is not read ({error})"),
            "save it as PNG, JPEG, WebP or BMP",
        ),
        error => broken(path, &error.to_string()),
    }
}

fn broken(path: &Path, error: &str) -> DataError {
    let found = format!("it is not a complete image ({error})");
    refusal(path.display(), found, "take another copy of it, or leave it out with --skip-bad")
}
