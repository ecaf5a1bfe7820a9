//! What becomes of an answer, asked before anything changes.

use super::{Phase, Server};
use crate::{Late, Refusal};

/// What the server says about an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Accept,
    /// It is kept already, or void since the client has answered a newer round.
    Acknowledge,
    /// It does not count.
    Refuse(Refusal),
}

impl Server {
    /// What would become of an upload, if it came now. [`Server::handle`] does what this says.
    ///
    /// ```
    /// use formant_federation::{Protocol, Refusal, Server, Time, Verdict};
    ///
    /// let mut server = Server::new(Protocol::synchronous(2, 1));
    /// server.start(Time::ZERO);
    /// assert_eq!(server.verdict(0, 1), Verdict::Accept);
    /// assert_eq!(server.verdict(0, 2), Verdict::Refuse(Refusal::NotAsked));
    /// assert_eq!(server.verdict(9, 1), Verdict::Refuse(Refusal::Unknown));
    /// ```
    pub fn verdict(&self, client: usize, round: u64) -> Verdict {
        let Some(member) = self.members.get(client) else {
            return Verdict::Refuse(Refusal::Unknown);
        };
        if self.excluded.contains(&client) {
            return Verdict::Refuse(Refusal::Excluded);
        }
        if !member.open.contains(&round) {
            // Kept already and the client has missed it, or void since it has answered a newer round.
            // Rounds begin with 1: nobody has answered round 0.
            let is_known = (1..=member.answered).contains(&round);
            return if is_known {
                Verdict::Acknowledge
            } else {
                Verdict::Refuse(Refusal::NotAsked)
            };
        }
        if self.is_over() {
            return Verdict::Refuse(Refusal::Over);
        }
        let closed = round < self.round || self.phase != Phase::Collecting;
        if closed && !self.is_buffered() && self.protocol.late == Late::Drop {
            return Verdict::Refuse(Refusal::Late);
        }
        Verdict::Accept
    }

    /// Whether an upload would change the server, if it came now. A driver keeps the server when it
    /// does; a client that repeats itself does not.
    pub fn upload_changes(&self, client: usize, round: u64) -> bool {
        // One that is late answers its round, too: the second time, it was not asked for.
        matches!(self.verdict(client, round), Verdict::Accept | Verdict::Refuse(Refusal::Late))
    }

    /// Whether a failure would change the server, if it were reported now.
    pub fn failure_changes(&self, client: usize, round: u64) -> bool {
        self.members.get(client).is_some_and(|member| member.open.contains(&round))
    }
}
