//! The data of one client in one file.
//!
//! A share is a safetensors file with the tensors `train.images` (bytes, samples x channels x
//! height x width) and `train.labels` (whole numbers), and, if the client has them,
//! `validation.images`, `validation.labels`, `test.images` and `test.labels`. Python makes one in
//! three lines:
//!
//! ```python
//! from safetensors.numpy import save_file
//! # images: uint8 of shape (n, channels, height, width); labels: int64 of shape (n,)
//! save_file({"train.images": images, "train.labels": labels}, "client.safetensors")
//! ```

mod reader;

use crate::{ClientData, DataError, Dataset, Description, Federation, Images, Normalisation};
use formant_numerics::Shape;
use reader::Problem;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Images as bytes, one after the other, and their classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Portion {
    /// Channel after channel within an image.
    pub pixels: Vec<u8>,
    /// One class per image.
    pub labels: Vec<u16>,
}

impl Portion {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

/// The parts of a share, in the order of [`Share`]'s fields.
pub(crate) const PARTS: [&str; 3] = ["train", "validation", "test"];

/// The data that one client holds.
///
/// ```
/// use formant_data::{Portion, Share, description};
/// use formant_numerics::Shape;
///
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("client.safetensors");
/// let train = Portion { pixels: vec![7; 2 * 28 * 28], labels: vec![3, 9] };
/// let share = Share::new(Shape::new(1, 28, 28), train, Portion::default(), Portion::default())?;
/// std::fs::write(&path, share.to_bytes()?).unwrap();
///
/// let (dataset, client) = Share::read(&path)?.into_dataset("mine", &description("mnist")?)?;
/// assert_eq!((dataset.train.label(1), client.train), (9, vec![0, 1]));
/// # Ok::<(), formant_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    shape: Shape,
    /// Train, validation and test.
    parts: [Portion; 3],
    /// Where it came from, for error messages.
    origin: String,
}

impl Share {
    /// A share made in memory. Only `train` must hold something.
    pub fn new(
        shape: Shape,
        train: Portion,
        validation: Portion,
        test: Portion,
    ) -> Result<Self, DataError> {
        let share =
            Self { shape, parts: [train, validation, test], origin: "the share in memory".into() };
        for (part, samples) in PARTS.iter().zip(&share.parts) {
            if samples.len().checked_mul(shape.len()) != Some(samples.pixels.len()) {
                let found = format!(
                    "{part}.images has {} bytes, but {part}.labels has {} entries of shape {shape}",
                    samples.pixels.len(),
                    samples.len()
                );
                return Err(share.refuse((found, "give every image one label".into())));
            }
        }
        share.check_extent()?;
        Ok(share)
    }

    /// The samples of one client of a federation, in the order in which the simulator visits them.
    ///
    /// An error if the samples are not kept as bytes. Panics when there is no such client, as a slice
    /// does.
    pub fn of_client(federation: &Federation, client: usize) -> Result<Self, DataError> {
        let samples = &*federation.dataset.train;
        let held = &federation.clients[client];
        let take = |indices: &[u32]| {
            let mut portion = Portion::default();
            for &index in indices {
                let bytes = samples.bytes(index as usize).ok_or_else(|| DataError::Share {
                    file: format!("the share of client {client}"),
                    found: "its samples are not bytes".into(),
                    remedy: "only images can be written as a share".into(),
                })?;
                portion.pixels.extend_from_slice(&bytes);
                portion.labels.push(samples.label(index as usize) as u16);
            }
            Ok::<_, DataError>(portion)
        };
        let parts = [take(&held.train)?, take(&held.validation)?, take(&held.test)?];
        Ok(Self { shape: samples.shape(), parts, origin: format!("client {client}") })
    }

