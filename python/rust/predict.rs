//! What a model file makes of samples.

use crate::error::{chain, raise};
use formant_model::ModelFile;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::path::PathBuf;

/// A model of Formant's own networks, ready to predict.
#[pyclass(frozen, module = "formant._formant")]
pub(crate) struct Predictor {
    inner: formant_model::Predictor,
}

#[pymethods]
impl Predictor {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let origin = path.display().to_string();
        let inner = py
            .detach(|| formant_model::Predictor::new(ModelFile::read(&path)?, &origin))
            .map_err(|error| raise(py, chain(&error)))?;
        Ok(Self { inner })
    }

    /// The names of the classes, in the order of the columns.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.inner.card().classes.clone()
    }

    /// The probability of every class for every sample.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let card = self.inner.card();
        let input = card.input;
        let wanted = [input.channels, input.height, input.width];
        let refuse = |found: &[usize]| {
            raise(
                py,
                format!(
                    "x has samples of {:?}, and the model takes {input} (channels x height x width)\nhint: give (n, {}, {}, {})",
                    &found[1..],
                    wanted[0],
                    wanted[1],
                    wanted[2]
                ),
            )
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let found = if let Ok(x) = x.extract::<PyReadonlyArray4<'_, u8>>() {
            if x.shape()[1..] != wanted {
                return Err(refuse(x.shape()));
            }
            let pixels = x.as_slice()?.to_vec();
            py.detach(|| self.inner.probabilities(pixels, threads))
        } else {
            let x: PyReadonlyArray4<'_, f32> = x.extract()?;
            if x.shape()[1..] != wanted {
                return Err(refuse(x.shape()));
            }
            let values = x.as_slice()?.to_vec();
            py.detach(|| self.inner.probabilities(values, threads))
        };
        let found = found.map_err(|error| raise(py, chain(&error)))?;
        let classes = card.classes.len();
        let rows = found.len() / classes.max(1);
        PyArray1::from_vec(py, found).reshape([rows, classes])
    }
}
