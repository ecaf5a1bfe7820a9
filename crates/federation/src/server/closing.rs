//! When a round closes, and when a run is given up.

use super::{Phase, Server};
use crate::{Action, Schedule, Time};

/// Deadlines without anybody who could answer, until the run is given up: others may be on their way
/// back.
const PATIENCE: u32 = 3;

impl Server {
    /// Closes the open round if enough uploads are there, or if its time is up and there are any.
    pub(super) fn close_if_due(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.phase != Phase::Collecting {
            return;
        }
        let (enough, hopeless) = if let Schedule::Buffered { size } = self.protocol.schedule {
            let nobody = self.asked.is_empty() && self.idle().next().is_none();
            (self.accepted.len() >= size || nobody && !self.accepted.is_empty(), nobody)
        } else {
            let mut able = self.able();
            if able == 0 && self.idle().next().is_some() {
                // Everybody who was asked has failed: others are asked in their place.
                self.top_up(actions);
                able = self.able();
            }
            // Successes are counted against all who were asked. Those who failed are not waited for,
            // but the fewer they leave over, the more of these must have succeeded.
            let needed = self.protocol.needed(self.planned()).min(able);
            let hopeless = able < self.least();
            (!hopeless && self.fresh >= needed.max(1), hopeless)
        };
        let overdue = self.deadline.is_some_and(|deadline| deadline <= now);
        if enough || overdue && !hopeless && !self.accepted.is_empty() {
            self.ordered = std::mem::take(&mut self.accepted).into_iter().collect();
            self.phase = Phase::Aggregating;
            self.deadline = None;
            actions.push(self.order());
        } else if hopeless || overdue && self.is_fruitless() {
            self.phase = Phase::Abandoned;
            self.deadline = None;
            actions.push(Action::Abandon { round: self.round });
            self.dismiss(actions);
        } else if overdue {
            self.extend(now, actions);
        }
    }

    /// Clients that must succeed for the open round to close.
    pub fn least(&self) -> usize {
        self.protocol.least(self.planned())
    }

    /// Why the failures of a round leave too few to go on, in words, if some are left at all.
    pub fn shortage(&self) -> Option<String> {
        let (able, least, asked) = (self.able(), self.least(), self.planned());
        (1..least).contains(&able).then(|| {
            let share = self.protocol.min_success;
            format!(
                "only {able} of {asked} clients did not fail, and federation.min_success = {share} needs {least},"
            )
        })
    }

    /// Clients that were asked and can still answer.
    fn able(&self) -> usize {
        if self.failed.is_empty() {
            self.asked.len()
        } else {
            self.asked.difference(&self.failed).count()
        }
    }

    /// Whether, for some deadlines now, some clients have failed and no other is there. An empty room
    /// is waited for.
    fn is_fruitless(&mut self) -> bool {
        self.fruitless = if self.all_present_failed() { self.fruitless + 1 } else { 0 };
        self.fruitless >= PATIENCE
    }

    fn all_present_failed(&self) -> bool {
        let mut present = (0..self.members.len()).filter(|client| self.members[*client].present);
        let first = present.next();
        first.into_iter().chain(present).all(|client| self.failed.contains(&client))
            && first.is_some()
    }

    /// Nothing has come in time: the round goes on, and clients that are gone are not waited for;
    /// others are asked in their place.
    fn extend(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.deadline = self.protocol.deadline.map(|after| now + after);
        actions.extend(self.deadline.map(|at| Action::Wake { at }));
        let (members, failed) = (&self.members, &self.failed);
        self.asked.retain(|client| members[*client].present || failed.contains(client));
        self.top_up(actions);
    }
}
