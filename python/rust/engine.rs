//! Engines in Python: whole phases are handed over, and only models and indices cross the boundary.

use crate::error::{Unsaid, keep};
use crate::objective::labels;
use crate::worker::PyWorker;
use formant_numerics::{
    Engine, Layout, MODULE, Model, Network, NetworkSpec, NumericsError, Part, Rng, Samples, Shape,
    Tape, Worker,
};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Samples that are scored, or brought to a device, at once.
pub(crate) const SCORED: usize = 4_096;

/// What makes engines, for `run(engine=…)`.
#[pyclass(frozen, module = "formant._formant")]
pub(crate) struct Engines {
    pub(crate) inner: Arc<Factory>,
}

#[pymethods]
impl Engines {
    #[new]
    fn new(factory: Py<PyAny>, name: String) -> Self {
        Self { inner: Arc::new(Factory { object: factory, name }) }
    }
}

/// A factory of engines in Python.
#[derive(Debug)]
pub(crate) struct Factory {
    object: Py<PyAny>,
    name: String,
}

pub(crate) fn failed(py: Python<'_>, error: PyErr) -> NumericsError {
    NumericsError::Engine(keep(py, "the engine", error))
}

impl formant_numerics::Engines for Factory {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn engine(
        &self,
        network: &NetworkSpec,
        input: Shape,
        classes: usize,
    ) -> Result<Box<dyn Engine>, NumericsError> {
        let own = if network.name == MODULE { None } else { Some(network.build(input, classes)?) };
        Python::attach(|py| {
            let made = || {
                let text = serde_json::to_string(network).unwrap_or_default();
                let spec = py.import("json")?.call_method1("loads", (text,))?;
                let layout = own.as_ref().map(|own| told(py, own.layout())).transpose()?;
                let shape = (input.channels, input.height, input.width);
                let object =
                    self.object.bind(py).call_method1("engine", (spec, layout, shape, classes))?;
                let (layout, features, init) = match own {
                    Some(tape) => {
                        (tape.layout().clone(), tape.features(), Init::Tape(tape.clone()))
                    }
                    None => {
                        let layout = heard(&object.getattr("layout")?)?;
                        let features = object.getattr("features")?.extract()?;
                        (layout, features, Init::Module(object.clone().unbind()))
                    }
                };
                let unsaid = Unsaid::here();
                let network = Foreign { layout, input, classes, features, init, unsaid };
                let shared = Shared {
                    object: object.unbind(),
                    sets: Mutex::default(),
                    next: AtomicU64::new(0),
                };
                Ok::<_, PyErr>(PyEngine { network: Arc::new(network), shared: Arc::new(shared) })
            };
            made()
                .map(|engine| Box::new(engine) as Box<dyn Engine>)
                .map_err(|error| failed(py, error))
        })
    }
}

/// A layout for Python.
pub(crate) fn told<'py>(py: Python<'py>, layout: &Layout) -> PyResult<Bound<'py, PyDict>> {
    let word = |part| if part == Part::Head { "head" } else { "body" };
    let tensors = layout.tensors().iter();
    let parameters: Vec<_> =
        tensors.map(|t| (t.name.clone(), t.shape.clone(), word(t.part))).collect();
    let buffers: Vec<_> =
        layout.buffers().iter().map(|t| (t.name.clone(), t.shape.clone())).collect();
    let dict = PyDict::new(py);
    dict.set_item("parameters", parameters)?;
    dict.set_item("buffers", buffers)?;
    Ok(dict)
}

/// A layout from Python.
fn heard(layout: &Bound<'_, PyAny>) -> PyResult<Layout> {
    let parameters: Vec<(String, Vec<usize>, String)> = layout.get_item("parameters")?.extract()?;
    let buffers: Vec<(String, Vec<usize>)> = layout.get_item("buffers")?.extract()?;
    let head = parameters.iter().filter(|(_, _, part)| part == "head").count();
    let parameters: Vec<_> = parameters.into_iter().map(|(name, shape, _)| (name, shape)).collect();
    Ok(Layout::of(&parameters, head, &buffers))
}

/// A network that Python computes.
pub(crate) struct Foreign {
    layout: Layout,
    input: Shape,
    pub(crate) classes: usize,
    pub(crate) features: usize,
    init: Init,
    pub(crate) unsaid: Unsaid,
}

/// Where initial values come from.
enum Init {
    /// As everywhere.
    Tape(Arc<Tape>),
    /// From the module itself.
    Module(Py<PyAny>),
}

