//! One method at a server or a client whose rounds somebody else drives: Flower, say. States and messages are bytes.

use crate::data::Dataset;
use crate::engine::{Engines, told};
use crate::error::{behind, chain, overheard, raise};
use crate::run::{parsed, zoo_with};
use formant_data::{
    ClientData, Dataset as Data, Description, Federation, Normalisation, Partition, PartitionPlan,
    Repair, Values,
};
use formant_experiment::{ExperimentError, OneMethod, Side};
use formant_methods::MethodError;
use formant_numerics::{Detail, Metric, Model, Patience, Pulse, Shape};
use formant_runtime::{Arrival, Hand, Lasting, RuntimeError};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Arc;

/// A method with all that a server and its clients agree on, and a client's data.
#[pyclass(frozen, module = "formant._formant")]
pub(crate) struct Task {
    inner: formant_runtime::Task,
    own: Option<Own>,
}

/// What a client has.
struct Own {
    place: usize,
    dataset: Arc<Data>,
    data: ClientData,
}

/// Computes something while other threads run; what Python code has raised in it comes out as it was, also where it had
/// no way to say so.
fn compute<T: Send, E: std::error::Error + Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    let (done, raised) = overheard(|| py.detach(work));
    match (done, raised) {
        (Ok(done), None) => Ok(done),
        (_, Some(error)) => Err(error),
        (Err(error), None) => {
            let text = chain(&error);
            Err(behind(&text).unwrap_or_else(|| raise(py, text)))
        }
    }
}

impl Task {
    fn own(&self, py: Python<'_>) -> PyResult<&Own> {
        self.own.as_ref().ok_or_else(|| {
            raise(py, "a server has no client's data\nhint: make the task with dataset= and place=")
        })
    }
}

#[pymethods]
impl Task {
    #[new]
    #[pyo3(signature = (text, sets, *, shape, class_names, pixels, normalisation, place=None, dataset=None, engine=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
    fn new(
        py: Python<'_>,
        text: &str,
        sets: Vec<String>,
        shape: (usize, usize, usize),
        class_names: Vec<String>,
        pixels: bool,
        normalisation: Vec<(f32, f32)>,
        place: Option<usize>,
        dataset: Option<&Bound<'_, Dataset>>,
        engine: Option<&Bound<'_, Engines>>,
    ) -> PyResult<Self> {
        let experiment = parsed(py, text, &sets, &zoo_with(engine))?;
        let pair = |(mean, std)| Normalisation::new(mean, std);
        let description = Description {
            shape: Shape::new(shape.0, shape.1, shape.2),
            class_names,
            normalisation: normalisation.into_iter().map(pair).collect(),
            values: if pixels { Values::Bytes } else { Values::Floats },
            schema: None,
        };
        let lent = dataset.map(|dataset| Arc::new(dataset.get().inner.clone()));
        compute(py, || {
            let one = OneMethod::new(experiment)?;
            let (Some(dataset), Some(place)) = (lent, place) else {
                let described = Data::described("described", &description)?;
                let (inner, _) = one.task(&described, Side::Server)?;
                return Ok(Self { inner, own: None });
            };
            let plan = PartitionPlan {
                clients: Some(1),
                partition: Partition::Iid,
                part: None,
                samples: None,
                min_samples: 1,
                repair: Repair::Move,
                train_fraction: one.data.train_fraction,
                validation_fraction: one.data.validation_fraction,
                seed: one.seed.wrapping_add(place as u64),
            };
            let mut federation = Federation::new(dataset.clone(), &plan)?;
            let data = federation.clients.swap_remove(0);
            let (inner, _) = one.task(&dataset, Side::Client { place, data: &data })?;
            Ok::<_, ExperimentError>(Self { inner, own: Some(Own { place, dataset, data }) })
        })
    }

    /// Rounds until the end.
    #[getter]
    fn rounds(&self) -> usize {
        self.inner.rounds
    }

