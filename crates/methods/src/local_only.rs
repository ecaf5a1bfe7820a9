//! Local.
//!
//! No federation: each client trains alone. The floor that every table needs.
//!
//! - client: `θ_i ← E_p epochs of SGD on f_i from θ_i`, each round
//!
//! PM = `θ_i`. There is no generic model: tables score the average of all `θ_i`, in parentheses.
//!
//! Departures: none.

use crate::entry::Entry;
use crate::{Central, Local, Method, MethodError, State, Uploads};
use formant_numerics::{Model, Part};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Local training has no hyper-parameter of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalOnly {}

/// LocalOnly in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "local",
    title: "Local",
    summary: "each client trains alone: the floor that every table needs",
    citation: "no federation",
    generic: false,
    personal: true,
    ..Entry::of::<LocalOnly>(include_str!("local_only.rs"))
};

/// A personal model that stays with its client; what Ditto and SCD keep there too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Personal {
    /// `θ_i`.
    pub theta: Model,
}

impl State for Personal {}

impl Method for LocalOnly {
    type Server = ();
    type Client = Personal;
    type Broadcast = ();
    type Upload = ();

    fn start_server(&self, _init: &Model) {}

    fn start_client(&self, init: &Model) -> Personal {
        Personal { theta: init.clone() }
    }

    fn broadcast(&self, _server: &()) {}

    fn train_shared(
        &self,
        _: &mut Personal,
        _got: &(),
        _: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }

    fn shared_work(&self, _samples: usize, _epochs: usize) -> usize {
        0
    }

    fn has_personal_phase(&self) -> bool {
        true
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        _got: &(),
        _sent: &(),
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        local.sgd(&mut client.theta, local.epochs(), Part::All, &mut [])
    }

    fn aggregate(
        &self,
        _server: &mut (),
        _uploads: Uploads<'_, ()>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }

    fn global_model<'a>(&self, _server: &'a ()) -> Option<Cow<'a, Model>> {
        None
    }

    fn personal_model<'a>(
        &self,
        client: &'a Personal,
        _got: &'a (),
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(&client.theta))
    }
}
