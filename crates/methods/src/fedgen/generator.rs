//! The generator: a small network from noise and a class to features.

use super::FedGen;
use crate::MethodError;
use formant_numerics::{
    Adam, Batch, Head, Model, Network, NetworkSpec, OutputGradient, Part, Pass, Rng, Shape, Tape,
    Workspace, cross_entropy,
};
use std::sync::Arc;

/// A client's head, and how much it has to say about each class.
pub(super) struct Teacher {
    /// `h_k`.
    pub(super) head: Vec<f32>,
    /// `a_k^y`; its samples of each class until [`divide_by_class`] has seen them.
    pub(super) shares: Vec<f64>,
}

/// Turns counts into shares of all samples of a class. A class that nobody has keeps zeros.
pub(super) fn divide_by_class(teachers: &mut [Teacher]) {
    let classes = teachers.first().map_or(0, |teacher| teacher.shares.len());
    for class in 0..classes {
        let total: f64 = teachers.iter().map(|teacher| teacher.shares[class]).sum();
        for teacher in teachers.iter_mut().filter(|_| total > 0.0) {
            teacher.shares[class] /= total;
        }
    }
}

/// `G` without its parameters: its network, memory for a batch and what was drawn for it.
pub(super) struct Generator {
    pub(super) network: Arc<Tape>,
    head: Head,
    noise: usize,
    work: Workspace,
    /// Most samples that `work` holds.
    room: usize,
    /// `ε`, a row for each sample.
    epsilon: Vec<f32>,
    labels: Vec<u32>,
    /// Noise and one-hot classes as the network reads them.
    inputs: Vec<f32>,
}

impl Generator {
    /// A generator of features for the heads of a network.
    pub(super) fn new(method: &FedGen, network: &dyn Network) -> Result<Self, MethodError> {
        let head = Head::of(network);
        let input = Shape::new(method.noise + head.classes, 1, 1);
        let spec = NetworkSpec { hidden: Some(vec![method.hidden]), ..NetworkSpec::named("mlp") };
        let own = spec.build(input, head.features)?;
        Ok(Self {
            work: own.workspace(method.generator_batch),
            room: method.generator_batch,
            network: own,
            head,
            noise: method.noise,
            epsilon: Vec::new(),
            labels: Vec::new(),
            inputs: Vec::new(),
        })
    }

    /// An error unless these are parameters of this generator.
    pub(super) fn expect(&self, parameters: &Model) -> Result<(), MethodError> {
        let (sent, wanted) = (parameters.parameters.len(), self.network.layout().parameters());
        if sent != wanted {
            let reason = format!("a generator of {sent} parameters where {wanted} are expected");
            return Err(MethodError::Decode { method: "fedgen", what: "broadcast", reason });
        }
        Ok(())
    }

    /// The classes that were drawn.
    pub(super) fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Draws noise for given classes.
    pub(super) fn draw(&mut self, rng: &mut Rng, labels: &[u32]) {
        self.labels.clear();
        self.labels.extend_from_slice(labels);
        self.draw_noise(rng);
    }

    /// Draws from some classes, all alike, and noise for them.
    pub(super) fn draw_from(&mut self, rng: &mut Rng, classes: &[u32], count: usize) {
        self.labels.clear();
        self.labels.extend((0..count).map(|_| classes[rng.below(classes.len())]));
        self.draw_noise(rng);
    }

    fn draw_noise(&mut self, rng: &mut Rng) {
        let count = self.labels.len();
        if count > self.room {
            (self.work, self.room) = (self.network.workspace(count), count);
        }
        self.epsilon.clear();
        self.epsilon.extend((0..count * self.noise).map(|_| rng.normal() as f32));
        // The network reads channels over the batch: a row for each number of noise and each class.
        self.inputs.clear();
        self.inputs.resize(count * (self.noise + self.head.classes), 0.0);
        for (sample, noise) in self.epsilon.chunks_exact(self.noise).enumerate() {
            for (place, x) in noise.iter().enumerate() {
                self.inputs[place * count + sample] = *x;
            }
            let class = self.labels[sample] as usize;
            self.inputs[(self.noise + class) * count + sample] = 1.0;
        }
    }

    /// `z` for what was drawn, a row for each sample.
    pub(super) fn features(&mut self, parameters: &Model) -> &[f32] {
        let batch = Batch { inputs: &self.inputs, labels: &self.labels };
        self.network.forward(Pass::Eval(parameters), &batch, &mut self.work).logits
    }

