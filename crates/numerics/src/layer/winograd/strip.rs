//! One row of tiles of one image, eight channels at a time.

#![expect(
    clippy::inline_always,
    reason = "bodies must land inside a caller that has AVX2 switched on"
)]

use crate::Shape;
use crate::gemm::{Lanes, Span, deinterleave, interleave};
use core::ops::Range;

/// The tiles of a batch: strips are numbered image by image.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) n: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Grid {
    pub(super) fn strips(&self) -> usize {
        self.n * self.rows
    }

    /// Ranges of at most `size` strips.
    pub(super) fn blocks(self, size: usize) -> impl Iterator<Item = Range<usize>> {
        (0..self.strips()).step_by(size).map(move |s| s..(s + size).min(self.strips()))
    }

    /// Image and tile row of each strip.
    pub(super) fn places(self, strips: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        strips.map(move |s| (s / self.rows, s % self.rows))
    }
}

/// A channel-major image batch `(C, N, H, W)`, read and written in strips: strip `t` covers `rows`
/// rows from `t * step - padding` on.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    pub(super) shape: Shape,
    pub(super) n: usize,
    pub(super) padding: usize,
    pub(super) rows: usize,
    pub(super) step: usize,
}

/// One strip of eight channels.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The first of the eight.
    pub(super) channel: usize,
    pub(super) image: usize,
    /// Which strip of the image.
    pub(super) strip: usize,
}

/// The rows `first..end` of a strip that are inside the image; they lie one after the other in the
/// buffer.
#[derive(Clone, Copy)]
pub(super) struct View {
    first: usize,
    end: usize,
    width: usize,
    padding: usize,
}

impl Planes {
    pub(super) fn view(&self, place: Place) -> View {
        let top = place.strip * self.step;
        let first = self.padding.saturating_sub(top).min(self.rows);
        let end = (self.shape.height + self.padding).saturating_sub(top).min(self.rows);
        let Self { shape: Shape { width, .. }, padding, .. } = *self;
        View { first, end: end.max(first), width, padding }
    }

    /// Where the strip begins in the batch, and how many values of each channel it has.
    fn span(&self, place: Place) -> Span {
        let view = self.view(place);
        let Place { channel, image, strip } = place;
        let line = (strip * self.step + view.first).saturating_sub(self.padding);
        let from = (channel * self.n + image) * self.shape.plane() + line * self.shape.width;
        Span { from, len: (view.end - view.first) * self.shape.width }
    }

    /// Brings eight channels of a strip side by side.
    #[inline]
    pub(super) fn load(&self, from: &[f32], place: Place, to: &mut [[f32; 8]]) -> View {
        let Span { from: start, len } = self.span(place);
        interleave(&from[start..], self.n * self.shape.plane(), &mut to[..len]);
        self.view(place)
    }

    /// Takes eight channels apart again.
    #[inline]
    pub(super) fn store(
        &self,
        from: &[[f32; 8]],
        to: &mut [f32],
        place: Place,
        offset: &[f32; 8],
        accumulate: bool,
    ) {
        let Span { from: start, len } = self.span(place);
        let stride = self.n * self.shape.plane();
        deinterleave(&from[..len], &mut to[start..], stride, offset, accumulate);
    }
}

impl View {
    /// Column `x` of the padded strip, zero outside the image.
    #[inline(always)]
    pub(super) fn column<L: Lanes, const N: usize>(&self, strip: &[[f32; 8]], x: usize) -> [L; N] {
        let mut column = [L::splat(0.0); N];
        if x < self.padding || x - self.padding >= self.width {
            return column;
        }
        let Self { first, end, .. } = *self;
        let at = x - self.padding;
        if first == 0 && end == N {
            // The common case, with a fixed number of turns.
            let lanes = &strip[at..][..=(N - 1) * self.width];
            for (i, to) in column.iter_mut().enumerate() {
                *to = L::load(&lanes[i * self.width]);
            }
        } else {
            for (i, to) in column.iter_mut().enumerate().take(end).skip(first) {
                *to = L::load(&strip[(i - first) * self.width + at]);
            }
        }
        column
    }

    /// The inverse of [`Self::column`]; what falls outside the image is dropped.
    #[inline(always)]
    pub(super) fn put_column<L: Lanes, const N: usize>(
        &self,
        strip: &mut [[f32; 8]],
        x: usize,
        column: [L; N],
    ) {
        if x < self.padding || x - self.padding >= self.width {
            return;
        }
        let Self { first, end, .. } = *self;
        for (i, value) in column.into_iter().enumerate() {
            if i >= first && i < end {
                value.store(&mut strip[(i - first) * self.width + x - self.padding]);
            }
        }
    }
}
