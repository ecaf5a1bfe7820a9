//! How a client finds what it serves.

use super::Guard;
use crate::{Desk, Hand, RuntimeError};
use formant_methods::{MethodError, Value};
use formant_numerics::{
    Detail, Layout, Measures, Metric, Model, NumericsError, Pulse, Scope, SpectralBlend, Tally,
    vector,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Every `β` that is tried, from the personal model to the generic one.
const GRID: [f32; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];

/// How often the search goes over all bands at most.
const PASSES: usize = 2;

/// How a client chooses what it serves.
#[derive(Debug, Clone)]
pub struct Guarding<'d> {
    /// Between what.
    pub guard: Guard,
    /// By what.
    pub metric: Metric,
    /// On which of its samples.
    pub indices: Cow<'d, [u32]>,
}

/// What a client has chosen to serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// `β`, the share of the personal model: one for everything, or one for each band of frequencies from the lowest to
    /// the highest and one for the head.
    pub shares: Vec<f32>,
}

impl Choice {
    /// Whether it is the personal model as it was trained.
    pub fn is_personal(&self) -> bool {
        self.shares.iter().all(|share| *share == 1.0)
    }

    /// Whether it is the generic model.
    pub fn is_generic(&self) -> bool {
        self.shares.iter().all(|share| *share == 0.0)
    }
}

/// A client's personal model.
pub struct Served<'m> {
    /// The one that it serves, which is what is scored, kept and used; none if there is none.
    pub model: Option<&'m Model>,
    /// The one that its method has trained; none if making it diverged.
    pub trained: Option<&'m Model>,
    /// What its guard has chosen, if there was a choice.
    pub choice: Option<Choice>,
}

/// The generic model in a broadcast.
#[derive(Debug, Clone, Copy)]
pub struct Generic<'v> {
    /// `w_G`.
    pub parameters: &'v [f32],
    /// Running statistics.
    pub buffers: &'v [f32],
}

impl<'v> Generic<'v> {
    /// None if the method trains none, or if no whole one is in the broadcast.
    pub fn of(desk: &Desk<'_>, broadcast: &'v Value) -> Result<Option<Self>, MethodError> {
        let (method, layout) = (&*desk.plan.method, desk.network.layout());
        let vectors = method.broadcast_vectors(broadcast)?;
        let [parameters, buffers, ..] = vectors[..] else { return Ok(None) };
        let is_whole = parameters.len() == layout.parameters()
            && buffers.len() == layout.buffer_values()
            && method.entry().generic;
        Ok(is_whole.then_some(Self { parameters, buffers }))
    }

    /// A model of its own.
    pub fn to_model(self) -> Model {
        Model { parameters: self.parameters.to_vec(), buffers: self.buffers.to_vec() }
    }
}

/// Memory for what is between two models: one thread's, for one client after the other.
#[derive(Debug, Default)]
pub(crate) struct Blender {
    model: Model,
    bands: Option<SpectralBlend>,
}

impl Blender {
    /// Makes the model of some shares.
    fn blend(
        &mut self,
        shares: &[f32],
        (personal, generic): (&Model, Generic<'_>),
        layout: &Layout,
    ) -> Result<&Model, NumericsError> {
        let model = &mut self.model;
        generic.parameters.clone_into(&mut model.parameters);
        generic.buffers.clone_into(&mut model.buffers);
        if let [share] = shares {
            vector::interpolate(*share, &personal.parameters, &mut model.parameters);
            vector::interpolate(*share, &personal.buffers, &mut model.buffers);
            return Ok(model);
        }
        let bands = match &mut self.bands {
            Some(bands) => bands,
            none => none.insert(SpectralBlend::new(layout, Scope::Flat, &Guard::EDGES, true)?),
        };
        bands.blend(&mut model.parameters, &personal.parameters, shares);
        vector::interpolate(of_statistics(shares), &personal.buffers, &mut model.buffers);
        Ok(model)
    }
}

/// The mean share of the bands, in proportion to their frequencies; the head, which comes last, has no statistics.
fn of_statistics(shares: &[f32]) -> f32 {
    let bands = &shares[..shares.len() - 1];
    if bands.iter().all(|share| *share == bands[0]) {
        return bands[0];
    }
    let ends = Guard::EDGES.iter().copied().chain([1.0]);
    let sum = bands.iter().zip(ends).fold((0.0, 0.0), |(sum, from), (share, end)| {
        (sum + (end - from) * f64::from(*share), end)
    });
    sum.0 as f32
}

/// What a candidate is worth on the samples that are chosen on.
#[derive(Debug, Clone, Copy)]
struct Worth {
    figure: Option<f64>,
    loss: f64,
}

impl Worth {
    fn of(tally: &Tally, metric: Metric) -> Self {
        let loss = if tally.loss.is_nan() { f64::INFINITY } else { tally.loss };
        Self { figure: tally.figure(metric), loss }
    }

