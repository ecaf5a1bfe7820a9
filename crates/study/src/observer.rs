//! Who watches a study.

use crate::{Job, Part, Winner};
use formant_runtime::{Quiet, RunPlan};
use std::time::Duration;

/// Watches a study as it goes. Every method has a default that does nothing.
pub trait Observer {
    /// A job of a sweep begins; one whose results are there already ends at once.
    fn job_started(&self, _job: &Job) {}
    /// A job of a sweep has its scores.
    fn job_done(&self, _job: &Job) {}
    /// The run of a job begins; who watches it?
    fn job_run(&self, _plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        Box::new(Quiet)
    }
    /// So many jobs, which could have been needed, are not.
    fn jobs_spared(&self, _count: usize) {}
    /// A search of a tuning has its winner.
    fn search_done(&self, _winner: &Winner) {}
    /// So many samples of a run's data are read, of so many.
    fn data_read(&self, _done: usize, _total: usize) {}
    /// A run of a speed-up comparison or of a series was done before.
    fn run_found(&self) {}
    /// A run of a speed-up comparison or of a series begins; who watches it?
    fn run_started(&self, _plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        Box::new(Quiet)
    }
    /// A part of a reproduction begins; who watches its run?
    fn part_started(
        &self,
        _part: &Part,
        _plan: &RunPlan,
    ) -> Box<dyn formant_runtime::Observer + '_> {
        Box::new(Quiet)
    }
    /// What there was of a part cannot be gone on with: it is set aside, and the part begins anew.
    fn part_renewed(&self, _part: &Part, _why: &str) {}
    /// A part of a reproduction is there.
    fn part_done(&self, _part: &Part) {}
    /// A method's lap is about to be measured; laps count from 1.
    fn lap_started(&self, _method: &str, _lap: usize) {}
    /// A lap was measured, so long after the first one began.
    fn lap_done(&self, _elapsed: Duration) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {}
