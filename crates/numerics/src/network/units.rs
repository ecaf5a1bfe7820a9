//! Hidden units that can change places without changing what the network computes.
//!
//! The layers say it themselves: every activation belongs to a group of units; a layer with weights begins
//! a new one, norms and pooling keep it, a sum makes two groups one. Input and logits have an order that
//! means something, and so have channels that a group norm takes together.

use super::tape::{Op, Tape};
use crate::Rng;
use core::ops::Range;

/// The groups of interchangeable units of a network.
///
/// ```
/// use formant_numerics::{NetworkSpec, Shape};
/// let lenet = NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10)?;
/// // Two convolutions and two hidden layers.
/// let units: Vec<usize> = lenet.units().groups().iter().map(|group| group.units()).collect();
/// assert_eq!(units, [6, 16, 120, 84]);
/// # Ok::<(), formant_numerics::NumericsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units {
    groups: Vec<UnitGroup>,
}

/// Units that may change places with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitGroup {
    units: usize,
    /// Whatever belongs to single units, in the parameters.
    axes: Vec<UnitAxis>,
}

/// An axis of a tensor that runs over the units of a group: value `(o, u, i)` of unit `u` lies at
/// `start + (o · units + u) · inner + i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitAxis {
    pub(crate) range: Range<usize>,
    pub(crate) inner: usize,
}

impl UnitGroup {
    /// How many.
    pub fn units(&self) -> usize {
        self.units
    }

    pub(crate) fn axes(&self) -> &[UnitAxis] {
        &self.axes
    }

    /// Puts unit `order[u]` of some parameters in the place of unit `u`.
    fn reorder(&self, order: &[usize], from: &[f32], to: &mut [f32]) {
        for UnitAxis { range, inner } in &self.axes {
            let blocks = from[range.clone()].chunks(self.units * inner);
            for (from, to) in blocks.zip(to[range.clone()].chunks_mut(self.units * inner)) {
                for (to, unit) in to.chunks_mut(*inner).zip(order) {
                    to.copy_from_slice(&from[unit * inner..][..*inner]);
                }
            }
        }
    }
}

/// For every group, which unit goes to each place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitOrder(pub(crate) Vec<Vec<usize>>);

impl UnitOrder {
    /// The share of units that leave their place.
    pub fn moved(&self) -> f64 {
        let moved = |order: &Vec<usize>| order.iter().enumerate().filter(|(i, u)| i != *u).count();
        let units: usize = self.0.iter().map(Vec::len).sum();
        self.0.iter().map(moved).sum::<usize>() as f64 / units.max(1) as f64
    }
}

impl Units {
    /// The groups, in the order of the layers.
    pub fn groups(&self) -> &[UnitGroup] {
        &self.groups
    }

    /// Every unit in its place.
    pub fn identity(&self) -> UnitOrder {
        UnitOrder(self.groups.iter().map(|group| (0..group.units).collect()).collect())
    }

    /// Every group shuffled.
    pub fn shuffled(&self, rng: &mut Rng) -> UnitOrder {
        let mut order = self.identity();
        order.0.iter_mut().for_each(|group| rng.shuffle(group));
        order
    }

    /// Parameters with their units in another order: of a network without running statistics the same function.
    pub fn reordered(&self, order: &UnitOrder, parameters: &[f32]) -> Vec<f32> {
        let mut result = parameters.to_vec();
        let mut before = parameters.to_vec();
        for (group, order) in self.groups.iter().zip(&order.0) {
            group.reorder(order, &before, &mut result);
            before.copy_from_slice(&result);
        }
        result
    }
}

/// What is known of an activation while the layers are read.
#[derive(Clone, Copy)]
struct Activation {
    group: usize,
    units: usize,
    /// Values of a unit that lie one after the other, once an image has become a row.
    inner: usize,
}

/// Groups under construction.
#[derive(Default)]
struct Census {
    /// Which group took a group in; itself if none did.
    parents: Vec<usize>,
    fixed: Vec<bool>,
    units: Vec<usize>,
    axes: Vec<(usize, UnitAxis)>,
}

impl Census {
    fn begin(&mut self, units: usize) -> Activation {
        self.parents.push(self.parents.len());
        self.fixed.push(false);
        self.units.push(units);
        Activation { group: self.parents.len() - 1, units, inner: 1 }
    }

    fn root(&self, mut group: usize) -> usize {
        while self.parents[group] != group {
            group = self.parents[group];
        }
        group
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        let (first, second) = (a.min(b), a.max(b));
        self.parents[second] = first;
        self.fixed[first] |= self.fixed[second];
    }

    fn axis(&mut self, group: usize, range: &Range<usize>, inner: usize) {
        self.axes.push((group, UnitAxis { range: range.clone(), inner }));
    }
}

