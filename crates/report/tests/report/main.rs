//! From made-up event logs to rows, tables, pages and files.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
#![expect(
    clippy::disallowed_methods,
    reason = "clippy.toml is about the library; its tests read what it wrote"
)]

mod damage;
mod exports;
mod frame;
mod insights;
mod pages;
mod privacy;
mod reading;
mod results;
mod significance;
mod synthetic;
mod tables;
