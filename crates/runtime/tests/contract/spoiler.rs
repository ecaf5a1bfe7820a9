//! A method that spoils its own state before it fails.

use formant_methods::{Central, Entry, ErasedMethod, Local, MethodError, Parcel, Value, Zoo};
use formant_numerics::{Model, Network, NumericsError};
use std::borrow::Cow;
use std::sync::Arc;
use toml::Table;

/// Ditto, whose shared phase trains the personal model and then diverges, from some round on.
pub(crate) struct Spoiler {
    ditto: Arc<dyn ErasedMethod>,
    fails_from: usize,
}

impl Spoiler {
    pub(crate) fn from_round(fails_from: usize) -> Self {
        Self { ditto: Zoo::standard().build("ditto", &Table::new()).unwrap().method, fails_from }
    }
}

impl ErasedMethod for Spoiler {
    fn train_shared(
        &self,
        client: &mut Value,
        got: &Value,
        local: &mut Local<'_>,
    ) -> Result<Value, MethodError> {
        let upload = self.ditto.train_shared(client, got, local)?;
        if local.round() >= self.fails_from {
            self.ditto.train_personal(client, got, &upload, local)?;
            let step = local.meter().steps;
            return Err(NumericsError::Diverged { step, what: "everything" }.into());
        }
        Ok(upload)
    }

    fn train_personal(
        &self,
        client: &mut Value,
        got: &Value,
        sent: &Value,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        self.ditto.train_personal(client, got, sent, local)
    }

    fn aggregate(
        &self,
        server: &mut Value,
        parcels: &mut dyn Iterator<Item = Result<Parcel, MethodError>>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        self.ditto.aggregate(server, parcels, central)
    }

    fn personal_model<'a>(
        &self,
        client: &'a Value,
        got: &'a Value,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        self.ditto.personal_model(client, got, local)
    }

    fn global_model<'a>(&self, server: &'a Value) -> Result<Option<Cow<'a, Model>>, MethodError> {
        self.ditto.global_model(server)
    }

    fn other_global_models<'a>(
        &self,
        server: &'a Value,
    ) -> Result<Vec<(&'static str, Cow<'a, Model>)>, MethodError> {
        self.ditto.other_global_models(server)
    }

    fn entry(&self) -> &Entry {
        self.ditto.entry()
    }

    fn start_server(&self, init: &Model) -> Value {
        self.ditto.start_server(init)
    }

    fn start_client(&self, init: &Model) -> Value {
        self.ditto.start_client(init)
    }

    fn broadcast(&self, server: &Value) -> Result<Value, MethodError> {
        self.ditto.broadcast(server)
    }

    fn has_personal_phase(&self) -> bool {
        true
    }

    fn shared_work(&self, samples: usize, epochs: usize) -> usize {
        self.ditto.shared_work(samples, epochs)
    }

    fn trains_plainly(&self, round: (usize, usize)) -> bool {
        self.ditto.trains_plainly(round)
    }

    fn personal_work(&self, samples: usize, epochs: usize, round: (usize, usize)) -> usize {
        self.ditto.personal_work(samples, epochs, round)
    }

    fn allows_stale_uploads(&self) -> bool {
        self.ditto.allows_stale_uploads()
    }

    fn check_upload(
        &self,
        client: usize,
        upload: &Value,
        got: &Value,
        network: &dyn Network,
    ) -> Result<(), MethodError> {
        self.ditto.check_upload(client, upload, got, network)
    }

    fn rebase(
        &self,
        upload: &mut Value,
        answered: &Value,
        now: &Value,
        share: f64,
    ) -> Result<(), MethodError> {
        self.ditto.rebase(upload, answered, now, share)
    }

    fn broadcast_vectors<'v>(&self, broadcast: &'v Value) -> Result<Vec<&'v [f32]>, MethodError> {
        self.ditto.broadcast_vectors(broadcast)
    }

    fn upload_vectors<'v>(&self, upload: &'v Value) -> Result<Vec<&'v [f32]>, MethodError> {
        self.ditto.upload_vectors(upload)
    }

    fn upload_vectors_mut<'v>(
        &self,
        upload: &'v mut Value,
    ) -> Result<Vec<&'v mut Vec<f32>>, MethodError> {
        self.ditto.upload_vectors_mut(upload)
    }

    fn decode_server(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.ditto.decode_server(bytes)
    }

    fn decode_client(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.ditto.decode_client(bytes)
    }

    fn decode_broadcast(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.ditto.decode_broadcast(bytes)
    }

    fn decode_upload(&self, bytes: &[u8]) -> Result<Value, MethodError> {
        self.ditto.decode_upload(bytes)
    }
}
