//! Pooling: maximum (with ReLU folded in), average, and global average.

use super::{InputGradient, Passed};
use crate::Shape;
use crate::gemm::{PairRow, vectorised};

/// Geometry that maximum and average pooling share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) input: Shape,
    pub(crate) output: Shape,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Window {
    /// The rows or columns of the input that output coordinate `o` sees.
    fn span(&self, o: usize, size: usize) -> core::ops::Range<usize> {
        let from = o * self.stride;
        from.saturating_sub(self.padding)
            ..(from + self.kernel).saturating_sub(self.padding).min(size)
    }
}

/// The maximum of each window; with `relu`, of the window and zero, which is the same as a ReLU
/// before the pooling at a quarter of the work.
#[derive(Debug, Clone)]
pub(crate) struct MaxPool {
    pub(crate) window: Window,
    pub(crate) relu: bool,
}

impl MaxPool {
    /// Two by two without a border: the common case, kept free of branches.
    fn is_pairs(&self) -> bool {
        self.window.kernel == 2 && self.window.stride == 2 && self.window.padding == 0
    }

    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], n: usize) {
        let w = &self.window;
        let planes = w.input.channels * n;
        let input = input[..planes * w.input.plane()].chunks_exact(w.input.plane());
        let output = output[..planes * w.output.plane()].chunks_exact_mut(w.output.plane());
        let floor = if self.relu { 0.0 } else { f32::NEG_INFINITY };
        vectorised(
            #[inline(always)]
            || {
                for (x, y) in input.zip(output) {
                    if self.is_pairs() {
                        self.forward_pairs(x, y, floor);
                    } else {
                        self.forward_any(x, y, floor);
                    }
                }
            },
        );
    }

    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn forward_pairs(&self, x: &[f32], y: &mut [f32], floor: f32) {
        let (wi, wo) = (self.window.input.width, self.window.output.width);
        for (x, y) in x.chunks_exact(2 * wi).zip(y.chunks_exact_mut(wo)) {
            let (top, bottom) = x.split_at(wi);
            let (top, bottom) = (top.as_chunks::<2>().0, bottom.as_chunks::<2>().0);
            for ((y, a), b) in y.iter_mut().zip(top).zip(bottom) {
                *y = larger(larger(floor, larger(a[0], a[1])), larger(b[0], b[1]));
            }
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn forward_any(&self, x: &[f32], y: &mut [f32], floor: f32) {
        let w = &self.window;
        for (at, y) in y.iter_mut().enumerate() {
            let (oy, ox) = (at / w.output.width, at % w.output.width);
            let mut best = floor;
            for row in w.span(oy, w.input.height) {
                for column in w.span(ox, w.input.width) {
                    best = larger(best, x[row * w.input.width + column]);
                }
            }
            *y = best;
        }
    }

    /// The gradient goes to the first input of the window that equals the output, as in PyTorch.
    pub(crate) fn backward(
        &self,
        Passed { input, output }: Passed<'_>,
        d_output: &[f32],
        d_input: &mut InputGradient<'_>,
    ) {
        let w = &self.window;
        let planes = d_output.len() / w.output.plane();
        let target = &mut d_input.data[..planes * w.input.plane()];
        let whole =
            self.is_pairs() && w.input.height.is_multiple_of(2) && w.input.width.is_multiple_of(2);
        if !d_input.accumulate && !whole {
            target.fill(0.0);
        }
        let planes =
            target.chunks_exact_mut(w.input.plane()).zip(input.chunks_exact(w.input.plane())).zip(
                output.chunks_exact(w.output.plane()).zip(d_output.chunks_exact(w.output.plane())),
            );
        let accumulate = d_input.accumulate;
        vectorised(
            #[inline(always)]
            || {
                for ((target, x), (y, d)) in planes {
                    if whole {
                        self.backward_pairs(x, y, d, target, accumulate);
                    } else {
                        self.backward_any(x, y, d, target);
                    }
                }
            },
        );
    }

    #[expect(
        clippy::inline_always,
        clippy::needless_bitwise_bool,
        reason = "its body must land inside a caller that has AVX2 switched on, free of branches"
    )]
    #[inline(always)]
    fn backward_pairs(
        &self,
        x: &[f32],
        y: &[f32],
        d: &[f32],
        target: &mut [f32],
        accumulate: bool,
    ) {
        let (wi, wo) = (self.window.input.width, self.window.output.width);
        let rows = x.chunks_exact(2 * wi).zip(target.chunks_exact_mut(2 * wi));
        for ((x, target), (y, d)) in rows.zip(y.chunks_exact(wo).zip(d.chunks_exact(wo))) {
            let (top, bottom) = x.split_at(wi);
            let (to_top, to_bottom) = target.split_at_mut(wi);
            let mut done = 0;
            if !accumulate {
                let mut row = PairRow {
                    inputs: [top, bottom],
                    d_inputs: [to_top, to_bottom],
                    output: y,
                    d_output: d,
                    relu: self.relu,
                };
                done = row.send_back();
            }
            let (top, bottom) = (top.as_chunks::<2>().0, bottom.as_chunks::<2>().0);
            let (to_top, to_bottom) =
                (to_top.as_chunks_mut::<2>().0, to_bottom.as_chunks_mut::<2>().0);
            for ox in done..wo {
                let (y, a, b) = (y[ox], top[ox], bottom[ox]);
                let d = if self.relu && y <= 0.0 { 0.0 } else { d[ox] };
                let hit = [a[0] == y, a[1] == y, b[0] == y, b[1] == y];
                let first = [
                    hit[0],
                    hit[1] & !hit[0],
                    hit[2] & !(hit[0] | hit[1]),
                    hit[3] & !(hit[0] | hit[1] | hit[2]),
                ];
                // What is there may be a NaN of an earlier client: it is dropped, not multiplied.
                let sum = |old: f32, i: usize| {
                    let part = if first[i] { d } else { 0.0 };
                    if accumulate { old + part } else { part }
                };
                to_top[ox] = [sum(to_top[ox][0], 0), sum(to_top[ox][1], 1)];
                to_bottom[ox] = [sum(to_bottom[ox][0], 2), sum(to_bottom[ox][1], 3)];
            }
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn backward_any(&self, x: &[f32], y: &[f32], d: &[f32], target: &mut [f32]) {
        let w = &self.window;
        for (at, (y, d)) in y.iter().zip(d).enumerate() {
            if self.relu && *y <= 0.0 {
                continue;
            }
            let (oy, ox) = (at / w.output.width, at % w.output.width);
            let mut window = w.span(oy, w.input.height).flat_map(|row| {
                w.span(ox, w.input.width).map(move |column| row * w.input.width + column)
            });
            if let Some(first) = window.find(|i| x[*i] == *y) {
                target[first] += d;
            }
        }
    }
}

/// A NaN on either side wins, as in PyTorch, so that a divergence is not pooled away.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

/// The mean of each window; a border counts as zeros, as in PyTorch.
#[derive(Debug, Clone)]
pub(crate) struct AveragePool {
    pub(crate) window: Window,
}

impl AveragePool {
    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], n: usize) {
        let w = &self.window;
        let share = 1.0 / (w.kernel * w.kernel) as f32;
        for p in 0..w.input.channels * n {
            let x = &input[p * w.input.plane()..][..w.input.plane()];
            let out = &mut output[p * w.output.plane()..][..w.output.plane()];
            for (at, out) in out.iter_mut().enumerate() {
                let (oy, ox) = (at / w.output.width, at % w.output.width);
                let mut sum = 0.0;
                for y in w.span(oy, w.input.height) {
                    for xx in w.span(ox, w.input.width) {
                        sum += x[y * w.input.width + xx];
                    }
                }
                *out = sum * share;
            }
        }
    }

    pub(crate) fn backward(&self, d_output: &[f32], d_input: &mut InputGradient<'_>) {
        let w = &self.window;
        let share = 1.0 / (w.kernel * w.kernel) as f32;
        let planes = d_output.len() / w.output.plane();
        if !d_input.accumulate {
            d_input.data[..planes * w.input.plane()].fill(0.0);
        }
        for p in 0..planes {
            let to = &mut d_input.data[p * w.input.plane()..][..w.input.plane()];
            let d = &d_output[p * w.output.plane()..][..w.output.plane()];
            for (at, d) in d.iter().enumerate() {
                let (oy, ox) = (at / w.output.width, at % w.output.width);
                for y in w.span(oy, w.input.height) {
                    for xx in w.span(ox, w.input.width) {
                        to[y * w.input.width + xx] += d * share;
                    }
                }
            }
        }
    }
}

