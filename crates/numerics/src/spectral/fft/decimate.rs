//! The lowest frequencies of a long vector, by way of a short one.
//!
//! Of `X_k = Σ_n x_n e^{−2πi kn/N}` a narrow band needs only `k < K`, with `K` far below `N/2`. So the numbers are [halved](super::halve), as
//! often as they can be, and only what is left is transformed. What every step did to frequency `k` is divided out:
//!
//! - halved `s` times: `y_m = Σ_n h(n − 2^s m) x_n` for `m` from a little before 0 to a little behind `N/2^s`
//! - a length that has the halves `M = N/2^s` is done: what hangs over its ends wraps around the circle, and `X_k = Y_k / H(k/N)`
//! - of any other length, Kaiser and Bessel's kernel `φ` spreads them over the `M` points of a quick length on the same circle (as in
//!   [`super::resample`]): `z_m = Σ_j y_j φ(j·2^s·M/N − m)` and `X_k = Z_k / (H(k/N) φ̂(k/M))`
//!
//! Of the frequencies that fold onto entry `k`, each halving lets through 3.5e-7 at most, and the kernel over ten points 5e-7 at the
//! band's edge (`k/M = ⅓`) and less than single precision rounds a little below: all in all bins of random numbers are off by 4e-8 to
//! 2.3e-7 in the root mean square. The way back is the transposed map: the same weights, in reverse order.
//!
//! Halving goes in blocks that stay in the nearest cache with all that becomes of them; neighbours share a few numbers.

use super::LANES;
use super::columns::{Dimensions, SHORTEST, STRIP, shape};
use super::filter::Filter;
use super::halve::{Halving, part};
use super::kernel::Kernel;
use super::weights::Weights;
use crate::gemm::vectorised;
use core::f64::consts::PI;

/// Points for each frequency that is kept: one and a half times as many as there must be leave the filters room.
const POINTS: usize = 3;

/// Points under the kernel.
const WIDTH: f64 = 10.0;

/// `β/π`, as far as the alias at `1 − 1/POINTS` lets it go.
const BANDWIDTH: f64 = WIDTH * 2.0 / 3.0;

/// The kernel has at least so many fourths of a number for each point. With fewer numbers, another halving would weaken the band's
/// end, as the kernel does, and rounding would be felt there.
const FOURTHS: usize = 5;

/// Numbers that become one point at most: the transform of the points is the smallest part by then.
const MOST: usize = 16;

/// Numbers that a block halves.
const BLOCK: usize = 2048;

/// Room for a block, and for what it shares with its neighbours.
const ROOM: usize = BLOCK + 512;

/// Points or halved numbers before the first and behind the last, where a line hangs over the ends of the circle.
const MARGIN: usize = 16;

/// Numbers that are read once, and what is left to transform.
pub(in crate::spectral) struct Decimation {
    /// From the vector to ever shorter lines.
    halvings: Vec<Halving>,
    /// Length of the line that is left, with its margins; if nothing is halved, there is none.
    line: usize,
    filters: Option<Filters>,
    /// Points of the matrix.
    points: usize,
    weights: Weights,
}

/// Between the line that is left and the points, where these are not the same.
struct Filters {
    spread: Filter,
    back: Filter,
}

/// The matrix to which a circle of `n` numbers is cut if only the first `entries` frequencies are wanted; none if they are too many
/// for that to win anything. If `n` is the length of a matrix, the cut is by a power of two and nothing has to be interpolated.
///
/// It is part of an experiment's results: this rule must not depend on the machine.
pub(in crate::spectral) fn cut(n: usize, entries: usize, is_matrix: bool) -> Option<Dimensions> {
    let least = (POINTS * entries).max(n.div_ceil(MOST)).max(SHORTEST);
    if 2 * least > n {
        return None;
    }
    if !is_matrix {
        // Rounding up to a quick length may take it above a half, which is still right.
        return shape(least);
    }
    let factor = 1 << (n / least).ilog2();
    n.is_multiple_of(factor).then(|| n / factor).and_then(exactly)
}

/// A matrix of just so many numbers.
fn exactly(n: usize) -> Option<Dimensions> {
    let Dimensions { rows, .. } = shape(n)?;
    let twos = 1 << n.trailing_zeros();
    let rows = rows.min(twos / STRIP);
    (rows >= 2).then(|| Dimensions { rows, columns: n / rows })
}

