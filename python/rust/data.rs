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
    Ok((LentSamples { values, labels: y.as_slice()?.to_vec() }, shape))
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
        let test = match (test_x, test_y) {
            (Some(x), Some(y)) => Some(samples(py, x, &y)?.0),
            _ => None,
        };
        let owners = match (owners, owner_names) {
            (Some(of), Some(names)) => {
                let of = of.as_slice()?.to_vec();
                if of.iter().any(|owner| *owner as usize >= names.len()) {
                    let clients = names.len();
                    return Err(raise(
                        py,
                        format!("an owner is not among {clients} names\nhint: number them from 0"),
                    ));
                }
                Some(Owners { names, of })
            }
            _ => None,
        };
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
        Ok(Self { inner })
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