    /// A round's steps of Adam; says for which classes.
    pub(super) fn learn(
        &mut self,
        method: &FedGen,
        teachers: &[Teacher],
        parameters: &mut Model,
        adam: &mut Adam,
        rng: &mut Rng,
    ) -> Result<Vec<u32>, MethodError> {
        let known: Vec<u32> = (0..self.head.classes as u32)
            .filter(|class| teachers.iter().any(|teacher| teacher.shares[*class as usize] > 0.0))
            .collect();
        if known.is_empty() {
            return Ok(known);
        }
        let mut gradient = vec![0.0; self.network.layout().parameters()];
        for _ in 0..method.generator_steps {
            self.draw_from(rng, &known, method.generator_batch);
            self.objective(teachers, method.diversity, parameters, &mut gradient);
            adam.descend(method.generator_rate, &mut parameters.parameters, &gradient);
        }
        if !parameters.is_finite() {
            let what = "a parameter of the generator";
            let step = method.generator_steps as u64;
            return Err(formant_numerics::NumericsError::Diverged { step, what }.into());
        }
        Ok(known)
    }

    /// What the generator minimises on what was drawn, with its gradient.
    pub(super) fn objective(
        &mut self,
        teachers: &[Teacher],
        diversity: f64,
        parameters: &Model,
        gradient: &mut [f32],
    ) -> f64 {
        let z = self.features(parameters).to_vec();
        let mut d_z = vec![0.0; z.len()];
        let value = self.lesson(teachers, &z, &mut d_z) + self.sameness(diversity, &z, &mut d_z);
        let seed = OutputGradient { logits: &d_z, features: None };
        self.network.backward(parameters, seed, Part::All, &mut self.work, gradient);
        value
    }

    /// `mean_y Σ_k a_k^y CE(h_k(z), y)`.
    fn lesson(&self, teachers: &[Teacher], z: &[f32], d_z: &mut [f32]) -> f64 {
        let (head, classes) = (self.head, self.head.classes);
        let count = self.labels.len() as f64;
        let mut value = 0.0;
        let (mut logits, mut d_logits) = (vec![0.0; classes], vec![0.0; classes]);
        let samples = z.chunks_exact(head.features).zip(d_z.chunks_exact_mut(head.features));
        for ((z, d_z), label) in samples.zip(&self.labels) {
            for teacher in teachers {
                let share = teacher.shares[*label as usize] / count;
                if share > 0.0 {
                    logits.fill(0.0);
                    head.add_logits(&teacher.head, z, &mut logits);
                    value += share * cross_entropy(&logits, &[*label], &mut d_logits);
                    head.add_feature_gradient(share as f32, &teacher.head, &d_logits, d_z);
                }
            }
        }
        value
    }

    /// `η_div exp(−mean(‖Δε‖ ‖Δz‖))` over all pairs.
    fn sameness(&self, strength: f64, z: &[f32], d_z: &mut [f32]) -> f64 {
        let (count, features) = (self.labels.len(), self.head.features);
        let row = |i: usize| &z[i * features..(i + 1) * features];
        let mut distances = vec![(0.0, 0.0); count * count];
        let mut sum = 0.0;
        for i in 0..count {
            for j in 0..i {
                let noise = |i: usize| &self.epsilon[i * self.noise..(i + 1) * self.noise];
                let pair = (distance(noise(i), noise(j)), distance(row(i), row(j)));
                distances[i * count + j] = pair;
                sum += 2.0 * pair.0 * pair.1;
            }
        }
        let pairs = (count * count) as f64;
        let value = strength * libm::exp(-sum / pairs);
        for i in 0..count {
            for j in 0..i {
                let (noise, apart) = distances[i * count + j];
                if apart == 0.0 {
                    continue;
                }
                // ∂‖Δz‖/∂z_i = Δz / (features · ‖Δz‖); each pair counts twice in the mean.
                let scale = -value * 2.0 * noise / (pairs * features as f64 * apart);
                for f in 0..features {
                    let push = (scale * f64::from(row(i)[f] - row(j)[f])) as f32;
                    d_z[i * features + f] += push;
                    d_z[j * features + f] -= push;
                }
            }
        }
        value
    }
}

