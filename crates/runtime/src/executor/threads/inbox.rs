//! Who of a wave's clients is done: told by workers, awaited in client order.

use crate::RuntimeError;
use crate::executor::JobRecord;
use crate::sync::{lock, wait};
use formant_methods::MethodError;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};

/// Who of a wave's clients is done.
#[derive(Default)]
pub(super) struct Inbox {
    arrivals: Mutex<Arrivals>,
    arrived: Condvar,
}

#[derive(Default)]
struct Arrivals {
    done: HashMap<usize, JobRecord>,
    awaited: Option<usize>,
    end: Option<End>,
}

/// Why nothing more is awaited.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum End {
    /// A worker failed.
    Working,
    /// Whoever reads the answers failed.
    Reading,
}

impl Inbox {
    /// Does a client's job and tells of it, unless one side has failed: then there is nothing to do, and no error either. One
    /// of this job would hide the true one if the job stands before the one that failed.
    pub(super) fn work(
        &self,
        job: impl FnOnce() -> Result<JobRecord, RuntimeError>,
    ) -> Result<(), RuntimeError> {
        if self.failed().is_some() {
            return Ok(());
        }
        let guard = self.guard(End::Working);
        let record = job()?;
        guard.went_well();
        self.done(record);
        Ok(())
    }

    /// A client is done; its upload, if there is one, is where the reader will look for it.
    fn done(&self, record: JobRecord) {
        let mut arrivals = lock(&self.arrivals);
        let client = record.client;
        arrivals.done.insert(client, record);
        if arrivals.awaited == Some(client) {
            self.arrived.notify_all();
        }
    }

    /// What a client did, once it is done; an error if it never will be.
    pub(super) fn wait_for(&self, client: usize) -> Result<JobRecord, RuntimeError> {
        let mut arrivals = lock(&self.arrivals);
        loop {
            if let Some(record) = arrivals.done.remove(&client) {
                return Ok(record);
            }
            if arrivals.end.is_some() {
                return Err(given_up());
            }
            arrivals.awaited = Some(client);
            arrivals = wait(&self.arrived, arrivals);
        }
    }

    /// Who failed first, if anybody did.
    pub(super) fn failed(&self) -> Option<End> {
        lock(&self.arrivals).end
    }

    /// Fails when the returned value goes, unless it is told that all went well: neither an error nor
    /// a panic of one side leaves the other one waiting.
    pub(super) fn guard(&self, side: End) -> Guard<'_> {
        Guard { inbox: self, side, well: false }
    }
}

/// One side's work under way.
pub(super) struct Guard<'i> {
    inbox: &'i Inbox,
    side: End,
    well: bool,
}

impl Guard<'_> {
    pub(super) fn went_well(mut self) {
        self.well = true;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.well {
            lock(&self.inbox.arrivals).end.get_or_insert(self.side);
            self.inbox.arrived.notify_all();
        }
    }
}

/// The error of a side that stops because the other one failed; the other one's is reported.
fn given_up() -> RuntimeError {
    MethodError::Storage("the round was given up".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(client: usize) -> JobRecord {
        JobRecord { client, phases: Vec::new(), shared: None }
    }

    #[test]
    fn answers_are_read_in_order_whoever_is_first() {
        let inbox = Inbox::default();
        std::thread::scope(|scope| {
            for client in [3, 1, 2, 0] {
                let inbox = &inbox;
                scope.spawn(move || inbox.done(record(client)));
            }
            for client in 0..4 {
                assert_eq!(inbox.wait_for(client).unwrap().client, client);
            }
        });
        assert!(inbox.failed().is_none());
    }

    #[test]
    fn a_job_that_comes_too_late_hides_no_error() {
        let inbox = Inbox::default();
        assert!(inbox.work(|| Ok(record(0))).is_ok());
        assert!(inbox.work(|| Err(MethodError::NoUploads.into())).is_err());
        assert!(inbox.work(|| unreachable!("nobody works on after a failure")).is_ok());
        assert!(inbox.failed() == Some(End::Working) && inbox.wait_for(0).is_ok());
    }

    #[test]
    fn a_worker_that_panics_releases_the_reader() {
        let inbox = Inbox::default();
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _guard = inbox.guard(End::Working);
                panic!("on purpose");
            });
            assert!(inbox.wait_for(0).is_err());
            assert!(worker.join().is_err());
        });
        assert!(inbox.failed() == Some(End::Working));
    }

    #[test]
    fn a_reader_that_fails_stops_the_workers_and_is_the_one_to_blame() {
        let inbox = Inbox::default();
        inbox.guard(End::Working).went_well();
        drop(inbox.guard(End::Reading));
        drop(inbox.guard(End::Working));
        assert!(inbox.failed() == Some(End::Reading));
        // What was there before is still read.
        inbox.done(record(1));
        assert!(inbox.wait_for(1).is_ok() && inbox.wait_for(2).is_err());
    }
}
