//! Every rank but the first: it has a share of the clients and does what it is told.

use crate::RanksError;
use crate::carry::{Cache, Carrier};
use crate::codec::{Letter, append, letter};
use crate::link::Link;
use crate::message::{Done, Ended, Failure, Holding, Looked, Order, Report, Slot};
use formant_methods::{MethodError, Value};
use formant_numerics::{Model, Pulse};
use formant_runtime::executor::threads::{See, Seen, Share};
use formant_runtime::executor::{
    Adapting, Answer, Executor, Held, Jobs, Look, Start, Threads, Wave,
};
use formant_runtime::{Room, RunPlan, RuntimeError, ShareName, Stored};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a rank keeps what is made durable.
#[derive(Debug)]
pub enum Place {
    /// In the run folder, which it sees.
    Shared(PathBuf),
    /// In a folder of its own; rank 0 keeps copies in the run folder.
    Own(tempfile::TempDir),
}

impl Place {
    fn folder(&self) -> &Path {
        match self {
            Self::Shared(folder) => folder,
            Self::Own(folder) => folder.path(),
        }
    }
}

/// Does what rank 0 asks for until the run has ended. An error here is one of the connection: whatever else fails is
/// rank 0's to tell.
pub fn follow(plan: &RunPlan, link: &Link, place: &Place) -> Result<(), RanksError> {
    std::thread::scope(|scope| {
        let mut follower = Follower {
            plan,
            link,
            place,
            threads: Threads::new(plan, scope),
            method: 0,
            broadcasts: BTreeMap::new(),
            looked: Vec::new(),
            model: None,
            cache: Cache::default(),
        };
        loop {
            let letter = link.next(0)?;
            let order = letter.order();
            link.begin(order);
            match follower.obey(order, &letter) {
                Ok(After::Done(done)) => follower.end(order, Ok(done))?,
                Ok(After::Silence) => {}
                Ok(After::Quit) => return Ok(()),
                Err(error) => {
                    let failure = if error.is_stop() {
                        Failure::Stopped
                    } else {
                        Failure::Other(error.to_string())
                    };
                    follower.end(order, Err(failure))?;
                }
            }
        }
    })
}

struct Follower<'l, 's, 'p> {
    plan: &'p RunPlan,
    link: &'l Link,
    place: &'l Place,
    threads: Threads<'s, 'p>,
    /// The method under way.
    method: usize,
    broadcasts: BTreeMap<u64, Arc<Value>>,
    /// Encoded: whose method it is of, the order that uses it says.
    looked: Vec<u8>,
    model: Option<Model>,
    cache: Cache,
}

/// What follows an order.
enum After {
    Done(Done),
    Silence,
    Quit,
}

/// Something in the protocol is not as it should be.
fn broken(why: impl Into<String>) -> RuntimeError {
    RuntimeError::Executor { place: "the protocol of the ranks".into(), why: why.into() }
}

fn no_method(index: usize) -> RuntimeError {
    broken(format!("there is no method {index}"))
}

/// An order goes on until it is called off.
fn pulse(link: &Link) -> Pulse<'_> {
    Pulse { stop: Some(link.stop()), samples: None }
}

/// Shows reports one by one, as they are asked for.
#[derive(Clone, Copy)]
struct Showing<'l> {
    link: &'l Link,
    order: u64,
}

impl Showing<'_> {
    /// Waits until the next one may go, and sends it.
    fn show(
        self,
        report: &Report,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        if !self.link.wait_for_pass() {
            return Err(MethodError::Stopped.into());
        }
        let mut bytes = letter(self.order, report).map_err(broken)?;
        fill(&mut bytes)?;
        self.link.send(crate::To::One(0), bytes);
        Ok(())
    }
}

