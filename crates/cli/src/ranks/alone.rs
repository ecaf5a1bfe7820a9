//! A binary without MPI: there is one process.

use crate::args::RunArgs;
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Observer, RunPlan, RuntimeError};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Who takes part in a run: this process.
pub(crate) struct Team;

#[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "with MPI there is more to it")]
impl Team {
    pub(crate) fn gather() -> anyhow::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn is_many(&self) -> bool {
        false
    }

    pub(crate) fn follow(&mut self, _: &RunArgs, _: &Zoo) -> Option<anyhow::Result<ExitCode>> {
        None
    }

    pub(crate) fn call(&self, _: &Experiment) -> anyhow::Result<()> {
        Ok(())
    }

    pub(crate) fn muster(&mut self, _: &mut RunPlan, _: &Experiment) -> anyhow::Result<()> {
        Ok(())
    }

    pub(crate) fn settle(&mut self, _: &Path, _: &RunPlan) -> anyhow::Result<()> {
        Ok(())
    }

    pub(crate) fn introduction(&self) -> String {
        String::new()
    }

    pub(crate) fn warn(&self, _: &Path) {}

    pub(crate) fn extend(
        &mut self,
        plan: &RunPlan,
        run_dir: &Path,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Outcome, RuntimeError> {
        sim::extend(plan, run_dir, observer, stop)
    }
}