/// The mean of each channel: `(C, N, HW)` to `(N, C)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAveragePool {
    pub(crate) channels: usize,
    pub(crate) plane: usize,
}

impl GlobalAveragePool {
    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], n: usize) {
        for c in 0..self.channels {
            for i in 0..n {
                let x = &input[(c * n + i) * self.plane..][..self.plane];
                output[i * self.channels + c] =
                    (super::batch_norm::sum(x) / self.plane as f64) as f32;
            }
        }
    }

    pub(crate) fn backward(&self, d_output: &[f32], d_input: &mut InputGradient<'_>) {
        let n = d_output.len() / self.channels;
        let share = 1.0 / self.plane as f32;
        for c in 0..self.channels {
            for i in 0..n {
                let d = d_output[i * self.channels + c] * share;
                for to in &mut d_input.data[(c * n + i) * self.plane..][..self.plane] {
                    *to = if d_input.accumulate { *to + d } else { d };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};

    #[test]
    fn the_portable_path_sends_the_same_gradient_back() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        for (width, relu) in [(2, true), (6, false), (8, true), (10, true), (28, false), (28, true)]
        {
            let (input, output) = (Shape::new(3, 4, width), Shape::new(3, 2, width / 2));
            let window = Window { input, output, kernel: 2, stride: 2, padding: 0 };
            let pool = MaxPool { window, relu };
            // Few different values, so that many windows have ties, and some all negative.
            let x: Vec<f32> = (0..2 * input.len()).map(|_| rng.normal().round() as f32).collect();
            let d: Vec<f32> = (0..2 * output.len()).map(|_| rng.normal() as f32).collect();
            let mut y = vec![0.0; 2 * output.len()];
            pool.forward(&x, &mut y, 2);
            let run = || {
                let mut data = vec![f32::NAN; x.len()];
                let mut target = InputGradient { data: &mut data, accumulate: false };
                pool.backward(Passed { input: &x, output: &y }, &d, &mut target);
                data
            };
            let fast = run();
            assert_eq!(fast, crate::gemm::with_portable(run));
            let sent: f32 = fast.iter().sum();
            let wanted = y.iter().zip(&d).filter(|(y, _)| !relu || **y > 0.0);
            assert!((sent - wanted.map(|(_, d)| d).sum::<f32>()).abs() < 1e-4);
        }
    }

    #[test]
    fn a_nan_anywhere_in_the_window_is_seen() {
        for (kernel, relu) in [(2, true), (2, false), (3, true), (3, false)] {
            let input = Shape::new(1, kernel, kernel);
            let output = Shape::new(1, 1, 1);
            let window = Window { input, output, kernel, stride: kernel, padding: 0 };
            for at in 0..input.len() {
                let mut x = vec![1.0; input.len()];
                x[at] = f32::NAN;
                let mut y = [0.0];
                MaxPool { window, relu }.forward(&x, &mut y, 1);
                assert!(y[0].is_nan(), "{kernel}x{kernel}, a NaN at {at}");
            }
        }
    }
}
