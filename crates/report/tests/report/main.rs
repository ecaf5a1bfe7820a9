//! From made-up event logs to rows, tables, pages and files.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]

mod damage;
mod pages;
mod reading;
mod synthetic;
mod tables;
