//! The real binary, as somebody at a terminal meets it.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

/// A snapshot without the expression that made it: the commands stand in the text.
macro_rules! snapshot {
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

mod adaptations;
mod certificates;
mod devices;
mod divisions;
mod documents;
mod evaluations;
mod exports;
mod guide;
mod imports;
mod interruption;
mod journeys;
mod listings;
mod network;
mod predictions;
mod readme;
mod refusals;
mod reproductions;
mod runs;
mod series;
mod shares;
mod speedups;
mod sweeps;
mod tables;
mod taking;
mod terminal;
mod tunings;
mod workshop;