    /// A figure that one of them does not have decides nothing.
    fn is_better(self, than: Self, metric: Metric) -> bool {
        match (self.figure, than.figure) {
            (Some(own), Some(other)) if own != other => metric.is_better(own, other),
            _ => self.loss < than.loss,
        }
    }
}

/// The best candidate so far.
struct Best {
    shares: Vec<f32>,
    worth: Worth,
}

impl Best {
    /// Tries a candidate. Without one that is better everything stays.
    fn challenge(
        &mut self,
        shares: Vec<f32>,
        metric: Metric,
        score: &mut impl FnMut(&[f32]) -> Result<Worth, RuntimeError>,
    ) -> Result<bool, RuntimeError> {
        let worth = score(&shares)?;
        let better = worth.is_better(self.worth, metric);
        if better {
            *self = Self { shares, worth };
        }
        Ok(better)
    }
}

impl Guarding<'_> {
    /// What is best of all that the guard allows; `score` says what shares are worth.
    fn search(
        &self,
        mut score: impl FnMut(&[f32]) -> Result<Worth, RuntimeError>,
    ) -> Result<Choice, RuntimeError> {
        let (metric, count) = (self.metric, self.guard.shares());
        let all = |share: f32| vec![share; count];
        let mut best = Best { worth: score(&all(1.0))?, shares: all(1.0) };
        let grid = if self.guard == Guard::Best { &[1.0, 0.0][..] } else { &GRID };
        for share in &grid[1..] {
            best.challenge(all(*share), metric, &mut score)?;
        }
        if count > 1 {
            for _ in 0..PASSES {
                let mut moved = false;
                for place in 0..count {
                    let from = best.shares[place];
                    for share in GRID.into_iter().filter(|share| *share != from) {
                        let mut shares = best.shares.clone();
                        shares[place] = share;
                        moved |= best.challenge(shares, metric, &mut score)?;
                    }
                }
                if !moved {
                    break;
                }
            }
        }
        Ok(Choice { shares: best.shares })
    }
}

