//! Fourier plans for a layout, and the bookkeeping of which bins a truncation keeps.

use crate::{Layout, NumericsError, Part};
use core::ops::Range;
use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Over which vectors the transform runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One transform of all parameters: the paper's.
    #[default]
    Flat,
    /// One transform per parameter tensor, concatenated; "low frequency" then stays inside a layer.
    PerLayer,
}

/// One transform: a range of the parameters and a range of the bins.
pub(super) struct Segment {
    pub(super) range: Range<usize>,
    pub(super) bins: Range<usize>,
    pub(super) forward: Arc<dyn RealToComplex<f32>>,
    pub(super) inverse: Arc<dyn ComplexToReal<f32>>,
}

/// Planned transforms of exactly the right lengths, shared by every phase of a worker.
pub struct Spectrum {
    pub(super) segments: Vec<Segment>,
    scratch: usize,
    longest: usize,
}

impl core::fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Spectrum of {} transforms, {} bins", self.segments.len(), self.bins())
    }
}

impl Spectrum {
    /// Plans the transforms for a layout.
    pub fn new(layout: &Layout, scope: Scope) -> Self {
        let ranges: Vec<Range<usize>> = match scope {
            Scope::Flat => core::iter::once(layout.range(Part::All)).collect(),
            Scope::PerLayer => layout.tensors().iter().map(|t| t.range.clone()).collect(),
        };
        let mut planner = RealFftPlanner::<f32>::new();
        let (mut segments, mut bin) = (Vec::new(), 0);
        for range in ranges.into_iter().filter(|r| !r.is_empty()) {
            let bins = bin..bin + range.len() / 2 + 1;
            bin = bins.end;
            segments.push(Segment {
                forward: planner.plan_fft_forward(range.len()),
                inverse: planner.plan_fft_inverse(range.len()),
                range,
                bins,
            });
        }
        let need = |s: &Segment| s.forward.get_scratch_len().max(s.inverse.get_scratch_len());
        Self {
            scratch: segments.iter().map(need).max().unwrap_or(0),
            longest: segments.iter().map(|s| s.range.len()).max().unwrap_or(0),
            segments,
        }
    }

    /// Half-spectrum bins of all transforms.
    pub fn bins(&self) -> usize {
        self.segments.last().map_or(0, |s| s.bins.end)
    }

    /// For each bin, how many of its entries the truncation keeps (0, 1 or 2).
    pub(super) fn counts(&self, tau: f64) -> Result<Vec<u8>, NumericsError> {
        if !(tau > 0.0 && tau <= 1.0) {
            return Err(NumericsError::Truncation { tau });
        }
        let mut counts = Vec::with_capacity(self.bins());
        for segment in &self.segments {
            let d = segment.range.len();
            let kept = kept_entries(tau, d);
            counts.extend((0..segment.bins.len()).map(|k| {
                let mirrored = multiplicity(k, d) == 2 && d - k < kept;
                u8::from(k < kept) + u8::from(mirrored)
            }));
        }
        Ok(counts)
    }

    /// Buffers for one term.
    pub(super) fn buffers(&self) -> Buffers {
        Buffers {
            real: vec![0.0; self.longest],
            bins: vec![Complex32::default(); self.bins()],
            scratch: vec![Complex32::default(); self.scratch],
        }
    }

    /// Transforms `w` into `buffers.bins`.
    pub(super) fn transform(&self, w: &[f32], buffers: &mut Buffers) {
        for segment in &self.segments {
            let real = &mut buffers.real[..segment.range.len()];
            real.copy_from_slice(&w[segment.range.clone()]);
            let outcome = segment.forward.process_with_scratch(
                real,
                &mut buffers.bins[segment.bins.clone()],
                &mut buffers.scratch,
            );
            debug_assert!(outcome.is_ok(), "the lengths are the plan's own");
        }
    }

    /// Transforms `buffers.bins` back, unnormalised, and adds the result to `gradient`.
    pub(super) fn add_inverse(&self, buffers: &mut Buffers, gradient: &mut [f32]) {
        for segment in &self.segments {
            let bins = &mut buffers.bins[segment.bins.clone()];
            // These two are real by symmetry; rounding must not make the transform refuse them.
            bins[0].im = 0.0;
            if segment.range.len().is_multiple_of(2) {
                bins[segment.range.len() / 2].im = 0.0;
            }
            let real = &mut buffers.real[..segment.range.len()];
            let outcome = segment.inverse.process_with_scratch(bins, real, &mut buffers.scratch);
            debug_assert!(outcome.is_ok(), "the lengths are the plan's own");
            crate::vector::axpy(1.0, real, &mut gradient[segment.range.clone()]);
        }
    }
}

/// Working memory of one term.
#[derive(Debug)]
pub(super) struct Buffers {
    real: Vec<f32>,
    pub(super) bins: Vec<Complex32>,
    scratch: Vec<Complex32>,
}

/// `⌈τd⌉`, robust against `0.07 · 100 = 7.000000000000001`.
pub(super) fn kept_entries(tau: f64, d: usize) -> usize {
    let exact = tau * d as f64;
    let nearest = exact.round();
    let kept =
        if (exact - nearest).abs() <= 1e-9 * nearest.max(1.0) { nearest } else { exact.ceil() };
    (kept as usize).clamp(1, d)
}

/// Entries of the full vector that bin `k` of a transform of length `d` stands for.
pub(super) fn multiplicity(k: usize, d: usize) -> u8 {
    if k == 0 || 2 * k == d { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_is_exact_for_every_ratio() {
        assert_eq!(kept_entries(0.07, 100), 7);
        assert_eq!(kept_entries(0.3, 10), 3);
        assert_eq!(kept_entries(0.301, 10), 4);
        assert_eq!(kept_entries(1e-9, 10), 1);
        assert_eq!(kept_entries(1.0, 878_538), 878_538);
        for d in 1..40 {
            let spectrum = Spectrum::new(&Layout::single(d), Scope::Flat);
            for kept in 1..=d {
                let tau = kept as f64 / d as f64;
                let counts = spectrum.counts(tau).unwrap();
                assert_eq!(
                    counts.iter().map(|c| *c as usize).sum::<usize>(),
                    kept,
                    "d {d}, kept {kept}"
                );
            }
            assert!(spectrum.counts(0.0).is_err() && spectrum.counts(1.1).is_err());
            assert!(spectrum.counts(f64::NAN).is_err());
        }
    }
}
