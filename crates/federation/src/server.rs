//! The server's half: who is asked, which uploads count, when a round closes.

mod closing;
mod fitness;
mod rollback;
mod verdict;

pub use verdict::Verdict;

use crate::{Action, Draw, Event, Protocol, Refusal, Role, Schedule, Time};
use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The server. It is its own checkpoint: a driver keeps it before it acts, and together with what the
/// method made of an aggregation when it reports that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    protocol: Protocol,
    /// The round that is open, from 1; with the buffered schedule, the aggregation to come.
    round: u64,
    phase: Phase,
    members: Vec<Member>,
    /// Asked for the open round, or at work with the buffered schedule.
    asked: BTreeSet<usize>,
    /// Of these, who cannot answer.
    failed: BTreeSet<usize>,
    /// Uploads that wait for the next aggregation: who sent them, and which round they answer.
    accepted: BTreeSet<(usize, u64)>,
    /// Uploads of the aggregation that is under way.
    ordered: Vec<(usize, u64)>,
    /// When the open round closes with what is there.
    deadline: Option<Time>,
    /// How many clients were drawn one by one, which keys the next draw.
    draws: u64,
    /// Accepted uploads that answer the open round.
    fresh: usize,
    /// Deadlines in a row at which nobody was there who could answer.
    fruitless: u32,
    /// Clients that were taken out of the run: nobody asks them, and nothing of them counts.
    #[serde(default)]
    excluded: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Idle,
    Collecting,
    Aggregating,
    Finished,
    Abandoned,
}

/// What the server knows of a client. Its size does not depend on the rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Member {
    present: bool,
    /// Rounds for which it was asked and has not answered; the newest few.
    open: BTreeSet<u64>,
    /// The newest round that it has answered.
    answered: u64,
    /// A round that it has to be told of when it comes back.
    due: Option<(u64, Role)>,
}

/// Who answers, and which round.
#[derive(Clone, Copy)]
struct Answer {
    client: usize,
    round: u64,
}

/// Open rounds of a client that are remembered: the oldest, which it may be at work with, and the
/// newest few, of which it will take the last.
const REMEMBERED: usize = 8;

impl Server {
    /// A server before its first round.
    pub fn new(protocol: Protocol) -> Self {
        let members = vec![Member::default(); protocol.clients];
        Self {
            protocol,
            round: 0,
            phase: Phase::Idle,
            members,
            asked: BTreeSet::new(),
            failed: BTreeSet::new(),
            accepted: BTreeSet::new(),
            ordered: Vec::new(),
            deadline: None,
            draws: 0,
            fresh: 0,
            fruitless: 0,
            excluded: BTreeSet::new(),
        }
    }

    /// Opens the first round, or after a restart goes on where the checkpoint stands: nobody is
    /// there, and an aggregation that was ordered is ordered again.
    pub fn start(&mut self, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        for member in &mut self.members {
            member.present = false;
        }
        match self.phase {
            Phase::Idle => self.open_round(now, &mut actions),
            Phase::Collecting => {
                self.deadline = self.protocol.deadline.map(|after| now + after);
                actions.extend(self.deadline.map(|at| Action::Wake { at }));
                self.close_if_due(now, &mut actions);
            }
            Phase::Aggregating => actions.push(self.order()),
            Phase::Finished => actions.push(Action::Finish),
            Phase::Abandoned => actions.push(Action::Abandon { round: self.round }),
        }
        actions
    }

    /// The round that is open, from 1.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// When the open round closes with what is there, if it has a deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Ends the run for a reason that lies outside the protocol.
    pub fn abandon(&mut self) -> Vec<Action> {
        let mut actions = vec![Action::Abandon { round: self.round }];
        (self.phase, self.deadline) = (Phase::Abandoned, None);
        self.dismiss(&mut actions);
        actions
    }

