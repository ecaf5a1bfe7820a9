//! Which entries of a spectrum a truncation keeps, and where they stand.

use super::fft::{LANES, Lanes};
use core::ops::Range;

/// `⌈τN⌉`, robust against `0.07 · 100 = 7.000000000000001`.
pub(super) fn kept_entries(tau: f64, n: usize) -> usize {
    let exact = tau * n as f64;
    let nearest = exact.round();
    let kept =
        if (exact - nearest).abs() <= 1e-9 * nearest.max(1.0) { nearest } else { exact.ceil() };
    (kept as usize).clamp(1, n)
}

/// Which of the `N` entries of a spectrum stands where in memory: in groups of blocks of eight
/// lanes. About half of the entries are there, each for itself and for its mirror image.
pub(super) enum Order {
    /// Entries `0..=N/2`, one after the other, in one group.
    Natural {
        /// `N`.
        len: usize,
    },
    /// Entry `r + R·c` in lane `r mod 8` of group `r / 8`, for `r = 0..=R/2`.
    Matrix {
        /// `N`.
        len: usize,
        /// `R`.
        rows: usize,
        /// `c` by position.
        frequencies: Vec<usize>,
    },
}

impl Order {
    /// Blocks of a group.
    pub(super) fn positions(&self) -> usize {
        match self {
            Self::Natural { len } => (len / 2 + 1).div_ceil(LANES),
            Self::Matrix { frequencies, .. } => frequencies.len(),
        }
    }

    /// Groups of blocks.
    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Natural { .. } => 1,
            Self::Matrix { rows, .. } => (rows / 2 + 1).div_ceil(LANES),
        }
    }

    /// Smallest and largest entry that stand at a position, over all groups and lanes.
    fn extremes(&self, position: usize) -> (usize, usize) {
        match self {
            Self::Natural { len } => {
                (LANES * position, (LANES * position + LANES - 1).min(len / 2))
            }
            Self::Matrix { rows, frequencies, .. } => {
                let first = rows * frequencies[position];
                (first, first + rows / 2)
            }
        }
    }

    /// The entry in a lane, if there is one, and whether it stands for itself alone.
    fn entry(&self, group: usize, position: usize, lane: usize) -> Option<(usize, bool)> {
        match self {
            Self::Natural { len } => {
                let k = LANES * position + lane;
                (k <= len / 2).then_some((k, k == 0 || 2 * k == *len))
            }
            Self::Matrix { rows, frequencies, .. } => {
                let r = LANES * group + lane;
                (r <= rows / 2)
                    .then(|| (r + rows * frequencies[position], r.is_multiple_of(rows / 2)))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Natural { len } | Self::Matrix { len, .. } => *len,
        }
    }
}

/// Consecutive positions that are kept alike.
#[derive(Debug, Clone, PartialEq)]
struct Stretch {
    positions: Range<usize>,
    rule: Rule,
}

/// What is kept of the entries at a position.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// Entries and mirror images.
    Both,
    /// Entries alone.
    Heads,
    /// Mirror images alone.
    Mirrors,
    /// It depends on the lane.
    Mixed,
}

/// The first entries of a spectrum, in the order in which it stands in memory.
pub(super) struct Kept {
    stretches: Vec<Stretch>,
    /// `K`: how many entries.
    entries: usize,
}

impl Kept {
    /// The first `⌈τN⌉` entries.
    pub(super) fn new(order: &Order, tau: f64) -> Self {
        let (n, entries) = (order.len(), kept_entries(tau, order.len()));
        let mut stretches: Vec<Stretch> = Vec::new();
        for position in 0..order.positions() {
            let (first, last) = order.extremes(position);
            // An entry k is kept where k < K, its mirror image where N − k < K.
            let head = (last < entries, first >= entries);
            let mirror = (n - first < entries, n - last >= entries);
            let rule = match (head, mirror) {
                ((_, true), (_, true)) => continue,
                _ if matches!(order, Order::Natural { .. })
                    && (position == 0 || position + 1 == order.positions()) =>
                {
                    Rule::Mixed
                }
                ((true, _), (true, _)) => Rule::Both,
                ((true, _), (_, true)) => Rule::Heads,
                ((_, true), (true, _)) => Rule::Mirrors,
                _ => Rule::Mixed,
            };
            match stretches.last_mut() {
                Some(last)
                    if last.rule == rule
                        && rule != Rule::Mixed
                        && last.positions.end == position =>
                {
                    last.positions.end += 1;
                }
                _ => stretches.push(Stretch { positions: position..position + 1, rule }),
            }
        }
        Self { stretches, entries }
    }

