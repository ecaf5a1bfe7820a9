//! Rank 0's executor: threads of its own for its share of the clients, and orders for all other ranks.

use crate::carry::Copies;
use crate::codec::{append, letter};
use crate::fabric::To;
use crate::link::{Link, Traffic};
use crate::message::{Done, Ended, Holding, Order, Report, Slot};
use crate::muster::Spot;
use crate::placement::Placement;
use crate::stream::{Stream, failed};
use formant_methods::Value;
use formant_numerics::{Confusion, Model, Pulse, Tally};
use formant_runtime::event::{Phase, RankWork};
use formant_runtime::executor::client::Client;
use formant_runtime::executor::threads::{See, Seen, Share};
use formant_runtime::executor::{
    Adaptation, Adapting, Answer, Executor, Figures, GlobalSet, Held, Jobs, Look, MeanModel,
    OwnScores, PersonalScores, Start, Take, Threads, Wave,
};
use formant_runtime::{Choice, Room, RunPlan, RuntimeError, Stored};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Scope;

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

    /// How much each client has to do in a round of a method, in samples.
    fn work(&self, method: usize) -> Vec<f64> {
        let method = &self.plan.methods[method];
        let clients = 0..self.plan.federation.clients.len();
        let work = clients.map(|client| {
            let desk = self.plan.desk(method, client);
            let samples = desk.samples(1, Phase::Shared) + desk.samples(1, Phase::Personal);
            // One without samples takes a moment as well.
            samples.max(1) as f64
        });
        work.collect()
    }

    fn threads(&self) -> Vec<usize> {
        self.spots.iter().map(|spot| spot.threads).collect()
    }

    /// Begins a method, or goes on with it after clients have moved, with what was made durable.
    fn begin_with(&mut self, held: &Held, named: &[Stored]) -> Result<(), RuntimeError> {
        let order = self.next_order();
        let Some(mut method) = self.method.take() else { return Err(no_method()) };
        method.kept.clear();
        method.copies.clear();
        let placement = &method.placement;
        let shares: Vec<Vec<usize>> =
            (0..self.link.size()).map(|rank| placement.clients(rank)).collect();
        for (rank, share) in shares.iter().enumerate().skip(1) {
            if self.spots[rank].sees {
                continue;
            }
            let mut copies = Copies::new(&method.folder, rank, named);
            let mut stream = Stream::of(self.link, &self.spots, order);
            // Rank 0 reads no faster than the other rank writes: there may be more than fits into memory.
            let mut under_way = 0;
            for (client, is_state, stored) in holdings(held, share) {
                let what = if is_state { Holding::State } else { Holding::Sent };
                let stow = Order::Stow { client, what };
                let mut bytes = letter(order, &stow).map_err(|why| self.failed(rank, why))?;
                bytes.extend(copies.give((client, is_state), stored)?);
                self.link.send(To::One(rank), bytes);
                under_way += 1;
                if under_way == self.window {
                    stream.confirm(rank)?;
                    under_way -= 1;
                }
            }
            (0..under_way).try_for_each(|_| stream.confirm(rank))?;
            method.copies.insert(rank, copies);
        }
        let (spots, index) = (&self.spots, method.index);
        let begin = |rank: usize| {
            let clients = shares[rank].clone();
            let (mut own, mut of_rank) = (Vec::new(), Vec::new());
            if spots[rank].sees {
                let found = holdings(held, &clients);
                own.extend(found.map(|(client, is_state, at)| (client, is_state, at.clone())));
                of_rank = named_of(named, rank);
            }
            Order::Begin { method: index, clients, held: own, named: of_rank }
        };
        let stream = Stream::open((self.link, spots, order), begin, [], (1, Pulse::NONE))?;
        let (folder, room) = (method.folder.as_path(), &method.room);
        let start = Start { method: index, folder, room, held, named };
        self.local.begin_share(&start, Share { number: 0, clients: shares[0].as_slice().into() });
        stream.close(Ok(()), &mut counting(&mut self.counters))?;
        self.method = Some(method);
        Ok(())
    }

    /// Moves clients to other ranks if rounds become shorter by it. It is looked after the first wave, the second, the
    /// fourth, and so on: what is not known by then takes long to be known.
    fn balance(&mut self) -> Result<(), RuntimeError> {
        let (threads, is_restless) = (self.threads(), self.is_restless);
        let method = self.method()?;
        method.waves += 1;
        if threads.len() < 2 || !is_restless && method.waves < method.next_look {
            return Ok(());
        }
        let better = if is_restless {
            Some(method.placement.turned())
        } else {
            method.next_look *= 2;
            method.placement.improved(&threads)
        };
        let Some(better) = better else { return Ok(()) };
        // What the last checkpoint names stays as well.
        let mut named = method.named.clone();
        let held = self.persist()?;
        named.extend(held.clients.iter().flatten().chain(held.sent.values()).cloned());
        self.method()?.placement.move_to(better);
        self.begin_with(&held, &named)
    }

    fn local_counters(&self) -> Counters {
        Counters { busy: self.local.busy().as_secs_f64(), traffic: self.link.traffic() }
    }
}

