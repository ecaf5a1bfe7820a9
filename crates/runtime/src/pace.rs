//! How fast this machine trains a method, so that the virtual clock can be told.
//!
//! A clock that measured while it simulates would tell another time on every run. So measuring is a
//! thing of its own, and what it finds are numbers of an experiment: the speed of a device, and what a
//! sample costs a method beside plain training.

use crate::event::Phase;
use crate::{Arrival, Desk, Hand, Lasting, MethodPlan, RunPlan, RuntimeError};
use formant_methods::{MethodError, Value};
use formant_numerics::{Patience, Rng, Stream};
use std::time::Instant;

/// Seconds for a sample in each phase; none where a method has nothing to train.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Of the shared phase.
    pub shared: Option<f64>,
    /// Of the personal phase.
    pub personal: Option<f64>,
}

impl Pace {
    /// The faster of two measurements: other programs only ever slow one down.
    #[must_use]
    pub fn or_faster(self, other: Self) -> Self {
        let faster = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            shared: faster(self.shared, other.shared),
            personal: faster(self.personal, other.personal),
        }
    }
}

/// One client that trains a method's last round again and again. By then warm-ups are over.
pub struct Pacer<'p> {
    desk: Desk<'p>,
    hand: Hand,
    state: Value,
    got: Value,
    round: usize,
}

impl<'p> Pacer<'p> {
    /// Takes the client with the median number of samples.
    pub fn new(plan: &'p RunPlan, method: &'p MethodPlan) -> Result<Self, RuntimeError> {
        let desk = plan.desk(method, median_client(plan));
        let mut hand = Hand::new(&*plan.engine, plan.largest_batch(method));
        let init = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
        let (mut state, mut server) =
            (method.method.start_client(&init), method.method.start_server(&init));
        // One round first: some broadcasts have everything in them only then.
        let got = method.method.broadcast(&server)?;
        let (upload, record) = desk.shared(1, &mut state, &got, &mut hand)?;
        let message = upload.ok_or_else(|| diverged(method, record.error))?;
        let samples = desk.train.len() as f64;
        let arrival = Arrival { client: desk.client, answered: 1, samples, message };
        let (rules, none) = (plan.rules(method), |_| Err(MethodError::NoUploads));
        let mut arrivals = std::iter::once(Ok(arrival));
        plan.aggregator(method, &rules).aggregate(1, &mut server, &mut arrivals, &none)?;
        let got = method.method.broadcast(&server)?;
        Ok(Self { desk, hand, state, got, round: plan.rounds })
    }

    /// Trains both phases once.
    pub fn lap(&mut self) -> Result<Pace, RuntimeError> {
        let samples = |phase| self.desk.samples(self.round, phase);
        let (shared, personal) = (samples(Phase::Shared), samples(Phase::Personal));
        let (sent, record) =
            self.desk.shared(self.round, &mut self.state, &self.got, &mut self.hand)?;
        let sent = sent.ok_or_else(|| diverged(self.desk.plan, record.error))?;
        let mut pace = Pace { shared: per_sample(record.seconds, shared), ..Pace::default() };
        if self.desk.hints(self.round).personal_phase {
            let lasting = Lasting { round: self.round, patience: Patience::Epochs };
            let (state, hand) = (&mut self.state, &mut self.hand);
            let record = self.desk.personal(lasting, state, &self.got, &sent, hand)?;
            if record.error.is_some() {
                return Err(diverged(self.desk.plan, record.error));
            }
            pace.personal = per_sample(record.seconds, personal);
        }
        Ok(pace)
    }

    /// Makes the personal model for an evaluation once: seconds for each training sample of the client. A
    /// method that has it lying there takes next to none, one that fine-tunes takes its time.
    pub fn making(&mut self) -> Result<f64, RuntimeError> {
        let started = Instant::now();
        let mut local = self.desk.evaluation(self.round, &mut *self.hand.worker);
        let method = &*self.desk.plan.method;
        let made = method.personal_model(&self.state, &self.got, &mut local).map(drop);
        let seconds = started.elapsed().as_secs_f64();
        match made {
            Ok(()) => Ok(seconds / self.desk.train.len().max(1) as f64),
            Err(error) => Err(diverged(self.desk.plan, Some(error.to_string()))),
        }
    }
}

/// The client in the middle, by the number of its training samples.
pub fn median_client(plan: &RunPlan) -> usize {
    let clients = &plan.federation.clients;
    let mut order: Vec<usize> = (0..clients.len()).collect();
    order.sort_by_key(|client| clients[*client].train.len());
    order[order.len() / 2]
}

fn per_sample(seconds: f64, samples: u64) -> Option<f64> {
    (samples > 0).then(|| seconds / samples as f64)
}

fn diverged(method: &MethodPlan, error: Option<String>) -> RuntimeError {
    RuntimeError::Unmeasured { method: method.label.clone(), why: error.unwrap_or_default() }
}
