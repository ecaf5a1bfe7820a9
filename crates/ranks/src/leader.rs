//! Rank 0's executor: threads of its own for its share of the clients, and orders for all other ranks.

mod scores;
mod states;
#[cfg(test)]
mod tests;

use crate::carry::Copies;
use crate::codec::{append, letter};
use crate::fabric::To;
use crate::link::{Link, Traffic};
use crate::message::{Ended, Order, Report, Slot};
use crate::muster::Spot;
use crate::placement::Placement;
use crate::stream::{Stream, failed};
use formant_methods::Value;
use formant_numerics::{Model, Pulse, Tally};
use formant_runtime::event::RankWork;
use formant_runtime::executor::{
    Adaptation, Adapting, Answer, Executor, Held, Jobs, Look, OwnScores, PersonalScores, Start,
    Take, Threads, Wave,
};
use formant_runtime::{Room, RunPlan, RuntimeError, ShareName, Stored};
use states::named_of;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Scope;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of reports that may be on their way to rank 0.
const WINDOW: usize = 64 << 20;

/// Fewest and most of them.
const REPORTS: (usize, usize) = (2, 64);

/// The executor of a simulation in several processes.
pub struct Leader<'l, 's, 'p> {
    plan: &'p RunPlan,
    link: &'l Link,
    spots: Vec<Spot>,
    local: Threads<'s, 'p>,
    /// What files of this session are known by.
    session: u64,
    /// The number of the last order.
    order: u64,
    /// Reports that may be on their way.
    window: usize,
    method: Option<Method>,
    /// Where clients were in the method before this one: how fast ranks are is known from then.
    before: Option<Placement>,
    /// By rank, what it has said last.
    counters: Vec<Counters>,
    /// What there was of this when the method began.
    begun: Vec<Counters>,
    /// Clients move after every wave.
    is_restless: bool,
}

/// The method under way.
struct Method {
    index: usize,
    folder: PathBuf,
    room: Arc<Room>,
    /// What the last checkpoint names.
    named: Vec<Stored>,
    placement: Placement,
    /// Waves since it began, and when it is looked again whether clients should move.
    waves: u64,
    next_look: u64,
    /// Rounds whose broadcasts all ranks have.
    kept: BTreeSet<u64>,
    /// Of ranks that do not see the run folder.
    copies: BTreeMap<usize, Copies>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    busy: f64,
    traffic: Traffic,
}

impl<'l, 's, 'p> Leader<'l, 's, 'p> {
    /// With all ranks that have answered.
    pub fn new(
        plan: &'p RunPlan,
        scope: &'s Scope<'s, 'p>,
        link: &'l Link,
        spots: Vec<Spot>,
    ) -> Self {
        let bytes = plan.init().parameters.len() * 4;
        let window = (WINDOW / bytes.max(1)).clamp(REPORTS.0, REPORTS.1);
        let counters = vec![Counters::default(); spots.len()];
        let begun = counters.clone();
        let local = Threads::new(plan, scope);
        Self {
            plan,
            link,
            spots,
            local,
            session: session(link),
            order: 0,
            window,
            method: None,
            before: None,
            counters,
            begun,
            is_restless: false,
        }
    }

    /// The same, with every client moved to the next rank after every wave, for tests of what must not change by it.
    #[doc(hidden)]
    #[must_use]
    pub fn restless(mut self) -> Self {
        self.is_restless = true;
        self
    }

    fn method(&mut self) -> Result<&mut Method, RuntimeError> {
        self.method.as_mut().ok_or_else(no_method)
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Gives all ranks something that the next orders speak of.
    fn keep(
        &mut self,
        slot: Slot,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        if self.link.size() > 1 {
            let mut bytes =
                letter(self.order, &Order::Keep(slot)).map_err(|why| self.failed(0, why))?;
            fill(&mut bytes)?;
            self.link.send(To::All, bytes);
        }
        Ok(())
    }

    fn keep_value(&mut self, slot: Slot, value: &Value) -> Result<(), RuntimeError> {
        self.keep(slot, |bytes| Ok(append(bytes, value)?))
    }

    fn keep_model(&mut self, model: &Model) -> Result<(), RuntimeError> {
        self.keep(Slot::Model, |bytes| {
            let model = postcard::to_stdvec(model);
            bytes.extend(model.map_err(|error| failed(&[], 0, error.to_string()))?);
            Ok(())
        })
    }

    fn failed(&self, rank: usize, why: impl Into<String>) -> RuntimeError {
        failed(&self.spots, rank, why.into())
    }

    /// Gives one rank an order that it does not answer.
    fn tell(&self, rank: usize, order: &Order) -> Result<(), RuntimeError> {
        let bytes = letter(self.order, order).map_err(|why| self.failed(rank, why))?;
        self.link.send(To::One(rank), bytes);
        Ok(())
    }

    fn threads(&self) -> Vec<usize> {
        self.spots.iter().map(|spot| spot.threads).collect()
    }

    /// What the states of a rank are known by.
    fn share(&self, rank: usize) -> ShareName {
        ShareName { number: rank, session: self.session }
    }

    fn local_counters(&self) -> Counters {
        Counters { busy: self.local.busy().as_secs_f64(), traffic: self.link.traffic() }
    }
}

fn no_method() -> RuntimeError {
    failed(&[], 0, "no method was begun".into())
}

/// Another number whenever ranks are started, wherever rank 0 is then.
fn session(link: &Link) -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
    xxh3_64(format!("{} {} {now}", link.host(), std::process::id()).as_bytes())
}

