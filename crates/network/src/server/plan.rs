//! What the server knows before any client has come: settings, network and method, and no client's
//! data.

use crate::approval::experiment_hash;
use crate::error::NetworkError;
use crate::settings::ServerSettings;
use formant_data::{Dataset, Description};
use formant_experiment::{OneMethod, Origin, Side};
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
    /// The hash by which sites approve it.
    pub(crate) hash: String,
}

impl Wiring {
    pub(crate) fn new(
        experiment: &OneMethod,
        settings: ServerSettings,
    ) -> Result<Self, NetworkError> {
        let origin = &experiment.data.origin;
        let dataset = match (experiment.evaluation.split, origin.described()) {
            // Of the union of all validation sets nobody here has anything.
            (Scored::Validation, Some(known)) => Dataset::described(origin.name(), &known)?,
            (_, known) => load(origin, known, experiment.runtime.threads())?,
        };
        for remark in &dataset.remarks {
            tracing::info!(data = dataset.name, "{remark}");
        }
        let (mut task, header) = experiment.task(&dataset, Side::Server)?;
        // Whoever never comes back must not hold a round for ever. Nobody who is in time notices.
        task.rules.deadline = task.rules.deadline.or(settings.patience);
        let header = RunStarted { names: settings.clients.clone(), ..header };
        let experiment = experiment.for_clients(&dataset.description())?.to_string();
        let hash = experiment_hash(&experiment, settings.packing);
        Ok(Self { settings, task, header, test: dataset.test, experiment, hash })
    }

    pub(crate) fn method(&self) -> &MethodPlan {
        &self.task.method
    }
}

/// The dataset's shape and classes, and its test samples if they can be had: only they are needed, to
/// score the GM. Data that nothing is known of must be here, since they say what a sample is.
fn load(
    origin: &Origin,
    known: Option<Description>,
    threads: usize,
) -> Result<Dataset, NetworkError> {
    let loaded = origin.load(threads, &mut |_, _| {});
    let Some(known) = known else { return Ok(loaded?) };
    let described = Dataset::described(origin.name(), &known)?;
    match loaded {
        // Another shape, order of classes or normalisation would be scored as if it were this one.
        Ok(loaded) if loaded.description() == known => {
            Ok(Dataset { test: loaded.test, ..described })
        }
        Ok(_) => {
            let dataset = described.name.as_str();
            tracing::warn!(
                dataset,
                "the samples here are not as data.description says: the generic model is not scored here"
            );
            Ok(described)
        }
        Err(error) => {
            let error = error.to_string();
            let why = error.lines().next();
            let dataset = described.name.as_str();
            tracing::warn!(dataset, why, "no samples: the generic model is not scored here");
            Ok(described)
        }
    }
}
