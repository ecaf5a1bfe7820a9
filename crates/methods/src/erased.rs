//! The untyped twin of [`Method`], for the runtime. Authors never see it.

use crate::{
    Central, Entry, Hints, Local, Message, Method, MethodError, Moment, Needs, Newcomer, Receive,
    State, Upload, Uploads,
};
use formant_numerics::{Model, Network, vector};
use serde::Serialize;
use std::any::Any;
use std::borrow::Cow;
use std::io::Write;
use std::marker::PhantomData;

/// A state or message whose type only its method knows.
pub struct Value(Box<dyn Content>);

impl core::fmt::Debug for Value {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Value")
    }
}

impl Value {
    fn new<T: Serialize + Send + Sync + 'static>(content: T) -> Self {
        Self(Box::new(content))
    }

    /// The bytes that [`ErasedMethod`]'s decoders read.
    pub fn encode(&self) -> Result<Vec<u8>, MethodError> {
        self.0.encode().map_err(|error| MethodError::Encode(error.to_string()))
    }

    /// Writes the same bytes without collecting them first: a large vector goes out as it lies in
    /// memory. What the writer reports is the writer's to remember; here it is only a failure.
    pub fn encode_to(&self, writer: &mut dyn Write) -> Result<(), MethodError> {
        self.0.encode_to(writer).map_err(|error| MethodError::Encode(error.to_string()))
    }

    /// Length of the encoding.
    pub fn encoded_len(&self) -> Result<usize, MethodError> {
        self.0.encoded_len().map_err(|error| MethodError::Encode(error.to_string()))
    }
}

trait Content: Send + Sync {
    fn encode(&self) -> postcard::Result<Vec<u8>>;
    fn encode_to(&self, writer: &mut dyn Write) -> postcard::Result<()>;
    fn encoded_len(&self) -> postcard::Result<usize>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Serialize + Send + Sync + 'static> Content for T {
    fn encode(&self) -> postcard::Result<Vec<u8>> {
        postcard::to_stdvec(self)
    }

    fn encode_to(&self, writer: &mut dyn Write) -> postcard::Result<()> {
        postcard::to_io(self, writer).map(|_| ())
    }

