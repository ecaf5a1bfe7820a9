//! The engine of this processor, written by hand: the default, and the oracle of all others.

use crate::engine::{Descent, EVALUATION_BATCH, Engine, Meter, Phase, Worker};
use crate::head::HeadLoss;
use crate::{
    Batch, Detail, Differentiable, Head, Length, Linear, Memory, Model, Network, NumericsError,
    Objective, Output, OutputGradient, Part, Pass, Proximal, Pulse, Samples, Scope, Selection,
    Spectral, SpectralPlans, SpectralTerm, Tally, Tape, Term, Weight, Weighted, Workspace, vector,
};
use std::sync::Arc;

/// Trains and scores on this processor.
#[derive(Debug, Clone)]
pub struct Cpu {
    network: Arc<Tape>,
}

impl Cpu {
    /// The engine of a network.
    pub fn new(network: Arc<Tape>) -> Self {
        Self { network }
    }
}

impl Engine for Cpu {
    fn network(&self) -> &dyn Network {
        &*self.network
    }

    fn worker(&self, batch: usize) -> Box<dyn Worker> {
        Box::new(CpuWorker::new(self.network.clone(), batch))
    }

    fn pass_bytes(&self, batch: usize, backwards: bool) -> u64 {
        self.network.workspace_bytes(batch, backwards)
    }
}

/// All memory that one training step touches, allocated once and used for every client that a
/// thread serves.
#[derive(Debug)]
pub struct CpuWorker {
    network: Arc<Tape>,
    /// For forward and backward passes.
    #[doc(hidden)]
    pub workspace: Workspace,
    /// Values of the current batch.
    #[doc(hidden)]
    pub inputs: Vec<f32>,
    /// Labels of the current batch.
    #[doc(hidden)]
    pub labels: Vec<u32>,
    /// If samples are mixed: how much of each is its own, and whose the rest is.
    share: Option<f32>,
    partners: Vec<u32>,
    gradient: Vec<f32>,
    memory: Memory,
    d_logits: Vec<f32>,
    scratch: Scratch,
    spectra: Vec<(PlanKey, SpectralPlans)>,
    steps: u64,
    /// What terms have added to the objective of the last step, if it had any.
    terms: Option<f64>,
}

/// Which transforms are planned.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PlanKey {
    part: Part,
    scope: Scope,
    length: Length,
    /// The share of the lowest frequencies, if there is nothing else.
    lowest: Option<f64>,
}

/// What losses and terms need beside the passes.
#[derive(Debug, Default)]
struct Scratch {
    logits: Vec<f32>,
    /// By the logits, for the labels of the samples that are mixed in.
    mixed: Vec<f32>,
    head: [Vec<f32>; 2],
    /// The gradient of one term, where its weight is a share.
    pull: Vec<f32>,
    /// For each term whose weight is a share: norms of the loss's gradient and of its own, summed over the steps of the
    /// phase on which it has acted.
    norms: Vec<(f64, f64)>,
}

impl CpuWorker {
    /// Memory for a network and batches of up to `batch` samples.
    pub fn new(network: Arc<Tape>, batch: usize) -> Self {
        let d = network.layout().parameters();
        Self {
            workspace: network.workspace(batch),
            inputs: Vec::with_capacity(batch * network.input().len()),
            labels: Vec::with_capacity(batch),
            share: None,
            partners: Vec::new(),
            gradient: vec![0.0; d],
            memory: Memory::default(),
            d_logits: vec![0.0; batch * network.classes()],
            scratch: Scratch::default(),
            spectra: Vec::new(),
            steps: 0,
            terms: None,
            network,
        }
    }

    /// The Fourier plans for the network's parameters, made at the first call.
    fn spectrum(&mut self, of: &Spectral<'_>) -> SpectralPlans {
        let Spectral { part, scope, length, .. } = *of;
        let layout = self.network.layout();
        let lowest = SpectralPlans::is_narrow(layout, of.tau, of.band).then_some(of.tau);
        let key = PlanKey { part, scope, length, lowest };
        if let Some((_, known)) = self.spectra.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let made = SpectralPlans::for_band(layout, part, scope, length, (of.tau, of.band));
        self.spectra.push((key, made.clone()));
        made
    }

