//! Algebra on flat slices. Sums accumulate in `f64`: a model has millions of entries.

use crate::gemm::vectorised;

/// `y += a x`.
pub fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    vectorised(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y += a * x;
            }
        },
    );
}

/// `w += β (v − w)`: nothing at 0, and exactly `v` at 1.
///
/// ```
/// let mut w = [0.0, 2.0];
/// formant_numerics::vector::interpolate(0.25, &[4.0, 2.0], &mut w);
/// assert_eq!(w, [1.0, 2.0]);
/// ```
pub fn interpolate(beta: f32, v: &[f32], w: &mut [f32]) {
    assert_eq!(v.len(), w.len());
    // What the formula would only nearly do.
    if beta == 0.0 {
        return;
    }
    if beta == 1.0 {
        w.copy_from_slice(v);
        return;
    }
    vectorised(
        #[inline(always)]
        || {
            for (w, v) in w.iter_mut().zip(v) {
                *w += beta * (v - *w);
            }
        },
    );
}

/// `x *= a`.
pub fn scale(a: f32, x: &mut [f32]) {
    for x in x {
        *x *= a;
    }
}

/// `Σ x y`.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    assert_eq!(x.len(), y.len());
    sum_by(x.len(), |i| f64::from(x[i]) * f64::from(y[i]))
}

/// `‖x‖²`.
pub fn norm_squared(x: &[f32]) -> f64 {
    dot(x, x)
}

/// `‖x‖`.
pub fn norm(x: &[f32]) -> f64 {
    norm_squared(x).sqrt()
}

/// `‖x − y‖²`.
pub fn distance_squared(x: &[f32], y: &[f32]) -> f64 {
    assert_eq!(x.len(), y.len());
    sum_by(x.len(), |i| {
        let d = f64::from(x[i]) - f64::from(y[i]);
        d * d
    })
}

/// Whether every value is a finite number. It is checked for every model after every phase, so there is
/// no branch per value: the loop vectorises.
pub fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let finite = |block: &[f32]| {
        !block.iter().fold(false, |found, x| found | (x.to_bits() & EXPONENT == EXPONENT))
    };
    values.chunks(4_096).all(finite)
}

/// Sums in eight interleaved lanes: a fixed order that vectorises.
#[inline]
fn sum_by(len: usize, term: impl Fn(usize) -> f64) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; 8];
            let whole = len / 8 * 8;
            for i in (0..whole).step_by(8) {
                for (l, lane) in lanes.iter_mut().enumerate() {
                    *lane += term(i + l);
                }
            }
            let mut total: f64 = lanes.iter().sum();
            for i in whole..len {
                total += term(i);
            }
            total
        },
    )
}

/// A running weighted mean of vectors, in `f64`, in the order in which they are added.
///
/// ```
/// use formant_numerics::vector::WeightedMean;
/// let mut mean = WeightedMean::new(2);
/// mean.add(1.0, &[1.0, 0.0]);
/// mean.add(3.0, &[5.0, 4.0]);
/// assert_eq!(mean.finish(), Some(vec![4.0, 3.0]));
/// ```
#[derive(Debug, Clone)]
pub struct WeightedMean {
    sum: Vec<f64>,
    weight: f64,
}

impl WeightedMean {
    /// The mean of nothing yet.
    pub fn new(len: usize) -> Self {
        Self { sum: vec![0.0; len], weight: 0.0 }
    }

    /// Adds one vector.
    pub fn add(&mut self, weight: f64, x: &[f32]) {
        assert_eq!(x.len(), self.sum.len());
        self.weight += weight;
        let sum = &mut self.sum;
        vectorised(
            #[inline(always)]
            || {
                for (sum, x) in sum.iter_mut().zip(x) {
                    *sum += weight * f64::from(*x);
                }
            },
        );
    }

    /// The mean, or `None` if the weights do not add up to a positive number.
    pub fn finish(self) -> Option<Vec<f32>> {
        let weight = self.weight;
        (weight > 0.0).then(|| self.sum.into_iter().map(|s| (s / weight) as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_lose_small_terms() {
        let mut x = vec![1.0f32; 1 << 20];
        x[0] = 1e4;
        assert_eq!(norm_squared(&x), 1e8 + ((1 << 20) - 1) as f64);
        assert_eq!(dot(&x, &x), norm_squared(&x));
        assert_eq!(distance_squared(&x, &x), 0.0);
        assert_eq!(norm(&[3.0, 4.0]), 5.0);
    }

    #[test]
    fn the_mean_of_one_is_itself_bit_for_bit() {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32).sin() * 1e-3).collect();
        let mut mean = WeightedMean::new(x.len());
        mean.add(100.0, &x);
        assert_eq!(mean.finish().unwrap(), x);
        assert_eq!(WeightedMean::new(3).finish(), None);
    }

    #[test]
    fn axpy_and_scale() {
        let mut y = vec![1.0, 2.0, 3.0];
        axpy(2.0, &[1.0, 0.0, -1.0], &mut y);
        scale(0.5, &mut y);
        assert_eq!(y, [1.5, 1.0, 0.5]);
    }
}
