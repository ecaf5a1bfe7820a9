//! How far a run is, told batch by batch, and how much there is to do.
//!
//! Work is counted in samples: those that go forward and backward in training, and those that are scored.
//! What each kind costs in seconds is measured as it goes: see [`crate::Forecast`].

use crate::event::Phase;
use crate::sync::lock;
use crate::{MethodPlan, RunPlan};
use formant_federation::Schedule;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// All that a run has to do, known before it begins. Rounds without a fixed amount of work (phases that
/// end with a broadcast, rounds that do not wait for all) count what is expected of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// Its methods, in order.
    pub methods: Vec<MethodWork>,
}

/// What one method has to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MethodWork {
    /// Samples that each round trains.
    pub rounds: Vec<u64>,
    /// The rounds after which models are scored, ascending.
    pub evaluated: Vec<usize>,
    /// Samples that each of these evaluations scores.
    pub scored: u64,
    /// What the experiment says of the price of a training sample, in units of plain training: used until
    /// it is measured.
    pub cost: f64,
}

/// Which kind of work is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// Clients train.
    #[default]
    Training,
    /// Models are scored.
    Scoring,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The method under way, by its place; all before it are done.
    pub method: usize,
    /// Rounds of it that are done.
    pub rounds: usize,
    /// Evaluations of it that are done.
    pub evaluations: usize,
    /// What it is at.
    pub stage: Stage,
    /// Samples that are trained of the next round.
    pub trained: u64,
    /// Samples that are scored of the next evaluation.
    pub scored: u64,
}

impl RunPlan {
    /// All that the run has to do.
    pub fn workload(&self) -> Workload {
        Workload { methods: self.methods.iter().map(|method| self.work_of(method)).collect() }
    }

    fn work_of(&self, method: &MethodPlan) -> MethodWork {
        let rules = self.rules(method);
        let (mut rounds, mut costs) = (Vec::with_capacity(self.rounds), 0.0);
        for round in 1..=self.rounds {
            let everybody = 0..rules.clients;
            let (asked, share): (Vec<usize>, f64) = match rules.schedule {
                // Whoever has answered, on average.
                Schedule::Buffered { size } => {
                    (everybody.clone().collect(), size as f64 / rules.clients.max(1) as f64)
                }
                _ => (rules.participants(round as u64), 1.0),
            };
            let work = |client: usize, phase| {
                let desk = self.desk(method, client);
                let samples = desk.samples(round, phase) as f64 * share;
                (samples, samples * desk.cost(round, phase))
            };
            let shared = asked.iter().map(|client| work(*client, Phase::Shared));
            let alone: Vec<usize> =
                if rules.personal.everyone { everybody.collect() } else { asked.clone() };
            let personal = alone.iter().map(|client| work(*client, Phase::Personal));
            let (samples, cost) = shared
                .chain(personal)
                .fold((0.0, 0.0), |sum, work| (sum.0 + work.0, sum.1 + work.1));
            rounds.push(samples.round() as u64);
            costs += cost;
        }
        let trained: u64 = rounds.iter().sum();
        let held = self.federation.clients.iter();
        let own: usize = held.map(|data| self.evaluation.scored_samples(data)).sum();
        let between = (1..self.rounds).filter(|round| round.is_multiple_of(self.evaluation.every));
        MethodWork {
            evaluated: between.chain((self.rounds > 0).then_some(self.rounds)).collect(),
            scored: (own + self.scored_globally()) as u64,
            cost: if trained > 0 { costs / trained as f64 } else { 1.0 },
            rounds,
        }
    }
}

impl MethodWork {
    /// Samples to train in all rounds.
    pub fn training(&self) -> u64 {
        self.rounds.iter().sum()
    }

    /// Samples to score in all evaluations.
    pub fn scoring(&self) -> u64 {
        self.scored * self.evaluated.len() as u64
    }

    /// Takes out what is done already: so many rounds.
    pub(crate) fn leave_out(&mut self, rounds: usize) {
        self.rounds.iter_mut().take(rounds).for_each(|round| *round = 0);
        // The last of them may still be scored, if others follow.
        let is_over = rounds >= self.rounds.len();
        self.evaluated.retain(|round| !is_over && *round >= rounds);
    }

    /// Samples that are trained and scored of it at a position in it. Never more than there are, and
    /// never more of a round than it has.
    pub(crate) fn done(&self, at: &Position) -> [u64; 2] {
        let whole: u64 = self.rounds.iter().take(at.rounds).sum();
        let open = self.rounds.get(at.rounds).map_or(0, |round| at.trained.min(*round));
        let evaluations = at.evaluations.min(self.evaluated.len()) as u64;
        let scored = self.scored * evaluations + at.scored.min(self.scored);
        [whole + open, scored.min(self.scoring())]
    }
}

/// How far a run is, for anybody to look at at any time. Workers count batches into it.
#[derive(Debug, Default)]
pub struct Progress {
    load: Workload,
    place: Mutex<Position>,
    pub(crate) trained: AtomicU64,
    pub(crate) scored: AtomicU64,
}

impl Progress {
    pub(crate) fn new(load: Workload) -> Self {
        Self { load, ..Self::default() }
    }

    /// All that there is to do.
    pub fn workload(&self) -> &Workload {
        &self.load
    }

    /// How far it is.
    pub fn position(&self) -> Position {
        let place = lock(&self.place);
        let (trained, scored) =
            (self.trained.load(Ordering::Relaxed), self.scored.load(Ordering::Relaxed));
        Position { trained, scored, ..*place }
    }

    /// Whether everything is done.
    pub fn is_over(&self) -> bool {
        lock(&self.place).method >= self.load.methods.len()
    }

    /// A method begins, so many rounds of it being done. The last of them may have to be scored yet.
    pub(crate) fn begin(&self, method: usize, rounds: usize, is_scored: bool) {
        let evaluated = self.load.methods.get(method).map_or(&[][..], |work| &work.evaluated);
        let earlier = |round: &&usize| **round < rounds || **round == rounds && is_scored;
        let evaluations = evaluated.iter().filter(earlier).count();
        self.change(|_| Position { method, rounds, evaluations, ..Position::default() });
    }

    /// A round is over.
    pub(crate) fn round_done(&self, rounds: usize) {
        self.change(|place| Position { rounds, stage: Stage::Training, ..place });
    }

    /// An evaluation begins or is over.
    pub(crate) fn scoring(&self, is_over: bool) {
        self.change(|place| {
            let evaluations = place.evaluations + usize::from(is_over);
            let stage = if is_over { Stage::Training } else { Stage::Scoring };
            Position { evaluations, stage, ..place }
        });
    }

    fn change(&self, change: impl FnOnce(Position) -> Position) {
        let mut place = lock(&self.place);
        let before = *place;
        *place = change(before);
        if (place.method, place.rounds) != (before.method, before.rounds) {
            self.trained.store(0, Ordering::Relaxed);
        }
        if place.stage != before.stage || place.method != before.method {
            self.scored.store(0, Ordering::Relaxed);
        }
    }
}
