//! What models are worth, asked of all ranks.

use super::{Leader, UNEXPECTED, counting, no_method};
use crate::message::{Done, Order, Report, Slot};
use crate::placement::Placement;
use crate::stream::{Stream, failed};
use formant_numerics::{Confusion, Model, Pulse, Tally};
use formant_runtime::executor::client::Client;
use formant_runtime::executor::threads::{See, Seen, add_answers};
use formant_runtime::executor::{
    Adaptation, Adapting, Figures, GlobalSet, Look, MeanModel, OwnScores, PersonalScores, Written,
};
use formant_runtime::{Choice, RuntimeError};
use std::collections::BTreeMap;

impl Leader<'_, '_, '_> {
    /// Scores all personal models.
    pub(super) fn look(&mut self, looked: &Look<'_>) -> Result<PersonalScores, RuntimeError> {
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
        let mut written = Written::default();
        let placement = &method.placement;
        let erased = &plan.methods[method.index];
        let mut see = |seen: Seen<'_>| {
            if let (Some(mean), Some(model)) = (&mut mean, seen.model) {
                mean.add(plan.weight(seen.client), model);
            }
            add_answers(scores.answers.as_mut(), seen.answers);
            let elsewhere = placement.owner(seen.client);
            if let (Some(folder), Some(model)) = (looked.folder, seen.model)
                && elsewhere != 0
                && writes(elsewhere)
            {
                let client = Client { plan, method: erased, id: seen.client, pulse: looked.pulse };
                if let Some(bytes) = client.write_model(looked.round, model, folder)? {
                    written.add(bytes);
                }
            }
            Ok(())
        };
        let shows = shown(0);
        let outcome = merged(&mut stream, clients, shows, &mut see, |see| local.look(looked, see));
        let (own, others) = stream.close(outcome, &mut counting(counters))?;
        let mut all: BTreeMap<usize, (Figures, Option<Choice>)> = BTreeMap::new();
        all.extend(placement.clients(0).into_iter().zip(own.clients));
        scores.models = own.models;
        written.merge(own.written);
        for (done, rank) in others.into_iter().zip(1..) {
            let Done::Looked(found) = done else { return Err(self.failed(rank, UNEXPECTED)) };
            let clients = placement.clients(rank);
            looked
                .pulse
                .count(clients.iter().map(|client| plan.scored(*client).len() as u64).sum());
            all.extend(clients.into_iter().zip(found.clients));
            scores.models.extend(found.models);
            written.merge(found.written);
        }
        (scores.clients, scores.choices) = all.into_values().unzip();
        (scores.mean, scores.written) = (mean.map(MeanModel::finish), written);
        Ok(scores)
    }

    /// Scores one model on every client's own samples.
    pub(super) fn look_own(
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
        let mut see = |seen: Seen<'_>| {
            add_answers(sum.as_mut(), seen.answers);
            Ok(())
        };
        let outcome = merged(&mut stream, clients, answers, &mut see, |see| {
            local.look_own(model, see, pulse)
        });
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

    /// Scores one model on the global set, each rank on a part of it.
    pub(super) fn look_global(
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

    /// Has newcomers make models, each rank some of them.
    pub(super) fn adapt_all(
        &mut self,
        asked: &Adapting<'_>,
    ) -> Result<Vec<Adaptation>, RuntimeError> {
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
}

/// Has something looked at here. What others show is seen with it, in client order.
fn merged<T>(
    stream: &mut Stream<'_>,
    clients: usize,
    shows: bool,
    see: &mut (impl FnMut(Seen<'_>) -> Result<(), RuntimeError> + Send),
    look: impl FnOnce(Option<&mut See<'_>>) -> Result<T, RuntimeError>,
) -> Result<T, RuntimeError> {
    let found = {
        let mut merged = |seen: Seen<'_>| {
            remote_seen(stream, seen.client, see)?;
            see(seen)
        };
        look(shows.then_some(&mut merged as &mut See<'_>))?
    };
    remote_seen(stream, clients, see)?;
    Ok(found)
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
