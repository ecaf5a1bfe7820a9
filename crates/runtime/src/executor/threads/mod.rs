//! Clients on threads of this process: one worker per core, states in memory or in one file.

mod crew;
mod inbox;
mod order;
mod share;
mod turns;

use super::client::Client;
use super::{
    Adaptation, Adapting, Answer, Executor, GlobalSet, Held, JobRecord, Look, MeanModel, OwnScores,
    PersonalScores, Start, Step, Take, Wave,
};
use crate::store::{Background, ClientStore, Sender, Stored};
use crate::{Hand, RunPlan, RuntimeError};
use crew::Crew;
use formant_methods::Value;
use formant_numerics::{Confusion, Model, Pulse, Tally};
use inbox::{End, Inbox};
use order::training_order;
pub use share::{Found, See, SeeState, Seen, Share};
use std::sync::Arc;
use std::thread::Scope;

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
    clients: Arc<[usize]>,
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

    /// Whose states are here.
    fn clients(&self) -> Arc<[usize]> {
        self.method.as_ref().map_or_else(|| [].into(), |method| method.clients.clone())
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

/// Adds answers to others, if both are wanted.
pub fn add_answers(sum: Option<&mut Confusion>, own: Option<&Confusion>) {
    if let (Some(sum), Some(own)) = (sum, own) {
        sum.add(own);
    }
}

impl Executor for Threads<'_, '_> {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), RuntimeError> {
        self.begin_share(start, Share::whole(self.plan));
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
            |client, hand| inbox.work(|| work.job(*client, &wave.jobs[client], wave, hand)),
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
        let mut mean = looked.mean.then(|| MeanModel::of(&self.init));
        let mut answers = looked.answers.then(Confusion::default);
        let plan = self.plan;
        let mut see = |seen: Seen<'_>| {
            if let (Some(mean), Some(model)) = (&mut mean, seen.model) {
                mean.add(plan.weight(seen.client), model);
            }
            add_answers(answers.as_mut(), seen.answers);
            Ok(())
        };
        let sees = looked.mean || looked.answers;
        let found = self.look(looked, sees.then_some(&mut see))?;
        let (mut clients, mut choices) = (Vec::new(), Vec::new());
        for (figures, choice) in found.clients {
            clients.push(figures);
            choices.push(choice);
        }
        let (mean, written, models) = (mean.map(MeanModel::finish), found.written, found.models);
        Ok(PersonalScores { clients, mean, written, answers, models, choices })
    }

    fn score_own(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<OwnScores, RuntimeError> {
        let mut sum = answers.then(Confusion::default);
        let mut see = |seen: Seen<'_>| {
            add_answers(sum.as_mut(), seen.answers);
            Ok(())
        };
        let clients = self.look_own(model, answers.then_some(&mut see), pulse)?;
        Ok(OwnScores { clients, answers: sum })
    }

    fn score_global(
        &mut self,
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        let parts: Vec<usize> = (0..GlobalSet::of(self.plan).parts()).collect();
        Ok(GlobalSet::total(self.score_parts(&parts, model, answers, pulse)?))
    }

    fn adapt(&mut self, asked: &Adapting<'_>) -> Result<Vec<Adaptation>, RuntimeError> {
        let places: Vec<usize> = (0..self.plan.federation.newcomers.clients.len()).collect();
        self.adapt_some(&places, asked)
    }

    fn each_state(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
        self.each_state_of(&mut |_, state| {
            see(state);
            Ok(())
        })
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
