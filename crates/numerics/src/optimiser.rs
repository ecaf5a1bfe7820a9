//! Gradient descent: one step, given a gradient.

use crate::gemm::vectorised;
use crate::vector;
use core::ops::Range;

/// The optimiser's settings for one phase, in PyTorch's order of operations: clip the gradient, and then
/// whatever the rule says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimiser {
    /// `η`.
    pub learning_rate: f32,
    /// Strength of the pull of all trained parameters towards zero.
    pub weight_decay: f32,
    /// Largest norm of the gradient, if any.
    pub clip: Option<f32>,
    /// What becomes of a gradient.
    pub rule: Rule,
}

/// What becomes of a gradient `g`, with the weight decay `δ`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `v ← μ v + (g + δ w)`, `w ← w − η v`.
    Sgd {
        /// `μ`: share of the velocity that is kept.
        momentum: f32,
        /// Nesterov's way to step ahead: `w ← w − η (g + δ w + μ v)`.
        nesterov: bool,
    },
    /// Kingma, Ba: *Adam: A Method for Stochastic Optimization*, ICLR 2015. The decay is a part of the
    /// gradient, `g + δ w`.
    Adam(Moments),
    /// Loshchilov, Hutter: *Decoupled Weight Decay Regularization*, ICLR 2019: first `w ← (1 − η δ) w`, then
    /// Adam without decay.
    AdamW(Moments),
}

/// How Adam averages: `m ← β₁ m + (1 − β₁) g`, `s ← β₂ s + (1 − β₂) g²`, and after `t` steps
/// `w ← w − η m̂ / (√ŝ + ε)` with `m̂ = m / (1 − β₁ᵗ)` and `ŝ = s / (1 − β₂ᵗ)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// `β₁`: share of the mean that is kept.
    pub mean: f64,
    /// `β₂`: share of the mean square that is kept.
    pub square: f64,
    /// `ε`.
    pub epsilon: f64,
}

/// As published.
impl Default for Moments {
    fn default() -> Self {
        Self { mean: 0.9, square: 0.999, epsilon: 1e-8 }
    }
}

impl Rule {
    /// SGD with some momentum.
    pub const fn momentum(momentum: f32) -> Self {
        Self::Sgd { momentum, nesterov: false }
    }
}

/// What an optimiser remembers from step to step: a velocity, or two moments and how many steps they have
/// seen. It takes memory when it is first needed.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Velocity, or mean.
    first: Vec<f32>,
    /// Mean square.
    second: Vec<f32>,
    steps: u32,
    /// Whether the vectors are an earlier phase's.
    is_stale: bool,
}

impl Memory {
    /// Back to rest, as before the first step.
    pub fn forget(&mut self) {
        // Plain SGD has none, so it is zeroed by the step that uses it.
        self.is_stale = true;
        self.steps = 0;
    }

    /// Room for some vectors of so many parameters, and one step more.
    fn prepare(&mut self, vectors: usize, parameters: usize) {
        self.steps = self.steps.saturating_add(1);
        if vectors > 0 && self.is_stale {
            // Both, whichever is used: a phase does not change its rule, but another one may.
            self.first.fill(0.0);
            self.second.fill(0.0);
            self.is_stale = false;
        }
        if vectors > 0 {
            self.first.resize(parameters, 0.0);
        }
        if vectors > 1 {
            self.second.resize(parameters, 0.0);
        }
    }
}

impl Optimiser {
    /// Plain SGD.
    pub const fn sgd(learning_rate: f32) -> Self {
        Self { learning_rate, weight_decay: 0.0, clip: None, rule: Rule::momentum(0.0) }
    }

    /// The same without momentum, if it is SGD. Adam's mean is a part of what it is.
    #[must_use]
    pub fn without_momentum(self) -> Self {
        match self.rule {
            Rule::Sgd { .. } => Self { rule: Rule::momentum(0.0), ..self },
            Rule::Adam(_) | Rule::AdamW(_) => self,
        }
    }

    /// How many vectors it remembers.
    pub fn vectors(&self) -> usize {
        match self.rule {
            Rule::Sgd { momentum, .. } if momentum == 0.0 && self.weight_decay == 0.0 => 0,
            Rule::Sgd { .. } => 1,
            Rule::Adam(_) | Rule::AdamW(_) => 2,
        }
    }

    /// One step of a range of some parameters; their gradient is clipped where it lies. The memory belongs to
    /// all of them.
    pub fn descend(
        &self,
        w: &mut [f32],
        gradient: &mut [f32],
        range: Range<usize>,
        memory: &mut Memory,
    ) {
        memory.prepare(self.vectors(), w.len());
        let (w, g) = (&mut w[range.clone()], &mut gradient[range.clone()]);
        self.clip(g);
        match self.rule {
            Rule::Sgd { .. } if self.vectors() == 0 => plain(self.learning_rate, w, g),
            Rule::Sgd { momentum, nesterov } => {
                let velocity = &mut memory.first[range];
                swing(self, momentum, nesterov, w, g, velocity);
            }
            Rule::Adam(moments) | Rule::AdamW(moments) => {
                let (mean, square) = (&mut memory.first[range.clone()], &mut memory.second[range]);
                let rates = Rates::new(self, &moments, memory.steps);
                rates.step(w, g, mean, square);
            }
        }
    }

