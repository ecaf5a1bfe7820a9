//! Arrays of Python as a dataset, without copies.

use crate::error::raise;
use formant_data::{Lent, LentDataset, LentSamples, Normalisation, Owners};
use formant_numerics::Shape;
use numpy::{PyArray1, PyArray4, PyReadonlyArray1, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::sync::Arc;

/// Samples that training and scoring read from the arrays they were given as.
#[pyclass(frozen, module = "formant._formant")]
pub(crate) struct Dataset {
    pub(crate) inner: formant_data::Dataset,
    /// Whether a test set was split off the samples that were given.
    split: bool,
}

/// An array that stays alive, and whose flag says that nobody writes to it through NumPy.
struct Held<T> {
    start: *const T,
    len: usize,
    _array: Py<PyAny>,
}

// SAFETY: the numbers are only read, and the array that owns them lives as long as this.
unsafe impl<T: Sync> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Held<T> {}

impl<T> AsRef<[T]> for Held<T> {
    fn as_ref(&self) -> &[T] {
        // SAFETY: `start` and `len` are those of a contiguous array that `_array` keeps alive, whose memory NumPy never
        // moves. Whoever changes it from Python while a run reads it gets other numbers, as documented, of a type for
        // which every bit pattern is a value.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

fn held<T: numpy::Element>(array: &PyReadonlyArray4<'_, T>) -> PyResult<Held<T>> {
    let slice = array.as_slice()?;
    let (start, len) = (slice.as_ptr(), slice.len());
    let array: &Bound<'_, PyArray4<T>> = array;
    Ok(Held { start, len, _array: array.clone().into_any().unbind() })
}

fn lent(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<(Lent, Shape)> {
    let shape = |s: &[usize]| Shape::new(s[1], s[2], s[3]);
    if let Ok(pixels) = x.extract::<PyReadonlyArray4<'_, u8>>() {
        let shape = shape(pixels.shape());
        return Ok((Lent::Bytes(Arc::new(held(&pixels)?)), shape));
    }
    if let Ok(values) = x.extract::<PyReadonlyArray4<'_, f32>>() {
        let shape = shape(values.shape());
        return Ok((Lent::Floats(Arc::new(held(&values)?)), shape));
    }
    Err(raise(
        py,
        "samples are no contiguous array of uint8 or float32 with four extents\nhint: give (n, channels, height, width)",
    ))
}

fn samples(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &PyReadonlyArray1<'_, u16>,
) -> PyResult<(LentSamples, Shape)> {
    let (values, shape) = lent(py, x)?;
    let labels = y.as_slice()?.to_vec();
    let numbers = match &values {
        Lent::Bytes(all) => (**all).as_ref().len(),
        Lent::Floats(all) => (**all).as_ref().len(),
    };
    if numbers == 0 || numbers != labels.len() * shape.len() {
        let count = numbers / shape.len().max(1);
        return Err(raise(
            py,
            format!(
                "there are {} labels for {count} samples of {shape}\nhint: give every sample one label, and one sample at least",
                labels.len()
            ),
        ));
    }
    Ok((LentSamples { values, labels }, shape))
}

/// Refuses numbers that would be taken for others, or that nothing can be divided by.
fn check_numbers(
    normalisation: Option<&[(f32, f32)]>,
    channels: usize,
    test_fraction: f64,
) -> Result<(), String> {
    if !(0.0..=0.9).contains(&test_fraction) {
        return Err(format!("test_fraction is {test_fraction}\nhint: give a number from 0 to 0.9"));
    }
    let usable = |(mean, std): &(f32, f32)| mean.is_finite() && std.is_finite() && *std > 0.0;
    match normalisation {
        Some(pairs) if pairs.len() != channels || !pairs.iter().all(usable) => Err(format!(
            "normalisation is {pairs:?}\nhint: give a mean and a deviation above 0 for each of {channels} channels"
        )),
        _ => Ok(()),
    }
}

/// A test set that belongs to training samples.
fn tests(
    py: Python<'_>,
    train: (&LentSamples, Shape),
    x: Option<&Bound<'_, PyAny>>,
    y: Option<&PyReadonlyArray1<'_, u16>>,
) -> PyResult<Option<LentSamples>> {
    let (x, y) = match (x, y) {
        (Some(x), Some(y)) => (x, y),
        (None, None) => return Ok(None),
        (Some(_), None) => {
            return Err(raise(py, "test_x is given without test_y\nhint: give both, or none"));
        }
        (None, Some(_)) => {
            return Err(raise(py, "test_y is given without test_x\nhint: give both, or none"));
        }
    };
    let (test, shape) = samples(py, x, y)?;
    let is_bytes = |of: &LentSamples| matches!(of.values, Lent::Bytes(_));
    if shape != train.1 || is_bytes(&test) != is_bytes(train.0) {
        let kind = |of| if is_bytes(of) { "uint8" } else { "float32" };
        return Err(raise(
            py,
            format!(
                "test_x is {} of {shape}, and x is {} of {}\nhint: give both in one type and one shape",
                kind(&test),
                kind(train.0),
                train.1
            ),
        ));
    }
    Ok(Some(test))
}

/// Whose samples are whose, if that is said in full.
fn owners_of(
    of: Option<PyReadonlyArray1<'_, u32>>,
    names: Option<Vec<String>>,
    count: usize,
) -> Result<Option<Owners>, String> {
    let (of, names) = match (of, names) {
        (Some(of), Some(names)) => (of.as_array().to_vec(), names),
        (None, None) => return Ok(None),
        _ => {
            return Err(
                "one of owners and owner_names is given without the other\nhint: give both, or none"
                    .into(),
            );
        }
    };
    if of.len() != count {
        let given = of.len();
        return Err(format!(
            "owners has {given} numbers for {count} samples\nhint: name an owner for each of them"
        ));
    }
    if of.iter().any(|owner| *owner as usize >= names.len()) {
        let clients = names.len();
        return Err(format!("an owner is not among {clients} names\nhint: number them from 0"));
    }
    Ok(Some(Owners { names, of }))
}

#[pymethods]
impl Dataset {
    #[new]
    #[pyo3(signature = (name, x, y, test_x, test_y, *, class_names=None, owners=None, owner_names=None, normalisation=None, test_fraction=0.2))]
    #[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
    fn new(
        py: Python<'_>,
        name: String,
        x: &Bound<'_, PyAny>,
        y: PyReadonlyArray1<'_, u16>,
        test_x: Option<&Bound<'_, PyAny>>,
        test_y: Option<PyReadonlyArray1<'_, u16>>,
        class_names: Option<Vec<String>>,
        owners: Option<PyReadonlyArray1<'_, u32>>,
        owner_names: Option<Vec<String>>,
        normalisation: Option<Vec<(f32, f32)>>,
        test_fraction: f64,
    ) -> PyResult<Self> {
        let (train, shape) = samples(py, x, &y)?;
        let test = tests(py, (&train, shape), test_x, test_y.as_ref())?;
        let owners =
            owners_of(owners, owner_names, train.labels.len()).map_err(|error| raise(py, error))?;
        check_numbers(normalisation.as_deref(), shape.channels, test_fraction)
            .map_err(|error| raise(py, error))?;
        let split = test.is_none() && test_fraction > 0.0;
        let pair = |(mean, std)| Normalisation::new(mean, std);
        let lent = LentDataset {
            name,
            shape,
            train,
            test,
            test_fraction,
            class_names,
            normalisation: normalisation.map(|pairs| pairs.into_iter().map(pair).collect()),
            owners,
        };
        let inner = py.detach(|| lent.dataset()).map_err(|error| raise(py, error))?;
        Ok(Self { inner, split })
    }

    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// Channels, height and width of one sample.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let Shape { channels, height, width } = self.inner.shape;
        (channels, height, width)
    }

    /// Number of classes.
    #[getter]
    fn classes(&self) -> usize {
        self.inner.classes
    }

    /// A name for every class.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.inner.class_names.clone()
    }

    /// Training samples.
    #[getter]
    fn train(&self) -> usize {
        self.inner.train.len()
    }

    /// Samples of the global test set.
    #[getter]
    fn test(&self) -> usize {
        self.inner.test.len()
    }

    /// Whether it is said whose each sample is.
    #[getter]
    fn owned(&self) -> bool {
        self.inner.owners.is_some()
    }

    /// Whether a test set was split off, so that the samples have other numbers than they were given with.
    #[getter]
    fn split(&self) -> bool {
        self.split
    }

    /// What was decided that the arrays do not say.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.inner.remarks.clone()
    }
}

/// Indices as NumPy has them.
pub(crate) fn indices<'py>(py: Python<'py>, all: &[u32]) -> Bound<'py, PyArray1<u32>> {
    PyArray1::from_slice(py, all)
}
