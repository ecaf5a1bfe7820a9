//! Every form of a convolution against sums in double precision, and both paths of each.

use crate::gemm::SLACK;
use crate::layer::{Conv, InputGradient};
use crate::{Rng, Shape, Size, Stream, vector};

struct Case {
    conv: Conv,
    n: usize,
    parameters: Vec<f32>,
    input: Vec<f32>,
    d_output: Vec<f32>,
}

/// Square filters, moved by one.
struct Filters {
    count: usize,
    kernel: usize,
    padding: usize,
}

/// Output, input gradient, weight gradient.
type Passes = [Vec<f32>; 3];

impl Case {
    /// `n` images of a shape under some filters.
    fn new(n: usize, input: Shape, Filters { count, kernel, padding }: Filters) -> Self {
        let size = Size::square(kernel);
        let output = Conv::output_shape(input, count, size, 1, padding).unwrap();
        let weights = count * input.channels * size.area();
        let conv = Conv {
            input,
            output,
            kernel: size,
            stride: 1,
            padding,
            weight: 0..weights,
            bias: Some(weights..weights + count),
            direct: false,
            before_pooling: false,
        };
        let mut rng = Rng::new(1, Stream::Test, kernel as u64, n as u64);
        let mut draw = |len: usize, relu: bool| -> Vec<f32> {
            (0..len)
                .map(|_| rng.normal() as f32)
                .map(|x| if relu { x.max(0.0) } else { x })
                .collect()
        };
        Self {
            parameters: draw(weights + count, false),
            // What a convolution usually reads is the output of a ReLU.
            input: draw(n * input.len() + SLACK, true),
            d_output: draw(n * output.len(), false),
            conv,
            n,
        }
    }

    fn run(&self, direct: bool, accumulate: bool) -> Passes {
        let conv = Conv { direct, ..self.conv.clone() };
        let mut scratch = conv.need(self.n).allocate();
        let mut output = vec![f32::NAN; self.n * conv.output.len()];
        conv.forward(&self.parameters, &self.input, &mut output, &mut scratch, self.n);
        let mut d_input = vec![if accumulate { 1.0 } else { f32::NAN }; self.n * conv.input.len()];
        let mut gradient = vec![f32::NAN; self.parameters.len()];
        conv.backward(
            &self.parameters,
            &self.input,
            &self.d_output,
            Some(InputGradient { data: &mut d_input, accumulate }),
            &mut gradient,
            &mut scratch,
        );
        [output, d_input, gradient]
    }

    /// By the definition, in double precision.
    fn exact(&self) -> Passes {
        let Conv { input, output, kernel: Size { height: kh, width: kw }, padding, .. } = self.conv;
        let n = self.n;
        let (weight, bias) = self.parameters.split_at(self.conv.weight.len());
        let mut y: Vec<f64> =
            bias.iter().flat_map(|b| vec![f64::from(*b); n * output.plane()]).collect();
        let mut dx = vec![0.0f64; n * input.len()];
        let mut dw = vec![0.0f64; weight.len()];
        for (k, c, i) in indices(output.channels, input.channels, n) {
            for (oy, ox, tap) in indices(output.height, output.width, kh * kw) {
                let (iy, ix) = (oy + tap / kw, ox + tap % kw);
                if iy < padding
                    || ix < padding
                    || iy - padding >= input.height
                    || ix - padding >= input.width
                {
                    continue;
                }
                let at = ((c * n + i) * input.height + iy - padding) * input.width + ix - padding;
                let to = ((k * n + i) * output.height + oy) * output.width + ox;
                let w = (k * input.channels + c) * kh * kw + tap;
                y[to] += f64::from(weight[w]) * f64::from(self.input[at]);
                dx[at] += f64::from(weight[w]) * f64::from(self.d_output[to]);
                dw[w] += f64::from(self.d_output[to]) * f64::from(self.input[at]);
            }
        }
        let rows = self.d_output.chunks_exact(n * output.plane());
        dw.extend(rows.map(|row| row.iter().map(|d| f64::from(*d)).sum::<f64>()));
        [y, dx, dw].map(|v| v.into_iter().map(|x| x as f32).collect())
    }
}

