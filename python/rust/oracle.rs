//! Formant's own engine, for whoever compares another one with it.

use crate::engine::told;
use crate::error::raise;
use crate::objective::{Owned, read_descent};
use formant_data::{Floats, Normalisation};
use formant_numerics::{Cpu, Engine, Model, NetworkSpec, NumericsError, Rng, Shape, Stream, Tape};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

type Vector<'py> = Bound<'py, PyArray1<f32>>;

/// Layout and initial values of one of Formant's own networks.
#[pyfunction]
pub(crate) fn initial<'py>(
    py: Python<'py>,
    spec: &str,
    shape: (usize, usize, usize),
    classes: usize,
    seed: u64,
) -> PyResult<(Bound<'py, PyDict>, Vector<'py>, Vector<'py>)> {
    let network = built(py, spec, shape, classes)?;
    let mut rng = Rng::new(seed, Stream::Init, 0, 0);
    let Model { parameters, buffers } = network.init(&mut rng);
    let (w, b) = (PyArray1::from_vec(py, parameters), PyArray1::from_vec(py, buffers));
    Ok((told(py, network.layout())?, w, b))
}

fn built(
    py: Python<'_>,
    spec: &str,
    (channels, height, width): (usize, usize, usize),
    classes: usize,
) -> PyResult<Arc<Tape>> {
    let spec: NetworkSpec = serde_json::from_str(spec).map_err(|error| raise(py, error))?;
    spec.build(Shape::new(channels, height, width), classes).map_err(|error| raise(py, error))
}

/// A phase on Formant's own engine, the oracle of all others: batches are consecutive pieces of `x`, of some sizes.
/// `descent` and `objective` are what an engine in Python gets. `w` and `b` are trained in place; gives the objective of
/// every step.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub(crate) fn oracle(
    py: Python<'_>,
    spec: &str,
    classes: usize,
    w: &Bound<'_, PyArray1<f32>>,
    b: &Bound<'_, PyArray1<f32>>,
    x: PyReadonlyArray4<'_, f32>,
    y: PyReadonlyArray1<'_, u16>,
    sizes: Vec<usize>,
    descent: &Bound<'_, PyAny>,
    objective: &Bound<'_, PyAny>,
) -> PyResult<Vec<f64>> {
    let shape = x.shape();
    let shape = (shape[1], shape[2], shape[3]);
    let network = built(py, spec, shape, classes)?;
    let plain = vec![Normalisation::NONE; shape.0];
    let of = Shape::new(shape.0, shape.1, shape.2);
    let samples = Floats::new(of, x.as_slice()?.to_vec(), y.as_slice()?.to_vec(), &plain)
        .map_err(|error| raise(py, error))?;
    let mut model = Model {
        parameters: w.readonly().as_slice()?.to_vec(),
        buffers: b.readonly().as_slice()?.to_vec(),
    };
    let by = read_descent(descent)?;
    let told = Owned::read(objective)?;
    let mut worker = Cpu::new(network).worker(sizes.iter().copied().max().unwrap_or(1));
    let trained = py.detach(|| {
        worker.begin();
        let mut values = Vec::new();
        let mut at = 0;
        let terms = told.terms();
        for size in sizes {
            let batch: Vec<u32> = (at..at + size as u32).collect();
            at += size as u32;
            worker.load(&samples, &batch);
            values.push(worker.step(&mut model, by, &told.objective(&terms))?);
        }
        Ok::<_, NumericsError>(values)
    });
    let values = trained.map_err(|error| raise(py, error))?;
    w.readwrite().as_slice_mut()?.copy_from_slice(&model.parameters);
    b.readwrite().as_slice_mut()?.copy_from_slice(&model.buffers);
    Ok(values)
}
