//! SCD's keys, and what is filled in where they depend on each other.

use crate::entry::erase;
use crate::schema::{Default, Key, Kind};
use crate::{Entry, ErasedMethod, choice};
use formant_numerics::{Form, Length, Scope};
use std::sync::Arc;
use toml::{Table, Value};

choice! {
    /// Whom the personal model learns from.
    pub enum Teacher {
        /// The client's own fresh model: the paper's.
        Own = "own",
        /// The model that the server has sent.
        Received = "received",
    }
}

choice! {
    /// Whom the generic model learns from in the shared phase.
    pub enum GenericTeacher {
        /// The client's personal model: the paper's.
        Personal = "personal",
        /// Where it started, the received model: with `form = "complex"` and `tau = 1` a proximal term.
        Received = "received",
        /// Zero: with `form = "complex"` and `tau = 1` weight decay.
        Origin = "origin",
    }
}

choice! {
    /// Which frequencies `tau` and `tau_p` keep.
    pub enum Frequencies {
        /// The lowest: the paper's.
        Low = "low",
        /// The highest.
        High = "high",
        /// Some, drawn by `band_seed`.
        Random = "random",
    }
}

choice! {
    /// Over which parameters the models teach each other and are blended.
    pub enum Taught {
        /// All of them: the paper's.
        All = "all",
        /// All but the head.
        Body = "body",
    }
}

choice! {
    /// How the shared phase trains its head.
    pub enum GenericHead {
        /// Like the rest: the paper's.
        Shared = "shared",
        /// Not at all, as FedBABU: it keeps its common random values and is not sent back.
        Frozen = "frozen",
        /// On the balanced softmax, as FedRoD's generic head (and its body).
        Balanced = "balanced",
    }
}

pub(super) const KEYS: &[Key] = &[
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
        help: "flat: one transform of the whole model (the paper's); per-layer: one per tensor; two-d: over (out, in) of each weight; kernel: over each kernel; singular: singular values of each weight; plain: no transform, a control",
    },
    Key {
        name: "align",
        symbol: "",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "whether the teacher's hidden units are matched with the student's before their spectra are compared",
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
        name: "strength_g",
        symbol: "",
        kind: Kind::Number { min: 0.0, max: 1e3 },
        default: Default::Unset,
        help: "in place of lambda_g: the pull on the generic model in parts of the pull of the cross-entropy, by the norms of gradients over a phase",
    },
    Key {
        name: "strength_p",
        symbol: "",
        kind: Kind::Number { min: 0.0, max: 1e3 },
        default: Default::Unset,
        help: "in place of lambda_p: the pull on the personal model in parts of the pull of the cross-entropy",
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
        name: "band",
        symbol: "",
        kind: Kind::Choice(Frequencies::WORDS),
        default: Default::Text(Frequencies::Low.word()),
        help: "which share: the lowest frequencies (the paper's), the highest, or as many that are drawn; high and random are controls",
    },
    Key {
        name: "band_seed",
        symbol: "",
        kind: Kind::Integer { min: 0, max: 1_000_000 },
        default: Default::Integer(1),
        help: "which frequencies `band = \"random\"` draws",
    },
    Key {
        name: "every",
        symbol: "",
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Default::Integer(1),
        help: "the spectral term acts on every so many steps, and as many times as strongly (1 is the paper's)",
    },
    Key {
        name: "teacher",
        symbol: "",
        kind: Kind::Choice(Teacher::WORDS),
        default: Default::Text(Teacher::Own.word()),
        help: "whom the personal model learns from: the client's own fresh model (the paper's), or the received one",
    },
    Key {
        name: "teacher_g",
        symbol: "",
        kind: Kind::Choice(GenericTeacher::WORDS),
        default: Default::Text(GenericTeacher::Personal.word()),
        help: "whom the generic model learns from: the personal one (the paper's); as controls, the received model or zero",
    },
    Key {
        name: "blend",
        symbol: "β",
        kind: Kind::Number { min: 0.0, max: 1.0 },
        default: Default::Number(0.0),
        help: "before each personal phase, how far the personal model goes towards the received one (0 is the paper's; 1 starts from it)",
    },
    Key {
        name: "blend_tau",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(1.0),
        help: "share of the frequencies, the lowest, that the blend moves (1: plain interpolation)",
    },
    Key {
        name: "part",
        symbol: "",
        kind: Kind::Choice(Taught::WORDS),
        default: Default::Text(Taught::All.word()),
        help: "what takes part in terms and blend: all parameters (the paper's), or all but the head",
    },
    Key {
        name: "head",
        symbol: "",
        kind: Kind::Choice(GenericHead::WORDS),
        default: Default::Text(GenericHead::Shared.word()),
        help: "the generic head: trained and shared (the paper's), frozen as FedBABU's, or on the balanced softmax as FedRoD's",
    },
    Key {
        name: "warm_up",
        symbol: "",
        kind: Kind::Number { min: 0.0, max: 0.95 },
        default: Default::Number(0.0),
        help: "share of the rounds that are FedAvg, with the personal model following, before co-distillation begins",
    },
    Key {
        name: "warm_up_to",
        symbol: "",
        kind: Kind::Choice(Teacher::WORDS),
        default: Default::Text(Teacher::Own.word()),
        help: "whom the personal model follows during the warm-up: the client's own fresh model, or the received one",
    },
];

/// Fills in the strengths that suit the form: the units of the four differ by orders of magnitude.
pub(super) fn complete(table: &mut Table) {
    let Some(Ok(form)) = table.get("form").map(|form| form.clone().try_into()) else { return };
    let (lambda_g, lambda_p) = match form {
        Form::Normalized => (1.0, 30.0),
        Form::Complex => (0.03, 0.3),
        Form::Generalized => (0.0, 1e-4),
        // Its gradient does not vanish where the spectra agree, so only a whisper is usable.
        Form::Raw => (0.0, 1e-6),
    };
    for (lambda, strength, value) in
        [("lambda_g", "strength_g", lambda_g), ("lambda_p", "strength_p", lambda_p)]
    {
        if !table.contains_key(strength) {
            table.entry(lambda).or_insert(Value::Float(value));
        }
    }
}

/// The method, unless it is told two strengths of one term.
pub(super) fn build(entry: Entry, table: Table) -> Result<Arc<dyn ErasedMethod>, String> {
    for (lambda, strength) in [("lambda_g", "strength_g"), ("lambda_p", "strength_p")] {
        if table.contains_key(lambda) && table.contains_key(strength) {
            return Err(format!(
                "`method.{lambda}` and `method.{strength}` are two strengths of one term\nhint: set one of them: {lambda} is a factor, {strength} a share of the cross-entropy's gradient"
            ));
        }
    }
    let is = |key: &str, word: &str| table.get(key).and_then(Value::as_str) == Some(word);
    if is("scope", "singular") && is("form", "complex") {
        return Err("`method.form = \"complex\"` compares phases, and `method.scope = \"singular\"` has none\nhint: set form to normalized, generalized or raw, or scope to two-d, kernel, per-layer or flat".into());
    }
    let needs_body = is("head", GenericHead::Frozen.word()) || is("part", Taught::Body.word());
    erase::<super::Scd>(Entry { needs_body, ..entry }, table)
}
