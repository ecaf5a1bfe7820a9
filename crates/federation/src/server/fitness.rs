//! Whether a server that was kept can go on.

use super::Server;
use crate::Protocol;

impl Server {
    /// Whether it keeps to these rules and names no client that they do not have: what was read from
    /// a file is asked before it is driven.
    pub fn fits(&self, rules: &Protocol) -> bool {
        let uploads = self.accepted.iter().chain(&self.ordered).map(|(client, _)| client);
        let named = self.asked.iter().chain(&self.failed).chain(uploads);
        self.protocol == *rules
            && self.members.len() == rules.clients
            && self.round <= rules.rounds.saturating_add(1)
            && named.into_iter().all(|client| *client < rules.clients)
    }
}