impl Decimation {
    /// Of `len` numbers on a circle of `circle`; `frequencies` are those of the matrix, by position.
    pub(in crate::spectral) fn new(
        len: usize,
        circle: usize,
        grid: Dimensions,
        entries: usize,
        frequencies: &[usize],
    ) -> Self {
        let points = grid.len();
        assert!(points >= POINTS * entries && points < circle && len <= circle);
        let is_whole = circle.is_multiple_of(points) && (circle / points).is_power_of_two();
        let most =
            if is_whole { circle / points } else { (4 * circle / (FOURTHS * points)).max(1) };
        let steps = most.ilog2();
        let band = entries as f64 / circle as f64;
        let halvings: Vec<Halving> =
            (0..steps).map(|step| Halving::new(band * f64::from(1 << step))).collect();
        let kernel = Kernel::new(WIDTH, PI * BANDWIDTH);
        let unit = circle as f64 / (points << steps) as f64;
        let filters = (!is_whole).then(|| Filters {
            spread: Filter::new((circle, points << steps), unit, WIDTH, &kernel),
            back: Filter::new((points << steps, circle), 1.0, WIDTH, &kernel),
        });
        let through = filters.as_ref().map(|_| &kernel);
        let weight = |k: usize| {
            let k = k.min(points - k);
            if k < entries { undone(&halvings, through, (circle, points), k) as f32 } else { 0.0 }
        };
        let weights = Weights::new(grid, frequencies, weight);
        // Whole blocks, each with what it shares with its neighbours; and the points, where they are what is left.
        let blocks = len.div_ceil(BLOCK) + 1;
        let reach = ((blocks * BLOCK) >> steps) + 4 * MARGIN;
        let line = match steps {
            0 => 0,
            _ if is_whole => reach.max(points + 2 * MARGIN),
            _ => reach,
        };
        Self { halvings, line, filters, points, weights }
    }

    /// Numbers of working memory.
    pub(in crate::spectral) fn room(&self) -> usize {
        let points = if self.filters.is_some() { self.points + 2 * MARGIN } else { 0 };
        self.line + points.next_multiple_of(LANES)
    }

