//! The workers: one per thread, each with memory of its own, taking clients from one queue.

use crate::executor::global::PART;
use crate::{Hand, RunPlan, RuntimeError};
use core::time::Duration;
use formant_data::Federation;
use formant_numerics::EVALUATION_BATCH;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// All workers of a run, allocated once.
pub(super) struct Crew {
    hands: Vec<Hand>,
    /// Nanoseconds in which a worker had a job.
    busy: AtomicU64,
}

impl Crew {
    pub(super) fn new(plan: &RunPlan) -> Self {
        let largest = plan
            .methods
            .iter()
            .map(|method| plan.largest_batch(method))
            .fold(EVALUATION_BATCH, usize::max);
        // More workers than jobs would only cost memory.
        let Federation { clients, newcomers, .. } = &plan.federation;
        let parts = plan.scored_globally().div_ceil(PART);
        let jobs = clients.len().max(newcomers.clients.len()).max(parts);
        let threads = plan.threads.clamp(1, jobs.max(1));
        Self::of((0..threads).map(|_| Hand::new(&*plan.engine, largest)).collect())
    }

    fn of(hands: Vec<Hand>) -> Self {
        Self { hands, busy: AtomicU64::new(0) }
    }

    pub(super) fn workers(&self) -> usize {
        self.hands.len()
    }

    /// How long workers have had jobs, added up.
    pub(super) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.load(Ordering::Relaxed))
    }

    /// So much of that was waiting for others.
    pub(super) fn rested(&mut self, waited: Duration) {
        let busy = self.busy.get_mut();
        *busy = busy.saturating_sub(waited.as_nanos() as u64);
    }

    /// Does `work` for every job, in parallel; results come back in the order of `jobs`. Jobs are
    /// started in the order of `jobs`, so put the longest first. The first failure in that order is
    /// the one that is reported; jobs that have not started by then never do.
    pub(super) fn run<J: Sync, T: Send>(
        &mut self,
        jobs: &[J],
        work: impl Fn(&J, &mut Hand) -> Result<T, RuntimeError> + Sync,
    ) -> Result<Vec<T>, RuntimeError> {
        self.run_while(jobs, work, || ()).0
    }

    /// The same while the calling thread does something else.
    pub(super) fn run_while<J: Sync, T: Send, M>(
        &mut self,
        jobs: &[J],
        work: impl Fn(&J, &mut Hand) -> Result<T, RuntimeError> + Sync,
        meanwhile: impl FnOnce() -> M,
    ) -> (Result<Vec<T>, RuntimeError>, M) {
        let next = AtomicUsize::new(0);
        let (mut results, meant) = std::thread::scope(|scope| {
            let hands = self.hands.iter_mut().take(jobs.len());
            let busy: Vec<_> = hands
                .map(|hand| {
                    let (next, work, busy) = (&next, &work, &self.busy);
                    scope.spawn(move || {
                        let mut done = Vec::new();
                        loop {
                            let index = next.fetch_add(1, Ordering::Relaxed);
                            let Some(job) = jobs.get(index) else { return done };
                            let begun = Instant::now();
                            let result = work(job, hand);
                            busy.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                            // A failure of the machinery (not of a client) ends the run soon.
                            if result.is_err() {
                                next.store(jobs.len(), Ordering::Relaxed);
                            }
                            done.push((index, result));
                        }
                    })
                })
                .collect();
            let meant = meanwhile();
            let mut results = Vec::with_capacity(jobs.len());
            for thread in busy {
                match thread.join() {
                    Ok(done) => results.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            (results, meant)
        });
        results.sort_by_key(|(index, _)| *index);
        // A job is missing only behind a failed one, which makes the whole an error.
        (results.into_iter().map(|(_, result)| result).collect(), meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_methods::MethodError;
    use formant_numerics::{Cpu, NetworkSpec, Shape};

    fn crew_of(workers: usize) -> Crew {
        let network = NetworkSpec::named("logistic").build(Shape::new(1, 1, 1), 2).unwrap();
        let engine = Cpu::new(network);
        Crew::of((0..workers).map(|_| Hand::new(&engine, 1)).collect())
    }

    #[test]
    fn results_come_back_in_the_order_of_the_jobs() {
        let jobs: Vec<usize> = (0..100).collect();
        for workers in [1, 3, 200] {
            let squares = crew_of(workers).run(&jobs, |job, _| Ok(job * job)).unwrap();
            assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        }
        let none: &[usize] = &[];
        assert!(crew_of(2).run(none, |job, _| Ok(*job)).unwrap().is_empty());
    }

    #[test]
    fn one_failed_job_fails_the_whole_and_stops_the_queue() {
        let jobs: Vec<usize> = (0..1_000).collect();
        for workers in [1, 4] {
            let started = AtomicUsize::new(0);
            let error = crew_of(workers).run(&jobs, |job, _| {
                started.fetch_add(1, Ordering::Relaxed);
                if *job == 5 { Err(MethodError::NoUploads.into()) } else { Ok(*job) }
            });
            assert!(matches!(error, Err(RuntimeError::Method(MethodError::NoUploads))));
            assert!(workers > 1 || started.into_inner() == 6, "nobody works on after a failure");
        }
    }
}
