//! The vector as a matrix: transforms of its columns, and the plan of the whole.

use super::butterfly::Point;
use super::stages::Stages;
use super::{Bins, LANES, Lanes};
use crate::gemm::{transpose, vectorised};
use core::ops::Range;

/// Columns that go through one complex transform: eight as real parts, eight as imaginary parts.
/// They are one cache line of the vector.
pub(super) const STRIP: usize = 2 * LANES;

/// Strips that are read together, because each row of the matrix lies in another page of memory.
const STRIPS: usize = 4;

/// Shorter vectors are left to the library: most of the work would go to the edges.
pub(super) const SHORTEST: usize = 1 << 15;

/// A planned transform of `N = R·C` real numbers; see the module's page for the notation.
pub(in crate::spectral) struct Matrix {
    /// `R` and `C`.
    rows: usize,
    columns: usize,
    /// Groups of eight rows; the last ones may be partly empty.
    groups: usize,
    down: Stages,
    along: Stages,
    /// Where `down` leaves frequency `r` and its mirror image `R − r`, per row of a group.
    places: Vec<[u32; 2]>,
    /// `½ w_N^{r·n}` at the first column `n` of each strip, by strip and group.
    coarse: Vec<Bins>,
    /// `w_N^{r·n}` for the columns `n` of the first strip, by group.
    fine: Vec<[Bins; STRIP]>,
}

/// Rows and columns of the matrix: `R` and `C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::spectral) struct Dimensions {
    pub(in crate::spectral) rows: usize,
    pub(in crate::spectral) columns: usize,
}

impl Dimensions {
    /// `N`.
    pub(in crate::spectral) fn len(self) -> usize {
        self.rows * self.columns
    }
}

/// The matrix for a vector of length `d`, if it is long enough: `R` is the largest power of two up
/// to `0.6 √d`, so that eight rows and a few strips of columns both fit in a core's cache, and `C`
/// the smallest multiple of 16 without a prime factor above five for which `R·C ≥ d`.
///
/// The padded length is part of an experiment's results: this rule must not depend on the machine.
pub(in crate::spectral) fn shape(d: usize) -> Option<Dimensions> {
    if d < SHORTEST {
        return None;
    }
    let most = 3 * d.isqrt() / 5;
    let rows = 1 << most.ilog2();
    Some(Dimensions { rows, columns: STRIP * smooth(d.div_ceil(STRIP * rows)) })
}

/// The smallest number from `n` without a prime factor above five.
pub(in crate::spectral) fn smooth(n: usize) -> usize {
    let is_smooth = |n: &usize| {
        let divided = |n: usize, p: usize| {
            core::iter::successors(Some(n), |n| n.is_multiple_of(p).then_some(n / p))
                .last()
                .unwrap_or(n)
        };
        [2, 3, 5].into_iter().fold(*n, divided) == 1
    };
    let n = n.max(1);
    (n..n.next_power_of_two()).find(is_smooth).unwrap_or(n.next_power_of_two())
}

impl Matrix {
    /// Plans `rows · columns` numbers, as [`shape`] gives them.
    pub(in crate::spectral) fn new(Dimensions { rows, columns }: Dimensions) -> Self {
        assert!(rows.is_power_of_two() && rows >= 2 && columns.is_multiple_of(STRIP));
        let (down, along) = (Stages::new(rows), Stages::new(columns));
        let groups = (rows / 2 + 1).div_ceil(LANES);
        let mut place = vec![0; rows];
        for (position, frequency) in (0..).zip(down.frequencies()) {
            place[frequency] = position;
        }
        // Lanes without a row repeat row 0; they are never read.
        let row = |at: usize| if at <= rows / 2 { at } else { 0 };
        let turn = |group: usize, n: usize, factor: f32| {
            let mut bins = Bins::default();
            for l in 0..LANES {
                let root = Point::root(row(LANES * group + l) * n, rows * columns);
                (bins.re.0[l], bins.im.0[l]) = (factor * root.re, factor * root.im);
            }
            bins
        };
        Self {
            places: (0..LANES * groups)
                .map(|at| [place[row(at)], place[(rows - row(at)) % rows]])
                .collect(),
            coarse: (0..columns / STRIP)
                .flat_map(|strip| (0..groups).map(move |g| turn(g, STRIP * strip, 0.5)))
                .collect(),
            fine: (0..groups).map(|g| core::array::from_fn(|n| turn(g, n, 1.0))).collect(),
            rows,
            columns,
            groups,
            down,
            along,
        }
    }