    /// Blocks of a group that are kept, at least in part.
    pub(super) fn blocks(&self) -> usize {
        self.stretches.iter().map(|s| s.positions.len()).sum()
    }

    /// Stretches of a group, each with the number of entries that every lane stands for.
    pub(super) fn stretches(
        &self,
        order: &Order,
        group: usize,
    ) -> impl Iterator<Item = (Range<usize>, Lanes)> {
        self.stretches.iter().map(move |Stretch { positions, rule }| {
            let mut counts = Lanes::default();
            for (lane, count) in counts.0.iter_mut().enumerate() {
                let Some((k, alone)) = order.entry(group, positions.start, lane) else { continue };
                let (head, mirror) = match rule {
                    Rule::Both => (true, true),
                    Rule::Heads => (true, false),
                    Rule::Mirrors => (false, true),
                    Rule::Mixed => (k < self.entries, order.len() - k < self.entries),
                };
                *count = f32::from(u8::from(head) + u8::from(mirror && !alone));
            }
            (positions.clone(), counts)
        })
    }

    /// The positions in between, which are cut off.
    pub(super) fn gaps(&self, order: &Order) -> impl Iterator<Item = Range<usize>> {
        let starts = core::iter::once(0).chain(self.stretches.iter().map(|s| s.positions.end));
        let ends = self.stretches.iter().map(|s| s.positions.start);
        starts.zip(ends.chain(core::iter::once(order.positions()))).map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_is_exact_for_every_ratio() {
        assert_eq!(kept_entries(0.07, 100), 7);
        assert_eq!(kept_entries(0.3, 10), 3);
        assert_eq!(kept_entries(0.301, 10), 4);
        assert_eq!(kept_entries(1e-9, 10), 1);
        assert_eq!(kept_entries(1.0, 878_538), 878_538);
    }

    /// Every entry below `K` is counted once: by itself or as a mirror image.
    fn check(order: &Order) {
        let n = order.len();
        for entries in 1..=n {
            let kept = Kept::new(order, entries as f64 / n as f64);
            let mut counted = vec![0.0; n];
            let mut covered = 0;
            for group in 0..order.groups() {
                for (positions, counts) in kept.stretches(order, group) {
                    for position in positions {
                        covered += 1;
                        for (lane, count) in counts.0.iter().enumerate() {
                            let entry = order.entry(group, position, lane);
                            assert!(entry.is_some() || *count == 0.0);
                            let Some((k, alone)) = entry else { continue };
                            if k < entries {
                                counted[k] += 1.0;
                            }
                            if !alone && n - k < entries {
                                counted[n - k] += 1.0;
                            }
                            let own = u8::from(k < entries);
                            let mirror = u8::from(!alone && n - k < entries);
                            assert_eq!(*count, f32::from(own + mirror), "{k} of {entries}, {n}");
                        }
                    }
                }
            }
            assert_eq!(covered, kept.blocks() * order.groups());
            assert_eq!(
                kept.gaps(order).map(|gap| gap.len()).sum::<usize>() + kept.blocks(),
                order.positions()
            );
            let (below, above) = counted.split_at(entries);
            assert!(below.iter().all(|c| *c == 1.0), "{entries} of {n}: {counted:?}");
            assert!(above.iter().all(|c| *c == 0.0), "{entries} of {n}: {counted:?}");
        }
    }

    #[test]
    fn every_entry_counts_once() {
        for len in 1..60 {
            check(&Order::Natural { len });
        }
        for (rows, frequencies) in [(2, vec![0, 2, 1]), (8, vec![0, 1, 2]), (32, vec![3, 0, 2, 1])]
        {
            check(&Order::Matrix { len: rows * frequencies.len(), rows, frequencies });
        }
    }
}
