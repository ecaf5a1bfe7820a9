//! How the spectra of models lie to that of another one: for looking at, not for training.

use super::plan::{Length, Scope, Spectrum};
use super::{Form, SpectralDivergence};
use crate::{Layout, NumericsError};
use core::ops::Range;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Compares whole models by one transform of all their parameters, of the next length that is quick: networks of
/// millions of parameters take a fraction of a second.
#[derive(Debug)]
pub struct SpectralComparison {
    plans: Arc<Spectrum>,
}

impl SpectralComparison {
    /// For models of a layout.
    pub fn new(layout: &Layout) -> Self {
        Self { plans: Arc::new(Spectrum::new(layout, Scope::Flat, Length::Fast)) }
    }

    /// `D(P‖Q)` of the normalised magnitudes of each of some models against those of another one, over the
    /// first `⌈τN⌉` entries of their spectra. Not a number where a model has none, or is none.
    ///
    /// ```
    /// use formant_numerics::{Layout, SpectralComparison};
    /// let comparison = SpectralComparison::new(&Layout::single(3));
    /// let found = comparison.divergences(&[&[1.0, 2.0, 4.0], &[2.0, 4.0, 8.0], &[4.0, -1.0, 1.0]], &[1.0, 2.0, 4.0], 1.0)?;
    /// // It sees neither the scale nor the phase.
    /// assert!(found[0] < 1e-6 && found[1] < 1e-6 && found[2] > 0.01);
    /// # Ok::<(), formant_numerics::NumericsError>(())
    /// ```
    pub fn divergences(
        &self,
        of: &[&[f32]],
        from: &[f32],
        tau: f64,
    ) -> Result<Vec<f64>, NumericsError> {
        let mut teacher = SpectralDivergence::new(self.plans.clone(), Form::Normalized, tau, from)?;
        // A divergence is not negative, whatever rounding says.
        let value = |w: &&[f32]| match teacher.normalized(w) {
            // Bins that are no numbers would be passed over, so the model itself is asked.
            Some(value) if value.is_finite() && w.iter().all(|x| x.is_finite()) => value.max(0.0),
            _ => f64::NAN,
        };
        Ok(of.iter().map(value).collect())
    }
}

/// The magnitudes of some tensors of a layout, each by a transform of its own and of its own length, in bands
/// of frequencies.
pub struct SpectralBands {
    tensors: Vec<Banded>,
}

impl core::fmt::Debug for SpectralBands {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SpectralBands of {} tensors", self.tensors.len())
    }
}

struct Banded {
    name: String,
    range: Range<usize>,
    /// Where bands begin, and where the last one ends.
    edges: Vec<usize>,
    transform: Arc<dyn RealToComplex<f32>>,
}

impl SpectralBands {
    /// The most tensors that are shown.
    pub const TENSORS: usize = 24;
    /// The most bands of a tensor.
    pub const BANDS: usize = 24;

    /// For models of a layout: of its weights (tensors of two extents and more) all, or so many that lie evenly
    /// between the first and the last; if that leaves room, the first of the other tensors.
    pub fn new(layout: &Layout) -> Self {
        let (weights, others): (Vec<usize>, Vec<usize>) =
            (0..layout.tensors().len()).partition(|i| layout.tensors()[*i].shape.len() >= 2);
        let mut shown = thinned(&weights, Self::TENSORS);
        let room = Self::TENSORS - shown.len();
        shown.extend(others.into_iter().take(room));
        shown.sort_unstable();
        let mut planner = RealFftPlanner::new();
        let tensors = shown.into_iter().map(|i| &layout.tensors()[i]);
        let tensors = tensors.filter(|tensor| !tensor.range.is_empty()).map(|tensor| Banded {
            name: tensor.name.clone(),
            range: tensor.range.clone(),
            edges: edges(tensor.range.len() / 2 + 1, Self::BANDS),
            transform: planner.plan_fft_forward(tensor.range.len()),
        });
        Self { tensors: tensors.collect() }
    }

    /// Of each tensor its name and the root mean square of its magnitudes in bands from the lowest to the highest
    /// frequency, divided by the square root of its length. Bands have equal width on a logarithmic axis as far
    /// as there are bins; the first one is the mean alone.
    pub fn of(&self, parameters: &[f32]) -> Vec<(&str, Vec<f32>)> {
        let (mut values, mut bins, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Vec::with_capacity(self.tensors.len());
        for tensor in &self.tensors {
            values.clear();
            values.extend_from_slice(&parameters[tensor.range.clone()]);
            let n = values.len();
            bins.resize(n / 2 + 1, Complex::default());
            scratch.resize(tensor.transform.get_scratch_len(), Complex::default());
            // The lengths are those of the plan, which is all that can be wrong.
            let done = tensor.transform.process_with_scratch(&mut values, &mut bins, &mut scratch);
            let power = |range: &[usize]| {
                let own = &bins[range[0]..range[1]];
                let sum: f64 =
                    own.iter().map(|z| f64::from(z.re).powi(2) + f64::from(z.im).powi(2)).sum();
                libm::sqrt(sum / own.len() as f64 / n as f64) as f32
            };
            let bands = tensor.edges.windows(2).map(power).collect();
            found.push((tensor.name.as_str(), if done.is_ok() { bands } else { Vec::new() }));
        }
        found
    }
}

/// All of a list, or so many that lie evenly between its first and its last.
fn thinned(all: &[usize], most: usize) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    (0..most).map(|i| all[i * (all.len() - 1) / (most - 1)]).collect()
}

