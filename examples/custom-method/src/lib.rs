//! A method of one's own in Formant, without a fork: [`apfl`] is the method, [`zoo`] adds it.

pub mod apfl;

use formant_methods::Zoo;

/// The standard methods and this crate's.
pub fn zoo() -> Zoo {
    Zoo::standard().with(apfl::ENTRY)
}
