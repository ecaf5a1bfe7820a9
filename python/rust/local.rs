//! What a phase of a method in Python may use.

use crate::error::{behind, keep, overheard, raise};
use crate::objective::{Owned, labels, read_part, rows};
use formant_methods::{Local as Inner, MethodError, Training};
use formant_numerics::{Descent, Loss, Model, Part};
use numpy::{PyArray1, PyArray2, PyArray4, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// A client's data, its generator and its optimiser, lent to one phase.
///
/// It is of no use when the phase is over: then every call is an error, and no pointer is followed.
#[pyclass(frozen, module = "formant._formant")]
pub(crate) struct Local {
    inner: Mutex<Option<Lent>>,
}

/// A phase, and the thread that it belongs to.
struct Lent {
    phase: NonNull<Inner<'static>>,
    thread: ThreadId,
}

// SAFETY: the pointer is followed by the thread that made it and no other, which `Local::with` checks.
unsafe impl Send for Lent {}

/// Lends a phase to Python code, and takes it back when that returns.
pub(crate) fn lend<'py, T>(
    py: Python<'py>,
    local: &mut Inner<'_>,
    call: impl FnOnce(&Bound<'py, Local>) -> PyResult<T>,
) -> PyResult<T> {
    // The lifetime is the call's: the pointer is taken away below, on every way out.
    let phase = NonNull::from(local).cast::<Inner<'static>>();
    let lent = Lent { phase, thread: std::thread::current().id() };
    let lent = Bound::new(py, Local { inner: Mutex::new(Some(lent)) })?;
    let done = call(&lent);
    lent.get().place().take();
    done
}

/// Work that goes on while Python code of other threads runs.
struct Away<T>(T);

// SAFETY: what is inside is used by the thread that made it, within one call of `Python::detach`, which runs its closure
// on the calling thread.
unsafe impl<T> Send for Away<T> {}

impl<T> Away<T> {
    fn take(self) -> T {
        self.0
    }
}

impl Local {
    fn place(&self) -> MutexGuard<'_, Option<Lent>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The phase itself, as long as it lasts.
    fn with<T>(&self, py: Python<'_>, call: impl FnOnce(&mut Inner<'_>) -> T) -> PyResult<T> {
        // Taken while it is used, so that Python code that is called from inside cannot reach it a second time.
        let here = std::thread::current().id();
        let lent = self.place().take_if(|lent| lent.thread == here);
        let Some(mut lent) = lent else {
            return Err(raise(
                py,
                "this phase is over, or another thread's\nhint: use `local` in the method that it is given to, and nowhere else",
            ));
        };
        // SAFETY: `lend` made the pointer of a unique reference that outlives its call, and takes it away at its end. This
        // is the thread of that call, so it has not ended; and the pointer is not in its place while somebody uses it.
        let done = call(unsafe { lent.phase.as_mut() });
        *self.place() = Some(lent);
        Ok(done)
    }

    /// The same without the interpreter's lock.
    fn away<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inner<'_>) -> Result<T, MethodError>,
    ) -> PyResult<T> {
        let outcome = self.with(py, |local| {
            let work = Away((local, call));
            let done = py.detach(|| {
                let (local, call) = work.take();
                Away(call(local))
            });
            done.take()
        })?;
        outcome.map_err(|error| raised(py, &error))
    }

    fn model(&self, py: Python<'_>, w: &Bound<'_, PyArray1<f32>>) -> PyResult<Model> {
        let parameters = self.parameters(py)?;
        let buffers = self.buffers(py)?;
        let mut all = w.readonly().as_slice()?.to_vec();
        if all.len() != parameters + buffers {
            return Err(raise(
                py,
                format!(
                    "w has {} numbers, and the network has {parameters} parameters and {buffers} buffers\nhint: give a vector like the one that was received",
                    all.len()
                ),
            ));
        }
        let buffers = all.split_off(parameters);
        Ok(Model { parameters: all, buffers })
    }

    /// Samples of a batch; an error unless there are some, no more than fit, and all are the client's.
    fn own(&self, py: Python<'_>, indices: &PyReadonlyArray1<'_, u32>) -> PyResult<Vec<u32>> {
        let batch = indices.as_slice()?.to_vec();
        let (most, foreign) = self.with(py, |local| {
            let own = local.train_indices();
            let foreign = batch.iter().copied().find(|index| own.binary_search(index).is_err());
            (local.batch(), foreign)
        })?;
        if batch.is_empty() || batch.len() > most {
            return Err(raise(
                py,
                format!(
                    "indices of a batch are {}\nhint: give 1 to {most} (train.batch) of them at a time",
                    batch.len()
                ),
            ));
        }
        match foreign {
            None => Ok(batch),
            Some(index) => Err(raise(
                py,
                format!(
                    "sample {index} is none of this client's\nhint: take indices from local.batches()"
                ),
            )),
        }
    }

    fn check_terms(&self, py: Python<'_>, terms: &Owned) -> PyResult<()> {
        let parameters = self.parameters(py)?;
        match terms.lengths().find(|length| *length != parameters) {
            None => Ok(()),
            Some(length) => Err(raise(
                py,
                format!(
                    "a term has a vector of {length} numbers, and there are {parameters} parameters\nhint: cut buffers off with local.parameters, or leave it to formant.Proximal and its kind"
                ),
            )),
        }
    }
}

