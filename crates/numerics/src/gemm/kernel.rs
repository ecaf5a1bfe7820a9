//! The register tiles: the only module with `unsafe`, for the vector instructions.
#![expect(unsafe_code, reason = "vector intrinsics and a run-time choice of instruction set")]

mod lanes;
mod pool;
mod shifted;
mod simd;
mod sparse;
mod unpacked;

use super::WIDTH;
pub(crate) use lanes::{deinterleave, interleave};
pub(crate) use pool::PairRow;
pub(crate) use shifted::{ShiftedRow, Shifts};
pub(crate) use simd::{LaneWork, Lanes, with_lanes};
pub(crate) use sparse::Entries;
pub(super) use unpacked::{Steps, Strides, unpacked_product};

/// The part of a tile that lies inside the target.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    /// Add to what is there instead of replacing it.
    pub(super) accumulate: bool,
}

/// A register tile of sixteen columns, bound to the instruction set that this machine has.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    fused: bool,
}

/// Whether the vector path may run.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_fused() -> bool {
    #[cfg(test)]
    if PORTABLE.get() {
        return false;
    }
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Whether the vector path may run.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_fused() -> bool {
    false
}

#[cfg(test)]
std::thread_local! {
    static PORTABLE: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Runs `work` with the vector path switched off, to compare the two.
#[cfg(test)]
pub(crate) fn with_portable<T>(work: impl FnOnce() -> T) -> T {
    PORTABLE.set(true);
    let result = work();
    PORTABLE.set(false);
    result
}

impl Tile {
    /// The best tile for this machine.
    pub(super) fn best() -> Self {
        Self { fused: has_fused() }
    }

    /// Adds (or writes) the product of two packed panels, of height `MR` and width 16.
    #[inline]
    pub(super) fn run<const MR: usize>(self, a: &[f32], b: &[f32], c: &mut [f32], extent: Extent) {
        let depth = a.len() / MR;
        assert!(a.len() == depth * MR && b.len() == depth * WIDTH);
        assert!(extent.rows <= MR && extent.columns <= WIDTH && extent.rows > 0);
        assert!((extent.rows - 1) * extent.row_stride + extent.columns <= c.len());
        #[cfg(target_arch = "x86_64")]
        if self.fused {
            // SAFETY: `fused` says that AVX2 and FMA are present; the assertions above bound every
            // pointer the tile forms: `depth` rows of both panels, `extent` inside `c`.
            unsafe { x86::tile::<MR>(depth, a, b, c, extent) };
            return;
        }
        portable::<MR>(a, b, c, extent);
    }
}

/// The same sums in the same order, for machines without the vector path.
fn portable<const MR: usize>(a: &[f32], b: &[f32], c: &mut [f32], extent: Extent) {
    let mut sums = [[0.0f32; WIDTH]; MR];
    for (a, b) in a.chunks_exact(MR).zip(b.chunks_exact(WIDTH)) {
        for (row, &x) in sums.iter_mut().zip(a) {
            for (sum, &y) in row.iter_mut().zip(b) {
                *sum = x.mul_add(y, *sum);
            }
        }
    }
    store_part(&sums, c, extent);
}

/// Writes the part of a tile that lies inside the target.
fn store_part<const MR: usize>(sums: &[[f32; WIDTH]; MR], c: &mut [f32], extent: Extent) {
    for (i, row) in sums.iter().enumerate().take(extent.rows) {
        let out = &mut c[i * extent.row_stride..][..extent.columns];
        for (c, sum) in out.iter_mut().zip(row) {
            *c = if extent.accumulate { *c + sum } else { *sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Extent, WIDTH, store_part};
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    /// # Safety
    /// AVX2 and FMA must be present; `a` holds `depth * MR` values, `b` holds `depth * 16`, and
    /// `extent` lies inside `c`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn tile<const MR: usize>(
        depth: usize,
        a: &[f32],
        b: &[f32],
        c: &mut [f32],
        extent: Extent,
    ) {
        let mut sums = [[_mm256_setzero_ps(); 2]; MR];
        let mut a = a.as_ptr();
        let mut b = b.as_ptr();
        // SAFETY: by the contract, `depth` steps of MR and 16 values stay inside the panels.
        unsafe {
            for _ in 0..depth {
                let (left, right) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = _mm256_broadcast_ss(&*a.add(i));
                    sums[0] = _mm256_fmadd_ps(x, left, sums[0]);
                    sums[1] = _mm256_fmadd_ps(x, right, sums[1]);
                }
                a = a.add(MR);
                b = b.add(WIDTH);
            }
        }
        if extent.rows == MR && extent.columns == WIDTH {
            for (i, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    // SAFETY: a full tile lies inside `c` by the contract.
                    unsafe {
                        let out = c.as_mut_ptr().add(i * extent.row_stride + 8 * v);
                        let value = if extent.accumulate {
                            _mm256_add_ps(_mm256_loadu_ps(out), *sum)
                        } else {
                            *sum
                        };
                        _mm256_storeu_ps(out, value);
                    }
                }
            }
            return;
        }
        let mut spilled = [[0.0f32; WIDTH]; MR];
        for (sums, row) in sums.iter().zip(&mut spilled) {
            // SAFETY: `row` holds sixteen values.
            unsafe {
                _mm256_storeu_ps(row.as_mut_ptr(), sums[0]);
                _mm256_storeu_ps(row.as_mut_ptr().add(8), sums[1]);
            }
        }
        store_part(&spilled, c, extent);
    }
}

