//! What happens to the server, and what follows from it.

use crate::{Refusal, Role, Time};

/// What happens to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client is there: for the first time, or again.
    Joined {
        /// Who.
        client: usize,
    },
    /// A client is gone; it may come back.
    Left {
        /// Who.
        client: usize,
    },
    /// A whole upload has come, which is a valid message of the method.
    Uploaded {
        /// From whom.
        client: usize,
        /// For which round.
        round: u64,
    },
    /// A client cannot answer: its training diverged.
    Failed {
        /// Who.
        client: usize,
        /// For which round.
        round: u64,
    },
    /// What a client has sent must not count any more, though it was accepted: its certificate is revoked.
    /// It has not answered, and cannot. An aggregation that was ordered with it is ordered anew: the
    /// driver must not have begun it.
    Withdrawn {
        /// Who.
        client: usize,
    },
    /// Some time has passed.
    Tick,
    /// The aggregation that was ordered is done and kept.
    Aggregated {
        /// Of which round.
        round: u64,
    },
}

/// What the server's driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send the broadcast of a round, which is to be kept while a client may still be due it: see
    /// [`crate::Server::due_rounds`].
    Broadcast {
        /// To whom.
        client: usize,
        /// The round that it opens.
        round: u64,
        /// What for.
        role: Role,
    },
    /// Keep an upload for the next aggregation and tell the client, in this order.
    Accept {
        /// From whom.
        client: usize,
        /// For which round it was.
        round: u64,
    },
    /// Tell a client again that its upload is kept, or that its failure is known.
    Acknowledge {
        /// Whom.
        client: usize,
        /// For which round.
        round: u64,
    },
    /// Tell a client that its upload does not count.
    Refuse {
        /// Whom.
        client: usize,
        /// For which round.
        round: u64,
        /// Why.
        reason: Refusal,
    },
    /// Aggregate these uploads, in this order, and report [`Event::Aggregated`].
    Aggregate {
        /// The round.
        round: u64,
        /// Clients with the rounds that their uploads answer, ascending.
        uploads: Vec<(usize, u64)>,
    },
    /// Send [`Event::Tick`] not before this time.
    Wake {
        /// When.
        at: Time,
    },
    /// Everybody who could answer has failed: there is nothing to aggregate.
    Abandon {
        /// The round.
        round: u64,
    },
    /// All rounds are done.
    Finish,
    /// Tell a client that the run is over.
    Dismiss {
        /// Whom.
        client: usize,
    },
}
