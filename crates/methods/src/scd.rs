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
//!   and `w_p` follows the client's own `w_{G,k}` (or, by `warm_up_to`, the received `w_G^{t−1}`), so that
//!   co-distillation begins between two models that have something to teach. `0` starts `w_p` from the common initial
//!   model.
//! - `tau_p`: the personal model may learn from a part of the spectrum too; `1` is the paper's.
//! - `fft_length`: the paper's spectrum has `d` entries (`exact`). With zeros behind the parameters it
//!   has a few more (`fast`): the same continuous spectrum, sampled a little finer, at a fraction of
//!   the time; see docs/SPECTRAL.md for what that changes.
//! - `every`: the term may act on every `k`-th step only, the first included, and then `k`-fold, so
//!   that its mean pull on a step is the same; `1` is the paper's.
//!
//! Beyond the paper, each off unless its key says otherwise; docs/RESULTS.md has what they are worth:
//! - `blend = β`: before each personal phase `w_p ← w_p + β (w_G^{t−1} − w_p)`, statistics included. Without terms,
//!   `β = 1` is FedAvg with fine-tuning, and any `β` is plain interpolation: what a spectrum has to beat. With
//!   `blend_tau < 1` only the lowest frequencies go, by the Fourier transform and back.
//! - `teacher = "received"`: `w_p` learns from `w_G^{t−1}`, which carries no drift of the client's own. With
//!   `form = "complex"` and `tau_p = 1` it is Ditto's personal phase.
//! - `strength_g`, `strength_p`: in place of `λ`, the pull as a share of that of the cross-entropy
//!   ([`formant_numerics::Weight::Share`]), which means the same for every form, band, network and dataset.
//! - `part = "body"`: terms and blend leave the heads alone.
//! - `head`: the shared phase freezes the head as FedBABU does, or trains on FedRoD's balanced softmax
//!   `CE(logits_c + log n_{k,c}, y)`. The personal model is a whole model of its own in any case.
//! - `scope = "two-d" | "kernel" | "singular"`: spectra over `(out, in)` of each weight, over each kernel, or the
//!   singular values of each weight, which no order of units changes; `align = true` first matches the teacher's units with
//!   the student's (Ainsworth et al., ICLR 2023).
//! - Controls: `band = "high" | "random"`, `scope = "plain"` (no transform: with `complex`, a pull on some coordinates),
//!   `teacher_g = "received"` (with `complex` and `τ = 1`, FedProx) and `"origin"` (weight decay).

mod keys;

use crate::fedrod::balanced_shift;
use crate::{
    Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Passes, Personal, Shared,
    Training,
};
use formant_numerics::{
    Band, Form, Length, Loss, Model, Part, Scope, Spectral, Term, Weight, Weighted,
};
use keys::{Frequencies, GenericHead, GenericTeacher, KEYS, Taught, Teacher, build, complete};
use serde::Deserialize;
use std::borrow::Cow;
use std::num::NonZeroU32;

/// SCD's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scd {
    /// How two spectra are compared.
    pub form: Form,
    /// One transform for the whole model, or one per tensor.
    pub scope: Scope,
    /// Whether units are matched first.
    pub align: bool,
    /// As many entries as parameters, or a few more that are quicker.
    pub fft_length: Length,
    /// `λ_g`: pull of the generic model towards the personal one's low frequencies.
    pub lambda_g: Option<f32>,
    /// `λ_p`: pull of the personal model towards the generic one's spectrum.
    pub lambda_p: Option<f32>,
    /// The same as a share of the cross-entropy's gradient.
    pub strength_g: Option<f32>,
    /// The same as a share of the cross-entropy's gradient.
    pub strength_p: Option<f32>,
    /// `τ`: share of the spectrum that the generic model learns from.
    pub tau: f64,
    /// `τ_p`: share of the spectrum that the personal model learns from, 1 in the paper.
    pub tau_p: f64,
    /// Which share.
    pub band: Frequencies,
    /// Which random one.
    pub band_seed: u32,
    /// The term acts on every so many steps.
    pub every: NonZeroU32,
    /// Whom the personal model learns from.
    pub teacher: Teacher,
    /// Whom the generic model learns from.
    pub teacher_g: GenericTeacher,
    /// `β`: how far the personal model goes towards the received one before it trains.
    pub blend: f32,
    /// Over which share of the frequencies.
    pub blend_tau: f64,
    /// What takes part in terms and blend.
    pub part: Taught,
    /// How the shared phase trains its head.
    pub head: GenericHead,
    /// Share of the rounds that are FedAvg, before co-distillation begins.
    pub warm_up: f64,
    /// Whom the personal model follows until then.
    pub warm_up_to: Teacher,
}

