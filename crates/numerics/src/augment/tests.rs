mod obvious;

use super::*;
use crate::{BatchPlan, Batches, Patience, Rng, Samples, Stream, samples::Raw};

/// Images as bytes, or as the values that they stand for.
#[derive(Debug, Clone)]
struct Pictures {
    shape: Shape,
    pixels: Vec<u8>,
    normalisation: Vec<Normalisation>,
    tables: Vec<[f32; 256]>,
    as_bytes: bool,
}

impl Pictures {
    fn new(shape: Shape, pixels: Vec<u8>, normalisation: &[Normalisation]) -> Self {
        let tables = normalisation.iter().map(|n| n.table()).collect();
        Self { shape, pixels, normalisation: normalisation.to_vec(), tables, as_bytes: true }
    }

    /// So many random images.
    fn random(shape: Shape, len: usize) -> Self {
        let mut rng = Rng::new(9, Stream::Test, 0, 0);
        let pixels = (0..len * shape.len()).map(|_| rng.below(256) as u8).collect();
        let all = [(0.49, 0.25), (0.48, 0.24), (0.45, 0.26)];
        let all = all.map(|(mean, std)| Normalisation::new(mean, std));
        Self::new(shape, pixels, &all[..shape.channels])
    }

    fn sample(&self, i: usize) -> &[u8] {
        &self.pixels[i * self.shape.len()..][..self.shape.len()]
    }
}

