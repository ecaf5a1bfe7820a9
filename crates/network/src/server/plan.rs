//! What the server knows before any client has come: settings, network and method, and no client's
//! data.

use crate::error::NetworkError;
use crate::settings::ServerSettings;
use formant_data::Dataset;
use formant_experiment::{Data, OneMethod, Side};
use formant_numerics::Samples;
use formant_runtime::event::RunStarted;
use formant_runtime::{MethodPlan, Scored, Task};
use std::sync::Arc;

/// The settings with everything that follows from them.
pub(crate) struct Wiring {
    pub(crate) settings: ServerSettings,
    pub(crate) task: Task,
    /// The first line of the event log.
    pub(crate) header: RunStarted,
    /// What the generic model is scored on; empty if there are no samples here.
    pub(crate) test: Arc<dyn Samples>,
    /// The resolved experiment as TOML, for clients.
    pub(crate) experiment: String,
}

impl Wiring {
    pub(crate) fn new(
        experiment: &OneMethod,
        settings: ServerSettings,
    ) -> Result<Self, NetworkError> {
        let dataset = match experiment.evaluation.split {
            Scored::Test => load(&experiment.data)?,
            // Of the union of all validation sets nobody here has anything.
            Scored::Validation => Dataset::described(
                experiment.data.dataset.name,
                &experiment.data.dataset.description(),
            )?,
        };
        let (task, header) = experiment.task(&dataset, Side::Server)?;
        let experiment = experiment.for_clients().to_string();
        Ok(Self { settings, task, header, test: dataset.test, experiment })
    }

    pub(crate) fn method(&self) -> &MethodPlan {
        &self.task.method
    }
}

/// The dataset's shape and classes, and its test images if they can be had: only they are needed, to
/// score the GM.
fn load(data: &Data) -> Result<Dataset, NetworkError> {
    let described = Dataset::described(data.dataset.name, &data.dataset.description())?;
    match Dataset::load(data.dataset.name, data.dir.as_deref()) {
        Ok(loaded) => Ok(Dataset { test: loaded.test, ..described }),
        Err(error) => {
            let error = error.to_string();
            let why = error.lines().next();
            let dataset = data.dataset.name;
            tracing::warn!(dataset, why, "no images: the generic model is not scored here");
            Ok(described)
        }
    }
}
