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
    /// The server wanted to be woken.
    Tick,
    /// A client has learnt that the run is over.
    Dismissed { client: usize },
}

/// All that is going to happen. What happens at the same time happens in the order in which it was
/// entered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    entered: u64,
}

impl Agenda {
    pub(super) fn enter(&mut self, at: Time, happening: Happening) {
        self.entered += 1;
        self.heap.push(Reverse((at, self.entered, happening)));
    }

    pub(super) fn next(&mut self) -> Option<(Time, Happening)> {
        self.heap.pop().map(|Reverse((at, _, happening))| (at, happening))
    }

    /// The oldest round whose broadcast is on its way.
    pub(super) fn oldest_on_its_way(&self) -> Option<u64> {
        let rounds = self.heap.iter().filter_map(|Reverse((_, _, happening))| match happening {
            Happening::Received { round, .. } => Some(*round),
            _ => None,
        });
        rounds.min()
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
