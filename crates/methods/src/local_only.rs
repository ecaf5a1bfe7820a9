//! Local.
//!
//! No federation: each client trains alone. The floor that every table needs.
//!
//! - client: `w_p ← E_p epochs of SGD on f_i from w_p`, each round
//!
//! PM = `w_p`. There is no generic model: tables score the average of all `w_p`, in parentheses.
//!
//! Departures: none.

use crate::{Central, Entry, Hints, Local, Method, MethodError, Moment, Passes, Personal};
use formant_numerics::Model;
use serde::Deserialize;
use std::borrow::Cow;

/// Local training has no hyper-parameter of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalOnly {}

/// Local in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "local",
    title: "Local",
    summary: "each client trains alone: the floor that every table needs",
    citation: "no federation",
    generic: false,
    personal: true,
    ..Entry::of::<LocalOnly>(include_str!("local_only.rs"))
};

impl Method for LocalOnly {
    type Server = ();
    type Client = Personal;
    type Broadcast = ();
    type Upload = ();
    type Received<'a> = ();

    fn broadcast(&self, _server: &()) {}

    fn train_shared(
        &self,
        _client: &mut Personal,
        _got: &(),
        _local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        Ok(())
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        _got: &(),
        _sent: &(),
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        local.sgd(&mut client.w_p, &[])
    }

    fn aggregate(
        &self,
        _server: &mut (),
        _received: (),
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
        Ok(Cow::Borrowed(&client.w_p))
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints { shared: Passes::NONE, ..Hints::with_personal_phase() }
    }
}
