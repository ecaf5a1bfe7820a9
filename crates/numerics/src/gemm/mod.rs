//! Matrix products over operands that pack themselves.
//!
//! `C (+)= A·B` in the BLIS manner: blocks of the depth are packed into narrow panels and a
//! register tile runs over them. There are two reasons for our own driver instead of the `gemm`
//! crate: an operand here may be a *convolution window* that is packed straight from the image,
//! so that no column matrix is ever written ([`Windows`]); and nothing is allocated, because the
//! panels live in the caller's [`Panels`]. The benchmark `matmul` compares the two.
//!
//! The sum over the depth runs in one fixed order (blocks of [`DEPTH_BLOCK`], fused multiply-add
//! inside a block), for every tile and instruction set: results are the same bits on every
//! machine.

mod dot;
mod kernel;
mod operand;
mod unpacked;

pub(crate) use dot::dot_rows;
#[cfg(test)]
pub(crate) use kernel::with_portable;
pub(crate) use kernel::{
    Entries, LaneWork, Lanes, PairRow, ShiftedRow, Shifts, deinterleave, interleave, transpose,
    vectorised, with_lanes,
};
pub(crate) use operand::{Operand, Span, Strided, Windows, WindowsTransposed};
pub(crate) use unpacked::{Groups, Outer, Rows, multiply_unpacked};

/// Depth of one packed block. Part of the results: it fixes the order of summation.
const DEPTH_BLOCK: usize = 256;
/// Columns of `B` packed at a time, a multiple of the tile's width.
const COLUMN_BLOCK: usize = 480;
/// Rows of `A` packed at a time, a multiple of the tile's height.
const ROW_BLOCK: usize = 144;
/// Width of the register tile.
pub(crate) const WIDTH: usize = 16;
/// Windows are copied in whole vectors that may run past the end of a panel by less than this.
pub(crate) const SLACK: usize = 32;

/// Reusable packing buffers, one per worker.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Panels {
    /// Buffers of the fixed size that every product fits in.
    pub(crate) fn new() -> Self {
        Self {
            a: vec![0.0; DEPTH_BLOCK * ROW_BLOCK + SLACK],
            b: vec![0.0; DEPTH_BLOCK * COLUMN_BLOCK + SLACK],
        }
    }
}

/// How large a product is: `A` is `m × k`, `B` is `k × n`, `C` is `m × n`.
#[derive(Debug, Clone, Copy)]
pub struct Extents {
    /// Rows of `A` and `C`.
    pub m: usize,
    /// Columns of `B` and `C`.
    pub n: usize,
    /// The depth: columns of `A`, rows of `B`.
    pub k: usize,
}

/// Where a product goes: element `(i, j)` at `i * row_stride + j`.
pub(crate) struct Target<'a> {
    /// The storage.
    pub(crate) data: &'a mut [f32],
    /// Distance between rows.
    pub(crate) row_stride: usize,
    /// Add to what is there instead of replacing it.
    pub(crate) accumulate: bool,
}

/// `C (+)= A·B` with `A` of `m` lanes, `B` of `n` lanes, both of depth `k`.
pub(crate) fn multiply(
    Extents { m, n, k }: Extents,
    a: &impl Operand,
    b: &impl Operand,
    target: Target<'_>,
    panels: &mut Panels,
) {
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    assert!((m - 1) * target.row_stride + n <= target.data.len(), "product larger than its target");
    let tile = kernel::Tile::best();
    let Target { data, row_stride, accumulate } = target;
    for j0 in (0..n).step_by(COLUMN_BLOCK) {
        let columns = COLUMN_BLOCK.min(n - j0);
        for k0 in (0..k).step_by(DEPTH_BLOCK) {
            let block = Span { from: k0, len: DEPTH_BLOCK.min(k - k0) };
            let depth = block.len;
            for j in (0..columns).step_by(WIDTH) {
                let lanes = Span { from: j0 + j, len: WIDTH.min(columns - j) };
                b.pack::<WIDTH>(lanes, block, &mut panels.b[j * depth..]);
            }
            for i0 in (0..m).step_by(ROW_BLOCK) {
                let rows = ROW_BLOCK.min(m - i0);
                for (i, height) in heights(rows) {
                    let lanes = Span { from: i0 + i, len: height.min(rows - i) };
                    let out = &mut panels.a[i * depth..];
                    match height {
                        6 => a.pack::<6>(lanes, block, out),
                        _ => a.pack::<4>(lanes, block, out),
                    }
                }
                for j in (0..columns).step_by(WIDTH) {
                    let b_panel = &panels.b[j * depth..][..WIDTH * depth];
                    for (i, height) in heights(rows) {
                        let a_panel = &panels.a[i * depth..][..height * depth];
                        let extent = kernel::Extent {
                            rows: height.min(rows - i),
                            columns: WIDTH.min(columns - j),
                            row_stride,
                            accumulate: accumulate || k0 > 0,
                        };
                        let out = &mut data[(i0 + i) * row_stride + j0 + j..];
                        match height {
                            6 => tile.run::<6>(a_panel, b_panel, out, extent),
                            _ => tile.run::<4>(a_panel, b_panel, out, extent),
                        }
                    }
                }
            }
        }
    }
}

