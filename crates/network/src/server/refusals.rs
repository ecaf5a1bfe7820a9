//! Which refusals the log speaks of.

use formant_federation::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Recorded refusals of one client while one round is open.
const MOST: usize = 8;

/// The refusals that were recorded while the open round is open.
///
/// A hostile client can be refused as often as it likes. The log must not grow with that, so it has at
/// most one line for each client, round and reason, and at most [`MOST`] for each client, until the
/// next round opens. Everything is counted in the metrics. A refusal alone leads to no commit, so it
/// costs no sync either: it becomes durable with the next thing that does.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    open: u64,
    recorded: BTreeMap<usize, BTreeSet<(u64, Refusal)>>,
}

/// An upload that was refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) client: usize,
    /// The round that it claims to answer.
    pub(crate) round: u64,
    pub(crate) reason: Refusal,
}

impl Refusals {
    /// Whether the log should have a line for this one, which it then is taken to have.
    pub(crate) fn is_news(&mut self, open: u64, refused: Refused) -> bool {
        if open != self.open {
            self.recorded.clear();
            self.open = open;
        }
        let recorded = self.recorded.entry(refused.client).or_default();
        recorded.len() < MOST && recorded.insert((refused.round, refused.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_fill_the_log_with_its_refusals() {
        let mut refusals = Refusals::default();
        let mut lines = |open: u64, client: usize, rounds: u64| {
            let mut count = 0;
            for _ in 0..3 {
                for round in 0..rounds {
                    for reason in Refusal::ALL {
                        let refused = Refused { client, round, reason };
                        count += usize::from(refusals.is_news(open, refused));
                    }
                }
            }
            count
        };
        assert_eq!(lines(1, 0, 1_000), MOST);
        // Others are heard all the same, and so is the client once a round has passed.
        assert_eq!(lines(1, 1, 1_000), MOST);
        assert_eq!(lines(2, 0, 1_000), MOST);
        let late = Refused { client: 5, round: 1, reason: Refusal::Late };
        assert!(refusals.is_news(2, late));
        assert!(!refusals.is_news(2, late), "once is enough");
        assert!(refusals.is_news(2, Refused { round: 2, ..late }));
        assert!(refusals.is_news(2, Refused { reason: Refusal::NotAsked, ..late }));
    }
}