impl Network for Foreign {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn input(&self) -> Shape {
        self.input
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn features(&self) -> usize {
        self.features
    }

    fn init(&self, rng: &mut Rng) -> Model {
        let object = match &self.init {
            Init::Tape(tape) => return tape.init(rng),
            Init::Module(object) => object,
        };
        let seed = rng.next_u64() >> 1;
        Python::attach(|py| {
            let drawn = || {
                let (w, b): (PyReadonlyArray1<'_, f32>, PyReadonlyArray1<'_, f32>) =
                    object.bind(py).call_method1("init", (seed,))?.extract()?;
                let model =
                    Model { parameters: w.as_slice()?.to_vec(), buffers: b.as_slice()?.to_vec() };
                Ok::<_, PyErr>(model)
            };
            // Values that are no numbers end a run at once, and what was raised comes out then.
            drawn().unwrap_or_else(|error| {
                self.unsaid.add(py, &error);
                Model {
                    parameters: vec![f32::NAN; self.layout.parameters()],
                    buffers: vec![f32::NAN; self.layout.buffer_values()],
                }
            })
        })
    }
}

/// What the workers of an engine share.
pub(crate) struct Shared {
    object: Py<PyAny>,
    /// Sets that are on the device: where they lie here, how many samples they have, and their key.
    sets: Mutex<Vec<(usize, usize, u64)>>,
    /// The next key.
    next: AtomicU64,
}

impl Shared {
    /// The key of some samples, which are brought to the device at first sight. A plan owns its samples and its engine,
    /// so an address stands for the same ones as long as the engine lives.
    pub(crate) fn key(&self, py: Python<'_>, samples: &dyn Samples) -> PyResult<u64> {
        let (place, len) = (std::ptr::from_ref(samples).cast::<()>() as usize, samples.len());
        let find = |sets: &[(usize, usize, u64)]| {
            sets.iter().find(|(p, l, _)| (*p, *l) == (place, len)).map(|(_, _, key)| *key)
        };
        if let Some(key) = find(&self.sets.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(key);
        }
        let Shape { channels, height, width } = samples.shape();
        let all: Vec<u32> = (0..len as u32).collect();
        let mut values = vec![0.0; len * samples.shape().len()];
        py.detach(|| {
            for (chunk, out) in
                all.chunks(SCORED).zip(values.chunks_mut(SCORED * samples.shape().len()))
            {
                let mut planes = vec![0.0; out.len()];
                samples.gather(chunk, &mut planes);
                sample_major(&planes, chunk.len(), samples.shape(), out);
            }
        });
        let x = PyArray1::from_vec(py, values).reshape([len, channels, height, width])?;
        let of: Vec<u32> = (0..len).map(|i| samples.label(i) as u32).collect();
        // Known only when it is there: two threads that see a set first bring it twice at most, and nobody waits for a lock
        // while holding the interpreter's.
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.object.bind(py).call_method1("put", (key, x, labels(py, &of)))?;
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).push((place, len, key));
        Ok(key)
    }
}

/// From channel-major over a batch to sample after sample.
pub(crate) fn sample_major(planes: &[f32], n: usize, shape: Shape, out: &mut [f32]) {
    let (plane, size) = (shape.plane(), shape.len());
    for channel in 0..shape.channels {
        for sample in 0..n {
            let from = &planes[(channel * n + sample) * plane..][..plane];
            out[sample * size + channel * plane..][..plane].copy_from_slice(from);
        }
    }
}

/// An engine in Python.
struct PyEngine {
    network: Arc<Foreign>,
    shared: Arc<Shared>,
}

impl Engine for PyEngine {
    fn network(&self) -> &dyn Network {
        &*self.network
    }

    fn worker(&self, batch: usize) -> Box<dyn Worker> {
        let made = Python::attach(|py| {
            let worker = self.shared.object.bind(py).call_method1("worker", (batch,));
            worker.map(Bound::unbind).map_err(|error| {
                // Whoever scores with it has no other way to say so.
                self.network.unsaid.add(py, &error);
                keep(py, "the engine", error)
            })
        });
        Box::new(PyWorker::new(made, self.network.clone(), self.shared.clone()))
    }

    fn pass_bytes(&self, batch: usize, backwards: bool) -> u64 {
        Python::attach(|py| {
            let bytes = self.shared.object.bind(py).call_method1("pass_bytes", (batch, backwards));
            bytes.and_then(|bytes| bytes.extract()).unwrap_or(0)
        })
    }
}
