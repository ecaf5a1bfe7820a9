//! Going back: what a client has sent is taken out again, or a run to an earlier round.

use super::{Answer, Phase, Server};
use crate::{Action, Protocol, Time};
use std::collections::BTreeSet;

impl Server {
    /// A server that goes on after so many aggregations, without some clients: the run of another server
    /// from a round on which that has kept. Nobody has answered anything since.
    ///
    /// ```
    /// use formant_federation::{Protocol, Refusal, Server, Time, Verdict};
    ///
    /// let mut server = Server::after(Protocol::synchronous(3, 9), 4, [1]);
    /// server.start(Time::ZERO);
    /// assert_eq!(server.round(), 5);
    /// assert_eq!(server.verdict(0, 5), Verdict::Accept);
    /// assert_eq!(server.verdict(1, 5), Verdict::Refuse(Refusal::Excluded));
    /// ```
    pub fn after(
        protocol: Protocol,
        aggregations: u64,
        excluded: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut server = Self::new(protocol);
        server.round = aggregations;
        for member in &mut server.members {
            member.answered = aggregations;
        }
        server.excluded = excluded.into_iter().collect();
        server
    }

    /// Clients that were taken out of the run, ascending.
    pub fn excluded(&self) -> impl Iterator<Item = usize> {
        self.excluded.iter().copied()
    }

    /// Takes another time to wait for a round. It decides nothing that was decided already.
    pub fn set_deadline(&mut self, protocol: &Protocol) {
        self.protocol.deadline = protocol.deadline;
    }

    /// What a client has sent does not count. It has failed in the round, as if it had said so.
    pub(super) fn withdrawn(&mut self, now: Time, client: usize, actions: &mut Vec<Action>) {
        if client >= self.members.len() {
            return;
        }
        if self.phase == Phase::Aggregating && self.ordered.iter().any(|(who, _)| *who == client) {
            self.accepted.extend(std::mem::take(&mut self.ordered));
            self.phase = Phase::Collecting;
            self.deadline = self.protocol.deadline.map(|after| now + after);
            actions.extend(self.deadline.map(|at| Action::Wake { at }));
        }
        let of_it: BTreeSet<(usize, u64)> =
            self.accepted.iter().copied().filter(|(who, _)| *who == client).collect();
        self.accepted.retain(|answer| !of_it.contains(answer));
        let round = self.round;
        if of_it.contains(&(client, round)) {
            self.fresh = self.fresh.saturating_sub(1);
            self.failed.insert(client);
        }
        if self.failure_changes(client, round) {
            self.failed(now, Answer { client, round }, actions);
        } else if !of_it.is_empty() {
            self.freed(now, client, actions);
        }
    }
}
