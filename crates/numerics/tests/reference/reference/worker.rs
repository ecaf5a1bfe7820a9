//! Steps and scores.

use super::forward::Pass;
use super::objective::{log_softmax, loss};
use super::{Description, Rows, wide};
use formant_numerics::{
    Descent, Detail, EVALUATION_BATCH, Model, Moments, NumericsError, Objective, Optimiser, Output,
    Part, Rule, Samples, Selection, Tally, Term, Weight, Weighted, Worker,
};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ReferenceWorker {
    description: Arc<Description>,
    inputs: Rows,
    labels: Vec<u32>,
    /// How much of a sample is its own, and the label of the rest.
    mixed: Option<(f32, Vec<u32>)>,
    /// Velocity, or Adam's mean.
    first: Vec<f64>,
    /// Adam's mean square.
    second: Vec<f64>,
    /// Since the phase began.
    steps: u64,
    /// What terms have added to the last step's objective, if it had any.
    terms: Option<f64>,
    /// By term: norms of the loss's gradient and of its own, over the phase.
    norms: Vec<[f64; 2]>,
    /// What was last looked at.
    features: Vec<f32>,
    logits: Vec<f32>,
}

impl ReferenceWorker {
    pub(super) fn new(description: Arc<Description>) -> Self {
        let first = vec![0.0; description.network.layout().parameters()];
        let second = first.clone();
        let (features, logits) = (Vec::new(), Vec::new());
        let (inputs, labels) = (Vec::new(), Vec::new());
        let mixed = None;
        Self {
            description,
            inputs,
            labels,
            mixed,
            first,
            second,
            steps: 0,
            terms: None,
            norms: Vec::new(),
            features,
            logits,
        }
    }

    /// See [`Reference::margin`](super::Reference::margin).
    pub(super) fn margin(&self, model: &Model) -> f64 {
        let mut buffers = model.buffers.clone();
        let pass = Pass::Train(&mut buffers);
        self.description.forward(&model.parameters, pass, &self.inputs).margin
    }

    /// Where a step takes parameter `i`.
    fn moved(&mut self, optimiser: &Optimiser, i: usize, w: f64, gradient: f64) -> f64 {
        let (rate, decay) = (f64::from(optimiser.learning_rate), f64::from(optimiser.weight_decay));
        match optimiser.rule {
            Rule::Sgd { momentum, nesterov } => {
                let (momentum, slope) = (f64::from(momentum), gradient + decay * w);
                self.first[i] = momentum * self.first[i] + slope;
                w - rate * if nesterov { slope + momentum * self.first[i] } else { self.first[i] }
            }
            Rule::Adam(moments) => self.adam(&moments, i, w, rate, gradient + decay * w),
            Rule::AdamW(moments) => self.adam(&moments, i, w - rate * decay * w, rate, gradient),
        }
    }

    fn adam(&mut self, moments: &Moments, i: usize, w: f64, rate: f64, slope: f64) -> f64 {
        let Moments { mean, square, epsilon } = *moments;
        self.first[i] = mean * self.first[i] + (1.0 - mean) * slope;
        self.second[i] = square * self.second[i] + (1.0 - square) * slope * slope;
        let steps = i32::try_from(self.steps).expect("few steps");
        let first = self.first[i] / (1.0 - mean.powi(steps));
        let second = self.second[i] / (1.0 - square.powi(steps));
        w - rate * first / (second.sqrt() + epsilon)
    }

    /// The objective on the batch and its gradient; running statistics follow.
    fn evaluate(
        &mut self,
        model: &mut Model,
        part: Part,
        objective: &Objective<'_>,
    ) -> (f64, Vec<f64>) {
        let (network, w) = (&*self.description, &model.parameters);
        let passed = network.forward(w, Pass::Train(&mut model.buffers), &self.inputs);
        let Objective { loss: scored_by, criterion, .. } = objective;
        let (mut value, mut d_logits) = loss(scored_by, criterion, passed.logits(), &self.labels);
        if let Some((share, partners)) = &self.mixed {
            let (other, d_other) = loss(scored_by, criterion, passed.logits(), partners);
            let mix =
                |own: f64, other: f64| f64::from(*share) * own + f64::from(1.0 - share) * other;
            value = mix(value, other);
            let pairs = d_logits.iter_mut().flatten().zip(d_other.iter().flatten());
            pairs.for_each(|(d, other)| *d = mix(*d, *other));
        }
        let mut gradient = network.backward(w, &passed.activations, d_logits);
        let mut terms = None;
        let own = network.network.layout().range(part);
        let of_loss = norm(&gradient[own.clone()]);
        self.norms.resize(objective.terms.len(), [0.0; 2]);
        for (Weighted { weight, term }, norms) in acting(objective.terms).zip(&mut self.norms) {
            let (found, slope) = network.term(term, w, self.steps - 1);
            let factor = match weight {
                Weight::Factor(factor) => f64::from(*factor),
                Weight::Share(share) => {
                    let every = term.every().get();
                    if (self.steps - 1).is_multiple_of(u64::from(every)) {
                        norms[0] += of_loss;
                        norms[1] += norm(&slope[own.clone()]) / f64::from(every);
                    }
                    if norms[1] > 0.0 { f64::from(*share) * norms[0] / norms[1] } else { 0.0 }
                }
            };
            value += factor * found;
            terms = Some(terms.unwrap_or(0.0) + factor * found);
            let pairs = gradient.iter_mut().zip(slope);
            pairs.for_each(|(gradient, slope)| *gradient += factor * slope);
        }
        self.terms = terms;
        (value, gradient)
    }
}

