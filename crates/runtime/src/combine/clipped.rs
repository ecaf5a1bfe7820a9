//! The mean of clipped updates.
//!
//! Sun, Kairouz, Suresh, McMahan: *Can You Really Backdoor Federated Learning?*, 2019 (arXiv:1911.07963).
//!
//! - `w ← w + Σ n_k min(1, M / ‖Δ_k‖) Δ_k / Σ n_k` with `Δ_k = w_k − w`
//!
//! The paper sets `M` by hand. Here `M = clip · median_k ‖Δ_k‖` of the round, so that it follows the updates as
//! they shrink and does not grow with `w`; half of the clients would have to conspire to move it at will.
//! Statistics are clipped by a norm and a median of their own: they go a share of the way from the server's to
//! the client's and stay what averages can be. Without a bound this is the weighted mean, bit for bit.

use super::Uploads;
use super::order::middle;
use formant_methods::{MethodError, Treatment};
use formant_numerics::vector::WeightedMean;

/// `Σ n_k w_k / Σ n_k`.
pub(super) fn mean(uploads: &mut Uploads<'_>) -> Result<Vec<f32>, MethodError> {
    let ones = [vec![1.0; uploads.len()], vec![1.0; uploads.len()]];
    shortened(uploads, &ones)
}

pub(super) fn clipped(uploads: &mut Uploads<'_>, clip: f64) -> Result<Vec<f32>, MethodError> {
    // Of what was trained, and of statistics.
    let mut squares = [vec![0.0; uploads.len()], vec![0.0; uploads.len()]];
    for group in uploads.groups() {
        let (start, squares) =
            (group.coordinates.start, &mut squares[usize::from(group.is_statistics)]);
        let reference = reference_at(uploads, start);
        uploads.spool.for_each_block(group.coordinates, |begin, rows| {
            for (square, row) in squares.iter_mut().zip(rows) {
                let from = &reference[begin - start..];
                *square += formant_numerics::vector::distance_squared(row, &from[..row.len()]);
            }
        })?;
    }
    let factors: [Vec<f64>; 2] = squares.map(|squares| {
        let norms: Vec<f64> = squares.iter().map(|square| square.sqrt()).collect();
        let most = clip * middle(&mut norms.clone());
        // An update of length 0 is never too long.
        norms.iter().map(|norm| if *norm <= most { 1.0 } else { most / norm }).collect()
    });
    let [trained, statistics] = &factors;
    let least =
        trained.iter().zip(statistics).map(|(trained, statistics)| trained.min(*statistics));
    uploads.judge(Treatment::Clipped, least);
    shortened(uploads, &factors)
}

/// The broadcast's vector that begins at a coordinate.
fn reference_at<'r>(uploads: &Uploads<'r>, start: usize) -> &'r [f32] {
    let mut begin = 0;
    let found = uploads.round.reference.iter().find(|vector| {
        let here = begin == start && !vector.is_empty();
        begin += vector.len();
        here
    });
    found.map_or(&[], |vector| vector)
}

/// The weighted mean of uploads that go a share of their way, one share for what was trained and one for
/// statistics.
fn shortened(uploads: &mut Uploads<'_>, factors: &[Vec<f64>; 2]) -> Result<Vec<f32>, MethodError> {
    let mut combined = Vec::new();
    for group in uploads.groups() {
        let start = group.coordinates.start;
        let factors = &factors[usize::from(group.is_statistics)];
        let reference = reference_at(uploads, start);
        let mut shorter = Vec::new();
        let weights = uploads.weights;
        uploads.spool.for_each_block(group.coordinates, |begin, rows| {
            let from = &reference[begin - start..];
            let mut sum = WeightedMean::new(rows.first().map_or(0, |row| row.len()));
            for ((row, weight), factor) in rows.iter().zip(weights).zip(factors) {
                if *factor >= 1.0 {
                    sum.add(*weight, row);
                    continue;
                }
                shorter.clear();
                shorter.extend(row.iter().zip(from).map(|(x, w)| {
                    let w = f64::from(*w);
                    (w + factor * (f64::from(*x) - w)) as f32
                }));
                sum.add(*weight, &shorter);
            }
            combined.extend(sum.finish().unwrap_or_default());
        })?;
    }
    Ok(combined)
}
