//! What training minimises, as data: an engine reads it and computes it where it likes.

use crate::{Band, Form, Length, Part, Scope};
use core::num::NonZeroU32;
use core::ops::Mul;

/// A loss of the logits, and weighted terms beside it.
#[derive(Debug, Clone, Copy)]
pub struct Objective<'a> {
    /// What the logits of a batch are scored by, the mean over the batch.
    pub loss: Loss<'a>,
    /// How the cross-entropy in the loss counts samples and classes; terms do not ask for it.
    pub criterion: Criterion<'a>,
    /// What is added to it. A term of weight 0 is left out.
    pub terms: &'a [Weighted<'a>],
}

impl Objective<'static> {
    /// Cross-entropy alone.
    pub const CROSS_ENTROPY: Self =
        Self { loss: Loss::CrossEntropy, criterion: Criterion::PLAIN, terms: &[] };
}

/// How a cross-entropy counts samples and classes, as PyTorch's `CrossEntropyLoss` does. With classes
/// `c` of `K`, weights `v_c` and smoothing `ε`, a batch has the loss
///
/// `Σ_i [(1 − ε) v_{y_i} (−log p_{y_i}) + (ε/K) Σ_c v_c (−log p_c)] / Σ_i v_{y_i}`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Criterion<'a> {
    /// `ε`: share of a label that is spread over all classes.
    pub smoothing: f32,
    /// `v_c`: what a sample of each class counts for, above 0; without, all the same.
    pub weights: Option<&'a [f32]>,
}

impl Criterion<'static> {
    /// Every sample counts the same, and for its own class alone.
    pub const PLAIN: Self = Self { smoothing: 0.0, weights: None };
}

impl Criterion<'_> {
    /// Whether it changes nothing.
    pub fn is_plain(&self) -> bool {
        self.smoothing == 0.0 && self.weights.is_none()
    }
}

/// What the logits of a batch are scored by.
#[derive(Debug, Clone, Copy)]
pub enum Loss<'a> {
    /// `CE(logits, y)`.
    CrossEntropy,
    /// `CE(logits + shift, y)`. With `shift_c = γ log n_c` it is the balanced softmax of Ren et al.,
    /// NeurIPS 2020: what a model learns is then free of the frequencies of its training labels.
    Shifted {
        /// One number for each class.
        shift: &'a [f32],
    },
    /// `CE(logits, y) + weight · KL(target ‖ softmax(logits))`. Targets belong to one batch, so this is
    /// for steps that a method makes itself.
    Guided {
        /// How strongly.
        weight: f32,
        /// A distribution over the classes for each sample; zeros where there is no guidance.
        targets: &'a [f32],
    },
}

/// A differentiable function of the parameters.
#[derive(Debug, Clone, Copy)]
pub enum Term<'a> {
    /// `½ ‖w − anchor‖²`: the square belongs to it, and so does the half.
    Proximal {
        /// Where the term pulls to.
        anchor: &'a [f32],
    },
    /// `⟨direction, w⟩`.
    Linear {
        /// The constant gradient.
        direction: &'a [f32],
    },
    /// `D(ŝ(w) ‖ ŝ(teacher))`.
    Spectral(Spectral<'a>),
    /// Cross-entropy of the model's own head on features that something else made; the body does not
    /// feel it.
    Head {
        /// The features, a row for each sample.
        features: &'a [f32],
        /// Their classes.
        labels: &'a [u32],
    },
}

/// A comparison of the Fourier spectra of two parameter vectors.
#[derive(Debug, Clone, Copy)]
pub struct Spectral<'a> {
    /// How two spectra are compared.
    pub form: Form,
    /// One transform for the whole model, or one per tensor.
    pub scope: Scope,
    /// As many entries as parameters, or a few more that are quicker.
    pub length: Length,
    /// `τ`: share of the spectrum that is compared.
    pub tau: f64,
    /// Which share.
    pub band: Band,
    /// Of which parameters.
    pub part: Part,
    /// The term acts on steps `0, k, 2k, …` of a phase, and then `k`-fold: its mean pull on a step is the
    /// same, and so is the mean of the objective that is reported.
    pub every: NonZeroU32,
    /// Whether the teacher's hidden units are first matched with the student's, as it begins.
    pub align: bool,
    /// The parameters to learn from.
    pub teacher: &'a [f32],
}

impl<'a> Spectral<'a> {
    /// The paper's comparison with a teacher: the Kullback-Leibler divergence over the whole spectrum of all parameters,
    /// on every step. To be changed.
    pub const fn towards(teacher: &'a [f32]) -> Self {
        Self {
            form: Form::Normalized,
            scope: Scope::Flat,
            length: Length::Exact,
            tau: 1.0,
            band: Band::Low,
            part: Part::All,
            every: NonZeroU32::MIN,
            align: false,
            teacher,
        }
    }
}

impl Term<'_> {
    /// On how many steps there is one on which the term acts, that many times as strongly.
    pub fn every(&self) -> NonZeroU32 {
        match self {
            Self::Spectral(spectral) => spectral.every,
            _ => NonZeroU32::MIN,
        }
    }
}

/// A term and how much it counts.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// Factor on the term's value and gradient.
    pub weight: Weight,
    /// The term.
    pub term: Term<'a>,
}

/// How much a term counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Weight {
    /// `λ`.
    Factor(f32),
    /// `λ` such that the term pulls so strongly, by the norms of gradients, in parts of the pull of the loss. At
    /// step `t` of a phase it is `share · Σ_{i≤t} ‖∇CE_i‖ / Σ_{i≤t} ‖∇T_i‖`, over the parameters that are trained and
    /// the steps on which the term acts: single batches are too noisy to go by, and a term may begin at
    /// zero. Terms of different units, networks and data can be compared at one share.
    Share(f32),
}

impl Weight {
    /// Whether the term is left out.
    pub fn is_zero(self) -> bool {
        let (Self::Factor(x) | Self::Share(x)) = self;
        x == 0.0
    }

    /// `weight · term`.
    pub fn of(self, term: Term<'_>) -> Weighted<'_> {
        Weighted { weight: self, term }
    }
}

/// `λ · term`, as papers write it.
impl<'a> Mul<Term<'a>> for f32 {
    type Output = Weighted<'a>;

    fn mul(self, term: Term<'a>) -> Weighted<'a> {
        Weight::Factor(self).of(term)
    }
}