    /// The spectral terms of an objective, their teachers transformed; in order. Makes room for whatever else its terms
    /// need in a step.
    #[doc(hidden)]
    pub fn teachers(
        &mut self,
        terms: &[Weighted<'_>],
        student: &[f32],
    ) -> Result<Vec<SpectralTerm>, NumericsError> {
        let mut teachers = Vec::new();
        for Weighted { term, .. } in acting(terms) {
            if let Term::Spectral(spectral) = *term {
                let Spectral { form, tau, band, teacher, .. } = spectral;
                let plans = self.spectrum(&spectral);
                let matched = spectral.align.then(|| {
                    let units = self.network.units();
                    units.reordered(&units.aligned(teacher, student), teacher)
                });
                let teacher = matched.as_deref().unwrap_or(teacher);
                teachers.push(plans.term(form, tau, band, teacher)?);
            }
        }
        let shares = acting(terms).filter(|term| matches!(term.weight, Weight::Share(_))).count();
        if shares > 0 {
            self.scratch.pull.resize(self.gradient.len(), 0.0);
            self.scratch.norms.resize(shares, (0.0, 0.0));
        }
        Ok(teachers)
    }

    /// One step with spectral terms that were made before.
    #[doc(hidden)]
    pub fn descend(
        &mut self,
        model: &mut Model,
        Descent { optimiser, part }: Descent,
        objective: &Objective<'_>,
        teachers: &mut [SpectralTerm],
    ) -> Result<f64, NumericsError> {
        let spectral =
            acting(objective.terms).filter(|term| matches!(term.term, Term::Spectral(_)));
        assert_eq!(spectral.count(), teachers.len(), "a teacher for each spectral term");
        self.steps += 1;
        let value = self.gradient(model, part, objective, teachers);
        if !value.is_finite() {
            return Err(NumericsError::Diverged { step: self.steps, what: "the objective" });
        }
        let range = self.network.layout().range(part);
        optimiser.descend(&mut model.parameters, &mut self.gradient, range, &mut self.memory);
        Ok(value)
    }

    /// The objective on the current batch; its gradient is then in [`CpuWorker::last_gradient`].
    fn gradient(
        &mut self,
        model: &mut Model,
        part: Part,
        objective: &Objective<'_>,
        teachers: &mut [SpectralTerm],
    ) -> f64 {
        let (network, scratch) = (&*self.network, &mut self.scratch);
        let batch = Batch { inputs: &self.inputs, labels: &self.labels };
        let output = network.forward(Pass::Train(model), &batch, &mut self.workspace);
        let d_logits = &mut self.d_logits[..output.logits.len()];
        let Objective { loss, criterion, terms } = objective;
        let (logits, memory) = (output.logits, &mut scratch.logits);
        let mut value = loss.evaluate(criterion, logits, &self.labels, d_logits, memory);
        if let Some(share) = self.share {
            // The samples are mixed, so their loss is: by either label, in the same proportion.
            let mixed = &mut scratch.mixed[..logits.len()];
            let other = loss.evaluate(criterion, logits, &self.partners, mixed, memory);
            let rest = 1.0 - share;
            value = f64::from(share) * value + f64::from(rest) * other;
            d_logits.iter_mut().zip(mixed).for_each(|(d, m)| *d = share * *d + rest * *m);
        }
        let seed = OutputGradient { logits: d_logits, features: None };
        network.backward(model, seed, part, &mut self.workspace, &mut self.gradient);
        let mut teachers = teachers.iter_mut();
        let own = network.layout().range(part);
        // Of the loss alone, before any term is added; asked for only where a weight is a share of it.
        let is_share = |term: &Weighted<'_>| matches!(term.weight, Weight::Share(_));
        let of_loss = if acting(terms).any(is_share) {
            vector::norm(&self.gradient[own.clone()])
        } else {
            0.0
        };
        let mut shares = 0;
        self.terms = None;
        for Weighted { weight, term } in acting(terms) {
            let mut act = Act { network, steps: self.steps, head: &mut scratch.head };
            let (w, gradient) = (&model.parameters, &mut self.gradient);
            let added = match *weight {
                Weight::Factor(factor) => {
                    let found = act.add(term, &mut teachers, factor, w, gradient);
                    f64::from(factor) * found.unwrap_or(0.0)
                }
                Weight::Share(share) => {
                    let pull = &mut scratch.pull[..];
                    pull.fill(0.0);
                    let found = act.add(term, &mut teachers, 1.0, w, pull);
                    let norms = &mut scratch.norms[shares];
                    shares += 1;
                    if found.is_some() {
                        norms.0 += of_loss;
                        norms.1 += vector::norm(&pull[own.clone()]) / f64::from(term.every().get());
                    }
                    match found {
                        Some(found) if norms.1 > 0.0 => {
                            let factor = f64::from(share) * norms.0 / norms.1;
                            vector::axpy(factor as f32, pull, gradient);
                            factor * found
                        }
                        // Where it has never pulled, no factor makes it.
                        _ => 0.0,
                    }
                }
            };
            value += added;
            *self.terms.get_or_insert(0.0) += added;
        }
        value
    }

    /// The gradient of the last step.
    #[doc(hidden)]
    pub fn last_gradient(&self) -> &[f32] {
        &self.gradient
    }
}

/// The terms that count.
fn acting<'t, 'a>(terms: &'t [Weighted<'a>]) -> impl Iterator<Item = &'t Weighted<'a>> {
    terms.iter().filter(|term| !term.weight.is_zero())
}