/// Scd in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "scd",
    title: "SCD",
    summary: "spectral co-distillation: each model teaches the other through its Fourier spectrum",
    citation: "Chen et al., NeurIPS 2023",
    personal: true,
    keys: KEYS,
    complete,
    build,
    degenerate: &[
        Degenerate::when(
            &[("lambda_g", 0.0), ("lambda_p", 0.0), ("blend", 0.0)],
            "FedAvg with Local beside it",
        ),
        Degenerate::when(
            &[("strength_g", 0.0), ("strength_p", 0.0), ("blend", 0.0)],
            "FedAvg with Local beside it",
        ),
        Degenerate::when(
            &[("lambda_g", 0.0), ("lambda_p", 0.0), ("blend", 1.0)],
            "FedAvg with fine-tuning",
        ),
        Degenerate::when(
            &[("strength_g", 0.0), ("strength_p", 0.0), ("blend", 1.0)],
            "FedAvg with fine-tuning",
        ),
    ],
    ..Entry::of::<Scd>(include_str!("scd.rs"))
};

impl Averaging for Scd {
    type Client = Personal;

    fn train_shared(
        &self,
        client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w_g = got.clone();
        let origin;
        let teacher = match self.teacher_g {
            GenericTeacher::Personal => &client.w_p.parameters,
            GenericTeacher::Received => &got.parameters,
            GenericTeacher::Origin => {
                origin = vec![0.0; got.parameters.len()];
                &origin
            }
        };
        let distil = weight(self.lambda_g, self.strength_g).of(self.divergence(teacher, self.tau));
        let terms: &[Weighted<'_>] = if self.is_warming_up(local.at()) { &[] } else { &[distil] };
        let training = Training { terms, ..local.training() };
        match self.head {
            GenericHead::Shared => local.train(&mut w_g, training)?,
            GenericHead::Frozen => {
                local.train(&mut w_g, Training { part: Part::Body, ..training })?;
            }
            GenericHead::Balanced => {
                let shift = balanced_shift(1.0, MIN_COUNT, &local.label_counts());
                let loss = Loss::Shifted { shift: &shift };
                local.train(&mut w_g, Training { loss, ..training })?;
            }
        }
        Ok(w_g)
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        got: &Model,
        sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let w_g = whole(sent, got);
        let of = |teacher| match teacher {
            Teacher::Own => &*w_g,
            Teacher::Received => got,
        };
        if self.is_warming_up(local.at()) {
            client.w_p.copy_from(of(self.warm_up_to));
            return Ok(());
        }
        local.blend_low(&mut client.w_p, got, self.blend, self.blend_tau, self.part())?;
        let divergence = self.divergence(&of(self.teacher).parameters, self.tau_p);
        local.sgd(&mut client.w_p, &[weight(self.lambda_p, self.strength_p).of(divergence)])
    }

    fn shared(&self) -> Shared {
        if self.head == GenericHead::Frozen { Shared::Body } else { Shared::Model }
    }

    fn hints(&self, at: Moment) -> Hints {
        let is_plain = self.is_warming_up(at);
        let personal = if is_plain { Passes::NONE } else { Passes::EPOCHS };
        Hints { is_plain, personal, ..Hints::with_personal_phase() }
    }
}

/// What a class without samples counts as, as FedRoD has it.
const MIN_COUNT: f64 = 1e-8;

/// `λ`, or the share that takes its place.
fn weight(lambda: Option<f32>, strength: Option<f32>) -> Weight {
    strength.map_or(Weight::Factor(lambda.unwrap_or(0.0)), Weight::Share)
}

/// The client's fresh model: what it has sent, and behind it what nobody trains.
fn whole<'a>(sent: &'a Model, got: &Model) -> Cow<'a, Model> {
    if sent.parameters.len() == got.parameters.len() {
        return Cow::Borrowed(sent);
    }
    let mut model = sent.clone();
    model.parameters.extend_from_slice(&got.parameters[sent.parameters.len()..]);
    Cow::Owned(model)
}

impl Scd {
    /// `D(ŝ(w) ‖ ŝ(teacher))`, over the first `⌈τd⌉` entries.
    fn divergence<'a>(&self, teacher: &'a [f32], tau: f64) -> Term<'a> {
        Term::Spectral(Spectral {
            form: self.form,
            scope: self.scope,
            length: self.fft_length,
            tau,
            band: match self.band {
                Frequencies::Low => Band::Low,
                Frequencies::High => Band::High,
                Frequencies::Random => Band::Random(self.band_seed),
            },
            part: self.part(),
            every: self.every,
            align: self.align,
            teacher,
        })
    }

    fn part(&self) -> Part {
        match self.part {
            Taught::All => Part::All,
            Taught::Body => Part::Body,
        }
    }

    fn is_warming_up(&self, at: Moment) -> bool {
        at.round <= (self.warm_up * at.rounds as f64).round() as usize
    }
}