    /// What divides out what was done to the frequencies.
    pub(in crate::spectral) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The points in the working memory.
    pub(in crate::spectral) fn points<'r>(&self, room: &'r mut [f32]) -> &'r mut [f32] {
        let first = if self.filters.is_some() { self.line } else { 0 };
        &mut room[first + MARGIN..][..self.points]
    }

    /// Points from numbers; those behind the end of `x` are zero.
    pub(in crate::spectral) fn spread(&self, x: &[f32], room: &mut [f32]) {
        let (line, around) = room.split_at_mut(self.line);
        if !self.halvings.is_empty() {
            self.halve(x, line);
        }
        let Some(filters) = &self.filters else { return fold(line, self.points) };
        let points = self.points + 2 * MARGIN;
        let (numbers, before) = if self.halvings.is_empty() { (x, 0) } else { (&*line, MARGIN) };
        let around = &mut around[..points.next_multiple_of(LANES)];
        let mut groups = around.as_chunks_mut().0.iter_mut();
        filters.spread.apply(
            (numbers, before),
            (MARGIN, points),
            #[inline(always)]
            |eight| groups.next().into_iter().for_each(|to| *to = eight),
        );
        fold(around, self.points);
    }

    /// The transpose of [`Decimation::spread`], adding.
    pub(in crate::spectral) fn back(&self, room: &mut [f32], x: &mut [f32]) {
        let (line, around) = room.split_at_mut(self.line);
        let Some(filters) = &self.filters else {
            unfold(line, self.points);
            return self.double(line, x);
        };
        unfold(around, self.points);
        let points = (&around[..self.points + 2 * MARGIN], MARGIN);
        if self.halvings.is_empty() {
            let mut at = 0;
            filters.back.apply(
                points,
                (0, x.len()),
                #[inline(always)]
                |eight| {
                    x[at..].iter_mut().zip(eight).for_each(|(to, y)| *to += y);
                    at += LANES;
                },
            );
            return;
        }
        let mut groups = line.as_chunks_mut().0.iter_mut();
        filters.back.apply(
            points,
            (MARGIN, self.line),
            #[inline(always)]
            |eight| groups.next().into_iter().for_each(|to| *to = eight),
        );
        self.double(line, x);
    }

    /// All halvings, block by block: number `j` of the short line stands at `MARGIN + j`.
    fn halve(&self, x: &[f32], line: &mut [f32]) {
        let steps = self.halvings.len();
        let results = BLOCK >> steps;
        // Numbers of every line that a block needs, from the last to the first, and how far before it the first stands.
        let (mut counts, mut before) = ([0; MOST.ilog2() as usize + 1], 0);
        counts[steps] = results;
        for (step, halving) in self.halvings.iter().enumerate().rev() {
            counts[step] = halving.reach_down(counts[step + 1]);
            before = 2 * before + halving.degree();
        }
        let (mut edge, mut own) = ([0.0; ROOM], [0.0; ROOM / 2]);
        let (mut even, mut odd) = ([0.0; ROOM / 2], [0.0; ROOM / 2]);
        let mut blocks = line.chunks_exact_mut(results);
        for (block, results) in blocks.by_ref().enumerate() {
            let first = (block * BLOCK) as isize - (before + (MARGIN << steps)) as isize;
            if first >= x.len() as isize {
                results.fill(0.0);
                continue;
            }
            let inner = usize::try_from(first).ok().and_then(|at| x.get(at..at + counts[0]));
            let mut numbers = inner.unwrap_or_else(|| around(x, first, &mut edge[..counts[0]]));
            for (step, halving) in self.halvings.iter().enumerate() {
                part(numbers, &mut even, &mut odd);
                if step + 1 == steps {
                    halving.down(&even, &odd, results);
                    break;
                }
                halving.down(&even, &odd, &mut own[..counts[step + 1]]);
                numbers = &own[..counts[step + 1]];
            }
        }
        blocks.into_remainder().fill(0.0);
    }

    /// The transpose of [`Decimation::halve`], adding.
    fn double(&self, line: &[f32], x: &mut [f32]) {
        let steps = self.halvings.len();
        // Of the line to which a step belongs: pairs of numbers that a block makes of it, and the place of the first number that
        // it needs for them. What it is made from must begin with a whole pair.
        let mut pairs = [0; MOST.ilog2() as usize];
        let (mut skips, mut first) = ([0; MOST.ilog2() as usize], 0);
        let mut count = BLOCK;
        for (step, halving) in self.halvings.iter().enumerate() {
            pairs[step] = count.div_ceil(2).next_multiple_of(LANES);
            first = first / 2 - (halving.degree() / 2) as isize;
            count = halving.reach_up(pairs[step]);
            if step + 1 < steps {
                skips[step] = usize::from(first % 2 != 0);
                first -= skips[step] as isize;
                count += skips[step];
            }
        }
        let (mut here, mut there) = ([0.0; ROOM], [0.0; ROOM]);
        for (block, x) in x.chunks_mut(BLOCK).enumerate() {
            let at = ((block * BLOCK) >> steps) + MARGIN;
            let short = &line[at.saturating_add_signed(first)..][..count];
            let (mut from, mut to) = (&mut here, &mut there);
            for (step, halving) in self.halvings.iter().enumerate().rev() {
                let made = &mut to[..2 * pairs[step]];
                if step + 1 == steps {
                    halving.up(short, made);
                } else {
                    halving.up(&from[skips[step]..], made);
                }
                (from, to) = (to, from);
            }
            vectorised(
                #[inline(always)]
                || x.iter_mut().zip(&*from).for_each(|(x, from)| *x += from),
            );
        }
    }
}

/// One over what is left of frequency `k` of a circle on the points.
fn undone(
    halvings: &[Halving],
    kernel: Option<&Kernel>,
    (circle, points): (usize, usize),
    k: usize,
) -> f64 {
    let mut frequency = k as f64 / circle as f64;
    let mut left = 1.0;
    for halving in halvings {
        left *= halving.response(frequency);
        frequency *= 2.0;
    }
    kernel.map_or(1.0, |kernel| kernel.reciprocal(k as f64 / points as f64, 1.0)) / left
}

/// A stretch of a vector with zeros around it.
#[cold]
fn around<'e>(x: &[f32], first: isize, edge: &'e mut [f32]) -> &'e [f32] {
    for (i, to) in (0..).zip(edge.iter_mut()) {
        *to = usize::try_from(first + i).ok().and_then(|at| x.get(at)).copied().unwrap_or(0.0);
    }
    edge
}

/// Adds what hangs over the ends of a circle where it belongs.
fn fold(line: &mut [f32], points: usize) {
    for i in 0..MARGIN {
        line[points + i] += line[i];
        line[MARGIN + i] += line[MARGIN + points + i];
    }
}

/// The transpose: the circle goes on behind its ends.
fn unfold(line: &mut [f32], points: usize) {
    for i in 0..MARGIN {
        line[i] = line[points + i];
        line[MARGIN + points + i] = line[MARGIN + i];
    }
}

#[cfg(test)]
mod tests;
