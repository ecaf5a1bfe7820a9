//! Data that several runs share: a study over hyper-parameters divides them once.

use crate::StudyError;
use formant_data::Federation;
use formant_experiment::{Data, Experiment};

/// The federation of the last run.
#[derive(Default)]
pub(crate) struct SharedData(Option<Divided>);

/// Data that are divided, and what decided how.
struct Divided {
    data: Data,
    seed: u64,
    federation: Federation,
}

impl SharedData {
    /// The data of an experiment, divided among its clients.
    pub(crate) fn federation(&mut self, experiment: &Experiment) -> Result<Federation, StudyError> {
        // Where the division has a seed of its own, the experiment's says nothing about it.
        let seed = experiment.data.seed.unwrap_or(experiment.seed);
        if let Some(known) = &self.0
            && (&known.data, known.seed) == (&experiment.data, seed)
        {
            return Ok(known.federation.clone());
        }
        let federation = experiment.federation()?;
        let data = experiment.data.clone();
        self.0 = Some(Divided { data, seed, federation: federation.clone() });
        Ok(federation)
    }

    /// Whether a run can be wired up.
    pub(crate) fn wire(&mut self, experiment: &Experiment) -> Result<(), StudyError> {
        experiment.plan_on(self.federation(experiment)?)?;
        Ok(())
    }
}