/// Eight running sums of `MR x NR` dot products over whole vectors of eight; see [`super::dot`].
pub(super) type DotSums<const MR: usize, const NR: usize> = [[[f32; 8]; NR]; MR];

/// Lane sums of all dot products between `MR` rows of `x` and `NR` rows of `w`, over the first
/// `8 * vectors` values of each.
#[inline]
pub(super) fn dot_sums<const MR: usize, const NR: usize>(
    x: [&[f32]; MR],
    w: [&[f32]; NR],
    vectors: usize,
) -> DotSums<MR, NR> {
    assert!(x.iter().chain(&w).all(|row| row.len() >= 8 * vectors));
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        // SAFETY: AVX2 and FMA are present and every row holds `8 * vectors` values.
        return unsafe { dot_avx2(x, w, vectors) };
    }
    let mut sums = [[[0.0f32; 8]; NR]; MR];
    for v in 0..vectors {
        for (sums, x) in sums.iter_mut().zip(&x) {
            for (sums, w) in sums.iter_mut().zip(&w) {
                for l in 0..8 {
                    sums[l] = x[8 * v + l].mul_add(w[8 * v + l], sums[l]);
                }
            }
        }
    }
    sums
}

/// # Safety
/// AVX2 and FMA must be present; every row holds `8 * vectors` values.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dot_avx2<const MR: usize, const NR: usize>(
    x: [&[f32]; MR],
    w: [&[f32]; NR],
    vectors: usize,
) -> DotSums<MR, NR> {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    let mut sums = [[_mm256_setzero_ps(); NR]; MR];
    for v in 0..vectors {
        let mut ws = [_mm256_setzero_ps(); NR];
        for (lanes, row) in ws.iter_mut().zip(&w) {
            // SAFETY: `v < vectors`, so eight values from `8 * v` lie inside the row.
            *lanes = unsafe { _mm256_loadu_ps(row.as_ptr().add(8 * v)) };
        }
        for (sums, row) in sums.iter_mut().zip(&x) {
            // SAFETY: as above.
            let xs = unsafe { _mm256_loadu_ps(row.as_ptr().add(8 * v)) };
            for (sum, w) in sums.iter_mut().zip(ws) {
                *sum = _mm256_fmadd_ps(xs, w, *sum);
            }
        }
    }
    let mut out = [[[0.0f32; 8]; NR]; MR];
    for (out, sums) in out.iter_mut().flatten().zip(sums.iter().flatten()) {
        // SAFETY: `out` holds eight values.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sums) };
    }
    out
}

/// A stretch of lanes that is contiguous in an image.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    pub(super) lane: usize,
    pub(super) from: usize,
    pub(super) len: usize,
}

