//! What can be multiplied: anything that can pack a few lanes of itself into a panel.

/// A matrix seen as lanes (rows of `A`, columns of `B`) along a depth.
pub(crate) trait Operand {
    /// Packs `lanes` (first, count ≤ `W`) at `depth` (first, count) into `out[d * W + l]`.
    /// Places of lanes beyond the count are left as they are: nobody reads their sums.
    fn pack<const W: usize>(&self, lanes: (usize, usize), depth: (usize, usize), out: &mut [f32]);
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
    fn pack<const W: usize>(
        &self,
        (l0, lanes): (usize, usize),
        (d0, depth): (usize, usize),
        out: &mut [f32],
    ) {
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
    /// Padded height and width.
    pub(crate) padded: (usize, usize),
    /// Kernel height and width.
    pub(crate) kernel: (usize, usize),
    /// Step of the window.
    pub(crate) stride: usize,
    /// Output height and width.
    pub(crate) output: (usize, usize),
}

impl Windows<'_> {
    /// Offset of the top left corner of the window at output position `p`, in channel 0.
    fn corner(&self, p: usize) -> usize {
        let (ho, wo) = self.output;
        let (n, within) = (p / (ho * wo), p % (ho * wo));
        let (y, x) = (within / wo, within % wo);
        n * self.padded.0 * self.padded.1 + (y * self.padded.1 + x) * self.stride
    }

    /// Offset of depth `d` from a window's corner.
    fn offset(&self, d: usize) -> usize {
        let (kh, kw) = self.kernel;
        let (c, within) = (d / (kh * kw), d % (kh * kw));
        c * self.samples * self.padded.0 * self.padded.1
            + (within / kw) * self.padded.1
            + within % kw
    }
}

/// A stretch of lanes that is contiguous in the image.
#[derive(Clone, Copy, Default)]
struct Run {
    lane: usize,
    from: usize,
    len: usize,
}

/// Copies runs into one packed row, in whole vectors: what a vector writes too much, the next run
/// (or the next row) overwrites.
#[inline]
fn copy_runs(image: &[f32], shift: usize, runs: &[Run], out: &mut [f32]) {
    for run in runs {
        let from = shift + run.from;
        if run.len <= 4 {
            out[run.lane..run.lane + 4].copy_from_slice(&image[from..from + 4]);
            continue;
        }
        let mut done = 0;
        while done < run.len {
            let (to, from) = (run.lane + done, from + done);
            out[to..to + 8].copy_from_slice(&image[from..from + 8]);
            done += 8;
        }
    }
}

impl Operand for Windows<'_> {
    fn pack<const W: usize>(
        &self,
        (l0, lanes): (usize, usize),
        (d0, depth): (usize, usize),
        out: &mut [f32],
    ) {
        let mut corners = [0usize; W];
        for (l, corner) in corners.iter_mut().take(lanes).enumerate() {
            *corner = self.corner(l0 + l);
        }
        let mut walk = DepthWalk::new(self, d0);
        if self.stride == 1 {
            let mut runs = [Run::default(); W];
            let runs = contiguous(&corners[..lanes], &mut runs);
            for d in 0..depth {
                copy_runs(self.image, walk.offset, runs, &mut out[d * W..]);
                walk.step(self);
            }
        } else {
            for d in 0..depth {
                for (out, corner) in out[d * W..].iter_mut().zip(&corners[..lanes]) {
                    *out = self.image[corner + walk.offset];
                }
                walk.step(self);
            }
        }
    }
}

/// [`Windows`] with lanes and depth exchanged, for the weight gradient.
pub(crate) struct WindowsTransposed<'a>(pub(crate) Windows<'a>);

impl Operand for WindowsTransposed<'_> {
    fn pack<const W: usize>(
        &self,
        (l0, lanes): (usize, usize),
        (d0, depth): (usize, usize),
        out: &mut [f32],
    ) {
        let windows = &self.0;
        let mut offsets = [0usize; W];
        for (l, offset) in offsets.iter_mut().take(lanes).enumerate() {
            *offset = windows.offset(l0 + l);
        }
        let mut runs = [Run::default(); W];
        let runs = contiguous(&offsets[..lanes], &mut runs);
        let wo = windows.output.1;
        let mut column = d0 % wo;
        let mut corner = windows.corner(d0);
        for d in 0..depth {
            copy_runs(windows.image, corner, runs, &mut out[d * W..]);
            column += 1;
            corner += windows.stride;
            if column == wo && d + 1 < depth {
                column = 0;
                corner = windows.corner(d0 + d + 1);
            }
        }
    }
}

/// Walks the depth `(channel, kernel row, kernel column)` without divisions.
struct DepthWalk {
    offset: usize,
    row: usize,
    column: usize,
}

impl DepthWalk {
    fn new(windows: &Windows<'_>, d: usize) -> Self {
        let (kh, kw) = windows.kernel;
        Self { offset: windows.offset(d), row: d / kw % kh, column: d % kw }
    }

    #[inline]
    fn step(&mut self, windows: &Windows<'_>) {
        let (kh, kw) = windows.kernel;
        self.column += 1;
        self.offset += 1;
        if self.column == kw {
            self.column = 0;
            self.row += 1;
            self.offset += windows.padded.1 - kw;
            if self.row == kh {
                self.row = 0;
                self.offset +=
                    windows.samples * windows.padded.0 * windows.padded.1 - kh * windows.padded.1;
            }
        }
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
