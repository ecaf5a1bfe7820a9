//! A server and its clients over real sockets, in one process.

mod bits;
mod house;
mod trust;
