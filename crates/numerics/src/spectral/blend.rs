//! Interpolation of two models, band of frequencies by band of frequencies.
//!
//! `w(β) = F⁻¹[Σ_b ((1 − β_b) ŵ + β_b v̂)]`, from `w` (all `β_b = 0`) to `v` (all 1). The transform is linear, so this is
//! `w + F⁻¹[Σ_b β_b (v − w)^_b]`: one forward and one inverse real transform of the difference. A bin and its mirror image
//! always move together, so the result is real.
//!
//! Transforms have the length of what they transform, also where that is slow. Of a spectrum that was sampled at more
//! frequencies ([`Length::Fast`](super::Length)) a band does not come back as a vector that is zero behind the parameters;
//! cutting off what lies there is another filter, by which a wave moves with the `β` of other bands too.

use super::plan::Scope;
use super::truncation::kept_entries;
use crate::{Layout, NumericsError, Part, vector};
use core::ops::Range;
use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Moves one parameter vector towards another, each band of frequencies by a share of its own.
///
/// ```
/// use formant_numerics::{Layout, Scope, SpectralBlend};
/// // Two bands of the five frequencies of eight numbers: the mean, and all others.
/// let mut blend = SpectralBlend::new(&Layout::single(8), Scope::Flat, &[0.2], false)?;
/// let mut w = [0.0f32; 8];
/// let towards = [3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0];
/// blend.blend(&mut w, &towards, &[1.0, 0.0]);
/// // The mean has arrived, and nothing of the wave around it.
/// assert!(w.iter().all(|x| (x - 2.0).abs() < 1e-6));
/// # Ok::<(), formant_numerics::NumericsError>(())
/// ```
#[derive(Clone)]
pub struct SpectralBlend {
    /// What is transformed, all of it: the body, or everything.
    waves: Range<usize>,
    /// What is interpolated as it is, by the last `β`.
    head: Option<Range<usize>>,
    /// Of `waves`; none where there is one band.
    transforms: Vec<Banded>,
    bands: usize,
    real: Vec<f32>,
    bins: Vec<Complex32>,
    scratch: Vec<Complex32>,
}

#[derive(Clone)]
struct Banded {
    range: Range<usize>,
    /// Where the bins of each band end.
    ends: Vec<usize>,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
}

impl core::fmt::Debug for SpectralBlend {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SpectralBlend of {} bands", self.bands)?;
        f.write_str(if self.head.is_some() { " and the head" } else { "" })
    }
}

impl SpectralBlend {
    /// For models of a layout, by one transform of everything or, with [`Scope::PerLayer`], one of each tensor.
    ///
    /// `edges` are where a band ends and the next one begins, rising, as shares of the frequencies from the lowest (0, the
    /// mean) to the highest (1): `B − 1` of them make `B` bands, none makes one. The lowest band of a transform has the
    /// mean at least; others of short transforms may be empty. With `head_apart` the head is no part of any transform; it is
    /// interpolated as it is, by a `β` of its own.
    pub fn new(
        layout: &Layout,
        scope: Scope,
        edges: &[f64],
        head_apart: bool,
    ) -> Result<Self, NumericsError> {
        let rising = edges.is_sorted_by(|a, b| a < b);
        if !rising || !edges.iter().all(|edge| *edge > 0.0 && *edge < 1.0) {
            return Err(NumericsError::Edges { edges: edges.to_vec() });
        }
        let waves = layout.range(if head_apart { Part::Body } else { Part::All });
        let ranges: Vec<Range<usize>> = match scope {
            _ if edges.is_empty() => Vec::new(),
            Scope::PerLayer => {
                let tensors = layout.tensors().iter().map(|tensor| tensor.range.clone());
                tensors.filter(|range| range.end <= waves.end).collect()
            }
            _ => core::iter::once(waves.clone()).collect(),
        };
        let mut planner = RealFftPlanner::new();
        let plan = |range: Range<usize>| {
            let half = range.len() / 2 + 1;
            let mut ends: Vec<usize> = edges.iter().map(|edge| kept_entries(*edge, half)).collect();
            ends.push(half);
            let forward = planner.plan_fft_forward(range.len());
            let inverse = planner.plan_fft_inverse(range.len());
            Banded { range, ends, forward, inverse }
        };
        let transforms: Vec<Banded> =
            ranges.into_iter().filter(|range| !range.is_empty()).map(plan).collect();
        let most = |of: fn(&Banded) -> usize| transforms.iter().map(of).max().unwrap_or(0);
        Ok(Self {
            head: head_apart.then(|| layout.range(Part::Head)),
            bands: edges.len() + 1,
            real: vec![0.0; most(|t| t.range.len())],
            bins: vec![Complex32::default(); most(|t| t.range.len() / 2 + 1)],
            scratch: vec![
                Complex32::default();
                most(|t| t.forward.get_scratch_len().max(t.inverse.get_scratch_len()))
            ],
            waves,
            transforms,
        })
    }