/// For every shift, copies all runs, moved by it, into a packed row of `width` lanes.
///
/// Copies go in whole vectors: what one writes beyond its run is overwritten by the next run or row,
/// and the last row runs into the slack behind the panel.
pub(super) fn copy_runs(
    image: &[f32],
    runs: &[Run],
    shifts: &[usize],
    width: usize,
    out: &mut [f32],
) {
    let (false, Some(shift)) = (runs.is_empty(), shifts.iter().max()) else { return };
    // Of all runs, in whatever order they come: each is copied in whole vectors.
    let furthest = |begin: fn(&Run) -> usize| {
        runs.iter().map(|run| begin(run) + run.len.next_multiple_of(8)).max().unwrap_or(0)
    };
    let (reach, end) = (furthest(|run| run.from), furthest(|run| run.lane));
    assert!(reach + shift <= image.len(), "a window reaches past the slack of its image");
    assert!(runs.iter().all(|run| run.lane + run.len <= width));
    assert!((shifts.len() - 1) * width + end.max(width) <= out.len(), "panel without slack");
    vectorised(
        #[inline(always)]
        || {
            let mut out = out.as_mut_ptr();
            for shift in shifts {
                for run in runs {
                    // SAFETY: the assertions bound `shift + from + len`, rounded up to whole vectors,
                    // inside the image, and every row's furthest lane inside the panel.
                    unsafe {
                        let from = image.as_ptr().add(shift + run.from);
                        let to = out.add(run.lane);
                        if run.len <= 4 {
                            to.cast::<[f32; 4]>()
                                .write_unaligned(from.cast::<[f32; 4]>().read_unaligned());
                            continue;
                        }
                        let mut done = 0;
                        while done < run.len {
                            let value = from.add(done).cast::<[f32; 8]>().read_unaligned();
                            to.add(done).cast::<[f32; 8]>().write_unaligned(value);
                            done += 8;
                        }
                    }
                }
                // SAFETY: one row further is still inside, or one past the end after the last.
                out = unsafe { out.add(width) };
            }
        },
    );
}

/// Runs element-wise work compiled for the best instruction set of this machine.
///
/// The closure's body is inlined into a function with AVX2 switched on, so that plain loops
/// vectorise to eight lanes. Rust never contracts `a * b + c`, so the bits do not change.
#[inline]
pub(crate) fn vectorised<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2<T>(work: impl FnOnce() -> T) -> T {
            work()
        }
        if has_fused() {
            // SAFETY: AVX2 and FMA are present.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

/// Rows become columns.
///
/// Never inlined: the plain form, or one that the compiler may mix with the arithmetic around it,
/// compiles to three times as many shuffles.
pub(crate) fn transpose(tile: &mut [[f32; 8]; 8]) {
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        // SAFETY: AVX2 is present.
        unsafe { transpose_avx2(tile) };
        return;
    }
    *tile = core::array::from_fn(|l| core::array::from_fn(|i| tile[i][l]));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn transpose_avx2(tile: &mut [[f32; 8]; 8]) {
    use std::arch::x86_64::{
        __m256, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    let rows: [__m256; 8] = tile.map(bytemuck::cast);
    // Columns of two rows, then of four, inside each half; then the halves.
    let mut two = rows;
    for i in [0, 2, 4, 6] {
        two[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        two[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    let mut four = two;
    for i in [0, 4] {
        for j in [0, 1] {
            let (upper, lower) = (two[i + j], two[i + j + 2]);
            four[i + 2 * j] = _mm256_shuffle_ps::<0x44>(upper, lower);
            four[i + 2 * j + 1] = _mm256_shuffle_ps::<0xee>(upper, lower);
        }
    }
    let mut columns = four;
    for l in 0..4 {
        columns[l] = _mm256_permute2f128_ps::<0x20>(four[l], four[l + 4]);
        columns[l + 4] = _mm256_permute2f128_ps::<0x31>(four[l], four[l + 4]);
    }
    *tile = columns.map(bytemuck::cast);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs whose copies end where the first one's do: it is the last lane, but not the last run.
    const RUNS: [Run; 2] = [Run { lane: 8, from: 0, len: 9 }, Run { lane: 0, from: 0, len: 8 }];

    #[test]
    fn runs_are_copied_with_every_shift() {
        let image: Vec<f32> = (0..32).map(|x| x as f32).collect();
        let mut out = vec![0.0; 17 + 24];
        copy_runs(&image, &RUNS, &[0, 3], 17, &mut out);
        for (row, shift) in [(&out[..17], 0.0), (&out[17..34], 3.0)] {
            let lanes = (0..8).chain(0..9).map(|x| x as f32 + shift);
            // The run that comes last may reach into lanes of an earlier one; these do not.
            assert!(row.iter().copied().eq(lanes), "{row:?}");
        }
    }

    #[test]
    #[should_panic(expected = "panel without slack")]
    fn a_panel_must_have_room_for_the_furthest_copy_of_any_run() {
        // Enough for both rows and for the copies of the last run, not for those of the first.
        copy_runs(&[0.0; 32], &RUNS, &[0], 17, &mut [0.0; 23]);
    }

    #[test]
    #[should_panic(expected = "past the slack of its image")]
    fn an_image_must_have_room_for_the_furthest_copy_of_any_run() {
        copy_runs(&[0.0; 15], &RUNS, &[0], 17, &mut [0.0; 64]);
    }
}
