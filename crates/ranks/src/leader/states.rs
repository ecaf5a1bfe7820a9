//! Where clients' states are: given to ranks when a method begins, moved between them, made durable.

use super::{Leader, UNEXPECTED, counting, no_method};
use crate::carry::Copies;
use crate::codec::letter;
use crate::fabric::To;
use crate::message::{Done, Holding, Order, Report};
use crate::stream::{Stream, failed};
use formant_numerics::Pulse;
use formant_runtime::event::Phase;
use formant_runtime::executor::threads::Share;
use formant_runtime::executor::{Executor, Held, Start};
use formant_runtime::{RuntimeError, ShareName, Stored};

impl Leader<'_, '_, '_> {
    /// How much each client has to do in a round of a method, in samples.
    pub(super) fn work(&self, method: usize) -> Vec<f64> {
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

    /// Begins a method, or goes on with it after clients have moved, with what was made durable.
    pub(super) fn begin_with(&mut self, held: &Held, named: &[Stored]) -> Result<(), RuntimeError> {
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
            let mut copies = Copies::new(&method.folder, self.share(rank), named);
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
        let (spots, index, session) = (&self.spots, method.index, self.session);
        let begin = |rank: usize| {
            let clients = shares[rank].clone();
            let (mut own, mut of_rank) = (Vec::new(), Vec::new());
            if spots[rank].sees {
                let found = holdings(held, &clients);
                own.extend(found.map(|(client, is_state, at)| (client, is_state, at.clone())));
                of_rank = named_of(named, ShareName { number: rank, session });
            }
            Order::Begin { method: index, session, clients, held: own, named: of_rank }
        };
        let stream = Stream::open((self.link, spots, order), begin, [], (1, Pulse::NONE))?;
        let (folder, room) = (method.folder.as_path(), &method.room);
        let start = Start { method: index, folder, room, held, named };
        let name = ShareName { number: 0, session };
        self.local.begin_share(&start, Share { name, clients: shares[0].as_slice().into() });
        stream.close(Ok(()), &mut counting(&mut self.counters))?;
        self.method = Some(method);
        Ok(())
    }

    /// Moves clients to other ranks if rounds become shorter by it. It is looked after the first wave, the second, the
    /// fourth, and so on: what is not known by then takes long to be known.
    pub(super) fn balance(&mut self) -> Result<(), RuntimeError> {
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
        let held = self.persist_all()?;
        named.extend(held.clients.iter().flatten().chain(held.sent.values()).cloned());
        self.method()?.placement.move_to(better);
        self.begin_with(&held, &named)
    }

    /// Shows the states of all clients.
    pub(super) fn show_states(&mut self, see: &mut dyn FnMut(&[u8])) -> Result<(), RuntimeError> {
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

    /// Makes all states durable, wherever they are.
    pub(super) fn persist_all(&mut self) -> Result<Held, RuntimeError> {
        let order = self.next_order();
        let Self { link, spots, local, window, method, counters, .. } = self;
        let method = method.as_mut().ok_or_else(no_method)?;
        let mut stream =
            Stream::open((link, spots, order), |_| Order::Persist, [], (1, Pulse::NONE))?;
        let is_spread = link.size() > 1;
        let outcome = local.persist().and_then(|mut held| {
            if is_spread {
                local.sync()?;
            }
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
                copies.sync()?;
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
pub(super) fn named_of(named: &[Stored], share: ShareName) -> Vec<Stored> {
    named.iter().filter(|stored| stored.is_of_share(share)).cloned().collect()
}
