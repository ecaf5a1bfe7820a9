//! Which rank has which client.
//!
//! Clients are placed longest first, each where it would be done earliest (Graham, "Bounds on multiprocessing timing
//! anomalies", SIAM J. Appl. Math. 17, 1969). How long one takes is measured: by the samples that it trains before
//! anything is, by its seconds and the speed of its rank then. Where a client is changes no result.

use formant_runtime::executor::JobRecord;

/// Who has whom, and what is known of how long things take.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The rank of each client.
    owner: Vec<usize>,
    /// How much each client has to do, in samples at the mean speed.
    work: Vec<f64>,
    /// Samples that each rank trains in a second, with all its threads; as many as it has threads before that is
    /// measured.
    speed: Vec<f64>,
    /// By client.
    measured: Vec<Measured>,
}

/// What was measured of a client since clients were placed.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    jobs: u32,
    samples: f64,
    /// Of one thread.
    seconds: f64,
}

/// Clients are moved if that makes rounds shorter by more than this share: to move them takes time as well.
const WORTH: f64 = 0.1;

impl Placement {
    /// Clients with so much to do each, over ranks with so many threads.
    pub(crate) fn new(work: Vec<f64>, threads: &[usize]) -> Self {
        let speed: Vec<f64> = threads.iter().map(|threads| *threads as f64).collect();
        let owner = place(&work, &speed);
        let measured = vec![Measured::default(); work.len()];
        Self { owner, work, speed, measured }
    }

    /// The rank of a client.
    pub(crate) fn owner(&self, client: usize) -> usize {
        self.owner[client]
    }

    /// The clients of a rank, ascending.
    pub(crate) fn clients(&self, rank: usize) -> Vec<usize> {
        (0..self.owner.len()).filter(|client| self.owner[*client] == rank).collect()
    }

    /// What became of a client's job.
    pub(crate) fn measure(&mut self, record: &JobRecord) {
        let phases = || record.phases.iter().map(|trained| &trained.record);
        let seconds: f64 = phases().map(|phase| phase.seconds).sum();
        let samples: u64 = phases().map(|phase| phase.meter.samples).sum();
        let measured = &mut self.measured[record.client];
        measured.jobs += 1;
        measured.samples += samples as f64;
        measured.seconds += seconds;
    }

    /// Where clients should be by what was measured since they were placed; nothing if that is not known of every rank
    /// that has clients, or if it is not worth the trouble. What is known of speeds counts from now on.
    pub(crate) fn improved(&mut self, threads: &[usize]) -> Option<Vec<usize>> {
        let rates: Vec<Option<f64>> = (0..self.speed.len()).map(|rank| self.rate(rank)).collect();
        if self.owner.iter().any(|rank| rates[*rank].is_none()) {
            return None;
        }
        // A rank without clients is as fast as the slowest: it may show that it is not.
        let slowest = rates.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let rates: Vec<f64> = rates.into_iter().map(|rate| rate.unwrap_or(slowest)).collect();
        self.speed = rates.iter().zip(threads).map(|(rate, n)| rate * *n as f64).collect();
        for (client, measured) in self.measured.iter().enumerate() {
            if measured.jobs > 0 {
                self.work[client] =
                    measured.seconds / f64::from(measured.jobs) * rates[self.owner[client]];
            }
        }
        let better = place(&self.work, &self.speed);
        let (now, then) = (self.span(&self.owner), self.span(&better));
        (then < now * (1.0 - WORTH)).then_some(better)
    }