fn indices(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

fn relative(got: &[f32], want: &[f32]) -> f64 {
    vector::distance_squared(got, want).sqrt() / vector::norm(want)
}

/// Every size modulo the tile, borders, one and many images, blocks that end inside an image.
fn cases() -> Vec<Case> {
    vec![
        Case::new(1, Shape::new(16, 4, 4), Filters { count: 16, kernel: 3, padding: 1 }),
        Case::new(3, Shape::new(16, 9, 7), Filters { count: 32, kernel: 3, padding: 0 }),
        Case::new(2, Shape::new(32, 6, 13), Filters { count: 16, kernel: 3, padding: 2 }),
        Case::new(2, Shape::new(16, 33, 18), Filters { count: 16, kernel: 3, padding: 1 }),
        Case::new(7, Shape::new(32, 14, 14), Filters { count: 64, kernel: 5, padding: 0 }),
        Case::new(2, Shape::new(16, 5, 9), Filters { count: 16, kernel: 5, padding: 2 }),
        Case::new(40, Shape::new(16, 6, 5), Filters { count: 32, kernel: 5, padding: 1 }),
        Case::new(2, Shape::new(272, 4, 5), Filters { count: 256, kernel: 3, padding: 1 }),
    ]
}

/// The bound is what docs/PERFORMANCE.md tells users: two millionths, for all three passes.
#[test]
fn rounding_stays_within_the_documented_bound() {
    for case in cases() {
        assert!(
            !case.conv.need(case.n).allocate().transforms.inputs.is_empty(),
            "the fast form applies"
        );
        let (fast, direct, exact) = (case.run(false, false), case.run(true, false), case.exact());
        let Conv { input, output, kernel, .. } = &case.conv;
        print!("{input} -> {output}, {}x{}:", kernel.height, kernel.width);
        for i in 0..3 {
            let (fast, direct) = (relative(&fast[i], &exact[i]), relative(&direct[i], &exact[i]));
            print!("  {fast:.1e} (direct {direct:.1e})");
            assert!(fast < 2e-6, "pass {i} of {:?}: {fast:.1e}", case.conv);
            assert!(direct < 1e-6, "pass {i} of {:?}: {direct:.1e}", case.conv);
        }
        println!();
    }
}

#[test]
fn adds_to_an_input_gradient_that_is_there() {
    for case in cases() {
        let (plain, added) = (case.run(false, false), case.run(false, true));
        let want: Vec<f32> = plain[1].iter().map(|x| x + 1.0).collect();
        assert!(relative(&added[1], &want) < 1e-6);
        assert_eq!((&plain[0], &plain[2]), (&added[0], &added[2]));
    }
}

#[test]
fn the_portable_path_gives_the_same_bits() {
    for case in cases() {
        assert_eq!(case.run(false, false), crate::gemm::with_portable(|| case.run(false, false)));
    }
}

/// Few channels, as the first layer has them, with and without a pooling after it.
fn first_layers() -> Vec<Case> {
    let mut cases = vec![
        Case::new(3, Shape::new(3, 32, 32), Filters { count: 32, kernel: 5, padding: 0 }),
        Case::new(2, Shape::new(1, 28, 28), Filters { count: 6, kernel: 5, padding: 0 }),
        Case::new(2, Shape::new(3, 18, 25), Filters { count: 16, kernel: 3, padding: 1 }),
        Case::new(2, Shape::new(4, 9, 30), Filters { count: 7, kernel: 3, padding: 0 }),
        Case::new(3, Shape::new(6, 12, 12), Filters { count: 16, kernel: 5, padding: 0 }),
    ];
    for case in cases.iter_mut().take(4) {
        assert!(case.conv.shifts());
    }
    for case in &mut cases {
        case.conv.before_pooling = true;
        // As before a pooling: one in four, some of them off.
        for (i, d) in case.d_output.iter_mut().enumerate() {
            *d = if i % 4 == 1 && i % 7 != 0 { *d } else { 0.0 };
        }
    }
    cases.push(Case::new(3, Shape::new(3, 32, 32), Filters { count: 32, kernel: 5, padding: 0 }));
    cases
}

#[test]
fn shifted_views_and_sparse_sums_agree_with_the_definition() {
    for case in first_layers() {
        let got = case.run(true, false);
        for (pass, (got, exact)) in got.iter().zip(&case.exact()).enumerate() {
            let error = relative(got, exact);
            assert!(error < 1e-6, "pass {pass} of {:?}: {error:.1e}", case.conv);
        }
        assert_eq!(got, crate::gemm::with_portable(|| case.run(true, false)));
    }
}

#[test]
fn odd_shapes_stay_with_the_direct_form() {
    let case = Case::new(1, Shape::new(3, 8, 8), Filters { count: 16, kernel: 3, padding: 1 });
    assert_eq!(case.run(false, false), case.run(true, false));
}