impl Tape {
    /// The units that can change places.
    pub fn units(&self) -> Units {
        let mut census = Census::default();
        let mut known = vec![census.begin(self.input.channels)];
        census.fixed[0] = true;
        for node in &self.nodes {
            let input = known[node.input];
            let output = match &node.op {
                Op::Conv(conv) => {
                    let kernel = conv.kernel.height * conv.kernel.width;
                    let output = census.begin(conv.output.channels);
                    census.axis(output.group, &conv.weight, input.units * kernel);
                    conv.bias.iter().for_each(|bias| census.axis(output.group, bias, 1));
                    census.axis(input.group, &conv.weight, kernel);
                    output
                }
                Op::Linear(linear) => {
                    let output = census.begin(linear.outputs);
                    census.axis(output.group, &linear.weight, linear.inputs);
                    census.axis(output.group, &linear.bias, 1);
                    census.axis(input.group, &linear.weight, input.inner);
                    output
                }
                Op::BatchNorm(norm) => {
                    census.axis(input.group, &norm.weight, 1);
                    census.axis(input.group, &norm.bias, 1);
                    input
                }
                Op::GroupNorm(norm) => {
                    census.axis(input.group, &norm.weight, 1);
                    census.axis(input.group, &norm.bias, 1);
                    let root = census.root(input.group);
                    census.fixed[root] = true;
                    input
                }
                Op::MaxPool(_) | Op::AveragePool(_) => input,
                Op::GlobalAveragePool(_) => Activation { inner: 1, ..input },
                Op::Flatten { plane, .. } => Activation { inner: *plane, ..input },
                Op::AddRelu(other) => {
                    census.unite(input.group, known[*other].group);
                    input
                }
            };
            known.push(output);
        }
        if let Some(logits) = known.last() {
            let root = census.root(logits.group);
            census.fixed[root] = true;
        }
        let free = (0..census.parents.len()).filter(|g| census.root(*g) == *g && !census.fixed[*g]);
        let groups = free.map(|group| UnitGroup {
            units: census.units[group],
            axes: (census.axes.iter())
                .filter(|(of, _)| census.root(*of) == group)
                .map(|(_, axis)| axis.clone())
                .collect(),
        });
        Units { groups: groups.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Model, NetworkSpec, Norm, Pass, Shape, Stream};

    fn logits(network: &Tape, model: &Model, inputs: &[f32]) -> Vec<f32> {
        let mut workspace = network.workspace(2);
        let batch = Batch { inputs, labels: &[0, 1] };
        network.forward(Pass::Eval(model), &batch, &mut workspace).logits.to_vec()
    }

    #[test]
    fn units_in_another_order_compute_the_same() {
        let input = Shape::new(3, 32, 32);
        let resnet = NetworkSpec { width: Some(4), ..NetworkSpec::named("resnet18") };
        let mlp = NetworkSpec { hidden: Some(vec![9, 7]), ..NetworkSpec::named("mlp") };
        let group = NetworkSpec { norm: Some(Norm::Group), ..resnet.clone() };
        let plain = ["lenet5", "cnn", "logistic"].map(NetworkSpec::named);
        for spec in plain.into_iter().chain([mlp, resnet, group]) {
            let network = spec.build(input, 10).unwrap();
            let mut rng = Rng::new(5, Stream::Test, 0, 0);
            let mut model = network.init(&mut rng);
            // Norms begin alike for all channels, which would hide a mistake.
            let range = network.layout().range(crate::Part::Body);
            model.parameters[range].iter_mut().for_each(|x| *x *= 1.0 + 0.3 * rng.uniform() as f32);
            let inputs: Vec<f32> = (0..2 * input.len()).map(|_| rng.normal() as f32).collect();
            let units = network.units();
            let order = units.shuffled(&mut rng);
            let other = units.reordered(&order, &model.parameters);
            assert_eq!(
                spec.name == "logistic" || spec.norm == Some(Norm::Group),
                other == model.parameters
            );
            let other = Model { parameters: other, ..model.clone() };
            let (a, b) = (logits(&network, &model, &inputs), logits(&network, &other, &inputs));
            let size = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            for (a, b) in a.iter().zip(&b) {
                assert!((a - b).abs() < 1e-4 * size, "{}: {a} and {b}", spec.name);
            }
        }
    }

    #[test]
    fn a_residual_stage_is_one_group() {
        let spec = NetworkSpec { width: Some(4), ..NetworkSpec::named("resnet18") };
        let units = spec.build(Shape::new(3, 32, 32), 10).unwrap().units();
        let sizes: Vec<usize> = units.groups().iter().map(UnitGroup::units).collect();
        // Stem and first stage, then of every block its inner convolution, and of every stage its sums.
        assert_eq!(sizes, [4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32]);
        assert!(units.identity().moved() == 0.0);
    }
}