/// What a term needs in a step besides itself.
struct Act<'a> {
    network: &'a Tape,
    /// Of the phase, this one included.
    steps: u64,
    head: &'a mut [Vec<f32>; 2],
}

impl Act<'_> {
    /// Adds `factor · ∇T(w)` to a gradient and gives `T(w)`; nothing on a step on which the term does not act.
    fn add<'t>(
        &mut self,
        term: &Term<'_>,
        teachers: &mut impl Iterator<Item = &'t mut SpectralTerm>,
        factor: f32,
        w: &[f32],
        gradient: &mut [f32],
    ) -> Option<f64> {
        Some(match *term {
            Term::Proximal { anchor } => Proximal { anchor }.add(factor, w, gradient),
            Term::Linear { direction } => Linear { direction }.add(factor, w, gradient),
            Term::Spectral(Spectral { every, .. }) => {
                let divergence = teachers.next()?;
                // Counted from the beginning of the phase, which is where a run can be resumed.
                if !self.steps.saturating_sub(1).is_multiple_of(u64::from(every.get())) {
                    return None;
                }
                let often = factor * every.get() as f32;
                f64::from(every.get()) * divergence.add(often, w, gradient)
            }
            Term::Head { features, labels } => {
                let layout = self.network.layout();
                let (head, range) = (Head::of(self.network), layout.range(Part::Head));
                let scratch = &mut *self.head;
                HeadLoss { head, range, features, labels, scratch }.add(factor, w, gradient)
            }
        })
    }
}

impl Worker for CpuWorker {
    fn begin(&mut self) {
        self.memory.forget();
        self.steps = 0;
        self.terms = None;
        self.scratch.norms.fill((0.0, 0.0));
    }