impl Desk<'_> {
    /// Lends the personal model that the state holds after a round, and the one that the client serves in its place.
    /// The state cannot change.
    pub fn with_served_model<T>(
        &self,
        round: usize,
        (state, got): (&Value, &Value),
        guarding: &Guarding<'_>,
        hand: &mut Hand,
        look: impl FnOnce(Served<'_>, &mut Hand) -> T,
    ) -> Result<T, RuntimeError> {
        let mut local = self.evaluation(round, &mut *hand.worker);
        let trained = match self.plan.method.personal_model(state, got, &mut local) {
            Ok(model) => Some(model),
            Err(MethodError::Numerics(NumericsError::Diverged { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        let trained = trained.as_deref();
        let mut blender = core::mem::take(&mut hand.blender);
        let choice = self.choose((trained, got), guarding, &mut blender, hand)?;
        let is_other = choice.as_ref().is_some_and(|choice| !choice.is_personal());
        let model = if is_other { Some(&blender.model) } else { trained };
        let seen = look(Served { model, trained, choice }, hand);
        hand.blender = blender;
        Ok(seen)
    }

    /// Chooses what to serve. If it is another model than the trained one, the blender then has it.
    fn choose(
        &self,
        (trained, got): (Option<&Model>, &Value),
        guarding: &Guarding<'_>,
        blender: &mut Blender,
        hand: &mut Hand,
    ) -> Result<Option<Choice>, RuntimeError> {
        if guarding.guard.is_off()
            || guarding.indices.is_empty()
            || !self.plan.method.entry().personal
        {
            return Ok(None);
        }
        let Some(generic) = Generic::of(self, got)? else { return Ok(None) };
        let layout = self.network.layout();
        let fits = |model: &&Model| {
            model.parameters.len() == generic.parameters.len()
                && model.buffers.len() == generic.buffers.len()
        };
        let Some(personal) = trained.filter(fits) else {
            // What has diverged is worse than anything; what is of another shape cannot be compared.
            let choice = Choice { shares: vec![0.0; guarding.guard.shares()] };
            blender.model = generic.to_model();
            return Ok((trained.is_none() && blender.model.is_finite()).then_some(choice));
        };
        let metric = guarding.metric;
        let detail = Measures::new(vec![metric]).map_or(Detail::PLAIN, |only| Detail::of(&only));
        // They are not among the samples that an evaluation is said to score.
        let pulse = Pulse { samples: None, ..self.pulse };
        let choice = guarding.search(|shares| {
            let model = if shares.iter().all(|share| *share == 1.0) {
                personal
            } else {
                blender.blend(shares, (personal, generic), layout).map_err(MethodError::from)?
            };
            let tally = hand.score(model, self.samples, &guarding.indices, detail, pulse)?;
            Ok(Worth::of(&tally, metric))
        })?;
        if !choice.is_personal() {
            blender
                .blend(&choice.shares, (personal, generic), layout)
                .map_err(MethodError::from)?;
        }
        Ok(Some(choice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(figure: f64, loss: f64) -> Worth {
        Worth { figure: Some(figure), loss }
    }

    fn guarding(guard: Guard) -> Guarding<'static> {
        Guarding { guard, metric: Metric::Accuracy, indices: Cow::Borrowed(&[]) }
    }

    #[test]
    fn the_figure_decides_then_the_loss_and_then_what_was_there() {
        let metric = Metric::Accuracy;
        assert!(worth(0.5, 9.0).is_better(worth(0.4, 1.0), metric));
        assert!(worth(0.5, 0.9).is_better(worth(0.5, 1.0), metric));
        assert!(!worth(0.5, 1.0).is_better(worth(0.5, 1.0), metric));
        assert!(worth(0.1, 1.0).is_better(worth(0.2, 0.5), Metric::CalibrationError));
        let without = |loss| Worth { figure: None, loss };
        assert!(without(0.5).is_better(without(1.0), Metric::Auroc));
        assert!(worth(0.0, 2.0).is_better(worth(0.0, f64::INFINITY), metric));
    }

    #[test]
    fn what_is_as_good_as_the_personal_model_does_not_replace_it() {
        for guard in [Guard::Best, Guard::Blend, Guard::Bands] {
            let choice = guarding(guard).search(|_| Ok(worth(0.5, 1.0))).unwrap();
            assert!(choice.is_personal() && choice.shares.len() == guard.shares(), "{guard:?}");
        }
    }

    #[test]
    fn each_guard_finds_what_it_may_look_for() {
        // Best where the bands have these shares of the personal model, and worse the farther from it.
        let target = [0.25, 1.0, 0.5, 0.0];
        let score = |shares: &[f32]| {
            let at = |i: usize| if shares.len() == 1 { shares[0] } else { shares[i] };
            let distance: f32 = (0..4).map(|i| (at(i) - target[i]).powi(2)).sum();
            Ok(worth(0.5, f64::from(distance)))
        };
        let found = |guard| guarding(guard).search(score).unwrap().shares;
        assert_eq!(found(Guard::Bands), target);
        // The mean is 0.4375.
        assert_eq!(found(Guard::Blend), [0.5]);
        assert_eq!(found(Guard::Best), [0.0]);
    }

    #[test]
    fn statistics_have_the_mean_share_of_the_bands() {
        assert_eq!(of_statistics(&[0.25, 0.25, 0.25, 1.0]), 0.25);
        // A tenth, four tenths and a half.
        assert!((of_statistics(&[1.0, 0.5, 0.0, 1.0]) - 0.3).abs() < 1e-7);
    }
}