/// Covers `rows` with tiles of height six, or four where that wastes less; yields each tile's
/// first row and height.
pub(crate) fn heights(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut i = 0;
    core::iter::from_fn(move || {
        let left = rows.checked_sub(i).filter(|left| *left > 0)?;
        let height = if left <= 4 || left == 7 || left == 8 { 4 } else { 6 };
        i += height;
        Some((i - height, height))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};

    fn random(len: usize, client: u64) -> Vec<f32> {
        let mut rng = Rng::new(1, Stream::Test, 0, client);
        (0..len).map(|_| rng.normal() as f32).collect()
    }

    #[test]
    fn agrees_with_the_definition_for_awkward_sizes() {
        let mut panels = Panels::new();
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (4, 24, 256),
            (6, 16, 257),
            (7, 25, 300),
            (145, 481, 513),
            (10, 512, 40),
            (64, 33, 1),
        ] {
            let a = random(m * k, 1);
            let b = random(k * n, 2);
            let stride = n + 3;
            let start = random(m * stride, 3);
            for accumulate in [false, true] {
                let mut c = start.clone();
                multiply(
                    Extents { m, n, k },
                    &Strided { data: &a, lane: k, depth: 1 },
                    &Strided { data: &b, lane: 1, depth: n },
                    Target { data: &mut c, row_stride: stride, accumulate },
                    &mut panels,
                );
                for i in 0..m {
                    for j in 0..n {
                        let sum: f64 =
                            (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j])).sum();
                        let want =
                            sum + if accumulate { f64::from(start[i * stride + j]) } else { 0.0 };
                        let got = f64::from(c[i * stride + j]);
                        assert!(
                            (got - want).abs() < 1e-4 * (k as f64).sqrt(),
                            "{m}x{n}x{k} ({i},{j}): {got} for {want}"
                        );
                    }
                    if i + 1 < m {
                        // The gap between rows stays as it is.
                        assert_eq!(
                            c[i * stride + n..(i + 1) * stride],
                            start[i * stride + n..(i + 1) * stride]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_portable_path_gives_the_same_bits() {
        let (m, n, k) = (13, 50, 600);
        let (a, b) = (random(m * k, 1), random(k * n, 2));
        let mut panels = Panels::new();
        let mut run = || {
            let mut c = vec![0.0; m * n];
            multiply(
                Extents { m, n, k },
                &Strided { data: &a, lane: k, depth: 1 },
                &Strided { data: &b, lane: 1, depth: n },
                Target { data: &mut c, row_stride: n, accumulate: false },
                &mut panels,
            );
            c
        };
        let fast = run();
        assert_eq!(fast, kernel::with_portable(run));
    }

    #[test]
    fn tiles_cover_every_row_once() {
        for rows in 1..100 {
            let mut next = 0;
            for (i, height) in heights(rows) {
                assert_eq!(i, next);
                next += height;
            }
            assert!(next >= rows && next <= rows + 3, "{rows} rows covered by {next}");
        }
    }
}