    fn encoded_len(&self) -> postcard::Result<usize> {
        postcard::experimental::serialized_size(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// An upload on its way to the server, not yet typed.
#[derive(Debug)]
pub struct Parcel {
    /// Who sent it.
    pub client: usize,
    /// `n_i`.
    pub samples: f64,
    /// How much of it counts: less than 1 if it is stale.
    pub share: f64,
    /// Rounds since the broadcast that it answers.
    pub staleness: usize,
    /// What was sent.
    pub message: Value,
}

/// [`Method`] without its types. Implemented once, for every method; [`crate::erase`] is the way to one.
pub trait ErasedMethod: sealed::Sealed + Send + Sync {
    /// The method's line in the zoo.
    fn entry(&self) -> &Entry;
    /// The server before the first round; see [`State::start`].
    fn start_server(&self, init: &Model) -> Value;
    /// A client before its first round; see [`State::start`].
    fn start_client(&self, init: &Model) -> Value;
    /// See [`Method::broadcast`].
    fn broadcast(&self, server: &Value) -> Result<Value, MethodError>;
    /// See [`Method::train_shared`].
    fn train_shared(
        &self,
        client: &mut Value,
        got: &Value,
        local: &mut Local<'_>,
    ) -> Result<Value, MethodError>;
    /// See [`Method::train_personal`].
    fn train_personal(
        &self,
        client: &mut Value,
        got: &Value,
        sent: &Value,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError>;
    /// See [`Method::hints`].
    fn hints(&self, at: Moment) -> Hints;
    /// An error unless an upload could be aggregated: its vectors have the right lengths and are
    /// See [`Method::upload_lengths`].
    fn upload_lengths(&self, got: &Value, network: &dyn Network)
    -> Result<Vec<usize>, MethodError>;
    /// See [`Method::broadcast_grows`].
    fn broadcast_grows(&self, network: &dyn Network) -> usize;
    /// finite.
    fn check_upload(
        &self,
        client: usize,
        upload: &Value,
        got: &Value,
        network: &dyn Network,
    ) -> Result<(), MethodError>;
    /// Turns an upload that answers an older broadcast into one that answers the newest: what the
    /// client changed, `share` of it, on top of what the server sends now.
    fn rebase(
        &self,
        upload: &mut Value,
        answered: &Value,
        now: &Value,
        share: f64,
    ) -> Result<(), MethodError>;
    /// See [`Message::vectors`], of a broadcast.
    fn broadcast_vectors<'v>(&self, broadcast: &'v Value) -> Result<Vec<&'v [f32]>, MethodError>;
    /// See [`Message::vectors`], of an upload.
    fn upload_vectors<'v>(&self, upload: &'v Value) -> Result<Vec<&'v [f32]>, MethodError>;
    /// See [`Message::vectors_mut`], of an upload.
    fn upload_vectors_mut<'v>(
        &self,
        upload: &'v mut Value,
    ) -> Result<Vec<&'v mut Vec<f32>>, MethodError>;
    /// See [`Message::STATISTICS`], of an upload.
    fn upload_statistics(&self) -> usize;
    /// See [`Method::aggregate`].
    fn aggregate(
        &self,
        server: &mut Value,
        parcels: &mut dyn Iterator<Item = Result<Parcel, MethodError>>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError>;
    /// What the server needs of uploads, by the type of [`Method::Received`].
    fn needs(&self) -> Needs;
    /// See [`Message::ONLY_VECTORS`], of an upload.
    fn sends_only_vectors(&self) -> bool;
    /// See [`Method::combines`].
    fn combines(&self) -> bool;
    /// See [`Method::global_model`].
    fn global_model<'a>(&self, server: &'a Value) -> Result<Option<Cow<'a, Model>>, MethodError>;
    /// See [`Method::other_global_models`].
    fn other_global_models<'a>(
        &self,
        server: &'a Value,
    ) -> Result<Vec<(&'static str, Cow<'a, Model>)>, MethodError>;
    /// See [`Method::personal_model`].
    fn personal_model<'a>(
        &self,
        client: &'a Value,
        got: &'a Value,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError>;
    /// See [`Method::newcomer`].
    fn newcomer<'a>(&self, got: &'a Value) -> Result<Newcomer<'a>, MethodError>;
    /// The broadcast that a model is by itself, if broadcasts of the method are models.
    fn broadcast_of(&self, model: &Model) -> Option<Value>;
    /// Restores a server state.
    fn decode_server(&self, bytes: &[u8]) -> Result<Value, MethodError>;
    /// Restores a client state.
    fn decode_client(&self, bytes: &[u8]) -> Result<Value, MethodError>;
    /// Restores a broadcast.
    fn decode_broadcast(&self, bytes: &[u8]) -> Result<Value, MethodError>;
    /// Restores an upload.
    fn decode_upload(&self, bytes: &[u8]) -> Result<Value, MethodError>;
}

mod sealed {
    /// Whoever drives methods relies on what [`super::Erased`] does.
    pub trait Sealed {}
}

impl<M> sealed::Sealed for Erased<M> {}

/// A finite model with a variance below zero takes the root of it in every evaluation.
fn check_variances<U: Message>(
    client: usize,
    vectors: &[&[f32]],
    network: &dyn Network,
) -> Result<(), MethodError> {
    let layout = network.layout();
    let Some(statistics) = vectors.get(U::STATISTICS) else { return Ok(()) };
    if statistics.len() != layout.buffer_values() {
        return Ok(());
    }
    for tensor in layout.variances() {
        if let Some(value) = statistics[tensor.range.clone()].iter().find(|value| **value < 0.0) {
            let tensor = tensor.name.clone();
            return Err(MethodError::Variance { client, tensor, value: *value });
        }
    }
    Ok(())
}

/// A method together with its line in the zoo.
pub(crate) struct Erased<M> {
    pub(crate) method: M,
    pub(crate) entry: Entry,
}

impl<M: Method> Erased<M> {
    fn wrong(&self, what: &'static str) -> MethodError {
        MethodError::WrongValue { method: self.entry.name, what }
    }

