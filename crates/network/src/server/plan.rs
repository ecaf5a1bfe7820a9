//! What the server knows before any client has come: settings, network and method, and no client's
//! data.

use crate::error::NetworkError;
use crate::settings::ServerSettings;
use formant_data::{CATALOGUE, ClientData, Dataset, Federation, Images};
use formant_experiment::Experiment;
use formant_runtime::{MethodPlan, RunPlan};
use std::path::Path;
use std::sync::Arc;
use toml::Value;

/// The settings with everything that follows from them.
pub(crate) struct Wiring {
    pub(crate) settings: ServerSettings,
    pub(crate) plan: RunPlan,
    /// The resolved experiment as TOML, for clients.
    pub(crate) experiment: String,
}

impl Wiring {
    pub(crate) fn new(
        experiment: &Experiment,
        settings: ServerSettings,
    ) -> Result<Self, NetworkError> {
        let mut table = experiment.to_table();
        let dataset = load(&table)?;
        let clients = vec![ClientData::default(); settings.clients.len()];
        let plan = experiment.plan_on(Federation { dataset: Arc::new(dataset), clients })?;
        // Where the server's files lie and how many cores it has is none of a client's business.
        if let Some(Value::Table(data)) = table.get_mut("data") {
            data.remove("dir");
        }
        table.remove("runtime");
        Ok(Self { settings, plan, experiment: table.to_string() })
    }

    /// The method; [`ServerSettings::parse`] has seen to it that there is one.
    pub(crate) fn method(&self) -> &MethodPlan {
        &self.plan.methods[0]
    }
}

/// The dataset's shape and classes, and its test images if they can be had: only they are needed, to
/// score the GM.
fn load(table: &toml::Table) -> Result<Dataset, NetworkError> {
    let key = |key: &str| table.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let name = key("dataset").unwrap_or_default();
    match (
        Dataset::load(name, key("dir").map(Path::new)),
        CATALOGUE.iter().find(|e| e.name == name),
    ) {
        (Ok(dataset), Some(entry)) => {
            let none = Images::new(entry.shape, Vec::new(), Vec::new(), entry.normalisation)?;
            Ok(Dataset { train: Arc::new(none), ..dataset })
        }
        (Err(error), Some(entry)) => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default();
            tracing::warn!(dataset = name, why, "no images: the generic model is not scored here");
            let none = || Images::new(entry.shape, Vec::new(), Vec::new(), entry.normalisation);
            Ok(Dataset {
                name: name.into(),
                shape: entry.shape,
                classes: entry.classes,
                class_names: entry.class_names.iter().map(ToString::to_string).collect(),
                train: Arc::new(none()?),
                test: Arc::new(none()?),
            })
        }
        (Ok(dataset), None) => Ok(dataset),
        (Err(error), None) => Err(error.into()),
    }
}
