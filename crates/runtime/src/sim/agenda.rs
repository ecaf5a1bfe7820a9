//! What is going to happen, in the order of the virtual clock.

use formant_federation::{Role, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Happening {
    /// A broadcast has reached a client.
    Received { client: usize, round: u64, role: Role },
    /// A client's shared phase is over.
    SharedDone { client: usize, round: u64 },
    /// A client's personal phase is over.
    PersonalDone { client: usize, round: u64 },
    /// An upload has reached the server.
    Uploaded { client: usize, round: u64 },
    /// The news of a failed phase has reached the server.
    Failed { client: usize, round: u64 },
    /// A client has learnt that the run is over.
    Dismissed { client: usize },
}

/// All that is going to happen. What happens at the same time happens in the order in which it was
/// entered; but uploads that come at the same time come last, and in an order that was drawn: where
/// nothing takes time, no client is always the first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Time, u64, u64, Happening)>>,
    entered: u64,
}

impl Agenda {
    pub(super) fn enter(&mut self, at: Time, happening: Happening) {
        self.enter_drawn(at, 0, happening);
    }

    pub(super) fn enter_drawn(&mut self, at: Time, draw: u64, happening: Happening) {
        self.entered += 1;
        self.heap.push(Reverse((at, draw, self.entered, happening)));
    }

    /// When the next thing happens.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn next(&mut self) -> Option<(Time, Happening)> {
        self.heap.pop().map(|Reverse((at, _, _, happening))| (at, happening))
    }

    /// Whom everything happens to.
    pub(super) fn clients(&self) -> impl Iterator<Item = usize> {
        self.heap.iter().map(|Reverse((.., happening))| match happening {
            Happening::Received { client, .. }
            | Happening::SharedDone { client, .. }
            | Happening::PersonalDone { client, .. }
            | Happening::Uploaded { client, .. }
            | Happening::Failed { client, .. }
            | Happening::Dismissed { client } => *client,
        })
    }

    /// The rounds whose broadcasts are on their way.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = u64> {
        self.heap.iter().filter_map(|Reverse((.., happening))| match happening {
            Happening::Received { round, .. } => Some(*round),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_by_time_and_then_by_entry() {
        let mut agenda = Agenda::default();
        let gone = |client| Happening::Dismissed { client };
        for (seconds, client) in [(2.0, 0), (1.0, 1), (2.0, 2), (0.0, 3), (1.0, 4)] {
            agenda.enter(Time::from_seconds(seconds), gone(client));
        }
        // Also after it was kept and read again.
        let text = serde_json::to_string(&agenda).unwrap();
        let mut agenda: Agenda = serde_json::from_str(&text).unwrap();
        let order: Vec<Happening> =
            std::iter::from_fn(|| agenda.next()).map(|(_, happening)| happening).collect();
        assert_eq!(order, [3, 1, 4, 0, 2].map(gone));
    }
}