/// Where bands of some bins begin, and where the last one ends: none is empty, and the first has the mean alone,
/// which a logarithmic axis cannot show.
fn edges(bins: usize, most: usize) -> Vec<usize> {
    let mut edges = vec![0];
    for band in 0..most - 1 {
        let edge = libm::pow(bins as f64, band as f64 / (most - 1) as f64);
        let edge = (edge + 1e-9) as usize;
        if edge < bins && edges.last().is_none_or(|last| *last < edge) {
            edges.push(edge);
        }
    }
    edges.push(bins);
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, Part, Rng, Shape, Stream};

    #[test]
    fn bands_hold_every_bin_once() {
        assert_eq!(edges(1, 24), [0, 1]);
        assert_eq!(edges(3, 24), [0, 1, 2, 3]);
        for bins in [2, 5, 25, 100, 1_000_000] {
            let edges = edges(bins, 24);
            assert!(edges.is_sorted_by(|a, b| a < b) && edges.len() <= 25, "{edges:?}");
            assert_eq!((edges[0], edges.last()), (0, Some(&bins)));
        }
        assert_eq!(edges(1_000_000, 24).len(), 24);
        assert_eq!(edges(1_000_000, 24)[..5], [0, 1, 3, 6, 11]);
    }

    #[test]
    fn a_wave_is_in_its_band_and_a_constant_in_the_first() {
        let mut layout = Layout::default();
        layout.push("wave.weight", &[8, 8], Part::Body);
        layout.push("constant.bias", &[10], Part::Head);
        let mut w = vec![2.0; 74];
        for (n, x) in w[..64].iter_mut().enumerate() {
            *x = (core::f32::consts::TAU * 16.0 * n as f32 / 64.0).cos();
        }
        let bands = SpectralBands::new(&layout);
        let found = bands.of(&w);
        let [("wave.weight", wave), ("constant.bias", constant)] = &found[..] else {
            panic!("{found:?}")
        };
        let all = edges(33, SpectralBands::BANDS);
        let own = all.iter().rposition(|edge| *edge <= 16).unwrap();
        for (band, x) in wave.iter().enumerate() {
            // |z| is half of 64 in one bin.
            let bins = (all[band + 1] - all[band]) as f32;
            let expected = if band == own { 32.0 / bins.sqrt() / 8.0 } else { 0.0 };
            assert!((x - expected).abs() < 1e-4, "{band}: {x} and {expected}");
        }
        assert!((constant[0] - 20.0 / 10f32.sqrt()).abs() < 1e-5);
        assert!(constant[1..].iter().all(|x| x.abs() < 1e-5));
    }

    #[test]
    fn weights_come_first_and_large_networks_are_thinned() {
        let network =
            |name: &str| NetworkSpec::named(name).build(Shape::new(3, 32, 32), 10).unwrap();
        let names = |name: &str| {
            let network = network(name);
            let bands = SpectralBands::new(network.layout());
            bands.tensors.iter().map(|t| t.name.clone()).collect::<Vec<_>>()
        };
        let small = names("cnn");
        assert!(small.iter().any(|name| name.ends_with("bias")), "{small:?}");
        let large = network("resnet34");
        let weights: Vec<&str> = large
            .layout()
            .tensors()
            .iter()
            .filter(|t| t.shape.len() >= 2)
            .map(|t| &*t.name)
            .collect();
        let shown = names("resnet34");
        assert_eq!(shown.len(), SpectralBands::TENSORS);
        assert_eq!((&*shown[0], &*shown[23]), (weights[0], weights[weights.len() - 1]));
        assert!(shown.iter().all(|name| weights.contains(&&**name)));
    }

    #[test]
    fn a_model_does_not_diverge_from_itself_and_low_entries_are_a_part() {
        let network = NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10).unwrap();
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let (w, v) = (network.init(&mut rng).parameters, network.init(&mut rng).parameters);
        let comparison = SpectralComparison::new(network.layout());
        let at = |tau| comparison.divergences(&[&w, &v], &w, tau).unwrap();
        for tau in [1.0, 0.1] {
            assert!(at(tau)[0] < 1e-6 && at(tau)[1] > 1e-3, "{:?}", at(tau));
        }
        assert_ne!(at(1.0)[1], at(0.1)[1]);
        let mut broken = v.clone();
        broken[7] = f32::NAN;
        let found = comparison.divergences(&[&broken, &vec![0.0; w.len()]], &w, 1.0).unwrap();
        assert!(found.iter().all(|x| x.is_nan()), "{found:?}");
        // As the term of an objective has it.
        let plans = Arc::new(Spectrum::new(network.layout(), Scope::Flat, Length::Fast));
        let mut term = SpectralDivergence::new(plans, Form::Normalized, 0.1, &w).unwrap();
        let value = crate::Differentiable::add(&mut term, 0.0, &v, &mut vec![0.0; v.len()]);
        assert_eq!(value, at(0.1)[1]);
    }
}