    /// Samples that one thread of a rank trains in a second: the median of its clients, so that one of them that takes
    /// long for its samples does not make its rank a slow one.
    fn rate(&self, rank: usize) -> Option<f64> {
        let own = self.measured.iter().zip(&self.owner).filter(|(_, owner)| **owner == rank);
        let known = own.filter(|(measured, _)| measured.samples > 0.0 && measured.seconds > 0.0);
        let mut rates: Vec<f64> =
            known.map(|(measured, _)| measured.samples / measured.seconds).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    /// Every client at the rank after its own.
    pub(crate) fn turned(&self) -> Vec<usize> {
        self.owner.iter().map(|rank| (rank + 1) % self.speed.len()).collect()
    }

    /// Places clients anew.
    pub(crate) fn move_to(&mut self, owner: Vec<usize>) {
        self.measured = vec![Measured::default(); owner.len()];
        self.owner = owner;
    }

    /// A method begins: others may have less to do. Speeds are known already.
    pub(crate) fn begin(mut self, work: Vec<f64>) -> Self {
        let owner = place(&work, &self.speed);
        self.work = work;
        self.move_to(owner);
        self
    }

    /// How much of so many equal parts each rank gets, by its speed.
    pub(crate) fn shares(&self, parts: usize) -> Vec<Vec<usize>> {
        let owner = place(&vec![1.0; parts], &self.speed);
        let of = |rank| (0..parts).filter(|part| owner[*part] == rank).collect();
        (0..self.speed.len()).map(of).collect()
    }

    /// When the last rank is done.
    fn span(&self, owner: &[usize]) -> f64 {
        let mut load = vec![0.0; self.speed.len()];
        for (client, rank) in owner.iter().enumerate() {
            load[*rank] += self.work[client];
        }
        load.iter().zip(&self.speed).map(|(load, speed)| load / speed).fold(0.0, f64::max)
    }
}

/// Longest first, each where it would be done earliest; among equals, the lowest number.
fn place(work: &[f64], speed: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..work.len()).collect();
    order.sort_by(|a, b| work[*b].total_cmp(&work[*a]).then(a.cmp(b)));
    let mut load = vec![0.0_f64; speed.len()];
    let mut owner = vec![0; work.len()];
    for client in order {
        let done = |rank: &usize| (load[*rank] + work[client]) / speed[*rank];
        let earliest = (0..speed.len()).min_by(|a, b| done(a).total_cmp(&done(b)));
        let rank = earliest.unwrap_or(0);
        load[rank] += work[client];
        owner[client] = rank;
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_numerics::Meter;
    use formant_runtime::PhaseRecord;
    use formant_runtime::event::Phase;
    use formant_runtime::executor::{Step, Trained};

    fn record(client: usize, samples: u64, seconds: f64) -> JobRecord {
        let step = Step { round: 1, phase: Phase::Shared, batches: None, clock: None };
        let meter = Meter { samples, ..Meter::default() };
        let record = PhaseRecord { seconds, meter, error: None };
        JobRecord { client, phases: vec![Trained { step, record }], shared: None }
    }

    #[test]
    fn the_longest_are_placed_first() {
        let placement = Placement::new(vec![1.0, 5.0, 4.0, 3.0, 3.0], &[1, 1]);
        assert_eq!(placement.owner, [1, 0, 1, 1, 0]);
        assert_eq!(placement.clients(0), [1, 4]);
    }

    #[test]
    fn a_rank_with_more_threads_gets_more() {
        let placement = Placement::new(vec![1.0; 8], &[3, 1]);
        assert_eq!((placement.clients(0).len(), placement.clients(1).len()), (6, 2));
        assert_eq!(placement.shares(4).iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn clients_move_to_ranks_that_are_faster_than_was_thought() {
        let mut placement = Placement::new(vec![10.0; 6], &[1, 1]);
        assert_eq!(placement.improved(&[1, 1]), None, "nothing was measured");
        for client in 0..6 {
            let seconds = if placement.owner(client) == 0 { 1.0 } else { 0.5 };
            placement.measure(&record(client, 10, seconds));
        }
        let better = placement.improved(&[1, 1]).unwrap();
        assert_eq!(better.iter().filter(|rank| **rank == 1).count(), 4);
        placement.move_to(better);
        assert_eq!(placement.improved(&[1, 1]), None, "nothing was measured since");
        for client in 0..6 {
            let seconds = if placement.owner(client) == 0 { 1.0 } else { 0.5 };
            placement.measure(&record(client, 10, seconds));
        }
        assert_eq!(placement.improved(&[1, 1]), None, "it is as good as it gets");
    }

    #[test]
    fn a_client_that_takes_longer_than_its_samples_say_is_known_by_its_seconds() {
        let mut placement = Placement::new(vec![10.0; 4], &[1, 1]);
        for client in 0..4 {
            placement.measure(&record(client, 10, if client == 0 { 3.0 } else { 1.0 }));
        }
        let better = placement.improved(&[1, 1]).unwrap();
        let alone = better.iter().filter(|rank| **rank == better[0]).count();
        assert_eq!(alone, 1, "{better:?}");
    }

    #[test]
    fn more_ranks_than_clients_leave_some_without() {
        let placement = Placement::new(vec![2.0, 1.0], &[1, 1, 1]);
        assert_eq!(placement.owner, [0, 1]);
        assert!(placement.clients(2).is_empty());
        assert!(Placement::new(Vec::new(), &[1]).clients(0).is_empty());
    }
}