    fn take(&mut self, mut batch: Selection<'_>) {
        self.inputs.resize(batch.len() * self.network.input().len(), 0.0);
        batch.gather(&mut self.inputs);
        batch.gather_labels(&mut self.labels);
        self.share = batch.share();
        if self.share.is_some() {
            // Once: what holds a batch of this worker holds all of them.
            self.scratch.mixed.resize(self.d_logits.len(), 0.0);
            batch.gather_partners(&mut self.partners);
        }
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn step(
        &mut self,
        model: &mut Model,
        descent: Descent,
        objective: &Objective<'_>,
    ) -> Result<f64, NumericsError> {
        let mut teachers = self.teachers(objective.terms, &model.parameters)?;
        self.descend(model, descent, objective, &mut teachers)
    }

    fn terms(&self) -> Option<f64> {
        self.terms
    }

    fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]) {
        let batch = Batch { inputs: &self.inputs, labels: &self.labels };
        let output = self.network.forward(Pass::Eval(model), &batch, &mut self.workspace);
        (output, &self.labels)
    }

    fn score(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
    ) -> Tally {
        self.score_watched(model, samples, indices, detail, Pulse::NONE)
    }

    fn score_watched(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
        pulse: Pulse<'_>,
    ) -> Tally {
        let mut tally = Tally::default();
        for batch in indices.chunks(EVALUATION_BATCH) {
            if pulse.is_stopped() {
                break;
            }
            self.load(samples, batch);
            let (output, labels) = self.look(model);
            tally.count(output.logits, labels, detail);
            pulse.count(batch.len() as u64);
        }
        tally
    }

    fn train(
        &mut self,
        model: &mut Model,
        phase: &mut Phase<'_, '_>,
    ) -> Result<Meter, NumericsError> {
        self.begin();
        // Once a phase, and not once a step.
        let mut teachers = self.teachers(phase.objective.terms, &model.parameters)?;
        let mut meter = Meter::default();
        while let Some(batch) = phase.batches.next() {
            self.take(batch);
            let value = self.descend(model, phase.descent, &phase.objective, &mut teachers)?;
            meter.count(self.labels.len(), value, self.terms);
        }
        Ok(meter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, NetworkSpec, Optimiser, Rng, Shape, Stream};
    use core::num::NonZeroU32;

    fn worker() -> (CpuWorker, Model) {
        let network = NetworkSpec::named("logistic").build(Shape::new(1, 2, 2), 3).unwrap();
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let model = network.init(&mut rng);
        let mut worker = CpuWorker::new(network, 2);
        worker.inputs.extend((0..8).map(|_| rng.normal() as f32));
        worker.labels.extend([2, 0]);
        worker.begin();
        (worker, model)
    }

    fn nth(every: u32) -> NonZeroU32 {
        NonZeroU32::new(every).unwrap()
    }

    /// Objectives of some steps that do not move, with a term on every `k`-th.
    fn objectives(every: NonZeroU32, steps: usize) -> (Vec<f64>, Vec<f32>) {
        let (mut worker, mut model) = worker();
        let teacher: Vec<f32> = model.parameters.iter().map(|x| x + 0.5).collect();
        let spectral = Spectral { form: Form::Complex, every, ..Spectral::towards(&teacher) };
        let terms = [0.25 * Term::Spectral(spectral)];
        let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
        let still = Descent { optimiser: Optimiser::sgd(0.0), part: Part::All };
        let mut pull = vec![0.0; model.parameters.len()];
        let plain = worker.gradient(&mut model, Part::All, &Objective::CROSS_ENTROPY, &mut []);
        let alone = worker.last_gradient().to_vec();
        let values = (0..steps).map(|_| {
            let value = worker.step(&mut model, still, &objective).unwrap();
            let with = worker.last_gradient().iter().zip(&alone).map(|(g, plain)| g - plain);
            pull.iter_mut().zip(with).for_each(|(sum, g)| *sum += g);
            assert!((worker.terms().unwrap() - (value - plain)).abs() < 1e-12);
            value - plain
        });
        (values.collect(), pull)
    }

    #[test]
    fn a_term_on_every_third_step_pulls_as_much_as_on_each() {
        let ((each, a), (third, b)) = (objectives(nth(1), 6), objectives(nth(3), 6));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5) && a[0] != 0.0, "{a:?} {b:?}");
        assert!((each.iter().sum::<f64>() - third.iter().sum::<f64>()).abs() < 1e-6);
        let acts: Vec<bool> = third.iter().map(|value| *value > 0.0).collect();
        assert_eq!(acts, [true, false, false].repeat(2));
    }

    #[test]
    fn a_share_is_that_part_of_the_loss_s_gradient() {
        let (mut worker, mut model) = worker();
        let teacher: Vec<f32> = model.parameters.iter().map(|x| 2.0 * x + 0.5).collect();
        let still = Descent { optimiser: Optimiser::sgd(0.0), part: Part::All };
        worker.step(&mut model, still, &Objective::CROSS_ENTROPY).unwrap();
        let alone = worker.last_gradient().to_vec();
        let spectral = Spectral { tau: 0.4, ..Spectral::towards(&teacher) };
        for (term, often) in [
            (Term::Proximal { anchor: &teacher }, 1.0),
            (Term::Spectral(spectral), 1.0),
            (Term::Spectral(Spectral { every: nth(2), ..spectral }), 2.0),
        ] {
            worker.begin();
            let terms = [Weight::Share(0.25).of(term)];
            let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
            for step in 0..4 {
                worker.step(&mut model, still, &objective).unwrap();
                let pull: Vec<f32> =
                    worker.last_gradient().iter().zip(&alone).map(|(g, plain)| g - plain).collect();
                let found = vector::norm(&pull) / vector::norm(&alone);
                let acts = often == 1.0 || step % 2 == 0;
                let wanted = if acts { 0.25 * often } else { 0.0 };
                assert!((found - wanted).abs() < 1e-5, "{term:?} {step}: {found} for {wanted}");
            }
        }
        // A term that does not pull has no part of anything.
        let here = model.parameters.clone();
        let terms = [Weight::Share(0.25).of(Term::Proximal { anchor: &here })];
        let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
        worker.begin();
        worker.step(&mut model, still, &objective).unwrap();
        assert_eq!(worker.last_gradient(), alone);
    }

    #[test]
    fn a_term_of_weight_zero_is_left_out_bit_for_bit() {
        let descent = Descent { optimiser: Optimiser::sgd(0.1), part: Part::All };
        let stepped = |terms: &[Weighted<'_>]| {
            let (mut worker, mut model) = worker();
            let objective = Objective { terms, ..Objective::CROSS_ENTROPY };
            let value = worker.step(&mut model, descent, &objective).unwrap();
            (value, model)
        };
        let far = [f32::MAX; 15];
        let none = 0.0 * Term::Proximal { anchor: &far };
        assert_eq!(stepped(&[none]), stepped(&[]));
    }
}