    /// Elements of eight bins that a spectrum takes: `C` per group of rows.
    pub(in crate::spectral) fn blocks(&self) -> usize {
        self.groups * self.columns
    }

    /// Elements of working memory.
    pub(in crate::spectral) fn scratch(&self) -> usize {
        STRIPS * self.rows
    }

    /// `N`.
    pub(in crate::spectral) fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// Elements of a group.
    pub(in crate::spectral) fn columns(&self) -> usize {
        self.columns
    }

    /// `R`.
    pub(in crate::spectral) fn rows(&self) -> usize {
        self.rows
    }

    /// Which `c` stands at each position of a group after [`Matrix::split_rows`].
    pub(in crate::spectral) fn frequencies(&self) -> Vec<usize> {
        self.along.frequencies()
    }

    /// Rows of a group, after [`Matrix::split_columns`]; the group's bins are then final.
    pub(in crate::spectral) fn split_rows(&self, group: &mut [Bins]) {
        self.along.split(group);
    }

    /// The inverse of [`Matrix::split_rows`].
    pub(in crate::spectral) fn join_rows(&self, group: &mut [Bins]) {
        self.along.join(group);
    }

    /// `y_r[n] w_N^{rn}` for all rows, of `x` with zeros behind it.
    pub(in crate::spectral) fn split_columns(
        &self,
        x: &[f32],
        scratch: &mut [Bins],
        bins: &mut [Bins],
    ) {
        self.split_columns_of(|strips, scratch| self.gather(x, strips, scratch), scratch, bins);
    }

    /// The same of a vector that something else gathers: `R` elements per strip, whose real parts are its
    /// first eight columns and whose imaginary parts are the others.
    pub(in crate::spectral) fn split_columns_of(
        &self,
        mut gather: impl FnMut(Range<usize>, &mut [Bins]),
        scratch: &mut [Bins],
        bins: &mut [Bins],
    ) {
        for strips in self.strips() {
            gather(strips.clone(), scratch);
            for columns in scratch.chunks_exact_mut(self.rows).take(strips.len()) {
                self.down.split(columns);
            }
            vectorised(
                #[inline(always)]
                || {
                    for (group, bins) in bins.chunks_exact_mut(self.columns).enumerate() {
                        for (strip, columns) in strips.clone().zip(scratch.chunks_exact(self.rows))
                        {
                            self.separate(columns, strip, group, bins);
                        }
                    }
                },
            );
        }
    }

    /// Adds `Re Σ_{r ≤ R/2} w_R^{rj} w_N^{rn} b_r[n]` to `x[j·C + n]`.
    pub(in crate::spectral) fn join_columns(
        &self,
        bins: &[Bins],
        scratch: &mut [Bins],
        x: &mut [f32],
    ) {
        self.join_columns_to(bins, scratch, |scratch, strips| self.scatter(scratch, strips, x));
    }

    /// The same for something else that takes the strips.
    pub(in crate::spectral) fn join_columns_to(
        &self,
        bins: &[Bins],
        scratch: &mut [Bins],
        mut scatter: impl FnMut(&[Bins], Range<usize>),
    ) {
        for strips in self.strips() {
            vectorised(
                #[inline(always)]
                || {
                    for (group, bins) in bins.chunks_exact(self.columns).enumerate() {
                        for (strip, columns) in
                            strips.clone().zip(scratch.chunks_exact_mut(self.rows))
                        {
                            self.merge(bins, strip, group, columns);
                        }
                    }
                },
            );
            for columns in scratch.chunks_exact_mut(self.rows).take(strips.len()) {
                self.down.join(columns);
            }
            scatter(scratch, strips);
        }
    }

    /// Strips, a few at a time.
    fn strips(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let all = self.columns / STRIP;
        (0..all).step_by(STRIPS).map(move |first| first..all.min(first + STRIPS))
    }

    /// Copies strips of the matrix: scratch holds one column of `R` elements per strip.
    fn gather(&self, x: &[f32], strips: Range<usize>, scratch: &mut [Bins]) {
        vectorised(
            #[inline(always)]
            || {
                let mut lines = x.chunks(self.columns);
                for j in 0..self.rows {
                    let line = lines.next().unwrap_or_default();
                    for (i, strip) in strips.clone().enumerate() {
                        let to = &mut scratch[i * self.rows + j];
                        let from = line.get(STRIP * strip..).unwrap_or_default();
                        if let Some(from) = from.first_chunk::<STRIP>() {
                            to.re.0.copy_from_slice(&from[..LANES]);
                            to.im.0.copy_from_slice(&from[LANES..]);
                        } else {
                            // Where the vector ends, and behind it.
                            let mut padded = [0.0; STRIP];
                            padded[..from.len()].copy_from_slice(from);
                            to.re.0.copy_from_slice(&padded[..LANES]);
                            to.im.0.copy_from_slice(&padded[LANES..]);
                        }
                    }
                }
            },
        );
    }

