//! Training samples that look a little different each time they are seen.
//!
//! What happens to a sample is drawn by where it stands, never by when it is gathered: `(seed, phase, round,
//! client)` are the key of a ChaCha generator, as everywhere, and the epoch and the sample's position among the
//! client's training samples are its nonce. So threads, resumption and the machine make no difference, and
//! neither does where a client keeps its samples. A generator of its own for each sample costs a fraction of a
//! microsecond, so nothing weaker than ChaCha is needed.
//!
//! In this order: crop, flip, rotation, brightness, contrast, saturation, normalisation, cutout, mixup.

mod batch;
mod colour;
mod draw;
mod geometry;

pub(crate) use batch::Scratch;
pub use batch::Selection;
pub use draw::{Augmenter, Draw};

use crate::{Normalisation, Shape};
use serde::{Deserialize, Serialize};

/// What may happen to a sample while training; 0 is off. Scoring sees samples as they are.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Augmentation {
    /// Black pixels on every side of the image, of which a random part of the old size is taken.
    #[serde(skip_serializing_if = "is_zero")]
    pub crop: u32,
    /// Probability of a horizontal flip.
    #[serde(skip_serializing_if = "is_off")]
    pub flip: f64,
    /// Largest angle of a random rotation either way, in degrees.
    #[serde(skip_serializing_if = "is_off")]
    pub rotation: f64,
    /// Values are multiplied by a factor up to so far from 1.
    #[serde(skip_serializing_if = "is_off")]
    pub brightness: f64,
    /// Distances from the mean grey are.
    #[serde(skip_serializing_if = "is_off")]
    pub contrast: f64,
    /// Distances from each pixel's grey are.
    #[serde(skip_serializing_if = "is_off")]
    pub saturation: f64,
    /// Side of a square at a random place that is blanked out.
    #[serde(skip_serializing_if = "is_zero")]
    pub cutout: u32,
    /// `α`: samples are mixed in pairs by a share from Beta(α, α), and so are their labels.
    #[serde(skip_serializing_if = "is_off")]
    pub mixup: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_off(value: &f64) -> bool {
    *value == 0.0
}

/// A setting that samples cannot follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// The field.
    pub key: &'static str,
    /// What it says.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl Augmentation {
    /// Nothing ever happens.
    pub const NONE: Self = Self {
        crop: 0,
        flip: 0.0,
        rotation: 0.0,
        brightness: 0.0,
        contrast: 0.0,
        saturation: 0.0,
        cutout: 0,
        mixup: 0.0,
    };

    /// Whether nothing ever happens.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether values change other than by moving.
    fn has_colour(&self) -> bool {
        self.brightness != 0.0 || self.contrast != 0.0 || self.saturation != 0.0
    }

    /// What does not go with samples of a shape, normalised in some way or (if it is empty) in none that is known.
    pub fn misfit(&self, shape: Shape, normalisation: &[Normalisation]) -> Option<Misfit> {
        let all = [
            ("crop", f64::from(self.crop)),
            ("flip", self.flip),
            ("rotation", self.rotation),
            ("brightness", self.brightness),
            ("contrast", self.contrast),
            ("saturation", self.saturation),
            ("cutout", f64::from(self.cutout)),
        ];
        let side = shape.height.min(shape.width);
        let fault = |key: &'static str, value: f64| {
            let grey_is_known = matches!(shape.channels, 1 | 3);
            Some(if shape.plane() == 1 {
                (
                    format!("is for images, and a sample of shape {shape} is none"),
                    "remove it; mixup works on any samples".to_owned(),
                )
            } else if key == "crop" && value >= side as f64 {
                (
                    format!("could leave nothing of an image of shape {shape}"),
                    format!("at most {}; 4 is usual for 32x32", side - 1),
                )
            } else if key == "cutout" && value > side as f64 {
                (
                    format!("is larger than an image of shape {shape}"),
                    format!("at most {side}; 16 is usual for 32x32"),
                )
            } else if matches!(key, "brightness" | "contrast" | "saturation")
                && normalisation.is_empty()
            {
                (
                    "needs values whose black and white are known, as those of image bytes are"
                        .into(),
                    "remove it, or give the images as bytes".into(),
                )
            } else if key == "saturation" && shape.channels == 1 {
                (
                    format!("does nothing on grey images, which those of shape {shape} are"),
                    "remove it".into(),
                )
            } else if matches!(key, "contrast" | "saturation") && !grey_is_known {
                (
                    format!(
                        "needs to know what is grey, which nobody does on {} channels",
                        shape.channels
                    ),
                    "remove it, or use images of 1 or 3 channels".into(),
                )
            } else {
                return None;
            })
        };
        let mut set = all.into_iter().filter(|(_, value)| *value != 0.0);
        set.find_map(|(key, value)| {
            let (reason, remedy) = fault(key, value)?;
            Some(Misfit { key, value: value.to_string(), reason, remedy })
        })
    }
}

#[cfg(test)]
mod tests;