impl Samples for Pictures {
    fn len(&self) -> usize {
        self.pixels.len() / self.shape.len()
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn label(&self, i: usize) -> usize {
        i % 3
    }

    fn normalisation(&self) -> &[Normalisation] {
        &self.normalisation
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        let plane = self.shape.plane();
        let mut rows = out.chunks_exact_mut(plane);
        for (channel, table) in self.tables.iter().enumerate() {
            for index in indices {
                let bytes = &self.sample(*index as usize)[channel * plane..][..plane];
                let row = rows.next().unwrap();
                row.iter_mut().zip(bytes).for_each(|(x, byte)| *x = table[usize::from(*byte)]);
            }
        }
    }

    fn raw<'s>(&'s self, i: usize, memory: &'s mut Vec<f32>) -> Raw<'s> {
        if self.as_bytes {
            return Raw::Bytes { pixels: self.sample(i), tables: &self.tables };
        }
        memory.resize(self.shape.len(), 0.0);
        self.gather(&[i as u32], memory);
        Raw::Values(memory)
    }
}

/// What happens to nobody.
fn nothing() -> Draw {
    Draw { shift: [0, 0], flip: false, turn: None, colour: None, hole: [0..0, 0..0] }
}

/// One sample as drawn.
fn seen(samples: &dyn Samples, index: u32, draw: Draw) -> Vec<f32> {
    let mut out = vec![f32::NAN; samples.shape().len()];
    let mut values = Vec::new();
    batch::Selection::drawn(samples, &[index], &[draw], None, &mut values).gather(&mut out);
    out
}

fn turned(degrees: f64) -> Draw {
    let (sin, cos) = degrees.to_radians().sin_cos();
    Draw { turn: Some([sin as f32, cos as f32]), ..nothing() }
}

/// Two rows of three pixels, from black, which is -1, to white, which is 4.
fn six() -> Pictures {
    Pictures::new(Shape::new(1, 2, 3), (0..6).map(|i| i * 51).collect(), &[SIX])
}

const SIX: Normalisation = Normalisation::new(0.2, 0.2);

#[test]
fn crops_flips_and_cutouts_of_a_small_image_are_as_by_hand() {
    // Bytes 0, 51, … 255 are 0, 0.2, … 1, and -1, 0, … 4 when normalised.
    let image = six();
    let rounded = |draw| seen(&image, 0, draw).iter().map(|x| x.round() as i32).collect::<Vec<_>>();
    assert_eq!(rounded(nothing()), [-1, 0, 1, 2, 3, 4]);
    assert_eq!(rounded(Draw { shift: [1, 0], ..nothing() }), [2, 3, 4, -1, -1, -1]);
    assert_eq!(rounded(Draw { shift: [0, -1], ..nothing() }), [-1, -1, 0, -1, 2, 3]);
    assert_eq!(rounded(Draw { shift: [-1, 2], ..nothing() }), [-1, -1, -1, 1, -1, -1]);
    assert_eq!(rounded(Draw { flip: true, ..nothing() }), [1, 0, -1, 4, 3, 2]);
    assert_eq!(rounded(Draw { shift: [0, 1], flip: true, ..nothing() }), [-1, 1, 0, -1, 4, 3]);
    assert_eq!(rounded(Draw { shift: [9, -9], flip: true, ..nothing() }), [-1; 6]);
    // What is cut out is the mean, not black.
    assert_eq!(rounded(Draw { hole: [0..1, 1..3], ..nothing() }), [-1, 0, 0, 2, 3, 4]);
}

#[test]
fn a_quarter_turn_is_counter_clockwise_and_a_half_turn_reverses() {
    let square = Pictures::new(Shape::new(1, 2, 2), vec![0, 51, 102, 153], &[Normalisation::NONE]);
    let fifths = |degrees| -> Vec<i32> {
        let out = seen(&square, 0, turned(degrees));
        out.iter().map(|x| (5.0 * x).round() as i32).collect()
    };
    // 0 1      1 3
    // 2 3  ->  0 2
    assert_eq!(fifths(90.0), [1, 3, 0, 2]);
    assert_eq!(fifths(180.0), [3, 2, 1, 0]);
    assert_eq!(fifths(-90.0), [2, 0, 3, 1]);
    // By 45 degrees, the pixels of the result come from straight above, right of, left of and below the centre,
    // 0.7071 away: halfway between two pixels, and by 0.2071 of a pixel outside, where it is black.
    let out = seen(&square, 0, turned(45.0));
    let outside = 0.5f32.sqrt() - 0.5;
    let [above, left] = [0.5 * (0.0 + 0.2), 0.5 * (0.0 + 0.4)].map(|x| x * (1.0 - outside));
    let [below, right] = [0.5 * (0.4 + 0.6), 0.5 * (0.2 + 0.6)].map(|x| x * (1.0 - outside));
    let expected = [above, right, left, below];
    assert!(out.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{out:?} {expected:?}");
}

#[test]
fn colours_of_a_pixel_are_as_torchvision_has_them() {
    // (0.2, 0.4, 0.6) and (1, 0, 0.2).
    let image = Pictures::new(
        Shape::new(3, 1, 2),
        vec![51, 255, 102, 0, 153, 51],
        &[Normalisation::NONE; 3],
    );
    let close = |factors, expected: [f32; 6]| {
        let out = seen(&image, 0, Draw { colour: Some(factors), ..nothing() });
        assert!(
            out.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
            "{out:?} {expected:?}"
        );
    };
    close([1.5, 1.0, 1.0], [0.3, 1.0, 0.6, 0.0, 0.9, 0.3]);
    // Greys 0.36298 and 0.3217, their mean 0.34234.
    close([1.0, 0.5, 1.0], [0.27117, 0.67117, 0.37117, 0.17117, 0.47117, 0.27117]);
    close([1.0, 1.0, 0.5], [0.28149, 0.66085, 0.38149, 0.16085, 0.48149, 0.26085]);
    close([1.0, 1.0, 2.0], [0.03702, 1.0, 0.43702, 0.0, 0.83702, 0.0783]);
    // One after the other: (0.1, 0.2, 0.3), (0.5, 0, 0.1); mean grey 0.17117; then greys 0.17, 0.17.
    close([0.5, 0.0, 0.3], [0.171_158; 6]);
}

#[test]
fn whatever_is_drawn_is_what_the_obvious_way_gives() {
    let none = Augmentation::NONE;
    let all = Augmentation {
        crop: 3,
        flip: 0.5,
        rotation: 40.0,
        brightness: 0.6,
        contrast: 0.7,
        saturation: 1.2,
        cutout: 4,
        mixup: 0.0,
    };
    let each = [
        none,
        Augmentation { crop: 3, flip: 0.5, ..none },
        Augmentation { cutout: 3, ..none },
        Augmentation { rotation: 180.0, ..none },
        Augmentation { brightness: 0.5, ..none },
        Augmentation { contrast: 0.5, ..none },
        all,
    ];
    for shape in [Shape::new(3, 8, 6), Shape::new(1, 5, 7)] {
        let bytes = Pictures::random(shape, 40);
        let values = Pictures { as_bytes: false, ..bytes.clone() };
        for how in each {
            let mut augmenter = Augmenter::new(how, &Rng::new(1, Stream::Test, 0, 0));
            augmenter.begin_epoch();
            for index in 0..40 {
                let draw = augmenter.draw(index, shape);
                let expected = obvious::seen(&bytes, index as usize, &draw);
                let (a, b) =
                    (seen(&bytes, index, draw.clone()), seen(&values, index, draw.clone()));
                let apart = |x: &[f32]| {
                    let pairs = x.iter().zip(&expected);
                    pairs.map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
                };
                assert!(apart(&a) < 1e-4 && apart(&b) < 1e-4, "{how:?} {draw:?}");
                // Without colours, bytes and the values that they stand for give the same bits.
                assert!(draw.colour.is_some() || a == b, "{how:?} {draw:?}");
            }
        }
    }
}

#[test]
fn draws_have_the_distributions_that_were_asked_for() {
    let (shape, n) = (Shape::new(3, 32, 32), 20_000);
    let how = Augmentation {
        crop: 4,
        flip: 0.3,
        rotation: 30.0,
        brightness: 0.4,
        contrast: 1.5,
        cutout: 16,
        ..Augmentation::NONE
    };
    let mut augmenter = Augmenter::new(how, &Rng::new(1, Stream::Test, 0, 0));
    augmenter.begin_epoch();
    let draws: Vec<Draw> = (0..n).map(|i| augmenter.draw(i, shape)).collect();
    let share = |is: &dyn Fn(&Draw) -> bool| {
        draws.iter().filter(|draw| is(draw)).count() as f64 / f64::from(n)
    };
    for offset in -4..=4 {
        for axis in 0..2 {
            let found = share(&|draw| draw.shift[axis] == offset);
            assert!((found - 1.0 / 9.0).abs() < 0.01, "{offset}: {found}");
        }
    }
    assert!((share(&|draw| draw.flip) - 0.3).abs() < 0.015);
    assert!(draws.iter().all(|draw| draw.shift.iter().all(|x| x.abs() <= 4)));
    let left = share(&|draw| draw.turn.unwrap()[0] > 0.0);
    assert!((left - 0.5).abs() < 0.015, "{left}");
    assert!(draws.iter().all(|draw| draw.turn.unwrap()[0].abs() <= 0.500_001));
    let factors = |of: usize| draws.iter().map(move |draw| f64::from(draw.colour.unwrap()[of]));
    let mean = |of| factors(of).sum::<f64>() / f64::from(n);
    assert!((mean(0) - 1.0).abs() < 0.01 && factors(0).all(|x| (0.6..=1.4001).contains(&x)));
    // From 0, not from -0.5.
    assert!((mean(1) - 1.25).abs() < 0.02 && factors(1).all(|x| (0.0..=2.5001).contains(&x)));
    assert!(factors(2).all(|x| x == 1.0));
    // A square of 16 around any pixel: whole if its centre is at least 8 from the edges.
    let area = |draw: &Draw| draw.hole.iter().map(ExactSizeIterator::len).product::<usize>();
    assert!((share(&|draw| area(draw) == 256) - (17.0 / 32.0f64).powi(2)).abs() < 0.015);
    assert!(draws.iter().all(|draw| area(draw) >= 64));
}

#[test]
fn a_draw_depends_on_where_a_sample_stands_and_on_nothing_else() {
    let shape = Shape::new(3, 32, 32);
    let how = Augmentation { crop: 4, rotation: 30.0, mixup: 0.5, ..Augmentation::NONE };
    let at = |seed, stream, round, client, epochs, position| {
        let mut rng = Rng::new(seed, stream, round, client);
        let mut augmenter = Augmenter::new(how, &rng);
        // What else is drawn makes no difference.
        rng.next_u64();
        (0..epochs).for_each(|_| augmenter.begin_epoch());
        augmenter.draw(position + 1, shape);
        (augmenter.draw(position, shape), augmenter.share(position))
    };
    let here = at(1, Stream::SharedPhase, 2, 3, 1, 4);
    assert_eq!(here, at(1, Stream::SharedPhase, 2, 3, 1, 4));
    for (draw, share) in [
        at(2, Stream::SharedPhase, 2, 3, 1, 4),
        at(1, Stream::PersonalPhase, 2, 3, 1, 4),
        at(1, Stream::SharedPhase, 3, 3, 1, 4),
        at(1, Stream::SharedPhase, 2, 4, 1, 4),
        at(1, Stream::SharedPhase, 2, 3, 2, 4),
        at(1, Stream::SharedPhase, 2, 3, 1, 5),
    ] {
        assert!(draw != here.0 && share != here.1);
    }
    // One more transformation leaves the others as they were.
    let more = Augmentation { flip: 0.5, cutout: 4, ..how };
    let mut augmenter = Augmenter::new(more, &Rng::new(1, Stream::SharedPhase, 2, 3));
    augmenter.begin_epoch();
    let with = augmenter.draw(4, shape);
    assert_eq!((with.shift, with.turn), (here.0.shift, here.0.turn));
}

/// All that two epochs show of a client whose samples lie at some indices.
fn epochs(
    samples: &Pictures,
    train: &[u32],
    batch: usize,
    augmenter: &mut Augmenter,
) -> Vec<Vec<f32>> {
    let mut rng = Rng::new(4, Stream::Test, 0, 0);
    let plan = BatchPlan { samples, train, batch, epochs: 2, patience: Patience::Epochs };
    let mut batches = Batches::new(plan, &mut rng).augmented(augmenter);
    let mut seen = Vec::new();
    while let Some(mut batch) = batches.next() {
        let mut out = vec![0.0; batch.len() * batch.shape().len()];
        batch.gather(&mut out);
        seen.push(out);
    }
    seen
}

#[test]
fn it_does_not_matter_where_a_client_keeps_its_samples() {
    let shape = Shape::new(1, 6, 6);
    let all = Pictures::random(shape, 20);
    let train = [3, 17, 5, 0, 11, 8, 2];
    let pixels = train.iter().flat_map(|i| all.sample(*i as usize).to_vec()).collect();
    let own = Pictures::new(shape, pixels, &all.normalisation);
    let how = Augmentation { crop: 2, flip: 0.5, mixup: 1.0, ..Augmentation::NONE };
    let fresh = || Augmenter::new(how, &Rng::new(1, Stream::Test, 0, 0));
    let here = epochs(&all, &train, 3, &mut fresh());
    let there: Vec<u32> = (0..7).collect();
    assert_eq!(epochs(&own, &there, 3, &mut fresh()), here);
    // A second stretch of the same phase goes on with other epochs.
    let mut phase = fresh();
    assert_eq!(epochs(&all, &train, 3, &mut phase), here);
    assert_ne!(epochs(&all, &train, 3, &mut phase), here);
}

#[test]
fn mixing_takes_the_rest_from_the_next_sample() {
    let shape = Shape::new(2, 1, 2);
    let none = [Normalisation::NONE; 2];
    let pictures = Pictures::new(shape, (0..12).map(|i| i * 20).collect(), &none);
    let mut plain = vec![0.0; 12];
    pictures.gather(&[2, 0, 1], &mut plain);
    let (mut mixed, mut values) = (vec![0.0; 12], Vec::new());
    let draws = [nothing(), nothing(), nothing()];
    let mut batch = Selection::drawn(&pictures, &[2, 0, 1], &draws, Some(0.75), &mut values);
    batch.gather(&mut mixed);
    assert_eq!(batch.share(), Some(0.75));
    for channel in 0..2 {
        for nth in 0..3 {
            for pixel in 0..2 {
                let at = |nth: usize| (channel * 3 + nth) * 2 + pixel;
                let expected = 0.75 * plain[at(nth)] + 0.25 * plain[at((nth + 1) % 3)];
                assert!((mixed[at(nth)] - expected).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn shares_are_beta_distributed() {
    for alpha in [0.2, 1.0, 4.0] {
        let how = Augmentation { mixup: alpha, ..Augmentation::NONE };
        let augmenter = Augmenter::new(how, &Rng::new(1, Stream::Test, 0, 0));
        let n = 20_000;
        let all: Vec<f64> = (0..n).map(|i| f64::from(augmenter.share(i).unwrap())).collect();
        let mean = all.iter().sum::<f64>() / f64::from(n);
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
        assert!((mean - 0.5).abs() < 0.01 && (variance - expected).abs() < 0.004, "{alpha}");
    }
}

#[test]
fn what_samples_cannot_follow_is_named() {
    let none = Augmentation::NONE;
    let (rgb, grey, table) = (Shape::new(3, 32, 32), Shape::new(1, 28, 28), Shape::new(9, 1, 1));
    let known = [Normalisation::NONE; 3];
    let key = |how: Augmentation, shape: Shape, known: &[Normalisation]| {
        how.misfit(shape, known).map(|misfit| misfit.key)
    };
    let cases = [
        (Augmentation { crop: 2, mixup: 1.0, ..none }, table, &[][..], Some("crop")),
        (Augmentation { flip: 0.5, ..none }, table, &[], Some("flip")),
        (Augmentation { rotation: 5.0, ..none }, table, &[], Some("rotation")),
        (Augmentation { brightness: 0.5, ..none }, table, &[], Some("brightness")),
        (Augmentation { cutout: 1, ..none }, table, &[], Some("cutout")),
        (Augmentation { mixup: 1.0, ..none }, table, &[], None),
        (Augmentation { crop: 4, flip: 0.5, rotation: 3.0, cutout: 8, ..none }, rgb, &[], None),
        (Augmentation { contrast: 0.5, ..none }, rgb, &[], Some("contrast")),
        (Augmentation { contrast: 0.5, saturation: 0.5, ..none }, rgb, &known, None),
        (Augmentation { contrast: 0.5, ..none }, grey, &known[..1], None),
        (Augmentation { saturation: 0.5, ..none }, grey, &known[..1], Some("saturation")),
        (
            Augmentation { contrast: 0.5, ..none },
            Shape::new(2, 8, 8),
            &known[..2],
            Some("contrast"),
        ),
        (Augmentation { crop: 32, ..none }, rgb, &known, Some("crop")),
        (Augmentation { cutout: 33, ..none }, rgb, &known, Some("cutout")),
    ];
    for (how, shape, known, expected) in cases {
        assert_eq!(key(how, shape, known), expected, "{how:?} on {shape}");
    }
}
