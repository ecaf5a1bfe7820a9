//! Spectral co-distillation (SCD).
//!
//! Chen, Yang, Quek, Chong: *Spectral Co-Distillation for Personalized Federated Learning*,
//! NeurIPS 2023.
//!
//! With `s(w) = |DFT(w)|` and `ŝ` its first `⌈τd⌉` entries, round `t` of client `k`:
//!
//! - shared phase (`GmUpdate`): from `w_G^{t−1}`, `E_G` epochs of SGD on
//!   `CE + λ_g D(ŝ(w) ‖ ŝ(w_p^{t−1}))`, giving `w_{G,k}^t`, which is uploaded
//! - personal phase (`PmUpdate`): from `w_p^{t−1}`, `E_p` epochs of SGD on
//!   `CE + λ_p D(s(w) ‖ s(w_{G,k}^t))`; the teacher is the client's own fresh model, not the
//!   received one
//! - server: `w_G^t = Σ n_k w_{G,k}^t / Σ n_k`
//!
//! GM = `w_G`, PM = `w_p`. `λ_g = 0` makes the shared phase FedAvg, `λ_p = 0` the personal phase Local.
//!
//! The code published with the paper is no oracle and was not followed: its spectral term passes
//! through detached arrays and so has no gradient, its truncation keeps the first layers instead of
//! the low frequencies, and it adds a proximal term that the paper does not mention.
//!
//! Departures, each behind a key that can be set to the paper's value:
//! - `form`: the paper prints `Σ p log p − p log q` on unnormalised magnitudes (`raw`) but argues
//!   from the KL divergence (`normalized`); see [`formant_numerics::Form`] for all four.
//! - `warm_up`: the paper leaves `w_p^0` open. With `warm_up = u`, the first `u T` rounds are FedAvg
//!   and `w_p` follows the client's own `w_{G,k}`, so that co-distillation begins between two models
//!   that have something to teach. `0` starts `w_p` from the common initial model.
//! - `tau_p`: the personal model may learn from a part of the spectrum too; `1` is the paper's.
//! - `fft_length`: the paper's spectrum has `d` entries (`exact`). With zeros behind the parameters it
//!   has a few more (`fast`): the same continuous spectrum, sampled a little finer, at a fraction of
//!   the time; see docs/SPECTRAL.md for what that changes.
//! - `every`: the term may act on every `k`-th step only, the first included, and then `k`-fold, so
//!   that its mean pull on a step is the same; `1` is the paper's.

use crate::schema::{Default, Key, Kind};
use crate::{Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Passes, Personal};
use formant_numerics::{Form, Length, Model, Scope, Spectral, Term};
use serde::Deserialize;
use std::num::NonZeroU32;
use toml::{Table, Value};

/// SCD's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scd {
    /// How two spectra are compared.
    pub form: Form,
    /// One transform for the whole model, or one per tensor.
    pub scope: Scope,
    /// As many entries as parameters, or a few more that are quicker.
    pub fft_length: Length,
    /// `λ_g`: pull of the generic model towards the personal one's low frequencies.
    pub lambda_g: f32,
    /// `λ_p`: pull of the personal model towards the generic one's spectrum.
    pub lambda_p: f32,
    /// `τ`: share of the spectrum that the generic model learns from.
    pub tau: f64,
    /// `τ_p`: share of the spectrum that the personal model learns from, 1 in the paper.
    pub tau_p: f64,
    /// The term acts on every so many steps.
    pub every: NonZeroU32,
    /// Share of the rounds that are FedAvg, before co-distillation begins.
    pub warm_up: f64,
}

