//! Methods in Python. What a method says is said to `formant._bridge`, which packs states and messages; here is what the
//! runtime sees of it.

use crate::error::{Unsaid, keep};
use crate::local::{heard, lend};
use formant_methods::{
    Central, Entry, ErasedMethod, Hints, Local, Mean, Message, Method, MethodError, Moment, State,
    Uploads, erased,
};
use formant_numerics::{Model, Network, floats};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// What is kept between rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// Nothing yet: the method will make something of the common initial model.
    Start(Model),
    /// A dictionary, packed.
    Held(#[serde(with = "serde_bytes")] Vec<u8>),
}

impl State for Kept {
    fn start(init: &Model) -> Self {
        Self::Start(init.clone())
    }
}

/// What crosses the network: a model if there is one, and further vectors by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Name and extents of each further vector, and whether there is a model, as `formant._bridge` has written it.
    meta: String,
    parameters: Floats,
    buffers: Floats,
    further: Vec<Floats>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Floats(#[serde(with = "floats")] Vec<f32>);

impl Message for Sent {
    fn vectors(&self) -> Vec<&[f32]> {
        let further = self.further.iter().map(|vector| &vector.0[..]);
        [&self.parameters.0[..], &self.buffers.0].into_iter().chain(further).collect()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        let further = self.further.iter_mut().map(|vector| &mut vector.0);
        [&mut self.parameters.0, &mut self.buffers.0].into_iter().chain(further).collect()
    }
}

impl Sent {
    /// `(meta, vectors)` as the bridge takes it.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<(&str, Bound<'py, PyList>)> {
        let vectors = self.vectors().into_iter().map(|vector| PyArray1::from_slice(py, vector));
        Ok((&self.meta, PyList::new(py, vectors)?))
    }

    /// What the bridge gives.
    fn heard(told: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (meta, vectors): (String, Vec<PyReadonlyArray1<'_, f32>>) = told.extract()?;
        let mut vectors = vectors.into_iter().map(|v| Ok(Floats(v.as_slice()?.to_vec())));
        let mut next = || vectors.next().unwrap_or_else(|| Ok(Floats::default()));
        let (parameters, buffers) = (next()?, next()?);
        let further = vectors.collect::<PyResult<Vec<_>>>()?;
        Ok(Self { meta, parameters, buffers, further })
    }
}

/// A method in Python.
pub(crate) struct PyMethod {
    /// A `formant._bridge.Bridge`.
    bridge: Py<PyAny>,
    title: &'static str,
    personal_phase: bool,
    stale_uploads: bool,
    /// Whether it wants every upload, and not their mean.
    every_upload: bool,
    /// What went wrong where nothing could be said: it is said at the next call that can.
    fault: Mutex<Option<String>>,
    unsaid: Unsaid,
}

impl PyMethod {
    /// Of a bridge, under a line of the zoo.
    pub(crate) fn erased(
        entry: Entry,
        bridge: &Bound<'_, PyAny>,
    ) -> PyResult<Arc<dyn ErasedMethod>> {
        let flag = |name: &str| bridge.getattr(name)?.extract::<bool>();
        let method = Self {
            title: entry.title,
            personal_phase: flag("personal_phase")?,
            stale_uploads: flag("stale_uploads")?,
            every_upload: flag("every_upload")?,
            fault: Mutex::new(None),
            unsaid: Unsaid::here(),
            bridge: bridge.clone().unbind(),
        };
        Ok(erased(entry, method))
    }

    fn with<T>(
        &self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, MethodError> {
        if let Some(fault) = &*self.fault.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(MethodError::Foreign(fault.clone()));
        }
        Python::attach(|py| {
            call(py, self.bridge.bind(py)).map_err(|error| heard(py, self.title, error))
        })
    }

    /// A phase, unless somebody has stopped it: then nothing is begun, and what a method gives that has not noticed
    /// does not count.
    fn phase<T>(
        &self,
        local: &mut Local<'_>,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, &mut Local<'_>) -> PyResult<T>,
    ) -> Result<T, MethodError> {
        if local.is_stopped() {
            return Err(MethodError::Stopped);
        }
        let done = self.with(|py, bridge| call(py, bridge, local));
        if local.is_stopped() { Err(MethodError::Stopped) } else { done }
    }

    /// The same as `with` where nothing can be returned.
    fn try_with<T>(
        &self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        Python::attach(|py| match call(py, self.bridge.bind(py)) {
            Ok(done) => Some(done),
            Err(error) => {
                self.unsaid.add(py, &error);
                let text = keep(py, self.title, error);
                let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                fault.get_or_insert(text);
                None
            }
        })
    }
}

/// A state as the bridge takes it: what was packed, or the initial model.
fn told<'py>(py: Python<'py>, kept: &Kept) -> PyResult<Bound<'py, PyAny>> {
    Ok(match kept {
        Kept::Held(packed) => PyBytes::new(py, packed).into_any(),
        Kept::Start(model) => vector(py, model).into_any(),
    })
}

/// A model as one vector: its parameters, then its buffers.
fn vector<'py>(py: Python<'py>, model: &Model) -> Bound<'py, PyArray1<f32>> {
    PyArray1::from_vec(py, [&model.parameters[..], &model.buffers].concat())
}

