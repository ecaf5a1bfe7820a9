//! `[data.augment]`: what happens to training samples on the way.

use crate::section::{Section, key, symbol};
use crate::{ExperimentError, Settings};
use formant_data::Dataset;
use formant_methods::schema::{Default as Preset, Key, Kind};

pub(crate) const SECTION: Section = Section::new(
    "data.augment",
    "What happens to training samples, drawn anew each time; unset keys are off. Nothing happens where models are scored.",
    KEYS,
);

const KEYS: &[Key] = &[
    key(
        "crop",
        Kind::Integer { min: 0, max: 65_535 },
        Preset::Unset,
        "black pixels around the image, of which a random part of the old size is taken; 4 is usual for 32x32",
    ),
    key(
        "flip",
        Kind::Number { min: 0.0, max: 1.0 },
        Preset::Unset,
        "probability that left and right change places; 0.5 is usual",
    ),
    key(
        "rotation",
        Kind::Number { min: 0.0, max: 180.0 },
        Preset::Unset,
        "largest angle of a random rotation either way, in degrees",
    ),
    key(
        "brightness",
        Kind::Number { min: 0.0, max: 10.0 },
        Preset::Unset,
        "spread of the factor on all values, around 1, as in torchvision's ColorJitter",
    ),
    key(
        "contrast",
        Kind::Number { min: 0.0, max: 10.0 },
        Preset::Unset,
        "spread of the factor on distances from the image's mean grey",
    ),
    key(
        "saturation",
        Kind::Number { min: 0.0, max: 10.0 },
        Preset::Unset,
        "spread of the factor on distances from each pixel's grey",
    ),
    key(
        "cutout",
        Kind::Integer { min: 0, max: 65_535 },
        Preset::Unset,
        "side of a square at a random place that is set to the mean; 16 is usual for 32x32",
    ),
    symbol(
        "α",
        key(
            "mixup",
            Kind::Number { min: 0.0, max: 1e3 },
            Preset::Unset,
            "samples and labels of a batch are mixed in pairs by a share from Beta(mixup, mixup); 0.2 and 1 are usual",
        ),
    ),
];

impl Settings {
    /// Refuses mixed samples for methods that must know the label of each.
    pub(crate) fn check_mixing(&self) -> Result<(), ExperimentError> {
        let mixup = self.data.augment.mixup;
        let mut entries = self.methods.iter().map(|setting| setting.method.method.entry());
        let Some(entry) = entries.find(|entry| mixup != 0.0 && entry.needs_labels) else {
            return Ok(());
        };
        Err(ExperimentError::combination(
            format!(
                "`{}.mixup = {mixup}` gives every sample two labels, and {} needs one",
                SECTION.name, entry.title
            ),
            "remove it, or leave out that method",
        ))
    }

    /// Refuses what the samples cannot follow.
    pub(crate) fn check_augmentation(&self, dataset: &Dataset) -> Result<(), ExperimentError> {
        let misfit = self.data.augment.misfit(dataset.shape, dataset.train.normalisation());
        let Some(misfit) = misfit else { return Ok(()) };
        let (section, key, value) = (SECTION.name, misfit.key, misfit.value);
        Err(ExperimentError::combination(
            format!("`{section}.{key} = {value}` {}", misfit.reason),
            misfit.remedy,
        ))
    }
}
