//! Images that users bring: one module per format.
//!
//! [`Source::open`] finds the format from what is there and looks at it: how many images, of which
//! shape, with which labels. Pixels are read later and in chunks, by [`Source::stream`], which gives
//! them all one shape; so a set may be larger than memory.

mod array;
mod cifar;
mod fit;
mod format;
mod idx;
mod image_file;
mod image_folder;
mod inaturalist;
mod json;
mod known;
mod leaf;
mod mapped;
mod npy;
mod npz;
mod parquet;
mod share;
mod sight;
mod table;

pub(crate) use array::opened;
pub use fit::Fitting;
use fit::Suitable;
pub(crate) use format::Classes;
pub use format::{FORMATS, Format, Parts};

use crate::{DataError, Normalisation, Owners, Schema, Split, Unlabelled, Values};
use formant_numerics::{Shape, Size};
use image_file::Files;
use sight::{Kind, Sight, kind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was found, and what to do about it.
type Problem = (String, String);

/// What cannot be seen from the files themselves.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The part that is wanted, of formats that hold several.
    pub split: Split,
    /// A file of labels, for formats that keep them apart.
    pub labels: Option<PathBuf>,
    /// The array of images in an `.npz` file.
    pub images_key: Option<String>,
    /// The array of labels in an `.npz` file.
    pub labels_key: Option<String>,
    /// The column of a table that holds the labels, or the array of an `.npz` file.
    pub label: Option<String>,
    /// Whose samples these are: the column of a table, or `folder` if the first level of folders says so.
    pub client: Option<String>,
    /// Columns of a table that are left out.
    pub exclude: Vec<String>,
    /// How rows of a table become samples, where a model or a server has decided that already.
    pub schema: Option<Schema>,
    /// The size to which pictures are brought; without it, one that suits them.
    pub size: Option<Size>,
    /// Leave out image files that cannot be read, instead of giving up.
    pub skip_bad: bool,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            split: Split::Test,
            labels: None,
            images_key: None,
            labels_key: None,
            label: None,
            client: None,
            exclude: Vec::new(),
            schema: None,
            size: None,
            skip_bad: false,
        }
    }
}

/// Images of a user, opened but not yet read.
///
/// ```
/// use formant_data::{Source, SourceOptions, Wanted};
/// use formant_numerics::Shape;
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("two-images-idx3-ubyte");
/// let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
/// std::fs::write(&path, [&header[..], &[1, 2, 3, 4]].concat()).unwrap();
///
/// let source = Source::open(&path, &SourceOptions::default())?;
/// assert_eq!((source.len(), source.shape()), (2, Some(Shape::new(1, 1, 2))));
/// let mut stream = source.stream(Wanted::pixels(Shape::new(1, 1, 2)), 1)?;
/// let chunk = stream.next(64).unwrap()?;
/// assert_eq!(chunk.pixels, [1, 2, 3, 4]);
/// assert!(stream.next(64).is_none());
/// # Ok::<(), formant_data::DataError>(())
/// ```
pub struct Source {
    origin: String,
    format: &'static str,
    len: usize,
    shape: Option<Shape>,
    /// One for each image, or why there are none.
    labels: Result<Vec<u16>, Problem>,
    class_names: Option<Vec<String>>,
    names: Names,
    /// What the samples are made of, if nobody asks for anything else.
    values: Values,
    /// Whose they are, where the source says so.
    owners: Option<Owners>,
    /// How samples are normalised, where that is known.
    pub(crate) normalisation: Option<Vec<Normalisation>>,
    /// How rows become samples, of a table.
    schema: Option<Schema>,
    content: Box<dyn Content>,
}

/// What samples are wanted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The shape of each.
    pub shape: Shape,
    /// What they are made of.
    pub values: Values,
}

/// What the images are called.
enum Names {
    /// Each is a file.
    Paths(Arc<Vec<PathBuf>>),
    /// By their places in one file.
    Numbered,
    /// By their rows in one table, from 1 on.
    Rows,
}

impl Wanted {
    /// Pictures of a shape.
    pub fn pixels(shape: Shape) -> Self {
        Self { shape, values: Values::Bytes }
    }
}

/// The pixels of a source of some format.
trait Content: Send + Sync {
    /// Begins to read from the first image on.
    fn reader(&self, wanted: Wanted, threads: usize) -> Result<Box<dyn Reader>, DataError>;

    /// A shape that suits images of different sizes; none if the format has one shape for all.
    fn suitable(&self, _size: Option<Size>) -> Result<Option<Suitable>, DataError> {
        Ok(None)
    }
}

/// Reads images one after another.
trait Reader: Send {
    /// Appends the next images to a chunk, at most `most`.
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError>;
}

/// Images that were read together.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Which images of the source these are, ascending.
    pub indices: Vec<usize>,
    /// Their bytes, image after image and channel after channel.
    pub pixels: Vec<u8>,
    /// The same of samples that are real numbers; one of both is empty.
    pub floats: Vec<f32>,
    /// What had to be done to them.
    pub fitting: Fitting,
    /// Why images between them are left out.
    pub skipped: Vec<DataError>,
}

impl Chunk {
    /// The samples' values, whichever kind they are.
    pub fn raw(&mut self, values: Values) -> Unlabelled {
        match values {
            Values::Bytes => Unlabelled::Bytes(std::mem::take(&mut self.pixels)),
            Values::Floats => Unlabelled::Floats(std::mem::take(&mut self.floats)),
        }
    }
}

/// The pixels of a source, chunk by chunk.
pub struct Stream {
    reader: Box<dyn Reader>,
    done: usize,
    len: usize,
}

