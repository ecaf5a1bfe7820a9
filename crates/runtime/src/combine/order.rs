//! Medians and trimmed means of each coordinate.
//!
//! Yin, Chen, Ramchandran, Bartlett: *Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates*,
//! ICML 2018.
//!
//! - median: each coordinate is the median of the uploads'; of an even number the mean of the middle two
//! - trimmed mean: each coordinate is the mean of what is left of the uploads' without the `⌊βm⌋` smallest and
//!   the `⌊βm⌋` greatest of `m`
//!
//! Both withstand fewer than half, or a share `β`, of clients that send anything. Neither weighs: every client
//! counts the same, whatever it claims. `β = 0` is the unweighted mean, bit for bit.

use super::Uploads;
use formant_methods::{MethodError, Treatment};
use formant_numerics::vector::WeightedMean;

pub(super) fn median(uploads: &mut Uploads<'_>) -> Result<Vec<f32>, MethodError> {
    let all = 0..uploads.groups().last().map_or(0, |group| group.coordinates.end);
    medians(uploads, all)
}

/// The medians of some coordinates.
pub(super) fn medians(
    uploads: &mut Uploads<'_>,
    coordinates: std::ops::Range<usize>,
) -> Result<Vec<f32>, MethodError> {
    let mut combined = Vec::with_capacity(coordinates.len());
    let mut column = Vec::with_capacity(uploads.len());
    uploads.spool.for_each_block(coordinates, |_, rows| {
        for at in 0..rows.first().map_or(0, |row| row.len()) {
            column.clear();
            column.extend(rows.iter().map(|row| f64::from(row[at])));
            combined.push(middle(&mut column) as f32);
        }
    })?;
    Ok(combined)
}

pub(super) fn trimmed_mean(uploads: &mut Uploads<'_>, trim: f64) -> Result<Vec<f32>, MethodError> {
    let groups = uploads.groups();
    let all = 0..groups.last().map_or(0, |group| group.coordinates.end);
    let count = uploads.len();
    // A tenth of thirty is three, whatever rounding says.
    let out = (trim * count as f64 + 1e-9).floor() as usize;
    let mut combined = Vec::with_capacity(all.len());
    let mut column: Vec<f32> = Vec::with_capacity(count);
    let (is_judged, numbers) = (uploads.is_judged(), all.len());
    let mut cut = vec![0_usize; count];
    uploads.spool.for_each_block(all, |_, rows| {
        let width = rows.first().map_or(0, |row| row.len());
        if out == 0 {
            // In client order, as every mean is summed.
            let mut sum = WeightedMean::new(width);
            for row in rows {
                sum.add(1.0, row);
            }
            combined.extend(sum.finish().unwrap_or_default());
            return;
        }
        for at in 0..width {
            column.clear();
            column.extend(rows.iter().map(|row| row[at]));
            column.sort_unstable_by(f32::total_cmp);
            let left = &column[out..count - out];
            let sum: f64 = left.iter().map(|x| f64::from(*x)).sum();
            combined.push((sum / left.len() as f64) as f32);
            if let (true, Some(least), Some(most)) = (is_judged, left.first(), left.last()) {
                for (cut, row) in cut.iter_mut().zip(rows) {
                    let (below, above) = (row[at].total_cmp(least), row[at].total_cmp(most));
                    *cut += usize::from(below.is_lt() || above.is_gt());
                }
            }
        }
    })?;
    let kept = cut.iter().map(|cut| 1.0 - *cut as f64 / numbers.max(1) as f64);
    uploads.judge(Treatment::Trimmed, kept);
    Ok(combined)
}

/// The median of some numbers, which it sorts; 0 of none.
pub(super) fn middle(numbers: &mut [f64]) -> f64 {
    let count = numbers.len();
    numbers.sort_unstable_by(f64::total_cmp);
    match numbers.get(count / 2) {
        None => 0.0,
        Some(upper) if count % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(numbers[count / 2 - 1], *upper),
    }
}
