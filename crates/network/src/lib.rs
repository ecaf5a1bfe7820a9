//! The real network: a server and its clients over gRPC with mutual TLS. They drive the machines of
//! `formant-federation`, as the simulator does, and compute the same bits.
//!
//! - [`server`]: one thread owns the run. It takes in what has happened, makes it durable in one
//!   commit, and only then answers anybody. Aggregation runs beside it and reads uploads from disk one
//!   at a time.
//! - [`client`]: one thread owns the client's state and commits it likewise; one trains; tasks send and
//!   receive meanwhile, so that the personal phase really runs while the upload, the aggregation and
//!   the next broadcast are on the wire.
//! - [`identity`]: who may be the server, who a client, and who no longer.
//!
//! # On the wire
//!
//! `proto/formant.proto` is the protocol. A client keeps one control stream open, over which it gets
//! orders; as long as it is open, the client is there. Models travel beside it in chunks with
//! checksums, from any byte on: what was cut goes on where it was cut, also after a restart of either
//! side. A message is the method's own encoding; the server may choose zstd for everything and 16-bit
//! floats for uploads, and says so in its welcome. Nothing else is negotiated.
//!
//! # Trust
//!
//! A client is who its certificate says, asked anew for every request. Whatever it sends is checked
//! before it counts: that the round wants it, its size, every chunk, the whole, that it decodes, its
//! lengths, that it is finite, its distance from the broadcast, its sample count, its speed. An upload
//! that came as it was sent and is wrong is the client's failure, and the round does not wait for it;
//! one that was damaged on the way may be sent again.
//!
//! A client trusts its server as little. What it asks is compared with the rules of the site and approved
//! by a hash before anything is fetched; broadcasts are bounded by what the network and the method can
//! make, which the client computes itself. docs/SECURITY.md has the threats and what is left of them.
//!
//! # Durability
//!
//! Both sides keep files under new names and a manifest that names them, synced and renamed in this
//! order. After `kill -9` the server goes on with every accepted upload and every finished round, and a
//! client redoes only the phase that was under way.
//!
//! # Memory
//!
//! Of a client, the server holds a connection with at most a mebibyte of unread bytes, and less where many
//! may connect. Two uploads are decoded at a time to be checked, one to be aggregated; the newest broadcast
//! is in memory once, for all who download it.

mod approval;
pub mod audit;
pub mod client;
mod codec;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod identity;
mod journal;
pub mod server;
mod settings;
mod stream;
mod throttle;
mod wire;

pub use approval::is_experiment_hash;
pub use error::NetworkError;
pub use settings::{Rollback, SERVER, ServerSettings, parse_bytes};
pub use stream::{Limits, Traffic};
pub use throttle::Throttle;
pub use wire::{VERSION, fingerprint};
