//! An experiment for a network, where a federation trains one method.

use crate::{Experiment, ExperimentError, MethodSetting, Sampling, data, origin, runtime};
use formant_data::Description;
use std::ops::Deref;
use toml::{Table, Value};

/// An experiment with exactly one method: what a server and its clients run.
#[derive(Debug, Clone, PartialEq)]
pub struct OneMethod {
    experiment: Experiment,
    method: MethodSetting,
    clients: usize,
}

impl OneMethod {
    /// Refuses an experiment with several methods, with nobody knows how many clients, or with settings that a
    /// network cannot honour.
    pub fn new(experiment: Experiment) -> Result<Self, ExperimentError> {
        let [method] = &*experiment.methods else {
            let labels: Vec<&str> = experiment.methods.iter().map(|m| m.label.as_str()).collect();
            return Err(ExperimentError::combination(
                format!("a server runs one method, and the file has {}", labels.join(", ")),
                "keep one [[method]]",
            ));
        };
        if let Some(patience) = experiment.evaluation.patience {
            return Err(ExperimentError::combination(
                format!(
                    "`evaluation.patience = {patience}` works in simulations alone: a server scores its \
                     model while clients train on and never sees their personal ones, so the round in \
                     which it would stop were left to chance"
                ),
                "remove evaluation.patience, and set rounds to the best round of a simulation",
            ));
        }
        if experiment.privacy.is_some_and(|privacy| privacy.sampling == Sampling::Poisson) {
            return Err(ExperimentError::combination(
                "`privacy.sampling = \"poisson\"` works in simulations alone: it counts on nobody knowing who took \
                 part in a round, and every client has the seed from which that follows",
                "remove privacy.sampling: ε is then that of rounds whose clients are known",
            ));
        }
        if let Some(newcomers) = experiment.data.new_clients {
            return Err(ExperimentError::combination(
                format!(
                    "`data.new_clients = {newcomers}` works in simulations alone: a server does not have its clients' data"
                ),
                "remove data.new_clients; whoever comes later can `formant adapt` the models of a run",
            ));
        }
        if let Some(attack) = experiment.attacks.first() {
            return Err(ExperimentError::combination(
                format!(
                    "`[[attack]]` with `kind = \"{}\"` works in simulations alone: whom a server serves it cannot make attackers",
                    attack.word()
                ),
                "remove [[attack]]; federation.combine, which it measures, works over a network too",
            ));
        }
        let Some(clients) = experiment.data.clients else {
            return Err(ExperimentError::combination(
                "a server must know how many clients there are, and `data.clients` is not set",
                "set data.clients; `formant data show` counts those of the data or of a file",
            ));
        };
        Ok(Self { method: method.clone(), clients, experiment })
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

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.clients
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
