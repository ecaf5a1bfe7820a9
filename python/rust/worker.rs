//! A thread's place at an engine in Python: what crosses the boundary, and when.

use crate::data::indices;
use crate::engine::{Foreign, SCORED, Shared, failed, sample_major};
use crate::error::raise;
use crate::objective::{Vectors, descent, labels, objective};
use formant_numerics::{
    Descent, Detail, Meter, Model, NumericsError, Objective, Output, Phase, Pulse, Samples,
    Selection, Shape, Tally, Worker,
};
use numpy::{PyArray1, PyArray4, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// Batches that are handed over at once.
const AHEAD: usize = 64;

/// A thread's place at an engine in Python.
pub(crate) struct PyWorker {
    object: Option<Py<PyAny>>,
    /// The two arrays in which models are handed over.
    arrays: Option<[Py<PyArray1<f32>>; 2]>,
    /// Others of terms.
    vectors: Vectors,
    /// What went wrong where nothing could be said.
    fault: Option<String>,
    network: Arc<Foreign>,
    shared: Arc<Shared>,
    labels: Vec<u32>,
    features: Vec<f32>,
    logits: Vec<f32>,
    steps: u64,
    terms: Option<f64>,
}

/// A model in two arrays, and back.
struct Lent<'py>(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>);

impl Lent<'_> {
    fn fill(&self, model: &Model) -> PyResult<()> {
        for (array, values) in [(&self.0, &model.parameters), (&self.1, &model.buffers)] {
            array.try_readwrite()?.as_slice_mut()?.copy_from_slice(values);
        }
        Ok(())
    }

    fn fits(&self, model: &Model) -> PyResult<bool> {
        Ok((self.0.len()?, self.1.len()?) == (model.parameters.len(), model.buffers.len()))
    }

    fn copy_to(&self, model: &mut Model) -> PyResult<()> {
        model.parameters.copy_from_slice(self.0.try_readonly()?.as_slice()?);
        model.buffers.copy_from_slice(self.1.try_readonly()?.as_slice()?);
        Ok(())
    }
}

impl PyWorker {
    /// Of an object that the engine has made, or of why it has made none.
    pub(crate) fn new(
        made: Result<Py<PyAny>, String>,
        network: Arc<Foreign>,
        shared: Arc<Shared>,
    ) -> Self {
        let (object, fault) = match made {
            Ok(object) => (Some(object), None),
            Err(text) => (None, Some(text)),
        };
        Self {
            object,
            arrays: None,
            vectors: Vectors::default(),
            fault,
            network,
            shared,
            labels: Vec::new(),
            features: Vec::new(),
            logits: Vec::new(),
            steps: 0,
            terms: None,
        }
    }

    /// Calls the worker; an exception is kept.
    fn with<T>(
        &mut self,
        call: impl FnOnce(&mut Self, Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, NumericsError> {
        if let Some(fault) = &self.fault {
            return Err(NumericsError::Engine(fault.clone()));
        }
        Python::attach(|py| {
            let object = self.object.as_ref().map(|object| object.clone_ref(py));
            let Some(object) = object else {
                return Err(NumericsError::Engine("the engine has no worker".into()));
            };
            call(self, py, object.bind(py)).map_err(|error| failed(py, error))
        })
    }

    /// The same where nothing can be returned: it is said at the next opportunity, and if there is none, as the reason
    /// why the run ends.
    fn try_with(
        &mut self,
        call: impl FnOnce(&mut Self, Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> bool {
        let done = self.with(|worker, py, object| {
            call(worker, py, object).inspect_err(|error| worker.network.unsaid.add(py, error))
        });
        if let Err(NumericsError::Engine(text)) = &done {
            self.fault.get_or_insert_with(|| text.clone());
        }
        done.is_ok()
    }

    /// A model in the arrays that the worker has for it.
    fn lend<'py>(&mut self, object: &Bound<'py, PyAny>, model: &Model) -> PyResult<Lent<'py>> {
        let lent = self.arrays(object, model)?;
        lent.fill(model)?;
        Ok(lent)
    }

    /// The arrays themselves: the worker's own, which may be where another process sees them, or new ones.
    fn arrays<'py>(&mut self, object: &Bound<'py, PyAny>, model: &Model) -> PyResult<Lent<'py>> {
        let py = object.py();
        if let Some([w, b]) = &self.arrays {
            let lent = Lent(w.bind(py).clone(), b.bind(py).clone());
            if lent.fits(model)? {
                return Ok(lent);
            }
        }
        let lent = if object.hasattr("arrays")? {
            let (w, b) = object.call_method0("arrays")?.extract()?;
            Lent(w, b)
        } else {
            let zeros = |length| PyArray1::zeros(py, length, false);
            Lent(zeros(model.parameters.len()), zeros(model.buffers.len()))
        };
        if !lent.fits(model)? {
            return Err(raise(py, "arrays() gave arrays of another length than models have"));
        }
        self.arrays = Some([lent.0.clone().unbind(), lent.1.clone().unbind()]);
        Ok(lent)
    }

