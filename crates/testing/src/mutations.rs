//! Inputs that a decoder did not expect: seeds that are cut, changed, repeated and mixed.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xxhash_rust::xxh3::xxh3_64;

/// Feeds a decoder its seeds and many inputs that are made of them, the same ones every time: so many, or as many as
/// `FORMANT_INPUTS` says.
///
/// # Panics
///
/// If the decoder panics; the input is told.
pub fn mutate(name: &str, seeds: &[Vec<u8>], ordinary: usize, feed: &dyn Fn(&[u8])) {
    let asked = std::env::var("FORMANT_INPUTS");
    let count = asked.map_or(ordinary, |count| count.parse().unwrap());
    let mut dice = Dice(xxh3_64(name.as_bytes()));
    let attempt = |bytes: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| feed(bytes))).is_err() {
            let shown = bytes.iter().take(4_096).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            panic!("{name} panicked at {} bytes: {shown}", bytes.len());
        }
    };
    attempt(&[]);
    for seed in seeds {
        attempt(seed);
        for end in 0..seed.len().min(512) {
            attempt(&seed[..end]);
        }
    }
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.clear();
        match dice.below(seeds.len() + 1) {
            which if which < seeds.len() => bytes.extend(&seeds[which]),
            _ => {
                bytes
                    .extend((0..dice.below(64)).map(|_| dice.below(256) as u8).collect::<Vec<_>>());
            }
        }
        for _ in 0..=dice.below(6) {
            dice.change(&mut bytes, seeds);
        }
        attempt(&bytes);
    }
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    /// One of the changes that a fuzzer makes.
    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        /// Lengths and numbers on which decoders stumble.
        const EDGES: [u64; 9] =
            [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, u64::MAX >> 1, u64::MAX];
        let at = self.below(bytes.len() + 1);
        let end = bytes.len().min(at + self.below(9));
        match self.below(10) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            2 if at < bytes.len() => bytes[at] = self.below(256) as u8,
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let copied = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copied);
            }
            6 => {
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            7 => {
                // Numbers as text.
                let edge = EDGES[self.below(EDGES.len())].to_string();
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                bytes.splice(at..at + digits, edge.into_bytes());
            }
            8 if !seeds.is_empty() => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                let to = other.len().min(from + self.below(64));
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let fresh = self.below(256) as u8;
                bytes.splice(at..at, [fresh; 3][..self.below(4)].iter().copied());
            }
        }
    }
}
