//! Where the work of a method was done, for simulations on more than one machine.

use serde::{Deserialize, Serialize};

/// The ranks of a simulation and what each of them did for a method, in the session that ended it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// The method's label.
    pub method: String,
    /// Wall time of that session's part of the method.
    pub seconds: f64,
    /// By rank.
    pub ranks: Vec<RankWork>,
}

/// One rank's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankWork {
    /// The host that it ran on.
    pub host: String,
    /// Its worker threads.
    pub threads: usize,
    /// Clients whose states it held.
    pub clients: usize,
    /// Seconds in which its workers had something to do, added up over them.
    pub busy: f64,
    /// Bytes that it has sent to the other ranks.
    pub sent: u64,
    /// Bytes that it has got from them.
    pub received: u64,
}