    fn server<'v>(&self, value: &'v Value) -> Result<&'v M::Server, MethodError> {
        value.0.as_any().downcast_ref().ok_or_else(|| self.wrong("server state"))
    }

    fn client<'v>(&self, value: &'v Value) -> Result<&'v M::Client, MethodError> {
        value.0.as_any().downcast_ref().ok_or_else(|| self.wrong("client state"))
    }

    fn client_mut<'v>(&self, value: &'v mut Value) -> Result<&'v mut M::Client, MethodError> {
        value.0.as_any_mut().downcast_mut().ok_or_else(|| self.wrong("client state"))
    }

    fn got<'v>(&self, value: &'v Value) -> Result<&'v M::Broadcast, MethodError> {
        value.0.as_any().downcast_ref().ok_or_else(|| self.wrong("broadcast"))
    }

    fn sent<'v>(&self, value: &'v Value) -> Result<&'v M::Upload, MethodError> {
        value.0.as_any().downcast_ref().ok_or_else(|| self.wrong("upload"))
    }

    fn sent_mut<'v>(&self, value: &'v mut Value) -> Result<&'v mut M::Upload, MethodError> {
        value.0.as_any_mut().downcast_mut().ok_or_else(|| self.wrong("upload"))
    }

    fn decode<T>(&self, what: &'static str, bytes: &[u8]) -> Result<Value, MethodError>
    where
        T: serde::de::DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        let decode_error =
            |reason: String| MethodError::Decode { method: self.entry.name, what, reason };
        let (value, rest) = postcard::take_from_bytes::<T>(bytes)
            .map_err(|error| decode_error(error.to_string()))?;
        if !rest.is_empty() {
            return Err(decode_error(format!("bytes left over: {}", rest.len())));
        }
        Ok(Value::new(value))
    }
}

fn state<T: State>(state: T) -> Value {
    Value::new(state)
}

fn message<T: Message>(message: T) -> Value {
    Value::new(message)
}

impl<M: Method> ErasedMethod for Erased<M> {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn start_server(&self, init: &Model) -> Value {
        state(M::Server::start(init))
    }

    fn start_client(&self, init: &Model) -> Value {
        state(M::Client::start(init))
    }

    fn broadcast(&self, server: &Value) -> Result<Value, MethodError> {
        Ok(message(self.method.broadcast(self.server(server)?)))
    }

    fn train_shared(
        &self,
        client: &mut Value,
        got: &Value,
        local: &mut Local<'_>,
    ) -> Result<Value, MethodError> {
        let got = self.got(got)?;
        self.method.train_shared(self.client_mut(client)?, got, local).map(message)
    }

    fn train_personal(
        &self,
        client: &mut Value,
        got: &Value,
        sent: &Value,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let got = self.got(got)?;
        self.method.train_personal(self.client_mut(client)?, got, self.sent(sent)?, local)
    }

    fn hints(&self, at: Moment) -> Hints {
        self.method.hints(at)
    }

    fn upload_lengths(
        &self,
        got: &Value,
        network: &dyn Network,
    ) -> Result<Vec<usize>, MethodError> {
        Ok(self.method.upload_lengths(self.got(got)?, network))
    }

    fn broadcast_grows(&self, network: &dyn Network) -> usize {
        self.method.broadcast_grows(network)
    }

    fn check_upload(
        &self,
        client: usize,
        upload: &Value,
        got: &Value,
        network: &dyn Network,
    ) -> Result<(), MethodError> {
        let (upload, got) = (self.sent(upload)?, self.got(got)?);
        let vectors = upload.vectors();
        let lengths: Vec<usize> = vectors.iter().map(|vector| vector.len()).collect();
        let expected = self.method.upload_lengths(got, network);
        let foreign = |sent, expected| Err(MethodError::ForeignUpload { client, sent, expected });
        if lengths != expected {
            return foreign(format!("vectors of {lengths:?} numbers"), format!("{expected:?}"));
        }
        if !vectors.iter().all(|vector| vector::all_finite(vector)) {
            return foreign("values that are not finite".into(), "a finite model".into());
        }
        check_variances::<M::Upload>(client, &vectors, network)?;
        match self.method.upload_fault(upload, network) {
            Some(fault) => foreign(fault, "an upload of this federation".into()),
            None => Ok(()),
        }
    }