    fn clip(&self, gradient: &mut [f32]) {
        if let Some(clip) = self.clip {
            let norm = vector::norm(gradient);
            if norm > f64::from(clip) {
                vector::scale((f64::from(clip) / norm) as f32, gradient);
            }
        }
    }
}

/// Plain SGD.
fn plain(learning_rate: f32, w: &mut [f32], gradient: &[f32]) {
    vectorised(
        #[inline(always)]
        || {
            for (w, g) in w.iter_mut().zip(gradient) {
                *w -= learning_rate * g;
            }
        },
    );
}

/// SGD with a velocity.
fn swing(
    of: &Optimiser,
    momentum: f32,
    nesterov: bool,
    w: &mut [f32],
    gradient: &[f32],
    velocity: &mut [f32],
) {
    let Optimiser { learning_rate, weight_decay, .. } = *of;
    vectorised(
        #[inline(always)]
        || {
            if nesterov {
                for ((w, g), v) in w.iter_mut().zip(gradient).zip(velocity) {
                    let slope = g + weight_decay * *w;
                    *v = momentum * *v + slope;
                    *w -= learning_rate * (slope + momentum * *v);
                }
                return;
            }
            for ((w, g), v) in w.iter_mut().zip(gradient).zip(velocity) {
                *v = momentum * *v + (g + weight_decay * *w);
                *w -= learning_rate * *v;
            }
        },
    );
}

/// All that one step of Adam multiplies by. Computed once, in double precision.
struct Rates {
    /// What the decay adds to the gradient, as a share of the parameter.
    decay: f32,
    /// What the decay leaves of the parameter itself.
    kept: f32,
    /// `1 − β₁`.
    mean: f32,
    /// `β₂`.
    square: f32,
    /// `1 − β₂`.
    fresh: f32,
    /// `√(1 − β₂ᵗ)`.
    correction: f32,
    epsilon: f32,
    /// `η / (1 − β₁ᵗ)`.
    step: f32,
}

impl Rates {
    fn new(of: &Optimiser, moments: &Moments, steps: u32) -> Self {
        let Moments { mean, square, epsilon } = *moments;
        let (rate, decay, t) =
            (f64::from(of.learning_rate), f64::from(of.weight_decay), f64::from(steps));
        let decoupled = matches!(of.rule, Rule::AdamW(_));
        Self {
            decay: if decoupled { 0.0 } else { of.weight_decay },
            kept: if decoupled { (1.0 - rate * decay) as f32 } else { 1.0 },
            mean: (1.0 - mean) as f32,
            square: square as f32,
            fresh: (1.0 - square) as f32,
            correction: libm::sqrt(1.0 - libm::pow(square, t)) as f32,
            epsilon: epsilon as f32,
            step: (rate / (1.0 - libm::pow(mean, t))) as f32,
        }
    }

