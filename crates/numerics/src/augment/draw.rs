//! What happens to one sample.

use super::Augmentation;
use crate::{Rng, Shape};
use core::ops::Range;

/// What happens to one sample the next time it is gathered.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// How far below and to the right of the image's corner the crop begins.
    pub(super) shift: [i32; 2],
    pub(super) flip: bool,
    /// Sine and cosine of the angle.
    pub(super) turn: Option<[f32; 2]>,
    /// Factors of brightness, contrast and saturation, if any is drawn.
    pub(super) colour: Option<[f32; 3]>,
    /// Rows and columns that are blanked out.
    pub(super) hole: [Range<usize>; 2],
}

impl Draw {
    /// Draws from a generator. Everything is drawn whether it is wanted or not, so that to add one
    /// transformation does not change what the others do.
    fn new(how: &Augmentation, shape: Shape, rng: &mut Rng) -> Self {
        let padding = how.crop as i32;
        let shift = [(); 2].map(|()| rng.below(2 * how.crop as usize + 1) as i32 - padding);
        let flip = rng.uniform() < how.flip;
        let angle = symmetric(rng, how.rotation).to_radians();
        let colour = [how.brightness, how.contrast, how.saturation].map(|spread| {
            let least = (1.0 - spread).max(0.0);
            (least + (1.0 + spread - least) * rng.uniform()) as f32
        });
        let hole = [shape.height, shape.width].map(|extent| {
            let (side, centre) = (how.cutout as usize, rng.below(extent));
            let end = (centre + side - side / 2).min(extent);
            centre.saturating_sub(side / 2)..end
        });
        Self {
            shift,
            flip,
            turn: (how.rotation != 0.0).then(|| [libm::sin(angle) as f32, libm::cos(angle) as f32]),
            colour: how.has_colour().then_some(colour),
            hole: if how.cutout == 0 { [0..0, 0..0] } else { hole },
        }
    }
}

/// Uniform between `-most` and `most`.
fn symmetric(rng: &mut Rng, most: f64) -> f64 {
    most * (2.0 * rng.uniform() - 1.0)
}

/// Draws for one phase of one client.
#[derive(Debug, Clone)]
pub struct Augmenter {
    how: Augmentation,
    /// At the phase's address; only its key is used.
    rng: Rng,
    /// That were begun in this phase, whoever asked for them.
    epochs: u64,
}

/// Nonces: those of the generators that phases draw from themselves lie far below.
const OF_A_SAMPLE: u64 = 0b10 << 62;
const OF_A_BATCH: u64 = 0b11 << 62;

impl Augmenter {
    /// Draws at the address of a phase's generator, beside all that is drawn from the generator itself.
    pub fn new(how: Augmentation, phase: &Rng) -> Self {
        Self { how, rng: phase.clone(), epochs: 0 }
    }

    /// A new pass over the samples.
    pub(crate) fn begin_epoch(&mut self) {
        self.epochs += 1;
    }

    /// What happens in this epoch to the sample at a position among the client's training samples.
    pub(crate) fn draw(&self, position: u32, shape: Shape) -> Draw {
        Draw::new(&self.how, shape, &mut self.at(OF_A_SAMPLE, position))
    }

    /// `λ`: how much of each sample of a batch is its own.
    pub(crate) fn share(&self, batch: u32) -> Option<f32> {
        let alpha = self.how.mixup;
        (alpha != 0.0).then(|| {
            let mut rng = self.at(OF_A_BATCH, batch);
            let [a, b] = [(); 2].map(|()| rng.log_gamma_draw(alpha));
            // In the logarithm, where neither is too small to be told from 0.
            (1.0 / (1.0 + libm::exp(b - a))) as f32
        })
    }

    fn at(&self, of: u64, number: u32) -> Rng {
        let epoch = (self.epochs & 0x3fff_ffff) << 32;
        self.rng.apart(of | epoch | u64::from(number))
    }
}
