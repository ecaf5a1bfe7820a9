//! What an executor of several processes asks of the threads in each of them: the same as the simulator's driver
//! does, for a share of the clients.

use super::turns::Turns;
use super::{Method, Threads};
use crate::executor::newcomer::Newcomer;
use crate::executor::{Adaptation, Adapting, Executor, Figures, GlobalSet, Look, Start, Written};
use crate::store::{ClientStore, ShareName};
use crate::sync::lock;
use crate::{Choice, Hand, RunPlan, RuntimeError};
use core::time::Duration;
use formant_numerics::{Confusion, Model, Pulse, Tally};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Some of a run's clients.
#[derive(Debug, Clone)]
pub struct Share {
    /// Tells it from other shares: their files may be in one folder.
    pub name: ShareName,
    /// Who, ascending.
    pub clients: Arc<[usize]>,
}

impl Share {
    /// All clients.
    pub fn whole(plan: &RunPlan) -> Self {
        Self { name: ShareName::WHOLE, clients: (0..plan.federation.clients.len()).collect() }
    }
}

/// A client whose turn it is to be looked at.
pub struct Seen<'a> {
    /// Who.
    pub client: usize,
    /// What it serves, if that did not diverge while it was made; none where everybody is scored by one model.
    pub model: Option<&'a Model>,
    /// Its answers, if they were wanted.
    pub answers: Option<&'a Confusion>,
}

/// What sees a share's clients one after the other, in client order.
pub type See<'s> = dyn FnMut(Seen<'_>) -> Result<(), RuntimeError> + Send + 's;

/// Takes a client's state.
pub type SeeState<'a> = dyn FnMut(usize, &[u8]) -> Result<(), RuntimeError> + 'a;

/// What a [`Look`] at a share has shown, in client order.
#[derive(Debug, Default)]
pub struct Found {
    /// What each client's model is worth, and what its guard has chosen.
    pub clients: Vec<(Figures, Option<Choice>)>,
    /// What was written.
    pub written: Written,
    /// The models that were wanted.
    pub models: BTreeMap<usize, Model>,
}

impl RunPlan {
    /// The weight of a client's personal model in the mean of all of them.
    pub fn weight(&self, client: usize) -> f64 {
        self.federation.clients[client].train.len() as f64
    }
}