/// Takes down what ranks say of themselves when an order has ended.
fn counting(counters: &mut [Counters]) -> impl FnMut(usize, &Ended) {
    |rank, ended| counters[rank] = Counters { busy: ended.busy, traffic: ended.traffic }
}

impl Executor for Leader<'_, '_, '_> {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), RuntimeError> {
        self.end();
        let (work, threads) = (self.work(start.method), self.threads());
        let placement = match self.before.take() {
            Some(before) => before.begin(work),
            None => Placement::new(work, &threads),
        };
        self.method = Some(Method {
            index: start.method,
            folder: start.folder.into(),
            room: start.room.clone(),
            named: start.named.to_vec(),
            placement,
            waves: 0,
            next_look: 1,
            kept: BTreeSet::new(),
            copies: BTreeMap::new(),
        });
        self.begin_with(start.held, start.named)?;
        self.begun.clone_from(&self.counters);
        self.begun[0] = self.local_counters();
        Ok(())
    }

    fn end(&mut self) {
        self.local.end();
        if let Some(method) = self.method.take() {
            self.before = Some(method.placement);
            for rank in 1..self.link.size() {
                // A rank that is lost has been told of.
                let _ = self.tell(rank, &Order::End);
            }
        }
    }

    fn run(&mut self, wave: &Wave<'_>, take: &mut Take<'_>) -> Result<(), RuntimeError> {
        let order = self.next_order();
        for (round, broadcast) in wave.broadcasts {
            if !self.method()?.kept.contains(round) {
                self.keep_value(Slot::Round(*round), broadcast)?;
            }
        }
        let Self { plan, link, spots, local, window, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        method.kept = wave.broadcasts.keys().copied().collect();
        let mut jobs: Vec<Jobs> = vec![Jobs::new(); link.size()];
        for (client, steps) in wave.jobs {
            jobs[method.placement.owner(*client)].insert(*client, steps.clone());
        }
        let rounds: Vec<u64> = wave.broadcasts.keys().copied().collect();
        let work = |rank: usize| Order::Work { jobs: jobs[rank].clone(), rounds: rounds.clone() };
        let owners = wave.jobs.keys().map(|client| (*client, method.placement.owner(*client)));
        let mut stream = Stream::open((link, spots, order), work, owners, (*window, wave.pulse))?;
        let erased = &*plan.methods[method.index].method;
        let placement = &mut method.placement;
        let own = Wave { jobs: &jobs[0], ..*wave };
        let outcome = local.run(&own, &mut |answers| {
            let mut clients = wave.jobs.keys();
            let mut broken = false;
            let mut merged = std::iter::from_fn(|| {
                let client = clients.next().filter(|_| !broken)?;
                let answer = if stream.next_client() == Some(*client) {
                    remote_answer(&mut stream, erased, wave.pulse)
                } else {
                    answers.next()?
                };
                match &answer {
                    Ok(answer) => placement.measure(&answer.record),
                    Err(_) => broken = true,
                }
                Some(answer)
            });
            take(&mut merged)
        });
        stream.close(outcome, &mut counting(counters))?;
        self.balance()
    }

    fn score_personal(&mut self, looked: &Look<'_>) -> Result<PersonalScores, RuntimeError> {
        self.look(looked)
    }

    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError> {
        self.look_own(model, answers, pulse)
    }

    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        self.look_global(model, answers, pulse)
    }

    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError> {
        self.adapt_all(asked)
    }

    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
        self.show_states(see)
    }

    fn persist(&mut self) -> Result<Held, RuntimeError> {
        self.persist_all()
    }

    fn sweep(&mut self, named: &[Stored]) {
        self.local.sweep(named);
        for rank in 1..self.link.size() {
            let of_rank = named_of(named, self.share(rank));
            // A rank that is lost has been told of.
            let _ = self.tell(rank, &Order::Sweep(of_rank));
        }
        if let Some(method) = &mut self.method {
            method.named = named.to_vec();
            method.copies.values().for_each(|copies| copies.sweep(named));
        }
    }

    fn is_spread(&self) -> bool {
        self.link.size() > 1
    }

    fn places(&mut self) -> Vec<RankWork> {
        self.counters[0] = self.local_counters();
        let clients = |rank| self.method.as_ref().map_or(0, |m| m.placement.clients(rank).len());
        let ranks = self.spots.iter().zip(&self.counters).zip(&self.begun).enumerate();
        let ranks = ranks.map(|(rank, ((spot, now), begun))| RankWork {
            host: spot.host.clone(),
            threads: spot.threads,
            clients: clients(rank),
            busy: now.busy - begun.busy,
            sent: now.traffic.sent - begun.traffic.sent,
            received: now.traffic.received - begun.traffic.received,
        });
        ranks.collect()
    }
}

/// A rank has answered something that it was not asked.
const UNEXPECTED: &str = "it has answered something else";

fn remote_answer(
    stream: &mut Stream<'_>,
    method: &dyn formant_methods::ErasedMethod,
    pulse: Pulse<'_>,
) -> Result<Answer, RuntimeError> {
    let (report, letter) = stream.read()?;
    let Report::Answer(record) = report else { return Err(failed(&[], 0, UNEXPECTED.into())) };
    pulse.count(record.phases.iter().map(|phase| phase.record.meter.samples).sum());
    let has_upload = record.shared.is_some_and(|shared| shared.bytes.is_some());
    let upload = has_upload.then(|| method.decode_upload(letter.body())).transpose()?;
    Ok(Answer { record, upload })
}