    fn rebase(
        &self,
        upload: &mut Value,
        answered: &Value,
        now: &Value,
        share: f64,
    ) -> Result<(), MethodError> {
        let upload = self.sent_mut(upload)?;
        let (answered, now) = (self.got(answered)?.vectors(), self.got(now)?.vectors());
        // A message may be shorter than the broadcast (a body without its head) and a vector may
        // not have been there yet when the client began: then it began with zeros.
        let at = |vector: &[f32], i: usize| f64::from(vector.get(i).copied().unwrap_or(0.0));
        let vectors = upload.vectors_mut().into_iter().zip(answered).zip(now);
        for (place, ((sent, answered), now)) in vectors.enumerate() {
            // Statistics move from what the server has towards what the client saw.
            let answered = if place == M::Upload::STATISTICS { now } else { answered };
            for (i, x) in sent.iter_mut().enumerate() {
                *x = (at(now, i) + share * (f64::from(*x) - at(answered, i))) as f32;
            }
        }
        Ok(())
    }

    fn broadcast_vectors<'v>(&self, broadcast: &'v Value) -> Result<Vec<&'v [f32]>, MethodError> {
        Ok(self.got(broadcast)?.vectors())
    }

    fn upload_vectors<'v>(&self, upload: &'v Value) -> Result<Vec<&'v [f32]>, MethodError> {
        Ok(self.sent(upload)?.vectors())
    }

    fn upload_vectors_mut<'v>(
        &self,
        upload: &'v mut Value,
    ) -> Result<Vec<&'v mut Vec<f32>>, MethodError> {
        Ok(self.sent_mut(upload)?.vectors_mut())
    }

    fn aggregate(
        &self,
        server: &mut Value,
        parcels: &mut dyn Iterator<Item = Result<Parcel, MethodError>>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let server =
            server.0.as_any_mut().downcast_mut().ok_or_else(|| self.wrong("server state"))?;
        let mut typed = Typed::<M> { parcels, erased: self, upload: PhantomData };
        let received = M::Received::receive(Uploads::new(&mut typed), central)?;
        self.method.aggregate(server, received, central)
    }

    fn upload_statistics(&self) -> usize {
        M::Upload::STATISTICS
    }

    fn needs(&self) -> Needs {
        <M::Received<'static> as Receive<'static, M::Upload>>::NEEDS
    }

    fn sends_only_vectors(&self) -> bool {
        M::Upload::ONLY_VECTORS
    }

    fn combines(&self) -> bool {
        self.method.combines()
    }

    fn global_model<'a>(&self, server: &'a Value) -> Result<Option<Cow<'a, Model>>, MethodError> {
        let model = self.method.global_model(self.server(server)?);
        // What an entry says is what tables say.
        Ok(model.filter(|_| self.entry.generic))
    }

    fn other_global_models<'a>(
        &self,
        server: &'a Value,
    ) -> Result<Vec<(&'static str, Cow<'a, Model>)>, MethodError> {
        Ok(self.method.other_global_models(self.server(server)?))
    }

    fn personal_model<'a>(
        &self,
        client: &'a Value,
        got: &'a Value,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        self.method.personal_model(self.client(client)?, self.got(got)?, local)
    }

    fn newcomer<'a>(&self, got: &'a Value) -> Result<Newcomer<'a>, MethodError> {
        if !self.entry.personal {
            return Ok(Newcomer::FineTuning);
        }
        Ok(self.method.newcomer(self.got(got)?))
    }

    fn broadcast_of(&self, model: &Model) -> Option<Value> {
        let model: Box<dyn Any> = Box::new(model.clone());
        model.downcast::<M::Broadcast>().ok().map(|broadcast| message(*broadcast))
    }

    fn decode_server(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.decode::<M::Server>("server state", bytes)
    }

    fn decode_client(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.decode::<M::Client>("client state", bytes)
    }

    fn decode_broadcast(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.decode::<M::Broadcast>("broadcast", bytes)
    }

    fn decode_upload(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.decode::<M::Upload>("upload", bytes)
    }
}

/// Gives parcels their type back, one at a time.
struct Typed<'a, M: Method> {
    parcels: &'a mut dyn Iterator<Item = Result<Parcel, MethodError>>,
    erased: &'a Erased<M>,
    upload: PhantomData<M::Upload>,
}

impl<M: Method> Iterator for Typed<'_, M> {
    type Item = Result<Upload<M::Upload>, MethodError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.parcels.next()?.and_then(|parcel| {
            let message = parcel.message.0.into_any().downcast::<M::Upload>();
            let message = *message.map_err(|_| self.erased.wrong("upload"))?;
            let Parcel { client, samples, share, staleness, .. } = parcel;
            Ok(Upload { client, samples, share, staleness, message })
        }))
    }
}