    fn told<'py>(
        &mut self,
        py: Python<'py>,
        by: &Descent,
        of: &Objective<'_>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let Foreign { classes, features, .. } = *self.network;
        let vectors = self.vectors.again();
        Ok((descent(py, by)?, objective(py, of, (classes, features), vectors)?))
    }

    /// Several steps of a phase.
    fn steps(&mut self, stretch: &Stretch, meter: &mut Meter) -> Result<(), NumericsError> {
        let found = self.with(|worker, py, object| {
            let Some(samples) = stretch.samples else { return Ok(Vec::new()) };
            let key = worker.shared.key(py, samples)?;
            let sizes = indices(py, &stretch.sizes);
            let found =
                object.call_method1("phase_run", (key, indices(py, &stretch.indices), sizes))?;
            let (values, terms): (PyReadonlyArray1<'_, f64>, Option<PyReadonlyArray1<'_, f64>>) =
                found.extract()?;
            let terms = terms.as_ref().map(|terms| terms.as_slice()).transpose()?;
            let of = |i: usize| terms.map(|terms| terms[i]);
            let values = values.as_slice()?.iter().enumerate();
            Ok(values.map(|(i, value)| (*value, of(i))).collect::<Vec<_>>())
        })?;
        for ((value, terms), size) in found.into_iter().zip(&stretch.sizes) {
            self.count(*size as usize, value, terms, meter)?;
        }
        Ok(())
    }

    fn count(
        &mut self,
        samples: usize,
        value: f64,
        terms: Option<f64>,
        meter: &mut Meter,
    ) -> Result<(), NumericsError> {
        self.steps += 1;
        if !value.is_finite() {
            return Err(NumericsError::Diverged { step: self.steps, what: "the objective" });
        }
        self.terms = terms;
        meter.count(samples, value, terms);
        Ok(())
    }
}

/// Batches that are trained on together.
#[derive(Default)]
struct Stretch<'s> {
    samples: Option<&'s dyn Samples>,
    indices: Vec<u32>,
    sizes: Vec<u32>,
}

/// A batch by its values.
struct Batch {
    values: Vec<f32>,
    labels: Vec<u32>,
    share: Option<f32>,
    partners: Vec<u32>,
    shape: Shape,
}

impl Batch {
    fn of(mut selection: Selection<'_>) -> Self {
        let (shape, n) = (selection.shape(), selection.len());
        let mut planes = vec![0.0; n * shape.len()];
        selection.gather(&mut planes);
        let mut values = vec![0.0; planes.len()];
        sample_major(&planes, n, shape, &mut values);
        let (mut labels, mut partners) = (Vec::new(), Vec::new());
        selection.gather_labels(&mut labels);
        let share = selection.share();
        if share.is_some() {
            selection.gather_partners(&mut partners);
        }
        Self { values, labels, share, partners, shape }
    }

    fn told<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Shape { channels, height, width } = self.shape;
        let n = self.labels.len();
        let x: Bound<'_, PyArray4<f32>> =
            PyArray1::from_slice(py, &self.values).reshape([n, channels, height, width])?;
        let partners = self.share.map(|_| labels(py, &self.partners));
        (x, labels(py, &self.labels), self.share, partners).into_pyobject(py)
    }
}

impl Worker for PyWorker {
    fn begin(&mut self) {
        (self.steps, self.terms) = (0, None);
        self.try_with(|_, _, object| object.call_method0("begin").map(drop));
    }

