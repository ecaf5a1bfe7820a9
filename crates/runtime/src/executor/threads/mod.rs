//! Clients on threads of this process: one worker per core, states in memory or in one file.

mod crew;
mod inbox;
mod order;
mod turns;

use super::client::Client;
use super::newcomer::Newcomer;
use super::{
    Adaptation, Adapting, Answer, Executor, GlobalSet, Held, JobRecord, Look, MeanModel, OwnScores,
    PersonalScores, Start, Step, Take, Wave, Written,
};
use crate::store::{Background, ClientStore, Sender, Stored};
use crate::sync::lock;
use crate::{Hand, RunPlan, RuntimeError};
use crew::Crew;
use formant_methods::Value;
use formant_numerics::{Confusion, Model, Pulse, Tally};
use inbox::{End, Inbox};
use order::training_order;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::Scope;
use turns::Turns;

/// Clients on threads of this process. The thread count decides only who computes what first.
pub struct Threads<'s, 'p> {
    plan: &'p RunPlan,
    scope: &'s Scope<'s, 'p>,
    crew: Crew,
    init: Model,
    method: Option<Method<'s, 'p>>,
}

/// The method under way.
struct Method<'s, 'p> {
    index: usize,
    store: Arc<ClientStore<'p>>,
    _background: Background<'s, 'p>,
}

impl<'s, 'p> Threads<'s, 'p> {
    /// As many workers as the plan has threads. Threads that read and write behind them live in the
    /// scope.
    ///
    /// ```no_run
    /// # fn example(plan: &formant_runtime::RunPlan) {
    /// use formant_runtime::executor::Threads;
    /// use formant_runtime::{Quiet, sim};
    /// let never = std::sync::atomic::AtomicBool::new(false);
    /// let outcome = std::thread::scope(|scope| {
    ///     let mut threads = Threads::new(plan, scope);
    ///     sim::run_on(&mut threads, plan, "runs/mine".as_ref(), &Quiet, &never)
    /// });
    /// # }
    /// ```
    pub fn new(plan: &'p RunPlan, scope: &'s Scope<'s, 'p>) -> Self {
        Self { plan, scope, crew: Crew::new(plan), init: plan.init(), method: None }
    }

    /// The workers, and what they work on.
    fn at_work(&mut self) -> Result<(&mut Crew, Work<'_, 'p>), RuntimeError> {
        let Some(Method { index, store, .. }) = &self.method else {
            let (place, why) = ("threads".into(), "no method was begun".into());
            return Err(RuntimeError::Executor { place, why });
        };
        let work = Work { plan: self.plan, index: *index, store, init: &self.init };
        Ok((&mut self.crew, work))
    }

    fn clients(&self) -> Vec<usize> {
        (0..self.plan.federation.clients.len()).collect()
    }
}

/// What workers work on.
#[derive(Clone, Copy)]
struct Work<'a, 'p> {
    plan: &'p RunPlan,
    index: usize,
    store: &'a ClientStore<'p>,
    init: &'a Model,
}

impl<'p> Work<'_, 'p> {
    fn client<'a>(&self, id: usize, pulse: Pulse<'a>) -> Client<'a>
    where
        'p: 'a,
    {
        Client { plan: self.plan, method: &self.plan.methods[self.index], id, pulse }
    }

    /// A client's state, made the first time it is asked for.
    fn take_state(&self, client: usize) -> Result<Value, RuntimeError> {
        let method = &*self.plan.methods[self.index].method;
        self.store.take(client, || method.start_client(self.init))
    }

    /// Computes a job; its upload waits in the store for its turn.
    fn job(
        &self,
        id: usize,
        steps: &[Step],
        wave: &Wave<'_>,
        hand: &mut Hand,
    ) -> Result<JobRecord, RuntimeError> {
        let client = self.client(id, wave.pulse);
        let mut state = self.take_state(id)?;
        let sent = || self.store.sent(id);
        let done = client.work(steps, wave.broadcasts, &mut state, &sent, hand)?;
        self.store.give_back(id, state, done.changed)?;
        if let (Some(upload), Some(shared)) = (done.upload, done.record.shared) {
            if self.plan.keeps_sent(client.method) {
                self.store.put_sent(id, &upload)?;
            }
            self.store.early.put(Sender { client: id, round: shared.round }, upload)?;
        }
        Ok(done.record)
    }

    /// A client's answer, once its turn has come.
    fn answer(&self, id: usize, inbox: &Inbox) -> Result<Answer, RuntimeError> {
        let record = inbox.wait_for(id)?;
        let upload = match record.shared {
            Some(shared) if shared.bytes.is_some() => {
                self.store.early.take(Sender { client: id, round: shared.round })?
            }
            _ => None,
        };
        Ok(Answer { record, upload })
    }
}

/// Adds the answers of a tally to others.
fn add(sum: Option<&mut Confusion>, tally: &Tally) {
    if let (Some(sum), Some(own)) = (sum, tally.confusion()) {
        sum.add(own);
    }
}

