//! Who goes away, when and for how long: drawn by seed, round and client, so that a run can be repeated.

use formant_numerics::{Rng, Stream};
use std::time::Duration;

/// Longest time away.
const AWAY: u64 = 500;

/// How a client loses its connection in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Accident {
    pub(crate) during: During,
    /// After this share of the transfer.
    pub(crate) after: f64,
    /// Until it comes back.
    pub(crate) away: Duration,
}

/// What is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    Download,
    Upload,
}

/// The accident of a client in a round, if it has one.
pub(crate) fn accident((seed, churn): (u64, f64), round: u64, client: u32) -> Option<Accident> {
    let mut rng = Rng::new(seed, Stream::Test, round, u64::from(client));
    if uniform(&mut rng) >= churn {
        return None;
    }
    let during = if rng.next_u64() & 1 == 0 { During::Download } else { During::Upload };
    let after = uniform(&mut rng);
    Some(Accident { during, after, away: Duration::from_millis(rng.next_u64() % AWAY) })
}

/// From 0 to below 1.
fn uniform(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// How far a client moves the broadcast: the same for every parameter, and exactly a multiple of 2⁻¹².
pub(crate) fn shift(variant: u32) -> f32 {
    (variant as f32 - 3.0) / 4_096.0
}

/// Different uploads of a round.
pub(crate) const VARIANTS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_tenth_have_an_accident_and_always_the_same() {
        let all = |seed| -> Vec<u32> {
            (0..1_000).filter(|client| accident((seed, 0.1), 3, *client).is_some()).collect()
        };
        assert!((70..130).contains(&all(1).len()), "{}", all(1).len());
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert_eq!(accident((1, 0.0), 1, 1), None);
        let first = accident((1, 1.0), 1, 1).unwrap();
        assert!((0.0..1.0).contains(&first.after) && first.away < Duration::from_millis(AWAY));
    }
}