fn no_method() -> RuntimeError {
    failed(&[], 0, "no method was begun".into())
}

/// What some clients hold: whose, whether it is the state, and where it is.
fn holdings<'h>(
    held: &'h Held,
    clients: &'h [usize],
) -> impl Iterator<Item = (usize, bool, &'h Stored)> {
    let states = clients
        .iter()
        .filter_map(|client| Some((*client, true, held.clients.get(*client)?.as_ref()?)));
    let sent = clients.iter().filter_map(|client| Some((*client, false, held.sent.get(client)?)));
    states.chain(sent)
}

/// What is named of the file that a rank writes: it must not be written over.
fn named_of(named: &[Stored], rank: usize) -> Vec<Stored> {
    let own = format!("values-{rank}.bin");
    named.iter().filter(|stored| stored.file == own).cloned().collect()
}

/// Takes down what ranks say of themselves when an order has ended.
fn counting(counters: &mut [Counters]) -> impl FnMut(usize, &Ended) {
    |rank, ended| counters[rank] = Counters { busy: ended.busy, traffic: ended.traffic }
}

/// Adds answers to others.
fn add(sum: Option<&mut Confusion>, own: Option<&Confusion>) {
    if let (Some(sum), Some(own)) = (sum, own) {
        sum.add(own);
    }
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
        let order = self.next_order();
        self.keep_value(Slot::Broadcast, looked.broadcast)?;
        let Self { plan, link, spots, local, window, method, counters, .. } = self;
        let (plan, method) = (*plan, method.as_mut().ok_or_else(no_method)?);
        let clients = plan.federation.clients.len();
        // A rank that does not see the folder shows its models, and they are written here.
        let writes = |rank: usize| looked.folder.is_some() && !spots[rank].sees;
        let orders = |rank: usize| Order::Look {
            round: looked.round,
            // Another rank may stand elsewhere.
            folder: looked
                .folder
                .filter(|_| spots[rank].sees)
                .map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())),
            answers: looked.answers,
            models: looked.models,
            shows: looked.mean || writes(rank),
        };
        let shown = |rank: usize| looked.mean || looked.answers || writes(rank);
        let owners = (0..clients).map(|client| (client, method.placement.owner(client)));
        let owners = owners.filter(|(_, rank)| shown(*rank));
        let mut stream =
            Stream::open((link, spots, order), orders, owners, (*window, looked.pulse))?;
        let mut scores = PersonalScores {
            answers: looked.answers.then(Confusion::default),
            ..PersonalScores::default()
        };
        let mut mean = looked.mean.then(|| MeanModel::of(&plan.init()));
        let mut written = formant_runtime::executor::Written::default();
        let placement = &method.placement;
        let erased = &plan.methods[method.index];
        let outcome = {
            let mut see = |seen: Seen<'_>| {
                if let (Some(mean), Some(model)) = (&mut mean, seen.model) {
                    mean.add(plan.weight(seen.client), model);
                }
                add(scores.answers.as_mut(), seen.answers);
                let elsewhere = placement.owner(seen.client);
                if let (Some(folder), Some(model)) = (looked.folder, seen.model)
                    && elsewhere != 0
                    && writes(elsewhere)
                {
                    let client =
                        Client { plan, method: erased, id: seen.client, pulse: looked.pulse };
                    if let Some(bytes) = client.write_model(looked.round, model, folder)? {
                        written.add(bytes);
                    }
                }
                Ok(())
            };
            let mut merged = |seen: Seen<'_>| {
                remote_seen(&mut stream, seen.client, &mut see)?;
                see(seen)
            };
            let shown = shown(0).then_some(&mut merged as &mut See<'_>);
            local.look(looked, shown).and_then(|found| {
                remote_seen(&mut stream, clients, &mut see)?;
                Ok(found)
            })
        };
        let (own, others) = stream.close(outcome, &mut counting(counters))?;
        let mut all: BTreeMap<usize, (Figures, Option<Choice>)> = BTreeMap::new();
        all.extend(placement.clients(0).into_iter().zip(own.clients));
        scores.models = own.models;
        let add_written = |sum: &mut formant_runtime::executor::Written,
                           more: formant_runtime::executor::Written| {
            sum.models += more.models;
            sum.bytes += more.bytes;
        };
        add_written(&mut written, own.written);
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Looked(found) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            let clients = placement.clients(rank);
            looked
                .pulse
                .count(clients.iter().map(|client| plan.scored(*client).len() as u64).sum());
            all.extend(clients.into_iter().zip(found.clients));
            scores.models.extend(found.models);
            add_written(&mut written, found.written);
        }
        (scores.clients, scores.choices) = all.into_values().unzip();
        (scores.mean, scores.written) = (mean.map(MeanModel::finish), written);
        Ok(scores)
    }

    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError> {
        let order = self.next_order();
        self.keep_model(model)?;
        let Self { plan, link, spots, local, window, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        let (clients, placement) = (plan.federation.clients.len(), &method.placement);
        let owners = (0..clients).map(|client| (client, placement.owner(client)));
        let owners = owners.filter(|_| answers);
        let orders = |_| Order::Own { answers };
        let mut stream = Stream::open((link, spots, order), orders, owners, (*window, pulse))?;
        let mut sum = answers.then(Confusion::default);
        let outcome = {
            let mut see = |seen: Seen<'_>| {
                add(sum.as_mut(), seen.answers);
                Ok(())
            };
            let mut merged = |seen: Seen<'_>| {
                remote_seen(&mut stream, seen.client, &mut see)?;
                see(seen)
            };
            let shown = answers.then_some(&mut merged as &mut See<'_>);
            local.look_own(model, shown, pulse).and_then(|figures| {
                remote_seen(&mut stream, clients, &mut see)?;
                Ok(figures)
            })
        };
        let (own, others) = stream.close(outcome, &mut counting(counters))?;
        let mut all: BTreeMap<usize, Figures> = placement.clients(0).into_iter().zip(own).collect();
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Figures(figures) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            let clients = placement.clients(rank);
            pulse.count(clients.iter().map(|client| plan.scored(*client).len() as u64).sum());
            all.extend(clients.into_iter().zip(figures));
        }
        Ok(OwnScores { clients: all.into_values().collect(), answers: sum })
    }

    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        let order = self.next_order();
        self.keep_model(model)?;
        let Self { plan, link, spots, local, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        let parts = GlobalSet::of(plan).parts();
        let shares = method.placement.shares(parts);
        let orders = |rank: usize| Order::Parts { parts: shares[rank].clone(), answers };
        let stream = Stream::open((link, spots, order), orders, [], (1, pulse))?;
        let outcome = local.score_parts(&shares[0], model, answers, pulse);
        let (own, others) = stream.close(outcome, &mut counting(counters))?;
        let mut all: BTreeMap<usize, Tally> = shares[0].iter().copied().zip(own).collect();
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Tallies(tallies) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            pulse.count(tallies.iter().map(|tally| tally.samples as u64).sum());
            all.extend(shares[rank].iter().copied().zip(tallies));
        }
        Ok(GlobalSet::total(all.into_values()))
    }

    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError> {
        let order = self.next_order();
        self.keep_model(asked.model)?;
        if let Some(broadcast) = asked.broadcast {
            self.keep_value(Slot::Broadcast, broadcast)?;
        }
        let newcomers = self.plan.federation.newcomers.clients.len();
        let shares = match &self.method {
            Some(method) => method.placement.shares(newcomers),
            None => Placement::new(Vec::new(), &self.threads()).shares(newcomers),
        };
        let Self { link, spots, local, counters, .. } = self;
        let orders = |rank: usize| Order::Adapt {
            method: asked.method,
            places: shares[rank].clone(),
            epochs: asked.epochs,
            keep: asked.keep,
            receives: asked.broadcast.is_some(),
        };
        let stream = Stream::open((link, spots, order), orders, [], (1, asked.pulse))?;
        let outcome = local.adapt_some(&shares[0], asked);
        let (own, others) = stream.close(outcome, &mut counting(counters))?;
        let mut all: BTreeMap<usize, Adaptation> = shares[0].iter().copied().zip(own).collect();
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Adapted(adapted) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            for _ in &adapted {
                (asked.done)();
            }
            all.extend(shares[rank].iter().copied().zip(adapted));
        }
        Ok(all.into_values().collect())
    }

    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
        let order = self.next_order();
        let Self { plan, link, spots, local, window, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        let clients = plan.federation.clients.len();
        let owners = (0..clients).map(|client| (client, method.placement.owner(client)));
        let mut stream =
            Stream::open((link, spots, order), |_| Order::States, owners, (*window, Pulse::NONE))?;
        let mut before = |end: usize, see: &mut dyn FnMut(&[u8])| {
            while stream.next_client().is_some_and(|client| client < end) {
                match stream.read()? {
                    (Report::State { .. }, letter) => see(letter.body()),
                    _ => return Err(failed(spots, 0, UNEXPECTED.into())),
                }
            }
            Ok(())
        };
        let outcome = local.each_state_of(&mut |client, state| {
            before(client, see)?;
            see(state);
            Ok(())
        });
        let outcome = outcome.and_then(|()| before(clients, see));
        stream.close(outcome, &mut counting(counters)).map(drop)
    }

    fn persist(&mut self) -> Result<Held, RuntimeError> {
        let order = self.next_order();
        let Self { link, spots, local, window, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        let mut stream =
            Stream::open((link, spots, order), |_| Order::Persist, [], (1, Pulse::NONE))?;
        let outcome = local.persist().and_then(|mut held| {
            for (rank, copies) in &mut method.copies {
                (0..*window).for_each(|_| stream.pass(*rank));
                while let Some((report, letter)) = stream.hear(*rank)? {
                    stream.pass(*rank);
                    let Report::Carried { client, state, sent } = report else {
                        return Err(failed(spots, *rank, UNEXPECTED.into()));
                    };
                    let mut body = letter.body();
                    if let Some(place) = held.clients.get_mut(client) {
                        *place = copies.take((client, true), state, &mut body)?;
                    }
                    if let Some(sent) = copies.take((client, false), sent, &mut body)? {
                        held.sent.insert(client, sent);
                    }
                }
            }
            Ok(held)
        });
        let (mut held, others) = stream.close(outcome, &mut counting(counters))?;
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Held(of_rank) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            held.sent.extend(of_rank.sent);
            for (place, state) in held.clients.iter_mut().zip(of_rank.clients) {
                if state.is_some() {
                    *place = state;
                }
            }
        }
        Ok(held)
    }

    fn sweep(&mut self, named: &[Stored]) {
        self.local.sweep(named);
        for rank in 1..self.link.size() {
            let of_rank = named_of(named, rank);
            // A rank that is lost has been told of.
            let _ = self.tell(rank, &Order::Sweep(of_rank));
        }
        if let Some(method) = &mut self.method {
            method.named = named.to_vec();
            method.copies.values().for_each(|copies| copies.sweep(named));
        }
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

/// Sees what other ranks show of clients before one.
fn remote_seen(
    stream: &mut Stream<'_>,
    end: usize,
    see: &mut impl FnMut(Seen<'_>) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    while stream.next_client().is_some_and(|client| client < end) {
        match stream.read()?.0 {
            Report::Seen { client, model, answers } => {
                see(Seen { client, model: model.as_ref(), answers: answers.as_deref() })?;
            }
            _ => return Err(failed(&[], 0, UNEXPECTED.into())),
        }
    }
    Ok(())
}
