//! Which model a client serves as its personal one: the one that its method has trained, the generic one, or something
//! between the two, whichever is best on the client's own validation samples.
//!
//! `w(β) = (1 − β) w_G + β w_p`, with one `β` for everything or, by bands, `F⁻¹[Σ_b ((1 − β_b) ŵ_G + β_b ŵ_p)]` with a `β_b` for
//! each band of frequencies of the body and one for the head, which is interpolated as it is. Running statistics are
//! interpolated like parameters, by bands with the mean of the bands' `β_b` in proportion to their frequencies.
//!
//! - **Best by what.** By the metric that decides in the experiment, and where that is the same by the loss. A
//!   client has few samples, so that accuracies are often the same; but a loss alone would take a model that errs
//!   more often for being less sure of itself, as generic models are. So what is promised holds by the figure that
//!   people look at: on these samples no candidate is better.
//! - **Ties.** Candidates are tried from the personal model to the generic one, and the next one has to be better than the
//!   best so far. Without evidence nothing changes.
//! - **On what.** On the validation samples. Where these are what models are scored on, a client chooses on one
//!   half of them and is scored on the other. A client without any serves what it has trained.
//! - **When.** At every evaluation anew, by what state and broadcast say and nothing else: training never sees it,
//!   nothing is kept of it, and a run that goes on chooses the same.

mod search;

pub(crate) use search::Blender;
pub use search::{Choice, Generic, Guarding, Served};

use crate::plan::{Evaluation, Scored};
use formant_data::ClientData;
use formant_numerics::Samples;
use std::borrow::Cow;

formant_methods::choice! {
    /// Between which models a client chooses the one that it serves.
    pub enum Guard {
        /// It serves its personal model.
        Off = "off",
        /// The personal and the generic model.
        Best = "best",
        /// These and three between them, with one `β` for all parameters.
        Blend = "blend",
        /// The same, with a `β` for each of three bands of frequencies and one for the head.
        Bands = "bands",
    }
}

impl Guard {
    /// Where bands of frequencies end: the lowest tenth, the rest of the lower half, the upper half.
    pub const EDGES: [f64; 2] = [0.1, 0.5];

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// How many `β` a choice has: one, or one for each band from the lowest to the highest and one for the head.
    pub const fn shares(self) -> usize {
        match self {
            Self::Off | Self::Best | Self::Blend => 1,
            Self::Bands => Self::EDGES.len() + 2,
        }
    }
}

impl Evaluation {
    /// The samples of a client on which its personal model is scored.
    pub fn scored<'d>(&self, data: &'d ClientData, samples: &dyn Samples) -> Cow<'d, [u32]> {
        match self.halves(data, samples) {
            Some([scored, _]) => Cow::Owned(scored),
            None => Cow::Borrowed(self.split.of(data)),
        }
    }

    /// How many these are.
    pub fn scored_samples(&self, data: &ClientData) -> usize {
        let all = self.split.of(data).len();
        if self.is_halved() { all.div_ceil(2) } else { all }
    }

    /// How a client chooses what it serves.
    pub fn guarding<'d>(&self, data: &'d ClientData, samples: &dyn Samples) -> Guarding<'d> {
        let indices = match self.halves(data, samples) {
            Some([_, chosen_on]) => Cow::Owned(chosen_on),
            None => Cow::Borrowed(&*data.validation),
        };
        Guarding { guard: self.guard, metric: self.metrics.first(), indices }
    }

    /// Whether a client's validation samples have to do for both, to choose on and to score on.
    fn is_halved(&self) -> bool {
        !self.guard.is_off() && self.split == Scored::Validation
    }

    /// What a client is scored on and what it chooses on, of a validation set that has to do for both: every other
    /// sample, class after class, so that both have the same classes. The first is the larger one.
    fn halves(&self, data: &ClientData, samples: &dyn Samples) -> Option<[Vec<u32>; 2]> {
        if !self.is_halved() {
            return None;
        }
        let mut all = data.validation.clone();
        all.sort_by_key(|index| (samples.label(*index as usize), *index));
        let every_other = |first: usize| {
            let mut half: Vec<u32> = all.iter().skip(first).step_by(2).copied().collect();
            half.sort_unstable();
            half
        };
        Some([every_other(0), every_other(1)])
    }
}
