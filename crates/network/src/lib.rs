//! The real network: a server and its clients over gRPC with mutual TLS. They drive the machines of
//! `formant-federation`, as the simulator does.

pub mod identity;