    /// The inverse of [`Matrix::gather`], adding.
    fn scatter(&self, scratch: &[Bins], strips: Range<usize>, x: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || {
                for (j, line) in x.chunks_mut(self.columns).enumerate() {
                    for (i, strip) in strips.clone().enumerate() {
                        let from = &scratch[i * self.rows + j];
                        let line = line.get_mut(STRIP * strip..).unwrap_or_default();
                        if let Some(line) = line.first_chunk_mut::<STRIP>() {
                            let (left, right) = line.split_at_mut(LANES);
                            for (x, from) in left.iter_mut().zip(from.re.0) {
                                *x += from;
                            }
                            for (x, from) in right.iter_mut().zip(from.im.0) {
                                *x += from;
                            }
                        } else {
                            for (x, from) in line.iter_mut().zip(from.re.0.iter().chain(&from.im.0))
                            {
                                *x += from;
                            }
                        }
                    }
                }
            },
        );
    }

    /// From the transform `s` of `x + iy`, both real: `2x_r = s_r + conj s_{R−r}` and
    /// `2y_r = −i (s_r − conj s_{R−r})`, twiddled, for the eight rows of a group; lanes change from
    /// columns to rows on the way.
    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn separate(&self, columns: &[Bins], strip: usize, group: usize, bins: &mut [Bins]) {
        let mut tiles = [[[0.0; LANES]; LANES]; 4];
        let [x_re, x_im, y_re, y_im] = &mut tiles;
        for (i, [here, mirror]) in self.group_places(group).iter().enumerate() {
            let (s, m) = (columns[*here as usize], columns[*mirror as usize]);
            (x_re[i], x_im[i]) = ((s.re + m.re).0, (s.im - m.im).0);
            (y_re[i], y_im[i]) = ((s.im + m.im).0, (m.re - s.re).0);
        }
        tiles.iter_mut().for_each(transpose);
        let (fine, coarse) = (&self.fine[group], self.coarse[strip * self.groups + group]);
        let bins = &mut bins[STRIP * strip..][..STRIP];
        for (half, tiles) in tiles.as_chunks::<2>().0.iter().enumerate() {
            let [re, im] = tiles;
            for n in 0..LANES {
                let at = LANES * half + n;
                bins[at] = Bins { re: Lanes(re[n]), im: Lanes(im[n]) } * (fine[at] * coarse);
            }
        }
    }

    /// The inverse of [`Matrix::separate`]: places `½(x_r + i y_r)` and its mirror image
    /// `½(conj x_r + i conj y_r)`, whose transform is `Re(…) + i Re(…)`.
    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn merge(&self, bins: &[Bins], strip: usize, group: usize, columns: &mut [Bins]) {
        let (fine, coarse) = (&self.fine[group], self.coarse[strip * self.groups + group]);
        let bins = &bins[STRIP * strip..][..STRIP];
        let mut tiles = [[[0.0; LANES]; LANES]; 4];
        for (half, tiles) in tiles.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let [re, im] = tiles;
            for n in 0..LANES {
                let at = LANES * half + n;
                let turned = bins[at] * (fine[at] * coarse);
                (re[n], im[n]) = (turned.re.0, turned.im.0);
            }
        }
        tiles.iter_mut().for_each(transpose);
        let [x_re, x_im, y_re, y_im] = &tiles;
        let filled = (self.rows / 2 + 1 - LANES * group).min(LANES);
        for (i, [here, mirror]) in self.group_places(group).iter().enumerate().take(filled) {
            let [x_re, x_im, y_re, y_im] = [x_re, x_im, y_re, y_im].map(
                #[inline(always)]
                |tile| Lanes(tile[i]),
            );
            let s = Bins { re: x_re - y_im, im: x_im + y_re };
            let m = Bins { re: x_re + y_im, im: y_re - x_im };
            if here == mirror {
                columns[*here as usize] = s + m;
            } else {
                columns[*here as usize] = s;
                columns[*mirror as usize] = m;
            }
        }
    }

    #[inline]
    fn group_places(&self, group: usize) -> &[[u32; 2]] {
        &self.places[LANES * group..][..LANES]
    }
}