impl Executor for Threads<'_, '_> {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), RuntimeError> {
        self.end();
        let method = &*self.plan.methods[start.method].method;
        let store = Arc::new(ClientStore::new(start.folder, start.room.clone(), method));
        store.sweep(start.named);
        for (client, stored) in start.held.clients.iter().enumerate() {
            if let Some(stored) = stored {
                store.adopt(client, stored.clone());
            }
        }
        store.adopt_sent(start.held.sent.clone());
        let background = store.in_background(self.scope);
        self.method = Some(Method { index: start.method, store, _background: background });
        Ok(())
    }

    fn end(&mut self) {
        self.method = None;
    }

    fn run(&mut self, wave: &Wave<'_>, take: &mut Take<'_>) -> Result<(), RuntimeError> {
        let (crew, work) = self.at_work()?;
        let clients: Vec<usize> = wave.jobs.keys().copied().collect();
        let queue = training_order(&clients, work.plan.threads, |client| {
            work.plan.federation.clients[client].train.len()
        });
        let _ahead = work.store.read_ahead(&queue);
        let inbox = Inbox::default();
        let (worked, taken) = crew.run_while(
            &queue,
            |client, hand| {
                inbox.check()?;
                let guard = inbox.guard(End::Working);
                let record = work.job(*client, &wave.jobs[client], wave, hand)?;
                guard.went_well();
                inbox.done(record);
                Ok(())
            },
            || {
                let guard = inbox.guard(End::Reading);
                let mut broken = false;
                let mut answers = clients.iter().map_while(|client| {
                    let answer = (!broken).then(|| work.answer(*client, &inbox))?;
                    broken = answer.is_err();
                    Some(answer)
                });
                take(&mut answers)?;
                guard.went_well();
                Ok(())
            },
        );
        // The side that failed second did so because of the other one.
        if inbox.failed() == Some(End::Reading) {
            taken.and(worked.map(drop))
        } else {
            worked.map(drop).and(taken)
        }
    }

    fn score_personal(&mut self, looked: &Look<'_>) -> Result<PersonalScores, RuntimeError> {
        let clients = self.clients();
        let (crew, work) = self.at_work()?;
        let sums = (looked.mean || looked.answers).then(|| {
            let mean = looked.mean.then(|| MeanModel::of(work.init));
            Turns::new((mean, looked.answers.then(Confusion::default)))
        });
        let written = Mutex::new(Written::default());
        let _ahead = work.store.read_ahead(&clients);
        let found = crew.run(&clients, |id, hand| {
            let turn = sums.as_ref().map(|sums| sums.turn(*id));
            let client = work.client(*id, looked.pulse);
            let state = work.take_state(*id)?;
            let (round, got) = (looked.round, looked.broadcast);
            let found =
                client.with_personal_model(round, &state, got, hand, |served, hand| {
                    let model = served.model;
                    let tally = client.tally(model, looked.answers, hand)?;
                    if let Some(turn) = turn {
                        turn.take(|(mean, answers)| {
                            if let (Some(mean), Some(model)) = (mean, model) {
                                mean.add(client.weight(), model);
                            }
                            add(answers.as_mut(), &tally);
                        });
                    }
                    if let (Some(folder), Some(model)) = (looked.folder, model)
                        && let Some(bytes) = client.write_model(round, model, folder)?
                    {
                        lock(&written).add(bytes);
                    }
                    let trained = served.trained.filter(|_| *id < looked.models).cloned();
                    Ok::<_, RuntimeError>((client.figures(&tally), trained, served.choice))
                })??;
            work.store.give_back(*id, state, false)?;
            Ok(found)
        })?;
        let (mut clients, mut models, mut choices) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (id, (figures, model, choice)) in found.into_iter().enumerate() {
            clients.push(figures);
            models.extend(model.map(|model| (id, model)));
            choices.push(choice);
        }
        let (mean, answers) = sums.map_or((None, None), Turns::into_inner);
        let (mean, written) = (mean.map(MeanModel::finish), *lock(&written));
        Ok(PersonalScores { clients, mean, written, answers, models, choices })
    }

    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError> {
        let clients = self.clients();
        let (crew, work) = self.at_work()?;
        let sum = answers.then(|| Turns::new(Some(Confusion::default())));
        let clients = crew.run(&clients, |id, hand| {
            let turn = sum.as_ref().map(|sum| sum.turn(*id));
            let client = work.client(*id, pulse);
            let tally = client.tally(Some(model), answers, hand)?;
            if let Some(turn) = turn {
                turn.take(|answers| add(answers.as_mut(), &tally));
            }
            Ok(client.figures(&tally))
        })?;
        Ok(OwnScores { clients, answers: sum.and_then(Turns::into_inner) })
    }

    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        let set = GlobalSet::of(self.plan);
        let parts: Vec<usize> = (0..set.parts()).collect();
        let score =
            |part: &usize, hand: &mut Hand| set.score_part(*part, model, answers, hand, pulse);
        Ok(GlobalSet::total(self.crew.run(&parts, score)?))
    }

    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError> {
        let plan = self.plan;
        let places: Vec<usize> = (0..plan.federation.newcomers.clients.len()).collect();
        self.crew.run(&places, |place, hand| {
            let adaptation = Newcomer::new(plan, asked.method, *place).adapt(asked, hand)?;
            (asked.done)();
            Ok(adaptation)
        })
    }

    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
        let clients = self.clients();
        let (_, work) = self.at_work()?;
        let _ahead = work.store.read_ahead(&clients);
        let mut bytes = Vec::new();
        for client in clients {
            let state = work.take_state(client)?;
            bytes.clear();
            state.encode_to(&mut bytes)?;
            see(&bytes);
            work.store.give_back(client, state, false)?;
        }
        Ok(())
    }

    fn persist(&mut self) -> Result<Held, RuntimeError> {
        let (_, Work { store, plan, .. }) = self.at_work()?;
        let clients = store.persist(plan.federation.clients.len())?;
        Ok(Held { clients, sent: store.all_sent() })
    }

    fn sweep(&mut self, named: &[Stored]) {
        if let Some(method) = &self.method {
            method.store.sweep(named);
        }
    }
}
