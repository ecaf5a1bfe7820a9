//! Eight complex transforms of one length side by side.

use super::butterfly::{Butterfly, Point};
use super::{Bins, LANES};
use crate::gemm::vectorised;

/// Elements of 64 bytes that stay in the first-level cache with their factors.
const NEAR: usize = 448;

/// One radix step: blocks of `radix · stride` elements become `radix` blocks of `stride`.
struct Stage {
    radix: usize,
    stride: usize,
    /// `w^{jq}` for element `j` of a block and `q = 1..radix`.
    twiddles: Vec<Point>,
}

/// Transforms of `2^a·3^b·5^c` elements, each eight lanes wide: [`Stages::split`] takes them from
/// natural order to the order of [`Stages::frequencies`], [`Stages::join`] from there to natural
/// order. Both are the transform with `e^{−2πi kn/C}`, with no factor.
pub(super) struct Stages {
    stages: Vec<Stage>,
    len: usize,
}

impl Stages {
    pub(super) fn new(len: usize) -> Self {
        let mut stages = Vec::new();
        let mut rest = len;
        // Long strides first, where four is quickest; the last stage needs no factors.
        for radix in [4, 5, 3, 2] {
            while rest.is_multiple_of(radix) {
                stages.push(Stage::new(rest, radix));
                rest /= radix;
            }
        }
        assert_eq!(rest, 1, "{len} has a factor above five");
        Self { stages, len }
    }

    /// Which frequency stands at each position after [`Stages::split`].
    pub(super) fn frequencies(&self) -> Vec<usize> {
        // Block q of the first stage holds the frequencies q, q + radix, ….
        self.stages.iter().rev().fold(vec![0], |inner, Stage { radix, .. }| {
            (0..*radix).flat_map(|q| inner.iter().map(move |f| q + radix * f)).collect()
        })
    }

    /// Stages over blocks that are too large for the nearest cache, and the length of the blocks
    /// that the others divide.
    fn far(&self) -> (usize, usize) {
        let far = self.stages.iter().take_while(|s| s.radix * s.stride > NEAR).count();
        (far, self.stages.get(far).map_or(1, |s| s.radix * s.stride))
    }

    /// Natural order to split order.
    pub(super) fn split(&self, data: &mut [Bins]) {
        assert_eq!(data.len(), self.len);
        let (far, block) = self.far();
        for stage in &self.stages[..far] {
            stage.run::<false>(data);
        }
        for block in data.chunks_exact_mut(block) {
            for stage in &self.stages[far..] {
                stage.run::<false>(block);
            }
        }
    }

    /// Split order to natural order.
    pub(super) fn join(&self, data: &mut [Bins]) {
        assert_eq!(data.len(), self.len);
        let (far, block) = self.far();
        for block in data.chunks_exact_mut(block) {
            for stage in self.stages[far..].iter().rev() {
                stage.run::<true>(block);
            }
        }
        for stage in self.stages[..far].iter().rev() {
            stage.run::<true>(data);
        }
    }
}

impl Stage {
    fn new(len: usize, radix: usize) -> Self {
        let stride = len / radix;
        let twiddles =
            (0..stride).flat_map(|j| (1..radix).map(move |q| Point::root(j * q, len))).collect();
        Self { radix, stride, twiddles }
    }

    fn run<const JOIN: bool>(&self, data: &mut [Bins]) {
        match self.radix {
            2 => self.pass::<2, JOIN>(data),
            3 => self.pass::<3, JOIN>(data),
            4 => self.pass::<4, JOIN>(data),
            _ => self.pass::<5, JOIN>(data),
        }
    }

    fn pass<const P: usize, const JOIN: bool>(&self, data: &mut [Bins])
    where
        [Point; P]: Butterfly,
    {
        let (stride, twiddles) = (self.stride, &self.twiddles[..]);
        vectorised(
            #[inline(always)]
            || {
                if stride == 1 {
                    for block in data.as_chunks_mut::<P>().0 {
                        *block = across_lanes(
                            block,
                            #[inline(always)]
                            |points: [Point; P]| points.transformed(),
                        );
                    }
                    return;
                }
                for block in data.chunks_exact_mut(P * stride) {
                    let mut parts = block.chunks_exact_mut(stride);
                    let parts: [&mut [Bins]; P] = core::array::from_fn(
                        #[inline(always)]
                        |_| parts.next().unwrap_or_default(),
                    );
                    // Says once, outside the loop, that no index below is out of bounds.
                    assert!(parts.iter().all(|part| part.len() == stride));
                    for (j, twiddles) in (0..stride).zip(twiddles.chunks_exact(P - 1)) {
                        let mut bins = [Bins::default(); P];
                        for q in 0..P {
                            bins[q] = parts[q][j];
                        }
                        let bins = across_lanes(
                            &bins,
                            #[inline(always)]
                            |points: [Point; P]| {
                                if JOIN {
                                    turned(points, twiddles).transformed()
                                } else {
                                    turned(points.transformed(), twiddles)
                                }
                            },
                        );
                        for q in 0..P {
                            parts[q][j] = bins[q];
                        }
                    }
                }
            },
        );
    }
}

/// Applies a function of `P` points to each lane. One loop over lanes around all of the
/// arithmetic: that is what the compiler turns into vectors; eight lanes inside each operation
/// would compile to many shuffles.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn across_lanes<const P: usize>(
    bins: &[Bins; P],
    f: impl Fn([Point; P]) -> [Point; P],
) -> [Bins; P] {
    let bins = *bins;
    let mut out = [Bins::default(); P];
    for l in 0..LANES {
        let mut points = [Point::default(); P];
        for q in 0..P {
            points[q] = Point { re: bins[q].re.0[l], im: bins[q].im.0[l] };
        }
        let points = f(points);
        for q in 0..P {
            out[q].re.0[l] = points[q].re;
            out[q].im.0[l] = points[q].im;
        }
    }
    out
}

/// Point `q` times the `q`-th factor; the first factor is one.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn turned<const P: usize>(mut points: [Point; P], twiddles: &[Point]) -> [Point; P] {
    for q in 1..P {
        points[q] = points[q].times(twiddles[q - 1]);
    }
    points
}
