//! An experiment for a network, where a federation trains one method.

use crate::{Experiment, ExperimentError, MethodSetting, data, origin, runtime};
use formant_data::Description;
use std::ops::Deref;
use toml::{Table, Value};

/// An experiment with exactly one method: what a server and its clients run.
#[derive(Debug, Clone, PartialEq)]
pub struct OneMethod {
    experiment: Experiment,
    method: MethodSetting,
}

impl OneMethod {
    /// Refuses an experiment with several methods.
    pub fn new(experiment: Experiment) -> Result<Self, ExperimentError> {
        let [method] = &*experiment.methods else {
            let labels: Vec<&str> = experiment.methods.iter().map(|m| m.label.as_str()).collect();
            return Err(ExperimentError::combination(
                format!("a server runs one method, and the file has {}", labels.join(", ")),
                "keep one [[method]]",
            ));
        };
        Ok(Self { method: method.clone(), experiment })
    }

    /// The file as clients get it: where the server's files lie and how many cores it has is none of
    /// their business. What the server knows of data that are no known dataset goes with it.
    pub fn for_clients(&self, seen: &Description) -> Result<Table, ExperimentError> {
        let mut file = self.to_table();
        file.remove(runtime::SECTION.name);
        if let Some(Value::Table(data)) = file.get_mut(data::SECTION.name) {
            origin::for_clients(data, self, seen)?;
        }
        Ok(file)
    }

    /// The method.
    pub fn method(&self) -> &MethodSetting {
        &self.method
    }
}

/// It is an experiment like others.
impl Deref for OneMethod {
    type Target = Experiment;

    fn deref(&self) -> &Experiment {
        &self.experiment
    }
}
