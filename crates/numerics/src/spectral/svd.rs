//! Singular values and vectors of a matrix by one-sided Jacobi rotations, in `f64`.
//!
//! Rotations of pairs of rows make all rows orthogonal: `Q W = Σ Vᵀ` with `Q = Uᵀ`. It is slower than what
//! begins with a bidiagonal form, and simple, accurate for small values too, and the same bits everywhere.

/// Passes over all pairs at most; a dozen suffice.
const PASSES: usize = 60;
/// Rows count as orthogonal below this cosine.
const TOLERANCE: f64 = 1e-12;

/// A place for matrices of one shape, with at most as many rows as columns.
#[derive(Debug, Clone)]
pub(super) struct Svd {
    rows: usize,
    columns: usize,
    /// Singular values, largest first.
    pub(super) values: Vec<f64>,
    /// `σ_i v_iᵀ`, row by row; row `order[k]` belongs to the `k`-th largest.
    work: Vec<f64>,
    /// `u_iᵀ`, row by row.
    turned: Vec<f64>,
    pub(super) order: Vec<usize>,
}

impl Svd {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        assert!(rows <= columns, "the shorter side comes first");
        Self {
            rows,
            columns,
            values: vec![0.0; rows],
            work: vec![0.0; rows * columns],
            turned: vec![0.0; rows * rows],
            order: (0..rows).collect(),
        }
    }

    /// `σ_k v_kᵀ` for the `k`-th largest value.
    pub(super) fn right(&self, k: usize) -> &[f64] {
        &self.work[self.order[k] * self.columns..][..self.columns]
    }

    /// `u_kᵀ` for the `k`-th largest value.
    pub(super) fn left(&self, k: usize) -> &[f64] {
        &self.turned[self.order[k] * self.rows..][..self.rows]
    }

    /// Decomposes a matrix whose value at `(row, column)` a closure gives. Allocates nothing.
    pub(super) fn decompose(&mut self, at: impl Fn(usize, usize) -> f64) {
        let (rows, columns) = (self.rows, self.columns);
        for (row, values) in self.work.chunks_mut(columns.max(1)).enumerate() {
            values.iter_mut().enumerate().for_each(|(column, x)| *x = at(row, column));
        }
        self.turned.fill(0.0);
        (0..rows).for_each(|i| self.turned[i * rows + i] = 1.0);
        for _ in 0..PASSES {
            let mut turned = false;
            for i in 1..rows {
                for j in 0..i {
                    turned |= self.orthogonalise(j, i);
                }
            }
            if !turned {
                break;
            }
        }
        self.sort();
    }

    /// Turns two rows until they are orthogonal; says whether they were not.
    fn orthogonalise(&mut self, j: usize, i: usize) -> bool {
        let (first, second) = pair(&mut self.work, self.columns, j, i);
        let [alpha, beta, gamma] = products(first, second);
        if gamma.abs() <= TOLERANCE * (alpha * beta).sqrt() || gamma == 0.0 {
            return false;
        }
        let zeta = (beta - alpha) / (2.0 * gamma);
        let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
        let c = 1.0 / (1.0 + t * t).sqrt();
        let s = c * t;
        turn(first, second, c, s);
        let (first, second) = pair(&mut self.turned, self.rows, j, i);
        turn(first, second, c, s);
        true
    }

    /// Values by size, and of equal ones the first row first.
    fn sort(&mut self) {
        let columns = self.columns;
        let work = &self.work;
        let norm = |row: usize| {
            let row = &work[row * columns..][..columns];
            products(row, row)[0].sqrt()
        };
        // In their rows' order, to be sorted by.
        self.values.iter_mut().enumerate().for_each(|(row, value)| *value = norm(row));
        self.order.iter_mut().enumerate().for_each(|(k, row)| *row = k);
        let values = &self.values;
        self.order.sort_unstable_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
        self.values.sort_unstable_by(|a, b| b.total_cmp(a));
    }
}

fn pair(matrix: &mut [f64], columns: usize, j: usize, i: usize) -> (&mut [f64], &mut [f64]) {
    let (low, high) = matrix.split_at_mut(i * columns);
    (&mut low[j * columns..][..columns], &mut high[..columns])
}

/// `⟨a, a⟩`, `⟨b, b⟩` and `⟨a, b⟩`, in lanes: a fixed order that vectorises.
fn products(a: &[f64], b: &[f64]) -> [f64; 3] {
    const LANES: usize = 4;
    let mut sums = [[0.0f64; LANES]; 3];
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_whole.iter().zip(b_whole) {
        for l in 0..LANES {
            sums[0][l] += a[l] * a[l];
            sums[1][l] += b[l] * b[l];
            sums[2][l] += a[l] * b[l];
        }
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        sums[0][0] += a * a;
        sums[1][0] += b * b;
        sums[2][0] += a * b;
    }
    sums.map(|lanes| lanes.iter().sum())
}

fn turn(a: &mut [f64], b: &mut [f64], c: f64, s: f64) {
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (c * *a - s * *b, s * *a + c * *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};

    #[test]
    fn factors_give_the_matrix_again_and_are_orthogonal() {
        let mut rng = Rng::new(4, Stream::Test, 0, 0);
        for (rows, columns) in [(1, 1), (1, 5), (3, 3), (6, 25), (10, 84)] {
            let w: Vec<f64> = (0..rows * columns).map(|_| rng.normal()).collect();
            let mut svd = Svd::new(rows, columns);
            svd.decompose(|r, c| w[r * columns + c]);
            assert!(svd.values.is_sorted_by(|a, b| a >= b));
            for r in 0..rows {
                for c in 0..columns {
                    let sum: f64 = (0..rows).map(|k| svd.left(k)[r] * svd.right(k)[c]).sum();
                    assert!((sum - w[r * columns + c]).abs() < 1e-10);
                }
                for k in 0..rows {
                    let [_, _, left] = products(svd.left(r), svd.left(k));
                    let [_, _, right] = products(svd.right(r), svd.right(k));
                    let one = f64::from(u8::from(r == k));
                    assert!((left - one).abs() < 1e-10);
                    assert!((right - one * svd.values[r].powi(2)).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn known_values_come_out_and_zero_is_no_trouble() {
        let mut svd = Svd::new(2, 2);
        // [[3, 0], [4, 5]] has √45 and √5.
        svd.decompose(|r, c| [3.0, 0.0, 4.0, 5.0][2 * r + c]);
        assert!((svd.values[0] - 45f64.sqrt()).abs() < 1e-12);
        assert!((svd.values[1] - 5f64.sqrt()).abs() < 1e-12);
        svd.decompose(|_, _| 0.0);
        assert_eq!(svd.values, [0.0, 0.0]);
        // Rank one.
        svd.decompose(|r, c| [1.0, 2.0, 2.0, 4.0][2 * r + c]);
        assert!((svd.values[0] - 5.0).abs() < 1e-12 && svd.values[1].abs() < 1e-12);
    }
}
