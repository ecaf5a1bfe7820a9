//! Products of row-major matrices along their contiguous axis, without packing.
//!
//! A fully connected layer at batch 10 reads each weight for ten multiplications: packing the
//! weights would cost more than the product. Both operands are contiguous along the depth, so the
//! sums run in eight lanes over it.

use super::kernel::{dot_sums, vectorised};

/// `y[i, o] = bias[o] + Σ_f x[i, f] w[o, f]`.
pub(crate) fn dot_rows(x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32], depth: usize) {
    // As a whole, because the tails need the fused instruction too.
    vectorised(
        #[inline(always)]
        || rows(x, w, bias, y, depth),
    );
}

#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn rows(x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32], depth: usize) {
    let outputs = bias.len();
    let rows = x.len() / depth;
    let row = |i: usize| &x[i * depth..][..depth];
    let weight = |o: usize| &w[o * depth..][..depth];
    let mut o = 0;
    while o < outputs {
        let wide = outputs - o >= 4;
        let mut i = 0;
        while i < rows {
            let tall = rows - i >= 2;
            match (tall, wide) {
                (true, true) => {
                    let sums = block(
                        [row(i), row(i + 1)],
                        [weight(o), weight(o + 1), weight(o + 2), weight(o + 3)],
                        depth,
                    );
                    store(&sums, bias, y, i, o);
                }
                (false, true) => {
                    let sums = block(
                        [row(i)],
                        [weight(o), weight(o + 1), weight(o + 2), weight(o + 3)],
                        depth,
                    );
                    store(&sums, bias, y, i, o);
                }
                (true, false) => {
                    let sums = block([row(i), row(i + 1)], [weight(o)], depth);
                    store(&sums, bias, y, i, o);
                }
                (false, false) => {
                    let sums = block([row(i)], [weight(o)], depth);
                    store(&sums, bias, y, i, o);
                }
            }
            i += if tall { 2 } else { 1 };
        }
        o += if wide { 4 } else { 1 };
    }
}

#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn block<const MR: usize, const NR: usize>(
    x: [&[f32]; MR],
    w: [&[f32]; NR],
    depth: usize,
) -> [[f32; NR]; MR] {
    let vectors = depth / 8;
    let lanes = dot_sums(x, w, vectors);
    let mut sums = [[0.0; NR]; MR];
    for (i, sums) in sums.iter_mut().enumerate() {
        for (o, sum) in sums.iter_mut().enumerate() {
            // One fixed tree over the lanes, then the tail in order.
            let l = &lanes[i][o];
            let mut total = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
            for f in 8 * vectors..depth {
                total = x[i][f].mul_add(w[o][f], total);
            }
            *sum = total;
        }
    }
    sums
}

#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn store<const MR: usize, const NR: usize>(
    sums: &[[f32; NR]; MR],
    bias: &[f32],
    y: &mut [f32],
    i0: usize,
    o0: usize,
) {
    let outputs = bias.len();
    for (i, sums) in sums.iter().enumerate() {
        for (o, sum) in sums.iter().enumerate() {
            y[(i0 + i) * outputs + o0 + o] = sum + bias[o0 + o];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};

    #[test]
    fn agrees_with_the_definition() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        for (rows, outputs, depth) in [(1, 1, 1), (3, 4, 8), (10, 7, 37), (5, 10, 84), (2, 3, 5)] {
            let x: Vec<f32> = (0..rows * depth).map(|_| rng.normal() as f32).collect();
            let w: Vec<f32> = (0..outputs * depth).map(|_| rng.normal() as f32).collect();
            let bias: Vec<f32> = (0..outputs).map(|_| rng.normal() as f32).collect();
            let mut y = vec![0.0; rows * outputs];
            dot_rows(&x, &w, &bias, &mut y, depth);
            for i in 0..rows {
                for o in 0..outputs {
                    let want: f64 = (0..depth)
                        .map(|f| f64::from(x[i * depth + f]) * f64::from(w[o * depth + f]))
                        .sum::<f64>()
                        + f64::from(bias[o]);
                    assert!((f64::from(y[i * outputs + o]) - want).abs() < 1e-4);
                }
            }
        }
    }
}
