//! The real network: a server and its clients over gRPC with mutual TLS. They drive the machines of
//! `formant-federation`, as the simulator does.

pub mod client;
mod codec;
mod durable;
mod error;
pub mod identity;
mod journal;
mod model;
mod score;
pub mod server;
mod settings;
mod stream;
mod throttle;
mod wire;

pub use error::NetworkError;
pub use settings::{SERVER, ServerSettings, parse_bytes};
pub use stream::{Limits, Traffic};
pub use throttle::Throttle;
pub use wire::{VERSION, fingerprint};
