//! The thread that trains, so that everything else goes on meanwhile.

use super::mind::Notice;
use super::plan::Assignment;
use crate::error::NetworkError;
use formant_federation::Until;
use formant_methods::Value;
use formant_numerics::Patience;
use formant_runtime::event::Phase;
use formant_runtime::{Desk, Hand, Lasting, PhaseRecord, RuntimeError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};

/// One phase to train.
pub(crate) struct Job {
    pub(crate) round: u64,
    pub(crate) state: Value,
    pub(crate) broadcast: Arc<Value>,
    /// Of a personal phase: what was sent, and how long it lasts.
    pub(crate) personal: Option<(Arc<Value>, Until)>,
}

/// What came of it.
pub(crate) struct Trained {
    pub(crate) round: u64,
    pub(crate) phase: Phase,
    pub(crate) state: Value,
    pub(crate) upload: Option<Value>,
    pub(crate) record: PhaseRecord,
}

/// The thread, and the way to stop a phase.
pub(crate) struct Trainer {
    jobs: Sender<Job>,
    stop: Arc<AtomicBool>,
}

impl Trainer {
    /// Starts the thread; it ends when the trainer is dropped.
    pub(crate) fn start(assignment: Arc<Assignment>, notices: Sender<Notice>) -> Self {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        std::thread::spawn(move || {
            let desk = assignment.desk();
            let mut hand = Hand::new(&*assignment.task.engine, assignment.largest_batch());
            for job in inbox {
                let run = std::panic::AssertUnwindSafe(|| train(&desk, job, &mut hand, &flag));
                let Ok(trained) = std::panic::catch_unwind(run) else {
                    // Nobody would wait for what never comes.
                    let stopped = NetworkError::Stopped { what: "training" };
                    let _ = notices.send(Notice::Failed(stopped));
                    return;
                };
                if notices.send(Notice::Trained(Box::new(trained))).is_err() {
                    return;
                }
            }
        });
        Self { jobs, stop }
    }

    /// Begins a phase.
    pub(crate) fn begin(&self, job: Job) {
        self.stop.store(false, Ordering::Relaxed);
        // The thread lives as long as this does, unless a phase has panicked, which ends the client.
        let _ = self.jobs.send(job);
    }

    /// Lets an endless phase end with its batch.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn train(
    desk: &Desk<'_>,
    job: Job,
    hand: &mut Hand,
    stop: &AtomicBool,
) -> Result<Trained, RuntimeError> {
    let Job { round, mut state, broadcast, personal } = job;
    let at = round as usize;
    let (phase, upload, record) = match personal {
        None => {
            let (upload, record) = desk.shared(at, &mut state, &broadcast, hand)?;
            (Phase::Shared, upload, record)
        }
        Some((sent, until)) => {
            let patience = match until {
                Until::Epochs => Patience::Epochs,
                Until::Broadcast => Patience::Flag(stop),
            };
            let lasting = Lasting { round: at, patience };
            let record = desk.personal(lasting, &mut state, &broadcast, &sent, hand)?;
            (Phase::Personal, None, record)
        }
    };
    Ok(Trained { round, phase, state, upload, record })
}