fn held(packed: &Bound<'_, PyAny>) -> PyResult<Kept> {
    Ok(Kept::Held(packed.extract::<Vec<u8>>()?))
}

/// A model from a vector and the number of its parameters.
fn model(told: &Bound<'_, PyAny>) -> PyResult<Model> {
    let (parameters, buffers): (PyReadonlyArray1<'_, f32>, PyReadonlyArray1<'_, f32>) =
        told.extract()?;
    Ok(Model { parameters: parameters.as_slice()?.to_vec(), buffers: buffers.as_slice()?.to_vec() })
}

fn sizes(network: &dyn Network) -> (usize, usize) {
    (network.layout().parameters(), network.layout().buffer_values())
}

impl Method for PyMethod {
    type Server = Kept;
    type Client = Kept;
    type Broadcast = Sent;
    type Upload = Sent;
    type Received<'a> = Uploads<'a, Sent>;

    fn broadcast(&self, server: &Kept) -> Sent {
        let sent = self.try_with(|py, bridge| {
            let sizes = match server {
                Kept::Start(model) => Some((model.parameters.len(), model.buffers.len())),
                Kept::Held(_) => None,
            };
            Sent::heard(&bridge.call_method1("broadcast", (told(py, server)?, sizes))?)
        });
        sent.unwrap_or_default()
    }

    fn train_shared(
        &self,
        client: &mut Kept,
        got: &Sent,
        local: &mut Local<'_>,
    ) -> Result<Sent, MethodError> {
        let sizes = sizes(local.network());
        self.phase(local, |py, bridge, local| {
            let (state, got) = (told(py, client)?, got.told(py)?);
            let done = lend(py, local, |local| {
                bridge.call_method1("train_shared", (state, got, local, sizes))
            })?;
            let (packed, sent): (Bound<'_, PyAny>, Bound<'_, PyAny>) = done.extract()?;
            *client = held(&packed)?;
            Sent::heard(&sent)
        })
    }

    fn train_personal(
        &self,
        client: &mut Kept,
        got: &Sent,
        sent: &Sent,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let sizes = sizes(local.network());
        self.phase(local, |py, bridge, local| {
            let (state, got, sent) = (told(py, client)?, got.told(py)?, sent.told(py)?);
            let packed = lend(py, local, |local| {
                bridge.call_method1("train_personal", (state, got, sent, local, sizes))
            })?;
            *client = held(&packed)?;
            Ok(())
        })
    }

    fn aggregate(
        &self,
        server: &mut Kept,
        received: Uploads<'_, Sent>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let sizes = sizes(central.network);
        let (round, clients) = (central.round, central.clients);
        if self.every_upload {
            let uploads = received.collect::<Result<Vec<_>, _>>()?;
            return self.with(|py, bridge| {
                let all = PyList::empty(py);
                for upload in &uploads {
                    let message = upload.message.told(py)?;
                    let weight = upload.samples * upload.share;
                    all.append((upload.client, weight, upload.staleness, message))?;
                }
                let about = (round, clients, uploads.len());
                let state = told(py, server)?;
                *server =
                    held(&bridge.call_method1("aggregate_every", (state, all, about, sizes))?)?;
                Ok(())
            });
        }
        let mean: Mean<Sent> = Mean::of(received, central, |_| Ok(()))?;
        self.with(|py, bridge| {
            let about = (round, clients, mean.uploads);
            let arguments = (told(py, server)?, mean.message.told(py)?, about, sizes);
            *server = held(&bridge.call_method1("aggregate", arguments)?)?;
            Ok(())
        })
    }

    fn global_model<'a>(&self, server: &'a Kept) -> Option<Cow<'a, Model>> {
        let sizes = match server {
            Kept::Start(model) => Some((model.parameters.len(), model.buffers.len())),
            Kept::Held(_) => None,
        };
        let found = self.try_with(|py, bridge| {
            let found = bridge.call_method1("global_model", (told(py, server)?, sizes))?;
            if found.is_none() { Ok(None) } else { model(&found).map(Some) }
        });
        found.flatten().map(Cow::Owned)
    }

    fn personal_model<'a>(
        &self,
        client: &'a Kept,
        got: &'a Sent,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        let sizes = sizes(local.network());
        self.phase(local, |py, bridge, local| {
            let (state, got) = (told(py, client)?, got.told(py)?);
            let found = lend(py, local, |local| {
                bridge.call_method1("personal_model", (state, got, local, sizes))
            })?;
            model(&found).map(Cow::Owned)
        })
    }

    fn combines(&self) -> bool {
        !self.every_upload
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints {
            personal_phase: self.personal_phase,
            stale_uploads: self.stale_uploads,
            ..Hints::default()
        }
    }

    fn upload_lengths(&self, got: &Sent, network: &dyn Network) -> Vec<usize> {
        let told = self.try_with(|py, bridge| {
            let lengths = bridge.call_method1("upload_lengths", (got.told(py)?, sizes(network)))?;
            lengths.extract::<Option<Vec<usize>>>()
        });
        let as_received = || got.vectors().into_iter().map(<[f32]>::len).collect();
        told.flatten().unwrap_or_else(as_received)
    }
}
