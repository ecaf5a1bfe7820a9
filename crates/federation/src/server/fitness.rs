//! Whether a server that was kept can go on.

use super::Server;
use crate::Protocol;

impl Server {
    /// The same with other rounds to go. That makes it the server of a longer run from the start, as long as
    /// its last round is not reported as aggregated yet.
    pub fn go_on_to(&mut self, rounds: u64) {
        self.protocol.rounds = rounds;
    }

    /// Whether it keeps to these rules and names no client that they do not have: what was read from
    /// a file is asked before it is driven.
    pub fn fits(&self, rules: &Protocol) -> bool {
        let uploads = self.accepted.iter().chain(&self.ordered).map(|(client, _)| client);
        let named = self.asked.iter().chain(&self.failed).chain(&self.excluded).chain(uploads);
        self.protocol == *rules
            && self.members.len() == rules.clients
            && self.round <= rules.rounds.saturating_add(1)
            && named.into_iter().all(|client| *client < rules.clients)
    }
}