    /// Whether all rounds are done.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Abandoned)
    }

    /// Whether it waits for uploads.
    pub fn is_collecting(&self) -> bool {
        self.phase == Phase::Collecting
    }

    /// The rules.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Who is asked for the open round, or at work with the buffered schedule; ascending.
    pub fn asked(&self) -> impl Iterator<Item = usize> {
        self.asked.iter().copied()
    }

    /// Uploads that are kept and not aggregated yet: who sent them, and for which round.
    pub fn kept(&self) -> impl Iterator<Item = (usize, u64)> {
        self.ordered.iter().chain(&self.accepted).copied()
    }

    /// The rounds that an upload may still answer, or that one does which is kept.
    pub fn open_rounds(&self) -> BTreeSet<u64> {
        if self.protocol.is_synchronous() {
            return BTreeSet::from([self.round]);
        }
        let open = self.members.iter().flat_map(|member| member.open.iter().copied());
        open.chain(self.kept().map(|(_, round)| round)).chain([self.round]).collect()
    }

    /// The rounds whose broadcasts somebody may still have to be sent.
    pub fn due_rounds(&self) -> BTreeSet<u64> {
        let due = self.members.iter().filter_map(|member| member.due.map(|(round, _)| round));
        due.chain([self.round]).collect()
    }

    /// Rounds between what an upload answers and the round that is open.
    pub fn staleness(&self, round: u64) -> u64 {
        self.round.saturating_sub(round)
    }

    /// Takes in an event and says what follows from it.
    pub fn handle(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Joined { client } => self.joined(client, &mut actions),
            Event::Left { client } => {
                if let Some(member) = self.members.get_mut(client) {
                    member.present = false;
                }
            }
            Event::Uploaded { client, round } => {
                self.uploaded(now, Answer { client, round }, &mut actions);
            }
            Event::Failed { client, round } => {
                self.failed(now, Answer { client, round }, &mut actions);
            }
            Event::Withdrawn { client } => self.withdrawn(now, client, &mut actions),
            Event::Tick => self.close_if_due(now, &mut actions),
            Event::Aggregated { round } => {
                if self.phase == Phase::Aggregating && round == self.round {
                    self.ordered.clear();
                    self.open_round(now, &mut actions);
                }
            }
        }
        actions
    }

    /// Whoever comes is told of the round that it is asked for, also if it was told before: it may have
    /// lost the broadcast with its connection. One that is asked for nothing waits.
    fn joined(&mut self, client: usize, actions: &mut Vec<Action>) {
        let Some(member) = self.members.get_mut(client) else { return };
        member.present = true;
        let due = member.due;
        if self.is_over() {
            actions.push(Action::Dismiss { client });
            return;
        }
        if let Some((round, role)) = due {
            actions.push(Action::Broadcast { client, round, role });
        }
    }

    fn uploaded(&mut self, now: Time, answer: Answer, actions: &mut Vec<Action>) {
        let Answer { client, round } = answer;
        match self.verdict(client, round) {
            Verdict::Acknowledge => actions.push(Action::Acknowledge { client, round }),
            Verdict::Refuse(reason) => {
                if reason == Refusal::Late {
                    self.members[client].open.remove(&round);
                }
                actions.push(Action::Refuse { client, round, reason });
            }
            Verdict::Accept => {
                let member = &mut self.members[client];
                member.answered = member.answered.max(round);
                // It goes on with newer rounds only.
                member.open = member.open.split_off(&(round + 1));
                member.settle(round);
                self.accepted.insert((client, round));
                self.fresh += usize::from(round == self.round);
                self.fruitless = 0;
                actions.push(Action::Accept { client, round });
                self.freed(now, client, actions);
            }
        }
    }

    fn failed(&mut self, now: Time, answer: Answer, actions: &mut Vec<Action>) {
        let Answer { client, round } = answer;
        if client >= self.members.len() {
            return;
        }
        actions.push(Action::Acknowledge { client, round });
        if !self.failure_changes(client, round) {
            return;
        }
        let member = &mut self.members[client];
        member.open.remove(&round);
        member.settle(round);
        if self.is_buffered() || round == self.round {
            self.failed.insert(client);
        }
        self.freed(now, client, actions);
    }

    /// A client has nothing to do any more: the round may close, or another client's turn has come.
    fn freed(&mut self, now: Time, client: usize, actions: &mut Vec<Action>) {
        if self.is_buffered() {
            self.asked.remove(&client);
        }
        self.close_if_due(now, actions);
        if self.is_buffered() && self.phase == Phase::Collecting {
            self.top_up(actions);
        }
    }

    /// Clients that are asked in a round, or at work with the buffered schedule.
    fn planned(&self) -> usize {
        match self.protocol.draw {
            Draw::Number => self.protocol.participants_of(self.members.len() - self.excluded.len()),
            // How many there are was left to chance.
            Draw::Tosses => self.protocol.participants(self.round).len(),
        }
    }

    fn is_buffered(&self) -> bool {
        matches!(self.protocol.schedule, Schedule::Buffered { .. })
    }

    /// Opens the next round, or ends the run.
    fn open_round(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.round == self.protocol.rounds {
            self.phase = Phase::Finished;
            self.deadline = None;
            actions.push(Action::Finish);
            self.dismiss(actions);
            return;
        }
        self.round += 1;
        self.phase = Phase::Collecting;
        self.failed.clear();
        (self.fresh, self.fruitless) = (0, 0);
        if self.is_buffered() {
            self.top_up(actions);
        } else {
            let some = (0..self.members.len()).filter(|client| !self.excluded.contains(client));
            let some = self.protocol.participants_among(self.round, &some.collect::<Vec<_>>());
            self.asked = some.into_iter().collect();
            let bystanders = self.protocol.personal.everyone && self.protocol.personal.exists;
            for client in 0..self.members.len() {
                if self.asked.contains(&client) {
                    self.ask(client, actions);
                } else if !self.excluded.contains(&client) {
                    // What it was due is the past; if it still answers that, it is late.
                    let due = bystanders.then_some((self.round, Role::Bystander));
                    self.members[client].due = due;
                    self.tell(client, actions);
                }
            }
        }
        self.deadline = self.protocol.deadline.map(|after| now + after);
        actions.extend(self.deadline.map(|at| Action::Wake { at }));
        // Uploads that came during the aggregation may fill the buffer already.
        self.close_if_due(now, actions);
    }

    /// Asks a client for the open round.
    fn ask(&mut self, client: usize, actions: &mut Vec<Action>) {
        let member = &mut self.members[client];
        member.open.insert(self.round);
        if member.open.len() > REMEMBERED
            && let Some(skipped) = member.open.iter().nth(1).copied()
        {
            member.open.remove(&skipped);
        }
        member.due = Some((self.round, Role::Participant));
        self.tell(client, actions);
    }

    /// Sends a client what it is due, if it is there.
    fn tell(&self, client: usize, actions: &mut Vec<Action>) {
        let member = &self.members[client];
        if let Some((round, role)) = member.due.filter(|_| member.present) {
            actions.push(Action::Broadcast { client, round, role });
        }
    }

    /// Clients that could be asked. One that has answered for the model as it stands would only send
    /// the same again.
    fn idle(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|client| {
            self.members[*client].answered < self.round
                && !self.excluded.contains(client)
                && !self.asked.contains(client)
                && !self.failed.contains(client)
        })
    }

    /// Brings the number of clients at work to what it should be.
    fn top_up(&mut self, actions: &mut Vec<Action>) {
        self.release_absent();
        while self.asked.difference(&self.failed).count() < self.planned() {
            let idle: Vec<usize> = self.idle().collect();
            if idle.is_empty() {
                return;
            }
            // Whoever is there goes first; the draw is among equals.
            let present: Vec<usize> =
                idle.iter().copied().filter(|client| self.members[*client].present).collect();
            let eligible = if present.is_empty() { idle } else { present };
            let mut rng =
                Rng::new(self.protocol.seed, Stream::Participation, self.round, self.draws + 1);
            self.draws += 1;
            let client = eligible[rng.below(eligible.len())];
            self.asked.insert(client);
            self.ask(client, actions);
        }
    }

    /// Clients that are gone do not keep others from work.
    fn release_absent(&mut self) {
        let waiting = self.idle().filter(|client| self.members[*client].present).count();
        let gone = self.asked.iter().filter(|client| !self.members[**client].present);
        let gone: Vec<usize> = gone.copied().take(waiting).collect();
        for client in gone {
            self.asked.remove(&client);
            self.members[client].due = None;
        }
    }

    /// Tells everybody who is there that the run is over.
    fn dismiss(&self, actions: &mut Vec<Action>) {
        let present = self.members.iter().enumerate().filter(|(_, member)| member.present);
        actions.extend(present.map(|(client, _)| Action::Dismiss { client }));
    }

    fn order(&self) -> Action {
        Action::Aggregate { round: self.round, uploads: self.ordered.clone() }
    }
}

impl Member {
    /// What it was due is done.
    fn settle(&mut self, round: u64) {
        if self.due.is_some_and(|(due, _)| due <= round) {
            self.due = None;
        }
    }
}
