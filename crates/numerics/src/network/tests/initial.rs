//! Initial values follow PyTorch's defaults: `U(±1/√fan_in)` for the weights and biases of linear
//! maps, one and zero for norms, zero and one for running statistics.

use crate::network::{NetworkSpec, Norm};
use crate::{Rng, Shape, Stream};

#[test]
fn weights_and_biases_are_uniform_within_the_fan_in() {
    let mut narrow = NetworkSpec::named("resnet18");
    (narrow.width, narrow.norm) = (Some(8), Some(Norm::Batch));
    for spec in [NetworkSpec::named("cnn"), NetworkSpec::named("lenet5"), narrow] {
        let network = spec.build(Shape::new(3, 32, 32), 10).unwrap();
        let model = network.init(&mut Rng::new(5, Stream::Init, 0, 0));
        let tensors = network.layout().tensors();
        let mut fan_in = 0.0;
        for tensor in tensors {
            let values = &model.parameters[tensor.range.clone()];
            if tensor.shape.len() > 1 {
                fan_in = tensor.shape[1..].iter().product::<usize>() as f64;
            } else if tensor.name.contains("bn") || tensor.name.contains("downsample.1") {
                let constant = if tensor.name.ends_with("weight") { 1.0 } else { 0.0 };
                assert!(values.iter().all(|x| *x == constant), "{}", tensor.name);
                continue;
            }
            // A bias stands right after the weight whose fan-in it shares.
            uniform(&tensor.name, values, 1.0 / fan_in.sqrt());
        }
        for tensor in network.layout().buffers() {
            let constant = if tensor.name.ends_with("running_var") { 1.0 } else { 0.0 };
            assert!(model.buffers[tensor.range.clone()].iter().all(|x| *x == constant));
        }
    }
}

/// Within `±bound`, with the mean and variance of the uniform distribution up to five standard
/// errors, and reaching close to both ends.
fn uniform(name: &str, values: &[f32], bound: f64) {
    let n = values.len() as f64;
    let unit: Vec<f64> = values.iter().map(|x| f64::from(*x) / bound).collect();
    // Rounding to f32 may carry a draw just over the bound.
    assert!(unit.iter().all(|u| u.abs() <= 1.0 + 1e-6), "{name}: beyond its bound");
    let mean = unit.iter().sum::<f64>() / n;
    assert!(mean.abs() < 5.0 / (3.0 * n).sqrt(), "{name}: mean {mean}");
    let variance = unit.iter().map(|u| u * u).sum::<f64>() / n;
    // Var(u²) = 1/5 − 1/9.
    let error = (4.0 / 45.0 / n).sqrt();
    assert!((variance - 1.0 / 3.0).abs() < 5.0 * error, "{name}: variance {variance}");
    let reach = 1.0 - 20.0 / n;
    let (low, high) = unit.iter().fold((1.0f64, -1.0f64), |(l, h), u| (l.min(*u), h.max(*u)));
    assert!(high > reach && low < -reach, "{name}: only from {low} to {high}");
}

#[test]
fn the_same_address_gives_the_same_model() {
    let network = NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10).unwrap();
    let draw = |client| network.init(&mut Rng::new(5, Stream::Init, 0, client));
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
}
