//! Which parts a process does when several share them.

use crate::StudyError;

/// One of several shares of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Counted from 1.
    place: usize,
    of: usize,
}

impl Shard {
    /// All of the work.
    pub const WHOLE: Self = Self { place: 1, of: 1 };

    /// Reads `2/8`, the second of eight.
    ///
    /// ```
    /// use formant_study::Shard;
    /// assert!(Shard::parse("2/8").is_ok());
    /// assert!(Shard::parse("3/2").unwrap_err().to_string().contains("hint: "));
    /// ```
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let numbers = text.split_once('/').and_then(|(place, of)| {
            Some((place.trim().parse::<usize>().ok()?, of.trim().parse::<usize>().ok()?))
        });
        match numbers {
            Some((place, of)) if (1..=of).contains(&place) && of <= 100_000 => {
                Ok(Self { place, of })
            }
            _ => Err(StudyError::Shard { given: text.into() }),
        }
    }

    /// The places of this shard's parts. Every process that knows the works comes to the same answer, so
    /// shards need not talk to each other: the heaviest part goes to the shard that has least to do.
    pub(crate) fn of(self, works: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..works.len()).collect();
        order.sort_by(|a, b| works[*b].total_cmp(&works[*a]).then(a.cmp(b)));
        let mut loads = vec![0.0; self.of];
        let mut own = Vec::new();
        for part in order {
            let least = (0..self.of).min_by(|a, b| f64::total_cmp(&loads[*a], &loads[*b]));
            let least = least.unwrap_or(0);
            loads[least] += works[part].max(f64::MIN_POSITIVE);
            if least + 1 == self.place {
                own.push(part);
            }
        }
        own.sort_unstable();
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_fair_and_together_they_are_everything() {
        let works = [5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 2.0];
        for of in 1..=9 {
            let shards: Vec<Vec<usize>> =
                (1..=of).map(|place| Shard { place, of }.of(&works)).collect();
            let mut all = shards.concat();
            all.sort_unstable();
            assert_eq!(all, (0..works.len()).collect::<Vec<_>>(), "{of} shards");
        }
        let load = |place| Shard { place, of: 2 }.of(&works).iter().map(|i| works[*i]).sum::<f64>();
        assert_eq!((load(1), load(2)), (8.0, 8.0));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for wrong in ["", "1", "0/2", "3/2", "a/b", "-1/2", "1/0"] {
            let error = Shard::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("`--shard {wrong}`")) && error.contains("\nhint: "));
        }
        assert_eq!(Shard::parse("1/1").unwrap(), Shard::WHOLE);
    }
}