    fn take(&mut self, batch: Selection<'_>) {
        if batch.is_plain() {
            batch.gather_labels(&mut self.labels);
            self.try_with(|worker, py, object| {
                let key = worker.shared.key(py, batch.samples())?;
                object.call_method1("load", (key, indices(py, batch.indices()))).map(drop)
            });
            return;
        }
        let batch = Batch::of(batch);
        self.labels.clone_from(&batch.labels);
        self.try_with(|_, py, object| object.call_method1("take", batch.told(py)?).map(drop));
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn step(
        &mut self,
        model: &mut Model,
        by: Descent,
        of: &Objective<'_>,
    ) -> Result<f64, NumericsError> {
        let (value, terms): (f64, Option<f64>) = self.with(|worker, py, object| {
            let lent = worker.lend(object, model)?;
            let (by, of) = worker.told(py, &by, of)?;
            let found = object.call_method1("step", (&lent.0, &lent.1, by, of))?.extract()?;
            lent.copy_to(model)?;
            Ok(found)
        })?;
        self.count(self.labels.len(), value, terms, &mut Meter::default())?;
        Ok(value)
    }

    fn terms(&self) -> Option<f64> {
        self.terms
    }

    fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]) {
        let Foreign { classes, features, .. } = *self.network;
        let n = self.labels.len();
        let seen = self.try_with(|worker, _, object| {
            let Lent(w, b) = worker.lend(object, model)?;
            let (z, logits): (PyReadonlyArray2<'_, f32>, PyReadonlyArray2<'_, f32>) =
                object.call_method1("look", (w, b))?.extract()?;
            worker.features = z.as_slice()?.to_vec();
            worker.logits = logits.as_slice()?.to_vec();
            Ok(())
        });
        if !seen || self.logits.len() != n * classes || self.features.len() != n * features {
            self.features = vec![0.0; n * features];
            self.logits = vec![0.0; n * classes];
        }
        (Output { features: &self.features, logits: &self.logits }, &self.labels)
    }

    fn score(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
    ) -> Tally {
        self.score_watched(model, samples, indices, detail, Pulse::NONE)
    }

    fn score_watched(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        all: &[u32],
        detail: Detail,
        pulse: Pulse<'_>,
    ) -> Tally {
        let mut tally = Tally::default();
        for chunk in all.chunks(SCORED) {
            if pulse.is_stopped() {
                break;
            }
            samples.gather_labels(chunk, &mut self.labels);
            let classes = self.network.classes;
            let scored = self.try_with(|worker, py, object| {
                let Lent(w, b) = worker.lend(object, model)?;
                let key = worker.shared.key(py, samples)?;
                let found = object.call_method1("score", (w, b, key, indices(py, chunk)))?;
                let logits: PyReadonlyArray2<'_, f32> = found.extract()?;
                worker.logits = logits.as_slice()?.to_vec();
                if worker.logits.len() != chunk.len() * classes {
                    return Err(raise(py, "score gave logits of another shape"));
                }
                Ok(())
            });
            if !scored {
                break;
            }
            tally.count(&self.logits, &self.labels, detail);
            pulse.count(chunk.len() as u64);
        }
        tally
    }

    fn train(
        &mut self,
        model: &mut Model,
        phase: &mut Phase<'_, '_>,
    ) -> Result<Meter, NumericsError> {
        self.begin();
        self.with(|worker, py, object| {
            let Lent(w, b) = worker.lend(object, model)?;
            let (by, of) = worker.told(py, &phase.descent, &phase.objective)?;
            object.call_method1("phase_begin", (w, b, by, of)).map(drop)
        })?;
        let ahead = if phase.batches.is_open_ended() { 1 } else { AHEAD };
        let mut meter = Meter::default();
        let samples = phase.batches.samples();
        loop {
            let mut stretch = Stretch { samples: Some(samples), ..Stretch::default() };
            let mut by_value = None;
            while stretch.sizes.len() < ahead
                && let Some(batch) = phase.batches.next()
            {
                if !batch.is_plain() {
                    by_value = Some(Batch::of(batch));
                    break;
                }
                stretch.indices.extend_from_slice(batch.indices());
                stretch.sizes.push(batch.len() as u32);
            }
            if stretch.sizes.is_empty() && by_value.is_none() {
                break;
            }
            if !stretch.sizes.is_empty() {
                self.steps(&stretch, &mut meter)?;
            }
            if let Some(batch) = by_value {
                let (value, terms): (f64, Option<f64>) = self.with(|_, py, object| {
                    object.call_method1("phase_batch", batch.told(py)?)?.extract()
                })?;
                self.count(batch.labels.len(), value, terms, &mut meter)?;
            }
        }
        self.with(|worker, _, object| {
            let lent = worker.arrays(object, model)?;
            object.call_method1("phase_end", (&lent.0, &lent.1))?;
            lent.copy_to(model)
        })?;
        Ok(meter)
    }
}
