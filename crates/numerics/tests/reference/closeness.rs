//! How far two engines may be apart: one rounds every number to `f32`, the other none.

use formant_numerics::{Layout, Model, Tensor};

/// Where a comparison stands, and how close it must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closeness<'a> {
    /// For the message.
    pub(crate) place: &'a str,
    pub(crate) layout: &'a Layout,
    /// Where training began.
    pub(crate) before: &'a Model,
    pub(crate) steps: usize,
    /// Error of a gradient, as a share of its norm: 2⁻²⁴ (6e-8) for each rounding on the longest way,
    /// more where summands cancel, as they do behind every norm.
    pub(crate) gradient: f64,
}

impl Closeness<'_> {
    /// Tensor by tensor, two models differ by no more than rounding explains: `gradient` of the way that
    /// the tensor has gone, and, since both engines round weights to `f32` after every step,
    /// `2⁻²⁴ |w|` for each of them a step.
    pub(crate) fn assert_models(&self, cpu: &Model, reference: &Model) {
        let Self { layout, before, .. } = self;
        for tensor in layout.tensors() {
            self.assert_tensor(
                tensor,
                [&before.parameters, &cpu.parameters, &reference.parameters],
            );
        }
        for tensor in layout.buffers() {
            self.assert_tensor(tensor, [&before.buffers, &cpu.buffers, &reference.buffers]);
        }
    }

    fn assert_tensor(&self, tensor: &Tensor, vectors: [&Vec<f32>; 3]) {
        let [before, cpu, reference] = vectors.map(|all| &all[tensor.range.clone()]);
        let rounding = self.steps as f64 * 2f64.powi(-23) * norm(reference);
        let allowed = self.gradient * distance(before, reference) + rounding;
        let found = distance(cpu, reference);
        assert!(
            found <= allowed,
            "{}, {}: {found:.2e} apart, {allowed:.2e} allowed ({:.2e} of the way)",
            self.place,
            tensor.name,
            (found - rounding) / distance(before, reference)
        );
    }
}

/// Asserts that two values of an objective agree. Logits are off by a few `2⁻²⁴`, and so is what they add
/// up to in `f64`.
pub(crate) fn assert_values(place: &str, cpu: f64, reference: f64) {
    let error = (cpu - reference).abs() / reference.abs().max(1.0);
    assert!(error <= 1e-6, "{place}: {cpu} for {reference}, error {error:.2e}");
}

fn norm(x: &[f32]) -> f64 {
    x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt()
}

fn distance(x: &[f32], y: &[f32]) -> f64 {
    let pairs = x.iter().zip(y);
    pairs.map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum::<f64>().sqrt()
}
