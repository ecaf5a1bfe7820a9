//! Why uploads are refused: one word and one sentence for each reason, whoever refuses.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Why an upload does not count.
///
/// The round protocol gives the first four reasons itself. The others come from drivers that receive
/// uploads from elsewhere and check them before they tell the protocol. They stand in one list, so that
/// event logs, the wire and metrics use the same words on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such client.
    Unknown,
    /// The client was not asked for this round.
    NotAsked,
    /// The round has closed.
    Late,
    /// The run is over.
    Over,
    /// Its values are not finite.
    NotFinite,
    /// It has a variance below zero.
    Variance,
    /// Its vectors do not have the shape of the model.
    WrongShape,
    /// It is too far from the broadcast that it answers.
    Norm,
    /// It claims a number of samples that is not plausible, or not the one it claimed before.
    Samples,
    /// It is larger than the server takes.
    Oversize,
    /// It is not a message of the method, or not sent as the protocol says.
    Malformed,
    /// It does not have the length that was announced.
    WrongLength,
    /// It does not have the checksum that was announced.
    Checksum,
    /// A chunk is not the one that comes next.
    Offset,
    /// It comes too slowly.
    Slow,
    /// The connection was lost.
    Interrupted,
    /// A newer connection of the same client sends it.
    Replaced,
    /// The client's certificate was revoked meanwhile.
    Revoked,
    /// The client was taken out of the run by whoever serves it.
    Excluded,
    /// The server is going.
    Stopping,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 20] = [
        Self::Unknown,
        Self::NotAsked,
        Self::Late,
        Self::Over,
        Self::NotFinite,
        Self::Variance,
        Self::WrongShape,
        Self::Norm,
        Self::Samples,
        Self::Oversize,
        Self::Malformed,
        Self::WrongLength,
        Self::Checksum,
        Self::Offset,
        Self::Slow,
        Self::Interrupted,
        Self::Replaced,
        Self::Revoked,
        Self::Excluded,
        Self::Stopping,
    ];

    /// One word for it, as in logs, metrics and verdicts.
    ///
    /// ```
    /// use formant_federation::Refusal;
    ///
    /// assert_eq!(Refusal::NotAsked.word(), "wrong-round");
    /// ```
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown-client",
            Self::NotAsked => "wrong-round",
            Self::Late => "late",
            Self::Over => "over",
            Self::NotFinite => "not-finite",
            Self::Variance => "variance",
            Self::WrongShape => "wrong-shape",
            Self::Norm => "norm",
            Self::Samples => "samples",
            Self::Oversize => "oversize",
            Self::Malformed => "malformed",
            Self::WrongLength => "wrong-length",
            Self::Checksum => "checksum",
            Self::Offset => "offset",
            Self::Slow => "slow",
            Self::Interrupted => "interrupted",
            Self::Replaced => "replaced",
            Self::Revoked => "revoked",
            Self::Excluded => "excluded",
            Self::Stopping => "stopping",
        }
    }

    /// One sentence for it, where nothing more precise can be said.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Unknown => "there is no such client",
            Self::NotAsked => "this client was not asked for this round",
            Self::Late => "the round has closed",
            Self::Over => "the run is over",
            Self::NotFinite => "it has values that are not finite",
            Self::Variance => "it has a variance below zero",
            Self::WrongShape => "its vectors do not have the shape of the model",
            Self::Norm => "it is too far from the broadcast",
            Self::Samples => "the number of samples is not plausible",
            Self::Oversize => "it is too large",
            Self::Malformed => "it is not a message of the method",
            Self::WrongLength => "it does not have the length that was announced",
            Self::Checksum => "it does not have the checksum that was announced",
            Self::Offset => "a chunk is not the one that comes next",
            Self::Slow => "it comes too slowly",
            Self::Interrupted => "the connection was lost",
            Self::Replaced => "a newer connection sends it",
            Self::Revoked => "its certificate does not hold any more",
            Self::Excluded => "this client was taken out of the run",
            Self::Stopping => "the server is stopping",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_word_and_a_sentence_of_its_own() {
        let reasons: BTreeSet<_> = Refusal::ALL.into_iter().collect();
        let words: BTreeSet<_> = Refusal::ALL.map(Refusal::word).into_iter().collect();
        let sentences: BTreeSet<_> = Refusal::ALL.map(Refusal::sentence).into_iter().collect();
        assert_eq!([reasons.len(), words.len(), sentences.len()], [Refusal::ALL.len(); 3]);
        let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(words.iter().all(|word| word.chars().all(is_word)), "{words:?}");
    }
}
