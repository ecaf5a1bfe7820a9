//! Who watches a study.

use crate::Job;
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
    /// A run of a speed-up comparison was done before.
    fn run_found(&self) {}
    /// A run of a speed-up comparison begins; who watches it?
    fn run_started(&self, _plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        Box::new(Quiet)
    }
    /// A method's lap is about to be measured; laps count from 1.
    fn lap_started(&self, _method: &str, _lap: usize) {}
    /// A lap was measured, so long after the first one began.
    fn lap_done(&self, _elapsed: Duration) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {}