    /// Reads a share. Anything wrong with the file is an error that names the tensor.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let fail = |source: io::Error| file_error("read", path, source);
        if !fs::metadata(path).map_err(fail)?.is_file() {
            return Err(fail(io::Error::other("it is not a regular file")));
        }
        let bytes = fs::read(path).map_err(fail)?;
        Self::from_bytes(&bytes, path.display().to_string())
    }

    /// Reads a share from the content of a file; `origin` is what an error calls it.
    pub fn from_bytes(bytes: &[u8], origin: impl Into<String>) -> Result<Self, DataError> {
        let origin = origin.into();
        let refuse =
            |(found, remedy): Problem| DataError::Share { file: origin.clone(), found, remedy };
        let (shape, parts) = reader::read(bytes).map_err(refuse)?;
        let share = Self { shape, parts, origin };
        share.check_extent()?;
        Ok(share)
    }

    /// The content of a file, for [`Share::read`] and for other tools. Parts without samples are left out;
    /// labels are 64-bit numbers, which every tool understands.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DataError> {
        let Shape { channels, height, width } = self.shape;
        let labels = self.parts.each_ref().map(|part| {
            part.labels.iter().flat_map(|&l| i64::from(l).to_le_bytes()).collect::<Vec<u8>>()
        });
        let fail = |error: safetensors::SafeTensorError| {
            self.refuse((error.to_string(), "please report this".into()))
        };
        let mut tensors = Vec::new();
        for ((name, part), labels) in PARTS.iter().zip(&self.parts).zip(&labels) {
            if !part.is_empty() {
                let shape = vec![part.len(), channels, height, width];
                let images = TensorView::new(Dtype::U8, shape, &part.pixels).map_err(fail)?;
                let labels = TensorView::new(Dtype::I64, vec![part.len()], labels).map_err(fail)?;
                tensors.push((format!("{name}.images"), images));
                tensors.push((format!("{name}.labels"), labels));
            }
        }
        safetensors::serialize(tensors, None).map_err(fail)
    }

    /// The shape of one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What the client trains on.
    pub fn train(&self) -> &Portion {
        &self.parts[0]
    }

    /// What it chooses settings by.
    pub fn validation(&self) -> &Portion {
        &self.parts[1]
    }

    /// What its personal model is judged on.
    pub fn test(&self) -> &Portion {
        &self.parts[2]
    }

    /// An error unless the images have a shape and the labels are below a number of classes.
    pub fn check(&self, shape: Shape, classes: usize) -> Result<(), DataError> {
        if self.shape != shape {
            let found = format!("train.images holds images of {}, not of {shape}", self.shape);
            return Err(self.refuse((
                found,
                "bring the images into that shape, or take part in another experiment".into(),
            )));
        }
        for (name, part) in PARTS.iter().zip(&self.parts) {
            if let Some(i) = part.labels.iter().position(|&label| usize::from(label) >= classes) {
                let found = format!("{name}.labels[{i}] = {} is not a class", part.labels[i]);
                let remedy = format!(
                    "there are {classes} classes: number them from 0 to {}",
                    classes.saturating_sub(1)
                );
                return Err(self.refuse((found, remedy)));
            }
        }
        Ok(())
    }

    /// The share as a dataset whose training images are the client's train, validation and test
    /// samples one after the other, and which of them are which. The global test set is empty.
    ///
    /// Training on it is bit for bit what the simulator does with the same samples in the same
    /// order: the order of batches is drawn by positions, not by indices.
    pub fn into_dataset(
        self,
        name: impl Into<String>,
        description: &Description,
    ) -> Result<(Dataset, ClientData), DataError> {
        self.check(description.shape, description.class_names.len())?;
        let normalisation: &[Normalisation] = &description.normalisation;
        let mut next = 0;
        let [train, validation, test] = self.parts.each_ref().map(|part| {
            let first = next;
            next += part.len() as u32;
            (first..next).collect::<Vec<u32>>()
        });
        let mut all = Portion::default();
        for part in self.parts {
            all.pixels.extend_from_slice(&part.pixels);
            all.labels.extend_from_slice(&part.labels);
        }
        let images = Images::new(self.shape, all.pixels, all.labels, normalisation)?;
        let none = Images::new(self.shape, Vec::new(), Vec::new(), normalisation)?;
        let dataset = Dataset::from_parts(name, description.class_names.clone(), images, none)?;
        Ok((dataset, ClientData { train, validation, test }))
    }

    /// An error unless there is something to train on and every sample can be numbered.
    fn check_extent(&self) -> Result<(), DataError> {
        if self.shape.is_empty() {
            let found =
                format!("train.images holds images of {}, which have no pixels", self.shape);
            return Err(self.refuse((found, "every extent must be at least 1".into())));
        }
        if self.parts[0].is_empty() {
            let found = "train.labels has no entries".to_owned();
            return Err(self.refuse((found, "give at least one training image".into())));
        }
        let samples: usize = self.parts.iter().map(Portion::len).sum();
        if u32::try_from(samples).is_err() {
            let found = format!("it holds {samples} samples");
            let remedy = format!("samples are numbered with 32 bits: keep at most {}", u32::MAX);
            return Err(self.refuse((found, remedy)));
        }
        Ok(())
    }

    fn refuse(&self, (found, remedy): Problem) -> DataError {
        DataError::Share { file: self.origin.clone(), found, remedy }
    }
}

/// A refusal of the operating system, with the usual advice.
pub(crate) fn file_error(action: &'static str, path: &Path, source: io::Error) -> DataError {
    let remedy = match source.kind() {
        ErrorKind::NotFound => "check the path; the file or folder is not there",
        ErrorKind::PermissionDenied => "change the permissions, or choose another place",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space and try again",
        _ => "check the path and the disk",
    };
    DataError::ShareFile { action, path: path.into(), source, remedy }
}