    /// How many shares a blend takes: one for each band from the lowest to the highest, and if the head is apart, one for it.
    pub fn shares(&self) -> usize {
        self.bands + usize::from(self.head.is_some())
    }

    /// `w ← F⁻¹[Σ_b ((1 − β_b) ŵ + β_b v̂)]` with `towards` as `v`, and the head apart if it is.
    ///
    /// One `β` for all bands is [`vector::interpolate`], without a transform: nothing happens at 0, and at 1 `w` becomes
    /// `towards`, bit for bit. Nothing is allocated.
    pub fn blend(&mut self, w: &mut [f32], towards: &[f32], betas: &[f32]) {
        assert_eq!(w.len(), towards.len());
        assert_eq!(betas.len(), self.shares());
        let (bands, head) = betas.split_at(self.bands);
        if let (Some(range), [beta]) = (&self.head, head) {
            vector::interpolate(*beta, &towards[range.clone()], &mut w[range.clone()]);
        }
        if bands.iter().all(|beta| *beta == bands[0]) {
            let range = self.waves.clone();
            vector::interpolate(bands[0], &towards[range.clone()], &mut w[range]);
        } else {
            self.filter(w, towards, bands);
        }
    }

    /// The blend of what is transformed.
    fn filter(&mut self, w: &mut [f32], towards: &[f32], betas: &[f32]) {
        for transform in &self.transforms {
            let (w, v) = (&mut w[transform.range.clone()], &towards[transform.range.clone()]);
            let n = w.len();
            let (real, bins) = (&mut self.real[..n], &mut self.bins[..=n / 2]);
            for (difference, (w, v)) in real.iter_mut().zip(w.iter().zip(v)) {
                *difference = v - w;
            }
            let there = transform.forward.process_with_scratch(real, bins, &mut self.scratch);
            let mut from = 0;
            for (end, beta) in transform.ends.iter().zip(betas) {
                for bin in &mut bins[from..*end] {
                    // The library's transforms there and back are `N` times the identity.
                    *bin *= beta / n as f32;
                }
                from = *end;
            }
            // Real in theory, and the way back insists on it.
            bins[0].im = 0.0;
            if n.is_multiple_of(2) {
                bins[n / 2].im = 0.0;
            }
            let back = transform.inverse.process_with_scratch(bins, real, &mut self.scratch);
            debug_assert!(there.is_ok() && back.is_ok(), "the lengths are the plan's own");
            vector::axpy(1.0, real, w);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, Rng, Shape, Stream};
    use core::f64::consts::TAU;

    fn draw(n: usize, seed: u64) -> Vec<f32> {
        let mut rng = Rng::new(seed, Stream::Test, 0, 0);
        (0..n).map(|_| rng.normal() as f32).collect()
    }

    /// Three tensors, the last of them the head.
    fn layout() -> Layout {
        let mut layout = Layout::default();
        layout.push("one.weight", &[4, 5], Part::Body);
        layout.push("one.bias", &[9], Part::Body);
        layout.push("two.weight", &[2, 6], Part::Head);
        layout
    }

    /// The definition, in double precision and over the full spectrum: every entry of `N` by the share of its own frequency.
    fn by_definition(w: &[f32], v: &[f32], share: impl Fn(usize) -> f64) -> Vec<f64> {
        let n = w.len();
        let bin = |x: &[f32], k: usize| {
            x.iter().enumerate().fold((0.0, 0.0), |(re, im), (i, x)| {
                let angle = -TAU * ((k * i) % n) as f64 / n as f64;
                (re + f64::from(*x) * angle.cos(), im + f64::from(*x) * angle.sin())
            })
        };
        let mixed: Vec<(f64, f64)> = (0..n)
            .map(|k| {
                let (a, b, beta) = (bin(w, k), bin(v, k), share(k.min(n - k)));
                ((1.0 - beta) * a.0 + beta * b.0, (1.0 - beta) * a.1 + beta * b.1)
            })
            .collect();
        let back = |i: usize| {
            let sum = mixed.iter().enumerate().map(|(k, (re, im))| {
                let angle = TAU * ((k * i) % n) as f64 / n as f64;
                re * angle.cos() - im * angle.sin()
            });
            sum.sum::<f64>() / n as f64
        };
        (0..n).map(back).collect()
    }

    fn close(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            assert!((f64::from(*got) - want).abs() < 4e-6, "{i}: {got} and {want}");
        }
    }

    #[test]
    fn it_is_what_the_definition_says() {
        let betas = [0.25, 1.0, 0.0];
        for n in [1, 2, 3, 8, 45, 64, 97] {
            let (w, v) = (draw(n, 1), draw(n, 2));
            let half = n / 2 + 1;
            let mut blend =
                SpectralBlend::new(&Layout::single(n), Scope::Flat, &[0.1, 0.5], false).unwrap();
            let mut got = w.clone();
            blend.blend(&mut got, &v, &betas);
            let share = |k| match () {
                () if k < kept_entries(0.1, half) => 0.25,
                () if k < kept_entries(0.5, half) => 1.0,
                () => 0.0,
            };
            close(&got, &by_definition(&w, &v, share));
        }
    }

