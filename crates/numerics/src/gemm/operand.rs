//! What can be multiplied: anything that can pack a few lanes of itself into a panel.

use super::DEPTH_BLOCK;
use super::kernel::{Run, copy_runs};
use crate::Size;

/// `len` neighbours from `from` on. Unlike a range it is `Copy`, and its length is at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) len: usize,
}

/// A matrix seen as lanes (rows of `A`, columns of `B`) along a depth.
pub(crate) trait Operand {
    /// Packs at most `W` lanes, over a stretch of the depth, into `out[d * W + l]`. Places of lanes
    /// beyond the last are left as they are: their sums are never read.
    fn pack<const W: usize>(&self, lanes: Span, depth: Span, out: &mut [f32]);
}

/// A plain matrix: element `(l, d)` at `l * lane + d * depth`.
pub(crate) struct Strided<'a> {
    /// The storage.
    pub(crate) data: &'a [f32],
    /// Distance between lanes.
    pub(crate) lane: usize,
    /// Distance along the depth.
    pub(crate) depth: usize,
}

impl Operand for Strided<'_> {
    fn pack<const W: usize>(&self, lanes: Span, depth: Span, out: &mut [f32]) {
        let Span { from: l0, len: lanes } = lanes;
        let Span { from: d0, len: depth } = depth;
        if self.lane == 1 {
            for (d, out) in out.chunks_exact_mut(W).take(depth).enumerate() {
                let from = (d0 + d) * self.depth + l0;
                if lanes == W {
                    out.copy_from_slice(&self.data[from..from + W]);
                } else {
                    out[..lanes].copy_from_slice(&self.data[from..from + lanes]);
                }
            }
        } else if self.depth == 1 {
            let mut l = 0;
            // Four lanes at a time keep four streams open and write whole quarters of a row.
            while l + 4 <= lanes {
                let row = |i: usize| &self.data[(l0 + l + i) * self.lane + d0..][..depth];
                let (a, b, c, e) = (row(0), row(1), row(2), row(3));
                for (d, out) in out.chunks_exact_mut(W).take(depth).enumerate() {
                    out[l..l + 4].copy_from_slice(&[a[d], b[d], c[d], e[d]]);
                }
                l += 4;
            }
            for l in l..lanes {
                let row = &self.data[(l0 + l) * self.lane + d0..][..depth];
                for (out, x) in out.chunks_exact_mut(W).zip(row) {
                    out[l] = *x;
                }
            }
        } else {
            for (d, out) in out.chunks_exact_mut(W).take(depth).enumerate() {
                for (l, out) in out.iter_mut().take(lanes).enumerate() {
                    *out = self.data[(l0 + l) * self.lane + (d0 + d) * self.depth];
                }
            }
        }
    }
}

/// The windows of a convolution over a (padded) channel-major image batch: lanes are output
/// positions `(sample, row, column)`, the depth is `(channel, kernel row, kernel column)`.
///
/// `image` must hold [`super::SLACK`] values past its end, because windows are copied in whole
/// vectors.
#[derive(Clone, Copy)]
pub(crate) struct Windows<'a> {
    /// `(channel, sample, row, column)`, already padded.
    pub(crate) image: &'a [f32],
    /// Samples.
    pub(crate) samples: usize,
    /// Of the padded image.
    pub(crate) padded: Size,
    /// Of the kernel.
    pub(crate) kernel: Size,
    /// Step of the window.
    pub(crate) stride: usize,
    /// Of the output.
    pub(crate) output: Size,
}

impl Windows<'_> {
    /// Top left corners, in channel 0, of the windows from output position `p` on.
    fn corners(&self, p: usize, corners: &mut [usize]) {
        let Size { height: ho, width: wo } = self.output;
        let (mut y, mut x) = (p / wo % ho, p % wo);
        let mut image = p / (ho * wo) * self.padded.area();
        for corner in corners {
            *corner = image + (y * self.padded.width + x) * self.stride;
            x += 1;
            if x == wo {
                (x, y) = (0, y + 1);
                if y == ho {
                    y = 0;
                    image += self.padded.area();
                }
            }
        }
    }

    /// Offsets of the kernel taps from tap `d` on, relative to a window's corner.
    fn offsets(&self, d: usize, offsets: &mut [usize]) {
        let Size { height: kh, width: kw } = self.kernel;
        let (mut y, mut x) = (d / kw % kh, d % kw);
        let plane = self.samples * self.padded.area();
        let mut channel = d / (kh * kw) * plane;
        for offset in offsets {
            *offset = channel + y * self.padded.width + x;
            x += 1;
            if x == kw {
                (x, y) = (0, y + 1);
                if y == kh {
                    y = 0;
                    channel += plane;
                }
            }
        }
    }
}

impl Operand for Windows<'_> {
    fn pack<const W: usize>(&self, lanes: Span, depth: Span, out: &mut [f32]) {
        let Span { from: l0, len: lanes } = lanes;
        let Span { from: d0, len: depth } = depth;
        let mut corners = [0usize; W];
        self.corners(l0, &mut corners[..lanes]);
        let mut offsets = [0usize; DEPTH_BLOCK];
        let offsets = &mut offsets[..depth];
        self.offsets(d0, offsets);
        if self.stride == 1 {
            let mut runs = [Run::default(); W];
            copy_runs(self.image, contiguous(&corners[..lanes], &mut runs), offsets, W, out);
        } else {
            for (out, offset) in out.chunks_exact_mut(W).zip(offsets) {
                for (out, corner) in out.iter_mut().zip(&corners[..lanes]) {
                    *out = self.image[corner + *offset];
                }
            }
        }
    }
}

/// [`Windows`] with lanes and depth exchanged, for the weight gradient.
pub(crate) struct WindowsTransposed<'a>(pub(crate) Windows<'a>);

impl Operand for WindowsTransposed<'_> {
    fn pack<const W: usize>(&self, lanes: Span, depth: Span, out: &mut [f32]) {
        let Span { from: l0, len: lanes } = lanes;
        let Span { from: d0, len: depth } = depth;
        let mut offsets = [0usize; W];
        self.0.offsets(l0, &mut offsets[..lanes]);
        let mut corners = [0usize; DEPTH_BLOCK];
        let corners = &mut corners[..depth];
        self.0.corners(d0, corners);
        // Taps of one kernel row are contiguous for every stride.
        let mut runs = [Run::default(); W];
        copy_runs(self.0.image, contiguous(&offsets[..lanes], &mut runs), corners, W, out);
    }
}

/// Groups ascending addresses into runs.
fn contiguous<'r, const W: usize>(addresses: &[usize], runs: &'r mut [Run; W]) -> &'r [Run] {
    let mut count = 0;
    for (lane, &from) in addresses.iter().enumerate() {
        if count > 0 && runs[count - 1].from + runs[count - 1].len == from {
            runs[count - 1].len += 1;
        } else {
            runs[count] = Run { lane, from, len: 1 };
            count += 1;
        }
    }
    &runs[..count]
}