/// An error of a method as an exception: Python's own comes back as it was.
fn raised(py: Python<'_>, error: &MethodError) -> PyErr {
    let text = error.to_string();
    if let Some(own) = behind(&text) {
        return own;
    }
    match error {
        MethodError::Stopped => Stopped::new_err("stopped on request"),
        MethodError::Numerics(_) => Diverged::new_err(text),
        _ => raise(py, text),
    }
}

// Not an `Exception`: a method that catches those would answer a stopped phase with a model that is trained by half.
pyo3::create_exception!(formant, Stopped, pyo3::exceptions::PyBaseException);
pyo3::create_exception!(formant, Diverged, pyo3::exceptions::PyArithmeticError);

/// What an exception that comes out of a method means.
pub(crate) fn heard(py: Python<'_>, whose: &str, error: PyErr) -> MethodError {
    if error.is_instance_of::<Stopped>(py) {
        return MethodError::Stopped;
    }
    if error.is_instance_of::<Diverged>(py) {
        let step = 0;
        return formant_numerics::NumericsError::Diverged { step, what: "a model" }.into();
    }
    MethodError::Foreign(keep(py, whose, error))
}

fn copied(w: &Bound<'_, PyArray1<f32>>, model: &Model) -> PyResult<()> {
    let mut w = w.readwrite();
    let (parameters, buffers) = w.as_slice_mut()?.split_at_mut(model.parameters.len());
    parameters.copy_from_slice(&model.parameters);
    buffers.copy_from_slice(&model.buffers);
    Ok(())
}

