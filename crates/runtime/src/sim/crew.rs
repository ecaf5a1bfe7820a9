//! The workers: one per thread, each with memory of its own, taking clients from one queue.

use crate::{RunPlan, RuntimeError};
use formant_numerics::Worker;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Samples in one evaluation batch.
pub(super) const EVALUATION_BATCH: usize = 64;

/// All workers of a run, allocated once.
pub(super) struct Crew {
    workers: Vec<Worker>,
}

impl Crew {
    pub(super) fn new(plan: &RunPlan) -> Self {
        let largest = plan
            .methods
            .iter()
            .map(|m| m.shared.first.batch.max(m.personal.first.batch))
            .fold(EVALUATION_BATCH, usize::max);
        let threads = plan.threads.max(1);
        Self { workers: (0..threads).map(|_| Worker::new(&*plan.network, largest)).collect() }
    }

    /// Does `work` for every job, in parallel; results come back in the order of `jobs`. Jobs are
    /// started in the order of `jobs`, so put the longest first.
    pub(super) fn run<J: Sync, T: Send>(
        &mut self,
        jobs: &[J],
        work: impl Fn(&J, &mut Worker) -> Result<T, RuntimeError> + Sync,
    ) -> Result<Vec<T>, RuntimeError> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<T, RuntimeError>>>> =
            jobs.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for worker in self.workers.iter_mut().take(jobs.len()) {
                let (next, results, work) = (&next, &results, &work);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(index) else { return };
                        let result = work(job, worker);
                        // A failure of the machinery (not of a client) ends the run soon.
                        if result.is_err() {
                            next.store(jobs.len(), Ordering::Relaxed);
                        }
                        if let Ok(mut slot) = results[index].lock() {
                            *slot = Some(result);
                        }
                    }
                });
            }
        });
        let mut collected = Vec::with_capacity(jobs.len());
        let mut unfinished = false;
        for slot in results {
            match slot.into_inner().ok().flatten() {
                Some(result) => collected.push(result?),
                None => unfinished = true,
            }
        }
        // A slot stays empty only behind a failed job, which `?` has reported above unless it came
        // later in the order; then it is still in the list.
        debug_assert!(!unfinished, "an unfinished job without a failed one");
        Ok(collected)
    }
}
