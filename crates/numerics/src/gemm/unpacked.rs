//! Products of small matrices that lie in cache: nothing is packed.

use super::kernel::{Steps, Strides, unpacked_product};
use super::{Extents, Target, WIDTH};

/// `A`: element `(i, k)` at `i * row + k * depth`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) row: usize,
    pub(crate) depth: usize,
}

/// `B` in groups of sixteen columns: element `(k, j)` at `j/16 * group + k * depth + j%16`.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) group: usize,
    pub(crate) depth: usize,
}

/// Which loop is outside: what stays in the first-level cache while the other side runs by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outer {
    /// A few rows of `A` and of `C`: where a row of `C` is long.
    Rows,
    /// One group of columns of `B`: where `B` is large.
    Groups,
}

/// `C (+)= A·B` with `A` of `m × k` and `B` of `k × n`, `n` a multiple of sixteen. Each sum runs
/// over the whole depth in order, whichever loop is outside.
pub(crate) fn multiply_unpacked(
    Extents { m, n, k }: Extents,
    outer: Outer,
    a: Rows<'_>,
    b: Groups<'_>,
    Target { data, row_stride, accumulate }: Target<'_>,
) {
    assert!(n.is_multiple_of(WIDTH), "columns come in groups of {WIDTH}");
    let strides = Strides {
        rows: m,
        groups: n / WIDTH,
        depth: k,
        a: Steps { lane: a.row, depth: a.depth },
        b: Steps { lane: b.group, depth: b.depth },
        c: row_stride,
        accumulate,
        rows_outside: outer == Outer::Rows,
    };
    unpacked_product(a.data, b.data, data, strides);
}

#[cfg(test)]
mod tests {
    use super::super::kernel::with_portable;
    use super::*;
    use crate::{Rng, Stream};

    #[test]
    fn agrees_with_the_definition_on_both_paths() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        for (m, n, k) in [(1, 16, 1), (25, 64, 32), (7, 32, 9), (50, 16, 100), (6, 48, 3)] {
            let a: Vec<f32> = (0..m * k).map(|_| rng.normal() as f32).collect();
            let b: Vec<f32> = (0..n * k).map(|_| rng.normal() as f32).collect();
            for (transposed, outer) in [(false, Outer::Rows), (true, Outer::Groups)] {
                for accumulate in [false, true] {
                    let (row, depth) = if transposed { (1, m) } else { (k, 1) };
                    let run = || {
                        let mut c = vec![0.5; m * n];
                        multiply_unpacked(
                            Extents { m, n, k },
                            outer,
                            Rows { data: &a, row, depth },
                            Groups { data: &b, group: 16, depth: n },
                            Target { data: &mut c, row_stride: n, accumulate },
                        );
                        c
                    };
                    let c = run();
                    assert_eq!(c, with_portable(run));
                    for i in 0..m {
                        for j in 0..n {
                            let sum: f64 = (0..k)
                                .map(|p| {
                                    f64::from(a[i * row + p * depth]) * f64::from(b[p * n + j])
                                })
                                .sum();
                            let want = sum + if accumulate { 0.5 } else { 0.0 };
                            assert!((f64::from(c[i * n + j]) - want).abs() < 1e-4);
                        }
                    }
                }
            }
        }
    }
}