/// Root of the mean squared difference.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    libm::sqrt(formant_numerics::vector::distance_squared(a, b) / a.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_numerics::Stream;

    const METHOD: FedGen = FedGen {
        a: 1.0,
        b: 1.0,
        decay: 1.0,
        diversity: 0.7,
        generator_steps: 30,
        generator_rate: 0.01,
        generator_batch: 6,
        noise: 3,
        hidden: 8,
    };

    fn network() -> Arc<Tape> {
        let spec = NetworkSpec { hidden: Some(vec![4]), ..NetworkSpec::named("mlp") };
        spec.build(Shape::new(1, 2, 2), 3).unwrap()
    }

    fn teachers() -> Vec<Teacher> {
        let mut rng = Rng::new(1, Stream::Test, 0, 5);
        let mut teachers: Vec<_> = [[3.0, 1.0, 0.0], [1.0, 4.0, 0.0], [0.0, 5.0, 0.0]]
            .map(|counts| Teacher {
                head: (0..15).map(|_| rng.normal() as f32).collect(),
                shares: counts.to_vec(),
            })
            .into();
        divide_by_class(&mut teachers);
        teachers
    }

    fn rng() -> Rng {
        Rng::new(1, Stream::Test, 0, 6)
    }

    #[test]
    fn shares_of_a_class_sum_to_one_and_a_class_that_nobody_has_stays_without() {
        let teachers = teachers();
        let share = |k: usize, y: usize| teachers[k].shares[y];
        assert_eq!([share(0, 0), share(1, 0), share(2, 0)], [0.75, 0.25, 0.0]);
        assert_eq!([share(0, 1), share(1, 1), share(2, 1)], [0.1, 0.4, 0.5]);
        assert_eq!([share(0, 2), share(1, 2), share(2, 2)], [0.0; 3]);
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        let mut generator = Generator::new(&METHOD, &*network()).unwrap();
        let teachers = teachers();
        let parameters = generator.network.init(&mut rng());
        generator.draw(&mut rng(), &[0, 1, 1, 0, 1, 0]);
        let mut gradient = vec![0.0; parameters.parameters.len()];
        let mut unused = gradient.clone();
        generator.objective(&teachers, METHOD.diversity, &parameters, &mut gradient);
        for (i, gradient) in gradient.iter().enumerate() {
            let mut at = |h: f32| {
                let mut moved = parameters.clone();
                moved.parameters[i] += h;
                generator.objective(&teachers, METHOD.diversity, &moved, &mut unused)
            };
            let h = 1.0 / 512.0;
            let slope = (at(h) - at(-h)) / f64::from(2.0 * h);
            let difference = (slope - f64::from(*gradient)).abs();
            assert!(difference < 2e-3, "{i}: {slope}, {gradient}");
        }
    }

    #[test]
    fn the_teachers_heads_are_used_and_whose_they_are_matters() {
        let learnt = |teachers: &[Teacher]| {
            let mut generator = Generator::new(&METHOD, &*network()).unwrap();
            let mut parameters = generator.network.init(&mut rng());
            let mut adam = Adam::new(parameters.parameters.len());
            generator.learn(&METHOD, teachers, &mut parameters, &mut adam, &mut rng()).unwrap();
            parameters
        };
        let as_they_are = learnt(&teachers());
        assert_eq!(as_they_are, learnt(&teachers()));
        let mut permuted = teachers();
        let last = permuted[2].head.clone();
        for k in [2, 1] {
            permuted[k].head = permuted[k - 1].head.clone();
        }
        permuted[0].head = last;
        assert_ne!(as_they_are, learnt(&permuted));
    }

    #[test]
    fn it_learns_what_the_heads_call_a_class() {
        let mut generator = Generator::new(&METHOD, &*network()).unwrap();
        let teachers = teachers();
        let mut parameters = generator.network.init(&mut rng());
        let mut adam = Adam::new(parameters.parameters.len());
        let mut value = |parameters: &Model| {
            generator.draw(&mut rng(), &[0, 1, 0, 1, 0, 1]);
            let z = generator.features(parameters).to_vec();
            generator.lesson(&teachers, &z, &mut vec![0.0; z.len()])
        };
        let before = value(&parameters);
        let mut other = Generator::new(&METHOD, &*network()).unwrap();
        for _ in 0..10 {
            other.learn(&METHOD, &teachers, &mut parameters, &mut adam, &mut rng()).unwrap();
        }
        assert!(value(&parameters) < 0.5 * before, "{} of {before}", value(&parameters));
    }
}