#[pymethods]
impl Local {
    /// `n_i`: the client's training samples.
    #[getter]
    fn samples(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.samples())
    }

    /// The round, from 1.
    #[getter]
    fn round(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.at().round)
    }

    /// Rounds of the whole run.
    #[getter]
    fn rounds(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.at().rounds)
    }

    /// Epochs of this phase.
    #[getter]
    fn epochs(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.epochs())
    }

    /// The learning rate of this round.
    #[getter]
    fn learning_rate(&self, py: Python<'_>) -> PyResult<f32> {
        self.with(py, |local| local.optimiser().learning_rate)
    }

    /// How many parameters a vector begins with; its buffers follow.
    #[getter]
    fn parameters(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.network().layout().parameters())
    }

    /// How many buffers a vector ends with.
    #[getter]
    fn buffers(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.network().layout().buffer_values())
    }

    /// Where the body ends and the head begins.
    #[getter]
    fn body(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.network().layout().range(Part::Body).end)
    }

    /// Number of classes.
    #[getter]
    fn classes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |local| local.network().classes())
    }

    /// Training samples of each class.
    fn label_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let counts = self.with(py, |local| local.label_counts())?;
        Ok(PyArray1::from_iter(py, counts.into_iter().map(|n| n as u64)))
    }

    /// A number for a generator of one's own; another one at every call, and the same ones in every run.
    fn seed(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |local| local.rng().next_u64())
    }

    /// Trains in place: epochs of the experiment's optimiser on cross-entropy plus terms.
    #[pyo3(signature = (w, epochs, part, shift, terms))]
    fn train(
        &self,
        py: Python<'_>,
        w: &Bound<'_, PyArray1<f32>>,
        epochs: Option<usize>,
        part: &str,
        shift: Option<PyReadonlyArray1<'_, f32>>,
        terms: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut model = self.model(py, w)?;
        let (part, terms) = (read_part(py, part)?, Owned::of_terms(terms)?);
        self.check_terms(py, &terms)?;
        let shift = shift.map(|shift| shift.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let trained = self.away(py, |local| {
            let loss = match &shift {
                Some(shift) => Loss::Shifted { shift },
                None => Loss::CrossEntropy,
            };
            let weighted = terms.terms();
            let epochs = epochs.unwrap_or(local.epochs());
            local.train(&mut model, Training { epochs, part, loss, terms: &weighted })
        });
        trained?;
        copied(w, &model)
    }

    /// The samples of every batch of some epochs, in order: indices for the other calls. Steps then start at rest.
    fn draw<'py>(
        &self,
        py: Python<'py>,
        epochs: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyArray1<u32>>>> {
        let mut batches: Vec<Vec<u32>> = Vec::new();
        let mut augmented = false;
        self.away(py, |local| {
            local.rest();
            let epochs = epochs.unwrap_or(local.epochs());
            local.draw(epochs, |batch| {
                augmented |= !batch.is_plain();
                batches.push(batch.indices().to_vec());
            })
        })?;
        if augmented {
            return Err(raise(
                py,
                "batches of one's own are not augmented, and data.augment is set\nhint: use local.sgd, or leave data.augment out",
            ));
        }
        Ok(batches.into_iter().map(|batch| PyArray1::from_vec(py, batch)).collect())
    }

    /// Values and classes of some samples, as the network sees them.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        indices: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<(Bound<'py, PyArray4<f32>>, Bound<'py, PyArray1<i64>>)> {
        let chosen = &self.own(py, &indices)?[..];
        let (values, classes, shape) = self.with(py, |local| {
            let samples = local.all_samples();
            let shape = samples.shape();
            let mut values = vec![0.0; chosen.len() * shape.len()];
            for (i, out) in chosen.iter().zip(values.chunks_exact_mut(shape.len())) {
                // One at a time: then channels of a sample lie together.
                samples.gather(&[*i], out);
            }
            let mut classes = Vec::new();
            samples.gather_labels(chosen, &mut classes);
            (values, classes, shape)
        })?;
        let extents = [chosen.len(), shape.channels, shape.height, shape.width];
        Ok((PyArray1::from_vec(py, values).reshape(extents)?, labels(py, &classes)))
    }

    /// One step in place on a batch; gives the objective before it.
    fn step(
        &self,
        py: Python<'_>,
        w: &Bound<'_, PyArray1<f32>>,
        indices: PyReadonlyArray1<'_, u32>,
        learning_rate: Option<f32>,
        part: &str,
        terms: &Bound<'_, PyAny>,
    ) -> PyResult<f64> {
        let mut model = self.model(py, w)?;
        let (part, terms) = (read_part(py, part)?, Owned::of_terms(terms)?);
        self.check_terms(py, &terms)?;
        let batch = self.own(py, &indices)?;
        let value = self.away(py, |local| {
            let mut optimiser = local.optimiser();
            optimiser.learning_rate = learning_rate.unwrap_or(optimiser.learning_rate);
            let weighted = terms.terms();
            let before = local.meter().objective;
            local.on_batch(&batch, |step| {
                step.descend(&mut model, Descent { optimiser, part }, Loss::CrossEntropy, &weighted)
            })?;
            Ok(local.meter().objective - before)
        })?;
        copied(w, &model)?;
        Ok(value)
    }

    /// Features and logits of a batch; nothing is learnt.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn look<'py>(
        &self,
        py: Python<'py>,
        w: &Bound<'_, PyArray1<f32>>,
        indices: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<(Bound<'py, PyArray2<f32>>, Bound<'py, PyArray2<f32>>)> {
        let model = self.model(py, w)?;
        let batch = self.own(py, &indices)?;
        let (seen, raised) = overheard(|| {
            self.away(py, |local| {
                let (columns, classes) = (local.network().features(), local.network().classes());
                local.on_batch(&batch, |step| {
                    let (output, _) = step.look(&model);
                    Ok((output.features.to_vec(), output.logits.to_vec(), columns, classes))
                })
            })
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let (features, logits, columns, classes) = seen?;
        Ok((rows(py, &features, columns)?, rows(py, &logits, classes)?))
    }
}
