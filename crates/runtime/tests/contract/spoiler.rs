//! A method that spoils its own state before it fails.

use formant_methods::schema::{Default, Key, Kind};
use formant_methods::{
    Averaging, Entry, ErasedMethod, Hints, Local, MethodError, Moment, Personal,
};
use formant_numerics::{Model, NumericsError, Term};
use serde::Deserialize;
use std::sync::Arc;

/// Ditto, whose shared phase trains the personal model and then, from some round on, diverges or sends what
/// cannot be aggregated.
#[derive(Debug, Deserialize)]
struct Spoiler {
    fails_from: usize,
    sends: bool,
}

const ENTRY: Entry = Entry {
    name: "spoiler",
    title: "Spoiler",
    personal: true,
    keys: &[
        Key {
            name: "fails_from",
            symbol: "",
            kind: Kind::Integer { min: 1, max: 1_000 },
            default: Default::Required,
            help: "the first round that fails",
        },
        Key {
            name: "sends",
            symbol: "",
            kind: Kind::Flag,
            default: Default::Required,
            help: "whether it notices nothing and sends a model that is not finite",
        },
    ],
    ..Entry::of::<Spoiler>("")
};

/// The method, failing from a round on: it notices, or it sends a model that is not finite.
pub(crate) fn from_round(fails_from: i64, sends: bool) -> Arc<dyn ErasedMethod> {
    let keys = [("fails_from".to_owned(), fails_from.into()), ("sends".to_owned(), sends.into())];
    let table = toml::Table::from_iter(keys);
    ENTRY.build(&table).unwrap().method
}

impl Averaging for Spoiler {
    type Client = Personal;

    fn train_shared(
        &self,
        client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w = got.clone();
        local.sgd(&mut w, &[])?;
        if local.at().round >= self.fails_from {
            self.train_personal(client, got, &w, local)?;
            if self.sends {
                w.parameters[0] = f32::NAN;
                return Ok(w);
            }
            let step = local.meter().steps;
            return Err(NumericsError::Diverged { step, what: "everything" }.into());
        }
        Ok(w)
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        got: &Model,
        _sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        local.sgd(&mut client.w_p, &[1.0 * Term::Proximal { anchor: &got.parameters }])
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints::with_personal_phase()
    }
}
