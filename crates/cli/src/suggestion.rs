//! Experiments that are drawn up for some data.

use crate::args::OriginArgs;
use anyhow::{Context, bail};
use formant_data::Glance;
use formant_experiment::units::Pixels;
use formant_experiment::{Experiment, Origin, suggestion};
use formant_methods::Zoo;

/// With fewer samples there is nothing to divide among clients.
const FEWEST: usize = 16;

/// The text of an experiment that suits some data, which are looked at.
pub(crate) fn of(origin: &Origin, zoo: &Zoo) -> anyhow::Result<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let glance = Glance::at(&origin.source, origin.dir.as_deref(), &origin.reading(threads))?;
    if glance.train < FEWEST {
        bail!(
            "{} has {} samples to divide among clients\nhint: give {FEWEST} or more",
            origin.source,
            glance.train
        );
    }
    let text = suggestion(origin, &glance);
    let table = text.parse().context("the experiment that suits the data")?;
    Experiment::parse(&table, &[], zoo)?;
    Ok(text)
}

impl OriginArgs {
    /// Where samples come from.
    pub(crate) fn origin(&self, source: &str) -> anyhow::Result<Origin> {
        let size = self.size.clone().map(|size| Pixels::try_from(size).map_err(anyhow::Error::msg));
        Ok(Origin {
            dir: self.data_dir.clone(),
            label: self.label.clone(),
            features: self.features.clone(),
            exclude: (!self.exclude.is_empty()).then(|| self.exclude.clone()),
            client: self.client.clone(),
            size: size.transpose().context("--size")?,
            normalisation: self.normalisation.clone(),
            test_fraction: self.test_fraction,
            skip_bad: self.skip_bad.then_some(true),
            ..Origin::of(source)
        })
    }
}
