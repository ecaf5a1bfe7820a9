//! Data that several runs share: read and divided once for as long as the next run wants the same.

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
    /// The data of an experiment, which are read only if the last one had others.
    pub(crate) fn federation(&mut self, experiment: &Experiment) -> Result<Federation, StudyError> {
        self.federation_with(experiment, &mut |_, _| {})
    }

    /// The same, for somebody who wants to know how far it is: samples read, and of how many.
    pub(crate) fn federation_with(
        &mut self,
        experiment: &Experiment,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Federation, StudyError> {
        // A division with a seed of its own is the same for every seed of the experiment.
        let seed = experiment.data.seed.unwrap_or(experiment.seed);
        if let Some(known) = &self.0
            && (&known.data, known.seed) == (&experiment.data, seed)
        {
            return Ok(known.federation.clone());
        }
        // Before the next ones are read: there may not be room for both.
        self.0 = None;
        let federation = experiment.federation_with(progress)?;
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
