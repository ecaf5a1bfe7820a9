//! Methods whose server keeps one model, sends it, and averages what comes back: most of them. What
//! they share is written here, once.

use crate::{Central, Hints, Local, Mean, Method, MethodError, Moment, Newcomer, State};
use formant_numerics::{Model, Network, Part};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A method whose server keeps `w`, sends it, and takes the mean of what clients make of it.
///
/// ```
/// use formant_methods::{Averaging, Local, MethodError};
/// use formant_numerics::Model;
///
/// /// FedAvg, whose clients stay where they are.
/// struct Idle {}
///
/// impl Averaging for Idle {
///     type Client = ();
///
///     fn train_shared(
///         &self,
///         _client: &mut (),
///         got: &Model,
///         _local: &mut Local<'_>,
///     ) -> Result<Model, MethodError> {
///         Ok(got.clone())
///     }
/// }
/// ```
pub trait Averaging: Send + Sync + 'static {
    /// Kept by one client between rounds, never sent: nothing, or its [`Personal`] model, or more.
    type Client: State;

    /// The shared phase: from the received `w` to the client's own; unless told, FedAvg's.
    fn train_shared(
        &self,
        _client: &mut Self::Client,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w = got.clone();
        local.sgd(&mut w, &[])?;
        Ok(w)
    }
    /// See [`Method::train_personal`].
    fn train_personal(
        &self,
        _client: &mut Self::Client,
        _got: &Model,
        _sent: &Model,
        _local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }
    /// What the server makes of `w` and the mean of what came back; unless told, the mean.
    fn update(&self, w: &mut Model, mean: Model) {
        *w = mean;
    }
    /// The personal model of a client: unless told, the one in its state, or else the received `w`.
    fn personal_model<'a>(
        &self,
        client: &'a Self::Client,
        got: &'a Model,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(client.personal().unwrap_or(got)))
    }
    /// See [`Method::newcomer`].
    fn newcomer<'a>(&self, _got: &'a Model) -> Newcomer<'a> {
        Newcomer::Phases
    }
    /// What of `w` clients send back. What they do not stays as it began.
    fn shared(&self) -> Shared {
        Shared::Model
    }
    /// See [`Method::hints`].
    fn hints(&self, _at: Moment) -> Hints {
        Hints::default()
    }
}

/// What of a model is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// All of it.
    Model,
    /// All but the head, and the statistics.
    Body,
}

impl Shared {
    /// How many parameters that is; they come first.
    fn parameters(self, network: &dyn Network) -> usize {
        match self {
            Self::Model => network.layout().range(Part::All).end,
            Self::Body => network.layout().range(Part::Body).end,
        }
    }
}

/// The generic model between rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Generic {
    /// `w`.
    pub w: Model,
}

impl State for Generic {
    fn start(init: &Model) -> Self {
        Self { w: init.clone() }
    }
}

/// A personal model that stays with its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Personal {
    /// `w_p`.
    pub w_p: Model,
}

impl State for Personal {
    fn start(init: &Model) -> Self {
        Self { w_p: init.clone() }
    }

    fn personal(&self) -> Option<&Model> {
        Some(&self.w_p)
    }
}

impl<A: Averaging> Method for A {
    type Server = Generic;
    type Client = A::Client;
    type Broadcast = Model;
    type Upload = Model;
    type Received<'a> = Mean<Model>;

    fn broadcast(&self, server: &Generic) -> Model {
        server.w.clone()
    }

    fn train_shared(
        &self,
        client: &mut A::Client,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w = Averaging::train_shared(self, client, got, local)?;
        w.parameters.truncate(self.shared().parameters(local.network()));
        Ok(w)
    }

    fn train_personal(
        &self,
        client: &mut A::Client,
        got: &Model,
        sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Averaging::train_personal(self, client, got, sent, local)
    }

    fn aggregate(
        &self,
        server: &mut Generic,
        received: Mean<Model>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let mut mean = received.message;
        // Behind a part that is shared, what nobody trains.
        mean.parameters.extend_from_slice(&server.w.parameters[mean.parameters.len()..]);
        self.update(&mut server.w, mean);
        Ok(())
    }

    fn global_model<'a>(&self, server: &'a Generic) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.w))
    }

    fn personal_model<'a>(
        &self,
        client: &'a A::Client,
        got: &'a Model,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Averaging::personal_model(self, client, got, local)
    }

    fn newcomer<'a>(&self, got: &'a Model) -> Newcomer<'a> {
        Averaging::newcomer(self, got)
    }

    fn hints(&self, at: Moment) -> Hints {
        Averaging::hints(self, at)
    }

    fn upload_lengths(&self, got: &Model, network: &dyn Network) -> Vec<usize> {
        vec![self.shared().parameters(network), got.buffers.len()]
    }
}