const KEYS: &[Key] = &[
    Key {
        name: "form",
        symbol: "D",
        kind: Kind::Choice(Form::WORDS),
        default: Default::Text("normalized"),
        help: "how two spectra are compared: normalized (KL), raw (as printed), generalized, complex (phase included)",
    },
    Key {
        name: "scope",
        symbol: "",
        kind: Kind::Choice(Scope::WORDS),
        default: Default::Text("flat"),
        help: "flat: one transform of the whole model (the paper's); per-layer: one per tensor",
    },
    Key {
        name: "fft_length",
        symbol: "",
        kind: Kind::Choice(Length::WORDS),
        default: Default::Text("exact"),
        help: "exact: as many frequencies as parameters (the paper's); fast: zero-padded to the next quick length",
    },
    Key {
        name: "lambda_g",
        symbol: "λ_g",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: Default::Unset,
        help: "pull of the generic model towards the personal one's low frequencies; unset: by form, normalized 1, complex 0.03, raw and generalized 0",
    },
    Key {
        name: "lambda_p",
        symbol: "λ_p",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: Default::Unset,
        help: "pull of the personal model towards the generic one's spectrum; unset: by form, normalized 30, complex 0.3, generalized 1e-4, raw 1e-6",
    },
    Key {
        name: "tau",
        symbol: "τ",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(0.1),
        help: "share of the spectrum that the generic model learns from",
    },
    Key {
        name: "tau_p",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(1.0),
        help: "share of the spectrum that the personal model learns from (1 is the paper's)",
    },
    Key {
        name: "every",
        symbol: "",
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Default::Integer(1),
        help: "the spectral term acts on every so many steps, and as many times as strongly (1 is the paper's)",
    },
    Key {
        name: "warm_up",
        symbol: "",
        kind: Kind::Number { min: 0.0, max: 0.95 },
        default: Default::Number(0.0),
        help: "share of the rounds that are FedAvg, with the personal model following, before co-distillation begins",
    },
];

/// Scd in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "scd",
    title: "SCD",
    summary: "spectral co-distillation: each model teaches the other through its Fourier spectrum",
    citation: "Chen et al., NeurIPS 2023",
    personal: true,
    keys: KEYS,
    complete,
    degenerate: &[Degenerate::when(
        &[("lambda_g", 0.0), ("lambda_p", 0.0)],
        "FedAvg with Local beside it",
    )],
    ..Entry::of::<Scd>(include_str!("scd.rs"))
};

/// Fills in the strengths that suit the form: the units of the four differ by orders of magnitude.
fn complete(table: &mut Table) {
    let Some(Ok(form)) = table.get("form").map(|form| form.clone().try_into()) else { return };
    let (lambda_g, lambda_p) = match form {
        Form::Normalized => (1.0, 30.0),
        Form::Complex => (0.03, 0.3),
        Form::Generalized => (0.0, 1e-4),
        // Its gradient does not vanish where the spectra agree, so only a whisper is usable.
        Form::Raw => (0.0, 1e-6),
    };
    table.entry("lambda_g").or_insert(Value::Float(lambda_g));
    table.entry("lambda_p").or_insert(Value::Float(lambda_p));
}

impl Averaging for Scd {
    type Client = Personal;

    fn train_shared(
        &self,
        client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w_g = got.clone();
        let lambda_g = if self.is_warming_up(local.at()) { 0.0 } else { self.lambda_g };
        local.sgd(&mut w_g, &[lambda_g * self.divergence(&client.w_p, self.tau)])?;
        Ok(w_g)
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        _got: &Model,
        w_g: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        if self.is_warming_up(local.at()) {
            client.w_p.copy_from(w_g);
            return Ok(());
        }
        local.sgd(&mut client.w_p, &[self.lambda_p * self.divergence(w_g, self.tau_p)])
    }

    fn hints(&self, at: Moment) -> Hints {
        let is_plain = self.is_warming_up(at);
        let personal = if is_plain { Passes::NONE } else { Passes::EPOCHS };
        Hints { is_plain, personal, ..Hints::with_personal_phase() }
    }
}

impl Scd {
    /// `D(ŝ(w) ‖ ŝ(teacher))`, over the first `⌈τd⌉` entries.
    fn divergence<'a>(&self, teacher: &'a Model, tau: f64) -> Term<'a> {
        Term::Spectral(Spectral {
            form: self.form,
            scope: self.scope,
            length: self.fft_length,
            tau,
            every: self.every,
            teacher: &teacher.parameters,
        })
    }

    fn is_warming_up(&self, at: Moment) -> bool {
        at.round <= (self.warm_up * at.rounds as f64).round() as usize
    }
}
