//! What a site approves: an experiment by a hash of everything that a server has its clients do.

use crate::codec::Packing;
use crate::wire::proto::{Encoding, Precision};
use crate::wire::{VERSION, hex};
use ring::digest::{Context, SHA256};

/// What a hash begins with, so that nobody takes it for one of those that only find damage.
const KIND: &str = "sha256:";

/// The hash of an experiment as clients get it, and of how messages are packed. SHA-256, since whoever
/// writes the experiment may be the one who gains by a second one with the same hash.
pub(crate) fn experiment_hash(experiment: &str, packing: Packing) -> String {
    let encoding = match packing.encoding {
        Encoding::None => "none",
        Encoding::Zstd => "zstd",
    };
    let precision = match packing.precision {
        Precision::F32 => "f32",
        Precision::F16 => "f16",
    };
    let mut hash = Context::new(&SHA256);
    hash.update(format!("formant experiment\n{VERSION}\n{encoding}\n{precision}\n").as_bytes());
    hash.update(experiment.as_bytes());
    format!("{KIND}{}", hex(hash.finish().as_ref()))
}

/// Whether a text can be the hash of an experiment.
pub fn is_experiment_hash(text: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.strip_prefix(KIND).is_some_and(|digits| digits.len() == 64 && digits.chars().all(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_what_is_done_changes_the_hash() {
        let plain = Packing { encoding: Encoding::None, precision: Precision::F32 };
        let halves = Packing { precision: Precision::F16, ..plain };
        let hashes = [
            experiment_hash("rounds = 1", plain),
            experiment_hash("rounds = 2", plain),
            experiment_hash("rounds = 1", halves),
            experiment_hash("rounds = 1", Packing { encoding: Encoding::Zstd, ..plain }),
        ];
        assert!(hashes.iter().all(|hash| is_experiment_hash(hash)), "{hashes:?}");
        for (i, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..i].contains(hash));
        }
        // What sites have written down must stay what it is.
        assert_eq!(hashes[0], experiment_hash("rounds = 1", plain));
        assert!(!is_experiment_hash("sha256:12") && !is_experiment_hash("rounds = 1"));
    }
}