impl Stream {
    /// The next images, at most `most`; nothing after the last one or after an error.
    pub fn next(&mut self, most: usize) -> Option<Result<Chunk, DataError>> {
        let wanted = most.min(self.len - self.done);
        if wanted == 0 {
            return None;
        }
        self.done += wanted;
        let mut chunk = Chunk::default();
        let read = self.reader.read(wanted, &mut chunk);
        if read.is_err() {
            self.done = self.len;
        }
        Some(read.map(|()| chunk))
    }
}

impl Source {
    /// Opens one input: an image file, a folder of images, a table, an IDX or NumPy file, or a share.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self, DataError> {
        let sight = Sight::of(path)?;
        if table::csv::is_folder(&sight) {
            return table::csv::open(&sight, options);
        }
        if parquet::is_folder(&sight) {
            return parquet::open(&sight, options);
        }
        if sight.is_folder() && image_folder::is_one(&sight) {
            return image_folder::open(path, options);
        }
        let Some(kind) = sight.kind() else {
            return Parts::open(path, options)?.part(options.split);
        };
        match kind {
            Kind::Image => Ok(Self::files(vec![path.into()], options)),
            Kind::Csv => table::csv::open(&sight, options),
            Kind::Parquet => parquet::open(&sight, options),
            Kind::Idx => idx::open(path, options),
            Kind::Npy => npy::open(path, options),
            Kind::Zip => npz::open(path, options),
            Kind::Safetensors => share::open(path, options),
            Kind::Formant => mapped::open(path, options),
        }
    }

    /// Opens several inputs. Image files that follow one another become one source, so that they
    /// are read and predicted together.
    pub fn open_all(paths: &[PathBuf], options: &SourceOptions) -> Result<Vec<Self>, DataError> {
        let (mut sources, mut files) = (Vec::new(), Vec::new());
        for path in paths {
            if !path.is_dir() && kind(path)? == Kind::Image {
                files.push(path.clone());
                continue;
            }
            if !files.is_empty() {
                sources.push(Self::files(std::mem::take(&mut files), options));
            }
            sources.push(Self::open(path, options)?);
        }
        if !files.is_empty() {
            sources.push(Self::files(files, options));
        }
        Ok(sources)
    }

    /// Whether a file is a share of `formant data export`.
    pub(crate) fn is_share(path: &Path) -> Result<bool, DataError> {
        Ok(Sight::of(path)?.kind() == Some(Kind::Safetensors))
    }

    /// A dataset of the [`CATALOGUE`](crate::CATALOGUE): its global test images, or its training
    /// images.
    pub fn known(name: &str, dir: Option<&Path>, split: Split) -> Result<Self, DataError> {
        known::open(name, dir, split)
    }

    fn files(paths: Vec<PathBuf>, options: &SourceOptions) -> Self {
        let paths = Arc::new(paths);
        let origin = match paths.as_slice() {
            [only] => only.display().to_string(),
            _ => format!("{} image files", paths.len()),
        };
        let why = (
            "an image file has no label".into(),
            "give a folder with a folder for each class: CLASS/IMAGE.png".into(),
        );
        let names = Names::Paths(paths.clone());
        let files = Files { paths, skip_bad: options.skip_bad };
        Self { names, ..Self::new(origin, "image", files.paths.len(), Err(why), files) }
    }

    /// A source of pixels of which no more is known.
    fn new(
        origin: String,
        format: &'static str,
        len: usize,
        labels: Result<Vec<u16>, Problem>,
        content: impl Content + 'static,
    ) -> Self {
        Self {
            origin,
            format,
            len,
            shape: None,
            labels,
            class_names: None,
            names: Names::Numbered,
            values: Values::Bytes,
            owners: None,
            normalisation: None,
            schema: None,
            content: Box::new(content),
        }
    }

    /// What a message calls it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The format, in a word or two.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The shape of every image, where the format has just one.
    pub fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// What an image is called: its file, or its place in the file.
    pub fn name(&self, i: usize) -> String {
        match &self.names {
            Names::Paths(paths) => paths.get(i).map_or(String::new(), |p| p.display().to_string()),
            Names::Numbered => format!("{}[{i}]", self.origin),
            Names::Rows => format!("{}:{}", self.origin, i + 1),
        }
    }

    /// The class of each image; an error that says why there are none.
    pub fn labels(&self) -> Result<&[u16], DataError> {
        match &self.labels {
            Ok(labels) => Ok(labels),
            Err((found, remedy)) => Err(refusal(&self.origin, found.clone(), remedy)),
        }
    }

    /// The names of the classes that the labels count, where the source names them.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// What the samples are made of, if nobody asks for anything else.
    pub fn values(&self) -> Values {
        self.values
    }

    /// Whose the samples are, where the source says so.
    pub fn owners(&self) -> Option<&Owners> {
        self.owners.as_ref()
    }

    /// How rows become samples, of a table.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// Begins to read the samples, all as they are wanted, decoding with up to `threads` threads.
    pub fn stream(&self, wanted: Wanted, threads: usize) -> Result<Stream, DataError> {
        let reader = self.content.reader(wanted, threads)?;
        Ok(Stream { reader, done: 0, len: self.len })
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("origin", &self.origin)
            .field("format", &self.format)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// The error that an input does not hold what it should.
pub(crate) fn refusal(place: impl std::fmt::Display, found: String, remedy: &str) -> DataError {
    DataError::Input { place: format!("{place}"), found, remedy: remedy.into() }
}
