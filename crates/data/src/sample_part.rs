//! A part of the training samples that is the same for every seed and division.
//!
//! Who chooses settings on validation samples of one division and scores them on another one has seen some of the test
//! samples: divisions differ in who holds what, and in what is validation and test. Parts do not: what is in
//! one is in no other, however it is divided.

use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One or several of so many equal parts, each with the same share of every class.
///
/// ```
/// use formant_data::SamplePart;
/// let (first, rest): (SamplePart, SamplePart) = ("1/5".parse()?, "2-5/5".parse()?);
/// assert!(first.is_apart_from(rest));
/// assert!(!rest.is_apart_from("1/2".parse()?));
/// assert_eq!((first.to_string(), rest.to_string()), ("1/5".into(), "2-5/5".into()));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SamplePart {
    /// The first one, counted from 1.
    first: u32,
    /// The last one, which belongs to it.
    last: u32,
    of: u32,
}

/// More parts than this nobody needs.
const MOST: u32 = 1_000;

impl SamplePart {
    /// Whether no sample can be in both.
    pub fn is_apart_from(self, other: Self) -> bool {
        let ends_before = |a: Self, b: Self| {
            u64::from(a.last) * u64::from(b.of) <= u64::from(b.first - 1) * u64::from(a.of)
        };
        ends_before(self, other) || ends_before(other, self)
    }

    /// Leaves this part of every class. It depends on nothing but the samples that there are: their
    /// order is drawn once and for all, and cut.
    pub(crate) fn keep(self, pool: &mut [Vec<u32>]) {
        for (class, members) in (0u64..).zip(pool) {
            // Round 1 of the stream: round 0 is that of the subsample, which follows the seed.
            Rng::new(0, Stream::Sample, 1, class).shuffle(members);
            let cut = |place: u32| members.len() * place as usize / self.of as usize;
            let (from, to) = (cut(self.first - 1), cut(self.last));
            members.truncate(to);
            members.drain(..from);
            members.sort_unstable();
        }
    }
}

impl FromStr for SamplePart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let numbers = text.split_once('/').and_then(|(places, of)| {
            let (first, last) = places.split_once('-').unwrap_or((places, places));
            Some((number(first)?, number(last)?, number(of)?))
        });
        match numbers {
            Some((first, last, of)) if 1 <= first && first <= last && last <= of && of <= MOST => {
                Ok(Self { first, last, of })
            }
            _ => Err(format!(
                "{text:?} is no part: write \"I/N\" with I from 1 to N, such as \"1/5\", or several as \"2-5/5\""
            )),
        }
    }
}

impl fmt::Display for SamplePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, of } = self;
        if first == last { write!(f, "{first}/{of}") } else { write!(f, "{first}-{last}/{of}") }
    }
}

impl TryFrom<String> for SamplePart {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SamplePart> for String {
    fn from(part: SamplePart) -> Self {
        part.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Vec<Vec<u32>> {
        let mut pool = vec![(0..10).collect(), (10..13).collect(), vec![]];
        text.parse::<SamplePart>().unwrap().keep(&mut pool);
        pool
    }

    #[test]
    fn parts_are_everything_and_share_nothing() {
        for of in [1, 2, 3, 7] {
            let mut all: Vec<u32> =
                (1..=of).flat_map(|place| kept(&format!("{place}/{of}")).concat()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..13).collect::<Vec<_>>(), "{of} parts");
        }
        let sizes: Vec<usize> = kept("2/2").iter().map(Vec::len).collect();
        assert_eq!(sizes, [5, 2, 0], "the same share of every class");
        assert_eq!(kept("2-3/3"), {
            let (two, three) = (kept("2/3"), kept("3/3"));
            let both = two.into_iter().zip(three).map(|(a, b)| {
                let mut both = [a, b].concat();
                both.sort_unstable();
                both
            });
            both.collect::<Vec<_>>()
        });
        assert_ne!(kept("1/2")[0], [0, 1, 2, 3, 4], "the order of the file may mean something");
    }

    #[test]
    fn parts_that_are_apart_by_their_numbers_are_apart() {
        let all = || {
            let one = |of: u32| (1..=of).map(move |place| format!("{place}/{of}"));
            (1u32..=5).flat_map(one).chain(["2-5/5", "1-2/4", "2-3/4"].map(str::to_owned))
        };
        for (a, b) in all().flat_map(|a| all().map(move |b| (a.clone(), b))) {
            let shared = kept(&a).concat().iter().any(|sample| kept(&b).concat().contains(sample));
            let is_apart = a.parse::<SamplePart>().unwrap().is_apart_from(b.parse().unwrap());
            assert!(!(is_apart && shared), "{a} and {b}");
        }
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for wrong in
            ["", "1", "0/2", "3/2", "a/b", "-1/2", "1/0", "1/2000", "2-1/3", "0-1/3", "1-4/3"]
        {
            assert!(wrong.parse::<SamplePart>().is_err(), "{wrong}");
        }
    }
}