    fn step(&self, w: &mut [f32], gradient: &[f32], mean: &mut [f32], square: &mut [f32]) {
        let moments = mean.iter_mut().zip(square);
        vectorised(
            #[inline(always)]
            || {
                for ((w, g), (m, s)) in w.iter_mut().zip(gradient).zip(moments) {
                    let kept = self.kept * *w;
                    let slope = g + self.decay * kept;
                    *m += self.mean * (slope - *m);
                    *s = self.square * *s + self.fresh * slope * slope;
                    // Rounded as the standard says wherever it is computed: the same bits everywhere.
                    *w = kept - self.step * (*m / (s.sqrt() / self.correction + self.epsilon));
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of one parameter down some gradients; where it is after each.
    fn walk(optimiser: &Optimiser, from: f32, gradients: &[f32]) -> Vec<f32> {
        let (mut w, mut memory) = ([from], Memory::default());
        let steps = gradients.iter().map(|g| {
            optimiser.descend(&mut w, &mut [*g], 0..1, &mut memory);
            w[0]
        });
        steps.collect()
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close && found.len() == expected.len(), "{found:?} for {expected:?}");
    }

    #[test]
    fn momentum_and_decay_follow_pytorch() {
        let rule = Rule::momentum(0.5);
        let sgd = Optimiser { weight_decay: 0.1, rule, ..Optimiser::sgd(0.1) };
        // g + δw = 1.1; v = 1.1; w = 1 − 0.11. Then g + δw = 1.089; v = 0.55 + 1.089 = 1.639;
        // w = 0.89 − 0.1639.
        assert_close(&walk(&sgd, 1.0, &[1.0, 1.0]), &[0.89, 0.7261]);
        // v = 1.1, and the step is 1.1 + 0.55 = 1.65. Then g + δw = 1.0835, v = 1.6335, and the
        // step is 1.0835 + 0.81675.
        let rule = Rule::Sgd { momentum: 0.5, nesterov: true };
        let ahead = Optimiser { rule, ..sgd };
        assert_close(&walk(&ahead, 1.0, &[1.0, 1.0]), &[0.835, 0.644_975]);
    }

    #[test]
    fn the_first_two_steps_of_adam_by_hand() {
        let adam = Optimiser { rule: Rule::Adam(Moments::default()), ..Optimiser::sgd(0.1) };
        // As `crate::Adam` has them: the sign, and then 0.1 · 0.0263158 / 0.5 upwards.
        assert_close(&walk(&adam, 1.0, &[0.5, -0.5]), &[0.9, 0.905_263_2]);
        assert_close(&walk(&adam, -1.0, &[0.0, 0.0]), &[-1.0, -1.0]);
        // A decay of the gradient: 0.1 · 1 has the same sign. Decoupled, 1 % of w is gone before.
        let decayed = Optimiser { weight_decay: 0.1, ..adam };
        assert_close(&walk(&decayed, 1.0, &[0.0]), &[0.9]);
        let decoupled = Optimiser { rule: Rule::AdamW(Moments::default()), ..decayed };
        assert_close(&walk(&decoupled, 1.0, &[0.0]), &[0.99]);
        assert_close(&walk(&decoupled, 1.0, &[0.5]), &[0.89]);
    }

    #[test]
    fn adam_is_that_of_the_server() {
        let (mut server, mut v) = (crate::Adam::new(3), [0.3f32, -2.0, 1e-3]);
        let optimiser = Optimiser { rule: Rule::Adam(Moments::default()), ..Optimiser::sgd(0.01) };
        let (mut w, mut memory) = (v, Memory::default());
        for step in 0..50 {
            let mut gradient = [w[0], libm::sinf(step as f32), 1e-4 * w[2]];
            server.descend(f64::from(0.01f32), &mut v, &gradient);
            optimiser.descend(&mut w, &mut gradient, 0..3, &mut memory);
            assert!(w.iter().zip(&v).all(|(a, b)| (a - b).abs() < 2e-6), "{step}: {w:?} {v:?}");
        }
    }

    #[test]
    fn plain_sgd_is_the_special_case() {
        let g = [0.123f32, 4.5];
        let moved = |rule| {
            let mut w = [0.3f32, -0.7];
            let optimiser = Optimiser { rule, ..Optimiser::sgd(0.01) };
            optimiser.descend(&mut w, &mut g.clone(), 0..2, &mut Memory::default());
            w
        };
        assert_eq!(moved(Rule::momentum(0.0)), moved(Rule::momentum(0.9)));
    }

    #[test]
    fn all_rules_clip_before_anything_else() {
        let rules = [
            Rule::momentum(0.0),
            Rule::Sgd { momentum: 0.9, nesterov: true },
            Rule::Adam(Moments { epsilon: 0.1, ..Moments::default() }),
            Rule::AdamW(Moments { epsilon: 0.1, ..Moments::default() }),
        ];
        for rule in rules {
            let moved = |clip, mut gradient: [f32; 2]| {
                let optimiser = Optimiser { rule, clip, weight_decay: 0.1, ..Optimiser::sgd(0.1) };
                let mut w = [1.0f32, -2.0];
                optimiser.descend(&mut w, &mut gradient, 0..2, &mut Memory::default());
                w
            };
            assert_eq!(moved(Some(2.5), [3.0, 4.0]), moved(None, [1.5, 2.0]), "{rule:?}");
            assert_eq!(moved(Some(5.0), [3.0, 4.0]), moved(None, [3.0, 4.0]), "{rule:?}");
        }
    }

    #[test]
    fn a_memory_that_forgets_is_a_new_one_whatever_it_held() {
        let rules = [
            Rule::momentum(0.9),
            Rule::momentum(0.0),
            Rule::Adam(Moments::default()),
            Rule::AdamW(Moments::default()),
        ];
        let phase = |rule, range: Range<usize>, memory: &mut Memory| {
            let mut w = [0.5f32, 1.0, -1.0];
            memory.forget();
            for step in 1..4 {
                let mut gradient = [0.3, -0.1, 0.7 * step as f32];
                let optimiser = Optimiser { rule, ..Optimiser::sgd(0.1) };
                optimiser.descend(&mut w, &mut gradient, range.clone(), memory);
            }
            w
        };
        let mut used = Memory::default();
        for before in rules {
            for rule in rules {
                for range in [0..3, 0..2, 2..3] {
                    phase(before, 0..3, &mut used);
                    let expected = phase(rule, range.clone(), &mut Memory::default());
                    assert_eq!(phase(rule, range, &mut used), expected, "{before:?}, {rule:?}");
                }
            }
        }
    }
}
