//! The round protocol as pure state machines: events in, actions out. No clock, no socket, no model.
//!
//! A [`Server`] decides who is asked, which uploads count and when a round closes. A [`Session`]
//! decides what one client does next. Both are told the time and never ask for it, so the simulator's
//! virtual clock and a real network drive the same code, and tests can set any time and any order of
//! events.
//!
//! What the words mean: the server *asks* a client for a round by sending it the broadcast of that
//! round; the client answers with one upload. A client that is asked for round `t` holds the model
//! that `t − 1` aggregations have made.

mod event;
mod protocol;
mod refusal;
mod server;
mod session;
mod time;

pub use event::{Action, Event};
pub use protocol::{Draw, Late, MIN_SUCCESS, Personal, Protocol, Role, Schedule, Until};
pub use refusal::Refusal;
pub use server::{Server, Verdict};
pub use session::{Session, SessionAction, SessionEvent};
pub use time::Time;