/// Terms that are not left out.
fn acting<'t, 'a>(terms: &'t [Weighted<'a>]) -> impl Iterator<Item = &'t Weighted<'a>> {
    terms.iter().filter(|term| !term.weight.is_zero())
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Single-precision copies, row after row.
fn narrow(rows: &Rows) -> Vec<f32> {
    rows.iter().flatten().map(|x| *x as f32).collect()
}

impl Worker for ReferenceWorker {
    fn begin(&mut self) {
        self.first.fill(0.0);
        self.second.fill(0.0);
        self.steps = 0;
        self.norms.clear();
    }

    fn take(&mut self, mut batch: Selection<'_>) {
        let (shape, n) = (batch.shape(), batch.len());
        let mut gathered = vec![0.0; n * shape.len()];
        batch.gather(&mut gathered);
        batch.gather_labels(&mut self.labels);
        self.mixed = batch.share().map(|share| {
            let mut partners = Vec::new();
            batch.gather_partners(&mut partners);
            (share, partners)
        });
        // Gathered channel by channel over the batch.
        let plane = |sample: usize, channel: usize| {
            wide(&gathered[(channel * n + sample) * shape.plane()..][..shape.plane()])
        };
        let row = |sample| (0..shape.channels).flat_map(|c| plane(sample, c)).collect();
        self.inputs = (0..n).map(row).collect();
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn step(
        &mut self,
        model: &mut Model,
        Descent { optimiser, part }: Descent,
        objective: &Objective<'_>,
    ) -> Result<f64, NumericsError> {
        for Weighted { term, .. } in acting(objective.terms) {
            if let Term::Spectral(spectral) = term
                && !(spectral.tau > 0.0 && spectral.tau <= 1.0)
            {
                return Err(NumericsError::Truncation { tau: spectral.tau });
            }
        }
        self.steps += 1;
        let (value, mut gradient) = self.evaluate(model, part, objective);
        if !value.is_finite() {
            return Err(NumericsError::Diverged { step: self.steps, what: "the objective" });
        }
        let range = self.description.network.layout().range(part);
        clip(&optimiser, &mut gradient[range.clone()]);
        for i in range {
            let w = f64::from(model.parameters[i]);
            model.parameters[i] = self.moved(&optimiser, i, w, gradient[i]) as f32;
        }
        Ok(value)
    }

    fn terms(&self) -> Option<f64> {
        self.terms
    }

    fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]) {
        let pass = Pass::Eval(&model.buffers);
        let passed = self.description.forward(&model.parameters, pass, &self.inputs);
        self.features = narrow(&passed.activations[self.description.features()]);
        self.logits = narrow(passed.logits());
        (Output { features: &self.features, logits: &self.logits }, &self.labels)
    }

    fn score(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
    ) -> Tally {
        let mut tally = Tally::default();
        for batch in indices.chunks(EVALUATION_BATCH) {
            self.load(samples, batch);
            let pass = Pass::Eval(&model.buffers);
            let passed = self.description.forward(&model.parameters, pass, &self.inputs);
            for (row, label) in passed.logits().iter().zip(&self.labels) {
                let label = *label as usize;
                // The first of the largest. A NaN is larger than nothing, so its row is wrong.
                let best = row.iter().position(|x| row.iter().all(|other| x >= other));
                let loss = -log_softmax(row)[label];
                let logits: Vec<f32> = row.iter().map(|x| *x as f32).collect();
                let right = usize::from(best == Some(label));
                tally.count_batch(right, loss, &logits, &[label as u32], detail);
            }
        }
        tally
    }
}

/// Shortens a gradient to the largest norm that is allowed.
fn clip(optimiser: &Optimiser, gradient: &mut [f64]) {
    let norm = norm(gradient);
    if let Some(clip) = optimiser.clip.map(f64::from)
        && norm > clip
    {
        for g in gradient {
            *g *= clip / norm;
        }
    }
}