    /// Training samples of the client.
    #[getter]
    fn samples(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.own(py)?.data.train.len())
    }

    /// Names, extents and parts of all tensors.
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        told(py, self.inner.engine.network().layout())
    }

    /// The server before the first round.
    fn start_server<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state =
            compute(py, || self.inner.method.method.start_server(&self.inner.init()).encode())?;
        Ok(PyBytes::new(py, &state))
    }

    /// What the server sends.
    fn broadcast<'py>(&self, py: Python<'py>, server: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let method = &*self.inner.method.method;
        let sent = compute(py, || method.broadcast(&method.decode_server(server)?)?.encode())?;
        Ok(PyBytes::new(py, &sent))
    }

    /// Both phases of a client: its new state, its upload, and why there is none. Without a state it begins.
    #[expect(clippy::type_complexity, reason = "three values")]
    fn train<'py>(
        &self,
        py: Python<'py>,
        round: usize,
        state: Option<Vec<u8>>,
        broadcast: Vec<u8>,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, Option<String>)> {
        let Own { place, dataset, data } = self.own(py)?;
        let done = compute(py, || {
            let method = &*self.inner.method.method;
            let mut state = match state {
                Some(bytes) => method.decode_client(&bytes)?,
                None => method.start_client(&self.inner.init()),
            };
            let got = method.decode_broadcast(&broadcast)?;
            let desk = self.inner.desk(*place, &*dataset.train, &data.train);
            let batch = self.inner.method.largest_batch(data.train.len());
            let mut hand = Hand::new(&*self.inner.engine, batch);
            let (sent, record) = desk.shared(round, &mut state, &got, &mut hand)?;
            let Some(sent) = sent else { return Ok((state.encode()?, None, record.error)) };
            let mut error = record.error;
            if desk.hints(round).personal_phase {
                let lasting = Lasting { round, patience: Patience::Epochs };
                let record = desk.personal(lasting, &mut state, &got, &sent, &mut hand)?;
                error = error.or(record.error);
            }
            Ok::<_, RuntimeError>((state.encode()?, Some(sent.encode()?), error))
        });
        let (state, sent, error) = done?;
        Ok((PyBytes::new(py, &state), sent.map(|sent| PyBytes::new(py, &sent)), error))
    }

    /// The server after a round, and which uploads did not count and why. Uploads are `(client, samples, bytes)`.
    #[expect(clippy::type_complexity, reason = "two values")]
    fn aggregate<'py>(
        &self,
        py: Python<'py>,
        round: u64,
        server: Vec<u8>,
        uploads: Vec<(usize, f64, Vec<u8>)>,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<(usize, String)>)> {
        let done = compute(py, || {
            let method = &*self.inner.method.method;
            let network = self.inner.engine.network();
            let mut server = method.decode_server(&server)?;
            let now = method.broadcast(&server)?;
            let (mut arrivals, mut refused) = (Vec::new(), Vec::new());
            for (client, samples, bytes) in uploads {
                let read = method.decode_upload(&bytes).and_then(|message| {
                    method.check_upload(client, &message, &now, network).map(|()| message)
                });
                match read {
                    Ok(message) if samples.is_finite() && samples > 0.0 => {
                        arrivals.push(Arrival { client, answered: round, samples, message });
                    }
                    Ok(_) => refused.push((client, format!("it claims {samples} samples"))),
                    Err(error) => refused.push((client, error.to_string())),
                }
            }
            // Sums go in client order, whoever came first.
            arrivals.sort_by_key(|arrival| arrival.client);
            let older = |_| Err(MethodError::NoUploads);
            let mut arrivals = arrivals.into_iter().map(Ok);
            self.inner.aggregator().aggregate(round, &mut server, &mut arrivals, &older)?;
            Ok::<_, MethodError>((server.encode()?, refused))
        });
        let (server, refused) = done?;
        Ok((PyBytes::new(py, &server), refused))
    }

    /// The generic model, if the method trains one.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn generic<'py>(
        &self,
        py: Python<'py>,
        server: &[u8],
    ) -> PyResult<Option<(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>)>> {
        let method = &*self.inner.method.method;
        let found = compute(py, || {
            let server = method.decode_server(server)?;
            Ok::<_, MethodError>(method.global_model(&server)?.map(|model| model.into_owned()))
        });
        Ok(found?.map(|model| arrays(py, model)))
    }

    /// The client's personal model.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn personal<'py>(
        &self,
        py: Python<'py>,
        round: usize,
        state: Vec<u8>,
        broadcast: Vec<u8>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>)> {
        let model = self.personal_of(py, round, &state, &broadcast)?;
        Ok(arrays(py, model))
    }

    /// The accuracy of the client's personal model on its own test samples, and how many these are.
    fn score(
        &self,
        py: Python<'_>,
        round: usize,
        state: Vec<u8>,
        broadcast: Vec<u8>,
    ) -> PyResult<(Option<f64>, usize)> {
        let model = self.personal_of(py, round, &state, &broadcast)?;
        let Own { dataset, data, .. } = self.own(py)?;
        let figure = compute(py, || {
            let mut hand = Hand::new(&*self.inner.engine, formant_numerics::EVALUATION_BATCH);
            let (samples, detail) = (&*dataset.train, Detail::default());
            let tally = hand.score(&model, samples, &data.test, detail, Pulse::NONE)?;
            Ok::<_, MethodError>(tally.figure(Metric::Accuracy))
        });
        Ok((figure?, data.test.len()))
    }
}

impl Task {
    fn personal_of(
        &self,
        py: Python<'_>,
        round: usize,
        state: &[u8],
        broadcast: &[u8],
    ) -> PyResult<Model> {
        let Own { place, dataset, data } = self.own(py)?;
        let found = compute(py, || {
            let method = &*self.inner.method.method;
            let (state, got) = (method.decode_client(state)?, method.decode_broadcast(broadcast)?);
            let desk = self.inner.desk(*place, &*dataset.train, &data.train);
            let batch = self.inner.method.largest_batch(data.train.len());
            let mut hand = Hand::new(&*self.inner.engine, batch);
            let mut local = desk.evaluation(round, &mut *hand.worker);
            let model = method.personal_model(&state, &got, &mut local)?.into_owned();
            Ok::<_, MethodError>(model)
        });
        found
    }
}

type Arrays<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>);

fn arrays(py: Python<'_>, model: Model) -> Arrays<'_> {
    (PyArray1::from_vec(py, model.parameters), PyArray1::from_vec(py, model.buffers))
}