    #[test]
    fn a_transform_may_be_each_tensors_own_and_the_head_apart() {
        let layout = layout();
        let (w, v) = (draw(41, 3), draw(41, 4));
        let share = |half: usize| move |k| if k < kept_entries(0.4, half) { 0.75 } else { 0.25 };
        let mut expected = by_definition(&w[..20], &v[..20], share(11));
        expected.extend(by_definition(&w[20..29], &v[20..29], share(5)));
        let plain = w.iter().zip(&v).map(|(w, v)| f64::from(*w) + 0.5 * f64::from(v - w));
        expected.extend(plain.skip(29));
        let mut blend = SpectralBlend::new(&layout, Scope::PerLayer, &[0.4], true).unwrap();
        assert_eq!(blend.shares(), 3);
        let mut got = w.clone();
        blend.blend(&mut got, &v, &[0.75, 0.25, 0.5]);
        close(&got, &expected);

        // Over the body at once.
        let mut blend = SpectralBlend::new(&layout, Scope::Flat, &[0.4], true).unwrap();
        let mut got = w.clone();
        blend.blend(&mut got, &v, &[0.75, 0.25, 0.5]);
        let mut flat = by_definition(&w[..29], &v[..29], share(15));
        flat.extend_from_slice(&expected[29..]);
        close(&got, &flat);
    }

    #[test]
    fn one_share_for_all_is_plain_interpolation() {
        let network = NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10).unwrap();
        let d = network.layout().parameters();
        let (w, v) = (draw(d, 5), draw(d, 6));
        for scope in [Scope::Flat, Scope::PerLayer] {
            for (edges, apart) in [(&[][..], false), (&[][..], true), (&[0.1, 0.5][..], true)] {
                let mut blend = SpectralBlend::new(network.layout(), scope, edges, apart).unwrap();
                for beta in [0.0, 0.25, 0.5, 1.0] {
                    let (mut got, mut plain) = (w.clone(), w.clone());
                    blend.blend(&mut got, &v, &vec![beta; blend.shares()]);
                    vector::interpolate(beta, &v, &mut plain);
                    assert_eq!(got, plain, "bit for bit");
                    assert!(beta != 0.0 || got == w);
                    assert!(beta != 1.0 || got == v);
                }
            }
            // By way of the transforms it is the same, up to rounding.
            let mut blend = SpectralBlend::new(network.layout(), scope, &[0.1], false).unwrap();
            for beta in [0.0, 0.25, 1.0] {
                let (mut got, mut plain) = (w.clone(), w.clone());
                blend.filter(&mut got, &v, &[beta, beta]);
                vector::interpolate(beta, &v, &mut plain);
                let worst = got.iter().zip(&plain).map(|(a, b)| (a - b).abs());
                assert!(worst.fold(0.0, f32::max) < 1e-5);
            }
        }
    }

    #[test]
    fn a_wave_moves_with_its_own_band_alone() {
        let n = 90;
        let wave = |k: usize, phase: f64| -> Vec<f32> {
            (0..n).map(|i| (TAU * (k * i) as f64 / n as f64 + phase).sin() as f32).collect()
        };
        let mut blend =
            SpectralBlend::new(&Layout::single(n), Scope::Flat, &[0.25, 0.75], false).unwrap();
        // 46 bins: 0..12, 12..35, 35..46.
        for (k, band) in [(0, 0), (11, 0), (12, 1), (34, 1), (35, 2), (45, 2)] {
            let mut betas = [0.0; 3];
            betas[band] = 0.5;
            for (betas, expected) in [(betas, 0.5), (betas.map(|beta| 0.5 - beta), 0.0)] {
                let mut w = vec![0.0; n];
                let v = wave(k, 1.0);
                blend.blend(&mut w, &v, &betas);
                let want: Vec<f64> = v.iter().map(|v| expected * f64::from(*v)).collect();
                close(&w, &want);
            }
        }
    }

    #[test]
    fn calls_leave_nothing_behind() {
        let (w, v) = (draw(41, 7), draw(41, 8));
        let new = || SpectralBlend::new(&layout(), Scope::PerLayer, &[0.3], false).unwrap();
        let once = |blend: &mut SpectralBlend| {
            let mut got = w.clone();
            blend.blend(&mut got, &v, &[1.0, 0.0]);
            got
        };
        let mut used = new();
        used.blend(&mut w.clone(), &draw(41, 9), &[0.3, 0.9]);
        assert_eq!(once(&mut used), once(&mut new()));
        assert_eq!(once(&mut used.clone()), once(&mut new()));
    }

    #[test]
    fn edges_rise_between_nothing_and_everything() {
        for edges in [&[0.0][..], &[1.0], &[0.5, 0.5], &[0.5, 0.2], &[f64::NAN], &[-0.1]] {
            let refused = SpectralBlend::new(&layout(), Scope::Flat, edges, false);
            assert!(matches!(refused, Err(NumericsError::Edges { .. })), "{edges:?}");
        }
    }
}