impl Follower<'_, '_, '_> {
    fn end(&self, order: u64, outcome: Result<Done, Failure>) -> Result<(), RanksError> {
        let (busy, traffic) = (self.threads.busy().as_secs_f64(), self.link.traffic());
        let ended = Report::Ended(Ended { outcome, busy, traffic });
        let bytes = letter(order, &ended).map_err(RanksError::Protocol)?;
        self.link.send(crate::To::One(0), bytes);
        Ok(())
    }

    fn obey(&mut self, order: u64, letter: &Letter) -> Result<After, RuntimeError> {
        let showing = Showing { link: self.link, order };
        let done = match letter.head::<Order>().map_err(broken)? {
            Order::Quit => return Ok(After::Quit),
            Order::Stow { client, what } => {
                let folder = self.place.folder();
                self.cache.stow(folder, (client, what == Holding::State), letter.body())?;
                Done::Well
            }
            Order::Begin { method, session, clients, held, named } => {
                self.begin((method, session), &clients, held, named)?;
                Done::Well
            }
            Order::Keep(slot) => {
                self.keep(slot, letter.body())?;
                return Ok(After::Silence);
            }
            Order::Work { jobs, rounds } => {
                let needed: HashSet<u64> = rounds.into_iter().collect();
                self.broadcasts.retain(|round, _| needed.contains(round));
                self.work(&jobs, showing)?;
                Done::Well
            }
            Order::Look { round, folder, answers, models, shows } => {
                let folder = folder.as_deref();
                Done::Looked(self.look(round, folder, (answers, models), shows, showing)?)
            }
            Order::Own { answers } => Done::Figures(self.own(answers, showing)?),
            Order::Parts { parts, answers } => {
                let model = self.model.take().ok_or_else(|| broken("there is no model"))?;
                let pulse = pulse(self.link);
                let tallies = self.threads.score_parts(&parts, &model, answers, pulse)?;
                self.model = Some(model);
                Done::Tallies(tallies)
            }
            Order::Adapt { method, places, epochs, keep, receives } => {
                let model = self.model.take().ok_or_else(|| broken("there is no model"))?;
                let (done, pulse) = (&|| {}, pulse(self.link));
                let erased = self.plan.methods.get(method).ok_or_else(|| no_method(method))?;
                let broadcast = receives.then(|| erased.method.decode_broadcast(&self.looked));
                let broadcast = broadcast.transpose()?;
                let broadcast = broadcast.as_ref();
                let asked =
                    Adapting { method, model: &model, broadcast, epochs, keep, done, pulse };
                let adapted = self.threads.adapt_some(&places, &asked)?;
                self.model = Some(model);
                Done::Adapted(adapted)
            }
            Order::States => {
                self.threads.each_state_of(&mut |client, state| {
                    showing.show(&Report::State { client }, |bytes| {
                        bytes.extend_from_slice(state);
                        Ok(())
                    })
                })?;
                Done::Well
            }
            Order::Persist => Done::Held(self.persist(showing)?),
            Order::Sweep(named) => {
                let own = match self.place {
                    Place::Shared(_) => named,
                    Place::Own(_) => self.cache.named(),
                };
                self.threads.sweep(&own);
                return Ok(After::Silence);
            }
            Order::End => {
                self.threads.end();
                self.broadcasts.clear();
                (self.looked, self.model) = (Vec::new(), None);
                return Ok(After::Silence);
            }
        };
        Ok(After::Done(done))
    }

    fn begin(
        &mut self,
        (method, session): (usize, u64),
        clients: &[usize],
        given: Vec<(usize, bool, Stored)>,
        named: Vec<Stored>,
    ) -> Result<(), RuntimeError> {
        if method >= self.plan.methods.len() {
            return Err(no_method(method));
        }
        self.method = method;
        let room = Arc::new(Room::new(self.plan.memory));
        let folder = self.place.folder();
        let all = self.plan.federation.clients.len();
        let (held, named) = match self.place {
            Place::Shared(_) => {
                let mut held = Held { clients: vec![None; all], sent: BTreeMap::new() };
                for (client, is_state, stored) in given {
                    if !is_state {
                        held.sent.insert(client, stored);
                    } else if let Some(state) = held.clients.get_mut(client) {
                        *state = Some(stored);
                    }
                }
                (held, named)
            }
            Place::Own(_) => self.cache.begin(all),
        };
        let start = Start { method, folder, room: &room, held: &held, named: &named };
        let name = ShareName { number: self.link.rank(), session };
        let share = Share { name, clients: clients.into() };
        self.threads.begin_share(&start, share);
        if let Place::Own(folder) = self.place {
            self.cache.tidy(folder.path());
        }
        Ok(())
    }

    fn keep(&mut self, slot: Slot, body: &[u8]) -> Result<(), RuntimeError> {
        let method = &*self.plan.methods[self.method].method;
        match slot {
            Slot::Round(round) => {
                self.broadcasts.insert(round, Arc::new(method.decode_broadcast(body)?));
            }
            Slot::Broadcast => self.looked = body.to_vec(),
            Slot::Model => {
                self.model = Some(postcard::from_bytes(body).map_err(|e| broken(e.to_string()))?);
            }
        }
        Ok(())
    }

    fn work(&mut self, jobs: &Jobs, showing: Showing<'_>) -> Result<(), RuntimeError> {
        let pulse = pulse(self.link);
        let wave = Wave { jobs, broadcasts: &self.broadcasts, pulse };
        self.threads.run(&wave, &mut |answers| {
            for answer in answers {
                let Answer { record, upload } = answer?;
                showing.show(&Report::Answer(record), |bytes| {
                    upload.map_or(Ok(()), |upload| Ok(append(bytes, &upload)?))
                })?;
            }
            Ok(())
        })
    }

    fn look(
        &mut self,
        round: usize,
        folder: Option<&Path>,
        (answers, models): (bool, usize),
        shows: bool,
        showing: Showing<'_>,
    ) -> Result<Looked, RuntimeError> {
        let method = &*self.plan.methods[self.method].method;
        let broadcast = method.decode_broadcast(&self.looked)?;
        let pulse = pulse(self.link);
        // Rank 0 makes the mean, of what it is shown.
        let looked =
            Look { round, broadcast: &broadcast, mean: false, folder, answers, models, pulse };
        let mut see = shower(shows, showing);
        let shown = (shows || answers).then_some(&mut see as &mut See<'_>);
        let found = self.threads.look(&looked, shown)?;
        Ok(Looked { clients: found.clients, written: found.written, models: found.models })
    }

    fn own(
        &mut self,
        answers: bool,
        showing: Showing<'_>,
    ) -> Result<Vec<formant_runtime::executor::Figures>, RuntimeError> {
        let model = self.model.take().ok_or_else(|| broken("there is no model"))?;
        let pulse = pulse(self.link);
        let mut see = shower(false, showing);
        let figures =
            self.threads.look_own(&model, answers.then_some(&mut see as &mut See<'_>), pulse)?;
        self.model = Some(model);
        Ok(figures)
    }

    fn persist(&mut self, showing: Showing<'_>) -> Result<Held, RuntimeError> {
        let held = self.threads.persist()?;
        let Place::Own(folder) = self.place else {
            // Rank 0 names it, and may outlive this host.
            self.threads.sync()?;
            return Ok(held);
        };
        let carrier = Carrier { folder: folder.path(), held: &held };
        self.cache.carry(&carrier, &mut |client, state, sent, body| {
            showing.show(&Report::Carried { client, state, sent }, |bytes| {
                bytes.extend_from_slice(body);
                Ok(())
            })
        })?;
        Ok(Held::default())
    }
}

/// Shows what clients serve, if models are wanted, and what they answer.
fn shower(models: bool, showing: Showing<'_>) -> impl FnMut(Seen<'_>) -> Result<(), RuntimeError> {
    move |seen| {
        let model = seen.model.filter(|_| models).cloned();
        let report = Report::Seen {
            client: seen.client,
            model,
            answers: seen.answers.cloned().map(Box::new),
        };
        showing.show(&report, |_| Ok(()))
    }
}