impl Threads<'_, '_> {
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.crew.workers()
    }

    /// How long workers have worked so far, added up.
    pub fn busy(&self) -> Duration {
        self.crew.busy()
    }

    /// Begins a method for a share of the clients. What is said of others is ignored.
    pub fn begin_share(&mut self, start: &Start<'_>, share: Share) {
        self.end();
        let method = &*self.plan.methods[start.method].method;
        let (room, Share { name, clients }) = (start.room.clone(), share);
        let store = Arc::new(ClientStore::of_share(start.folder, name, room, method));
        store.sweep(start.named);
        let mut sent = BTreeMap::new();
        for &client in &*clients {
            if let Some(Some(stored)) = start.held.clients.get(client) {
                store.adopt(client, stored.clone());
            }
            if let Some(stored) = start.held.sent.get(&client) {
                sent.insert(client, stored.clone());
            }
        }
        store.adopt_sent(sent);
        let background = store.in_background(self.scope);
        let index = start.method;
        self.method = Some(Method { index, clients, store, _background: background });
    }

    /// Has what was made durable reach the disk. In one process nobody asks for it: a crash of the process loses nothing
    /// that it has written, and one of the machine loses the checkpoint as well.
    pub fn sync(&mut self) -> Result<(), RuntimeError> {
        self.at_work()?.1.store.sync()
    }

    /// Scores the share's personal models. Who sees them sees them in client order, while others are made.
    pub fn look(
        &mut self,
        looked: &Look<'_>,
        see: Option<&mut See<'_>>,
    ) -> Result<Found, RuntimeError> {
        let clients = self.clients();
        let (crew, work) = self.at_work()?;
        let turns = see.map(Turns::new);
        let written = Mutex::new(Written::default());
        let _ahead = work.store.read_ahead(&clients);
        let found = crew.run(&numbered(&clients), |&(place, id), hand| {
            let turn = turns.as_ref().map(|turns| turns.turn(place));
            let client = work.client(id, looked.pulse);
            let state = work.take_state(id)?;
            let (round, got) = (looked.round, looked.broadcast);
            let found =
                client.with_personal_model(round, &state, got, hand, |served, hand| {
                    let model = served.model;
                    let tally = client.tally(model, looked.answers, hand)?;
                    let seen = Seen { client: id, model, answers: tally.confusion() };
                    turn.map_or(Ok(()), |turn| turn.take(|see| see(seen)))?;
                    if let (Some(folder), Some(model)) = (looked.folder, model)
                        && let Some(bytes) = client.write_model(round, model, folder)?
                    {
                        lock(&written).add(bytes);
                    }
                    let trained = served.trained.filter(|_| id < looked.models).cloned();
                    Ok::<_, RuntimeError>((client.figures(&tally), served.choice, trained))
                })??;
            work.store.give_back(id, state, false)?;
            Ok(found)
        });
        crew.rested(turns.as_ref().map_or(Duration::ZERO, Turns::spent));
        let found = found?;
        let mut all = Found { written: *lock(&written), ..Found::default() };
        for (&id, (figures, choice, model)) in clients.iter().zip(found) {
            all.clients.push((figures, choice));
            all.models.extend(model.map(|model| (id, model)));
        }
        Ok(all)
    }

    /// Scores one model on the own samples of each of the share's clients, with their answers if somebody sees them.
    pub fn look_own(
        &mut self,
        model: &Model,
        see: Option<&mut See<'_>>,
        pulse: Pulse<'_>,
    ) -> Result<Vec<Figures>, RuntimeError> {
        let clients = self.clients();
        let (crew, work) = self.at_work()?;
        let turns = see.map(Turns::new);
        let figures = crew.run(&numbered(&clients), |&(place, id), hand| {
            let turn = turns.as_ref().map(|turns| turns.turn(place));
            let client = work.client(id, pulse);
            let tally = client.tally(Some(model), turns.is_some(), hand)?;
            let seen = Seen { client: id, model: None, answers: tally.confusion() };
            turn.map_or(Ok(()), |turn| turn.take(|see| see(seen)))?;
            Ok(client.figures(&tally))
        });
        crew.rested(turns.as_ref().map_or(Duration::ZERO, Turns::spent));
        figures
    }

    /// Scores one model on some parts of the [`GlobalSet`].
    pub fn score_parts(
        &mut self,
        parts: &[usize],
        model: &Model,
        answers: bool,
        pulse: Pulse<'_>,
    ) -> Result<Vec<Tally>, RuntimeError> {
        let set = GlobalSet::of(self.plan);
        let score =
            |part: &usize, hand: &mut Hand| set.score_part(*part, model, answers, hand, pulse);
        self.crew.run(parts, score)
    }

    /// Has some of the plan's newcomers make personal models for themselves.
    pub fn adapt_some(
        &mut self,
        places: &[usize],
        asked: &Adapting<'_>,
    ) -> Result<Vec<Adaptation>, RuntimeError> {
        let plan = self.plan;
        self.crew.run(places, |place, hand| {
            let adaptation = Newcomer::new(plan, asked.method, *place).adapt(asked, hand)?;
            (asked.done)();
            Ok(adaptation)
        })
    }

    /// Shows the encoded state of each of the share's clients.
    pub fn each_state_of(&mut self, see: &mut SeeState<'_>) -> Result<(), RuntimeError> {
        let clients = self.clients();
        let (_, work) = self.at_work()?;
        let _ahead = work.store.read_ahead(&clients);
        let mut bytes = Vec::new();
        for &client in &*clients {
            let state = work.take_state(client)?;
            bytes.clear();
            state.encode_to(&mut bytes)?;
            see(client, &bytes)?;
            work.store.give_back(client, state, false)?;
        }
        Ok(())
    }
}

/// Clients and their places in the order.
fn numbered(clients: &[usize]) -> Vec<(usize, usize)> {
    clients.iter().copied().enumerate().collect()
}
