//! The geometric median.
//!
//! Pillutla, Kakade, Harchaoui: *Robust Aggregation for Federated Learning*, IEEE Transactions on Signal
//! Processing 70, 2022 (RFA).
//!
//! - `argmin_v Σ α_k ‖v − w_k‖` with `α_k = n_k / Σ n_k`, by the smoothed algorithm of Weiszfeld: from the weighted
//!   mean, `β_k = α_k / max(ν, ‖v − w_k‖)` and `v ← Σ β_k w_k / Σ β_k`, so many times
//!
//! It weighs by samples, as published, and withstands attackers with less than half of the weight. `ν = 1e-6`.
//! Without a step it is the weighted mean. Distances are of what was trained; statistics are the medians of all
//! uploads'.

use super::{Uploads, order};
use formant_methods::{MethodError, Treatment};
use formant_numerics::vector::{WeightedMean, distance_squared};

/// `ν`: nothing counts as nearer.
const SMOOTHING: f64 = 1e-6;

pub(super) fn geometric_median(
    uploads: &mut Uploads<'_>,
    steps: usize,
) -> Result<Vec<f32>, MethodError> {
    let mut beta = uploads.weights.to_vec();
    for _ in 0..steps {
        // The point of the step before, block by block, and how far everybody is from it.
        let mut squares = vec![0.0; uploads.len()];
        for group in uploads.groups().into_iter().filter(|group| !group.is_statistics) {
            uploads.spool.for_each_block(group.coordinates, |_, rows| {
                let point = weighted(rows, &beta);
                for (square, row) in squares.iter_mut().zip(rows) {
                    *square += distance_squared(row, &point);
                }
            })?;
        }
        for ((beta, alpha), square) in beta.iter_mut().zip(uploads.weights).zip(squares) {
            *beta = alpha / square.sqrt().max(SMOOTHING);
        }
    }
    // A number of samples more counts for more; what is far away counts for less of it.
    let counts: Vec<f64> =
        beta.iter().zip(uploads.weights).map(|(beta, alpha)| beta / alpha).collect();
    let usual = order::middle(&mut counts.clone());
    uploads.judge(Treatment::WeighedDown, counts.iter().map(|count| count / usual));
    let mut combined = Vec::new();
    for group in uploads.groups() {
        if group.is_statistics {
            combined.extend(order::medians(uploads, group.coordinates)?);
            continue;
        }
        uploads.spool.for_each_block(group.coordinates, |_, rows| {
            combined.extend(weighted(rows, &beta));
        })?;
    }
    Ok(combined)
}

fn weighted(rows: &[&[f32]], weights: &[f64]) -> Vec<f32> {
    let mut sum = WeightedMean::new(rows.first().map_or(0, |row| row.len()));
    rows.iter().zip(weights).for_each(|(row, weight)| sum.add(*weight, row));
    sum.finish().unwrap_or_default()
}
