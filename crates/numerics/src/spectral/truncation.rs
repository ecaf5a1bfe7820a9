//! Which entries of a spectrum a truncation keeps, and where they stand.

use super::fft::{LANES, Lanes};
use crate::{Rng, Stream};
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Which `⌈τN⌉` of the `N` entries of a spectrum are kept. With `τ = 1` all of them are, whatever the band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// The first: the lowest frequencies, and beyond `τ = ½` mirror images. The paper's.
    #[default]
    Low,
    /// The highest frequencies, from `N/2` down to 0, and then mirror images: a control of the same size.
    High,
    /// Frequencies drawn once and for all, by number: another control. The same number is the same band.
    Random(u32),
}

/// Whether an entry is kept.
enum Members {
    /// The first so many.
    First(usize),
    /// Said of every entry.
    These(Vec<bool>),
}

impl Members {
    /// The first `entries` of a spectrum in the order of a band.
    fn new(order: &Order, entries: usize, band: Band) -> Self {
        let len = order.len();
        // Entries that stand for themselves, and behind them the mirror images of some.
        let heads = order.heads();
        let drawn = match band {
            Band::Low => return Self::First(entries),
            Band::High => (0..heads).rev().collect(),
            Band::Random(number) => {
                let mut all: Vec<usize> = (0..heads).collect();
                Rng::new(u64::from(number), Stream::Band, len as u64, 0).shuffle(&mut all);
                all
            }
        };
        let mirrors = drawn.iter().map(|k| len - k).filter(|k| (heads..len).contains(k));
        let mut kept = vec![false; len];
        for k in drawn.iter().copied().chain(mirrors).take(entries) {
            kept[k] = true;
        }
        Self::These(kept)
    }

    fn hold(&self, entry: usize) -> bool {
        match self {
            Self::First(entries) => entry < *entries,
            Self::These(kept) => kept.get(entry).copied().unwrap_or(false),
        }
    }
}

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
    /// Entries `0..N`, one after the other, in one group, each for itself alone: what is no spectrum.
    Plain {
        /// `N`.
        len: usize,
    },
    /// Point `r + R·c` of a grid in lane `r mod 8` of group `r / 8`, for `r = 0..=R/2`. The first entries are the
    /// grid's first points, the last ones its last. In a larger grid, points in between are no entries; in a smaller one,
    /// entries in between are not there, and nobody asks for them.
    Matrix {
        /// `N`.
        len: usize,
        /// Points of the grid.
        grid: usize,
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
            Self::Natural { .. } | Self::Plain { .. } => self.heads().div_ceil(LANES),
            Self::Matrix { frequencies, .. } => frequencies.len(),
        }
    }

    /// Groups of blocks.
    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Natural { .. } | Self::Plain { .. } => 1,
            Self::Matrix { rows, .. } => (rows / 2 + 1).div_ceil(LANES),
        }
    }

    /// Smallest and largest entry that stand at a position, over all groups and lanes; none if a lane there has
    /// no entry.
    fn extremes(&self, position: usize) -> Option<(usize, usize)> {
        match self {
            Self::Natural { .. } | Self::Plain { .. } => {
                let last = (LANES * position + LANES - 1).min(self.heads() - 1);
                Some((LANES * position, last))
            }
            Self::Matrix { len, grid, rows, frequencies } => {
                let first = rows * frequencies[position];
                let (last, both) = (first + rows / 2, len.min(grid));
                if len == grid || 2 * last < *both {
                    return Some((first, last));
                }
                (2 * (grid - first) < *both).then(|| (first + len - grid, last + len - grid))
            }
        }
    }

    /// Whether no lane at a position has an entry.
    fn is_empty(&self, position: usize) -> bool {
        match self {
            Self::Natural { .. } | Self::Plain { .. } => false,
            Self::Matrix { len, grid, rows, frequencies } => {
                let (first, both) = (rows * frequencies[position], len.min(grid));
                2 * first > *both && 2 * (grid - first - rows / 2) > *both
            }
        }
    }

    /// Whether any of the entries at a position, or a mirror image of one, is kept.
    fn any(&self, position: usize, members: &Members) -> bool {
        let lanes = (0..self.groups()).flat_map(|group| (0..LANES).map(move |lane| (group, lane)));
        let mut entries = lanes.filter_map(|(group, lane)| self.entry(group, position, lane));
        entries.any(|(k, alone)| members.hold(k) || (!alone && members.hold(self.len() - k)))
    }

    /// The entry in a lane, if there is one, and whether it stands for itself alone.
    fn entry(&self, group: usize, position: usize, lane: usize) -> Option<(usize, bool)> {
        match self {
            Self::Natural { len } => {
                let k = LANES * position + lane;
                (k <= len / 2).then_some((k, k == 0 || 2 * k == *len))
            }
            Self::Plain { len } => {
                let k = LANES * position + lane;
                (k < *len).then_some((k, true))
            }
            Self::Matrix { len, grid, rows, frequencies } => {
                let r = LANES * group + lane;
                if r > rows / 2 {
                    return None;
                }
                let (k, own) = (r + rows * frequencies[position], r.is_multiple_of(rows / 2));
                let both = len.min(grid);
                if 2 * k <= *both {
                    return Some((k, own || 2 * k == *len));
                }
                // The entry in the middle stands at both ends of the gap, in a row of its own twice.
                let back = 2 * (grid - k);
                (back < *both || (back == *both && !own) || len == grid)
                    .then(|| (k + len - grid, own || back == *len))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Natural { len } | Self::Plain { len } | Self::Matrix { len, .. } => *len,
        }
    }

    /// How many of the first entries are no mirror images of others.
    fn heads(&self) -> usize {
        match self {
            Self::Plain { len } => *len,
            Self::Natural { len } | Self::Matrix { len, .. } => len / 2 + 1,
        }
    }
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

/// Blocks that are visited together at most, where they do not lie together.
pub(super) const PIECE: usize = 64;

/// Stretches of consecutive positions that are kept in the same way: one of any length, or a few short ones,
/// of [`PIECE`] blocks at most. In the order of a matrix low frequencies are scattered, and visits
/// to single blocks would cost more than what happens there.
struct Batch {
    stretches: Vec<Range<usize>>,
    rule: Rule,
}

impl Batch {
    fn blocks(&self) -> usize {
        self.stretches.iter().map(Range::len).sum()
    }
}

/// Some entries of a spectrum, in the order in which it stands in memory.
pub(super) struct Kept {
    batches: Vec<Batch>,
    /// Positions that are cut off.
    gaps: Vec<Range<usize>>,
    members: Members,
}

impl Kept {
    /// `⌈τN⌉` entries.
    pub(super) fn new(order: &Order, tau: f64, band: Band) -> Self {
        let entries = kept_entries(tau, order.len());
        // All of them are the first so many, which is quicker to go through.
        let band = if entries == order.len() { Band::Low } else { band };
        let members = Members::new(order, entries, band);
        let mut stretches: Vec<(Range<usize>, Option<Rule>)> = Vec::new();
        for position in 0..order.positions() {
            let rule = match members {
                Members::First(entries) => rule(order, position, entries),
                Members::These(_) => order.any(position, &members).then_some(Rule::Mixed),
            };
            match stretches.last_mut() {
                Some((last, of)) if *of == rule && rule != Some(Rule::Mixed) => last.end += 1,
                _ => stretches.push((position..position + 1, rule)),
            }
        }
        let of = |wanted: Option<Rule>| {
            stretches
                .iter()
                .filter(move |(_, rule)| *rule == wanted)
                .map(|(range, _)| range.clone())
        };
        let mut batches: Vec<Batch> = of(Some(Rule::Mixed))
            .map(|one| Batch { stretches: vec![one], rule: Rule::Mixed })
            .collect();
        for rule in [Rule::Both, Rule::Heads, Rule::Mirrors] {
            let first = batches.len();
            for stretch in of(Some(rule)) {
                match batches[first..].last_mut() {
                    Some(last) if last.blocks() + stretch.len() <= PIECE => {
                        last.stretches.push(stretch);
                    }
                    _ => batches.push(Batch { stretches: vec![stretch], rule }),
                }
            }
        }
        Self { batches, gaps: of(None).collect(), members }
    }

    /// Blocks of a group that are kept, at least in part.
    pub(super) fn blocks(&self) -> usize {
        self.batches.iter().map(Batch::blocks).sum()
    }

    /// What is kept of a group, in the order in which it is visited: stretches of positions, and
    /// the number of entries that every lane stands for there.
    pub(super) fn batches(
        &self,
        order: &Order,
        group: usize,
    ) -> impl Iterator<Item = (&[Range<usize>], Lanes)> {
        self.batches.iter().map(move |Batch { stretches, rule }| {
            let mut counts = Lanes::default();
            for (lane, count) in counts.0.iter_mut().enumerate() {
                let entry = order.entry(group, stretches[0].start, lane);
                let Some((k, alone)) = entry else { continue };
                let (head, mirror) = match rule {
                    Rule::Both => (true, true),
                    Rule::Heads => (true, false),
                    Rule::Mirrors => (false, true),
                    Rule::Mixed => (self.members.hold(k), self.members.hold(order.len() - k)),
                };
                *count = f32::from(u8::from(head) + u8::from(mirror && !alone));
            }
            (&stretches[..], counts)
        })
    }

    /// Positions that are cut off.
    pub(super) fn gaps(&self) -> &[Range<usize>] {
        &self.gaps
    }
}

/// What the first `entries` leave of a position, if anything: an entry `k` is kept where `k < K`,
/// its mirror image where `N − k < K`.
fn rule(order: &Order, position: usize, entries: usize) -> Option<Rule> {
    if order.is_empty(position) {
        return None;
    }
    let Some((first, last)) = order.extremes(position) else { return Some(Rule::Mixed) };
    let (all_heads, no_heads) = (last < entries, first >= entries);
    let (all_mirrors, no_mirrors) = (order.len() - first < entries, order.len() - last >= entries);
    if no_heads && no_mirrors {
        return None;
    }
    if let Order::Plain { .. } = order {
        let whole = all_heads && position + 1 < order.positions();
        return Some(if whole { Rule::Heads } else { Rule::Mixed });
    }
    if let Order::Natural { .. } = order
        && (position == 0 || position + 1 == order.positions())
    {
        // Entries that stand alone, and lanes without an entry.
        return Some(Rule::Mixed);
    }
    Some(if all_heads && all_mirrors {
        Rule::Both
    } else if all_heads && no_mirrors {
        Rule::Heads
    } else if no_heads && all_mirrors {
        Rule::Mirrors
    } else {
        Rule::Mixed
    })
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
            let kept = Kept::new(order, entries as f64 / n as f64, Band::Low);
            let mut counted = vec![0.0; n];
            let mut covered = 0;
            for group in 0..order.groups() {
                for (stretches, counts) in kept.batches(order, group) {
                    for position in stretches.iter().cloned().flatten() {
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
                kept.gaps().iter().map(Range::len).sum::<usize>() + kept.blocks(),
                order.positions()
            );
            let (below, above) = counted.split_at(entries);
            assert!(below.iter().all(|c| *c == 1.0), "{entries} of {n}: {counted:?}");
            assert!(above.iter().all(|c| *c == 0.0), "{entries} of {n}: {counted:?}");
        }
    }

    /// How often every entry of the full spectrum is kept.
    fn counted(order: &Order, kept: &Kept) -> Vec<f32> {
        let mut counted = vec![0.0; order.len()];
        for group in 0..order.groups() {
            for (stretches, counts) in kept.batches(order, group) {
                for (position, lane) in stretches
                    .iter()
                    .cloned()
                    .flatten()
                    .flat_map(|position| (0..LANES).map(move |lane| (position, lane)))
                {
                    let Some((k, alone)) = order.entry(group, position, lane) else { continue };
                    let both = [k].into_iter().chain((!alone).then_some(order.len() - k));
                    let own: Vec<usize> = both.filter(|k| kept.members.hold(*k)).collect();
                    assert_eq!(counts.0[lane], own.len() as f32);
                    for k in own {
                        counted[k] += 1.0;
                    }
                }
            }
        }
        counted
    }

    #[test]
    fn bands_have_one_size_and_are_what_they_say() {
        let matrix =
            |len| Order::Matrix { len, grid: 128, rows: 32, frequencies: vec![3, 0, 2, 1] };
        let lines = [Order::Natural { len: 29 }, Order::Plain { len: 29 }];
        for order in lines.into_iter().chain([128, 91, 86].map(matrix)) {
            let n = order.len();
            for entries in 1..=n {
                let of =
                    |band| counted(&order, &Kept::new(&order, entries as f64 / n as f64, band));
                for band in [Band::Low, Band::High, Band::Random(1), Band::Random(2)] {
                    let kept = of(band);
                    assert!(kept.iter().all(|count| *count <= 1.0), "{band:?} {entries}: {kept:?}");
                    assert_eq!(kept.iter().sum::<f32>(), entries as f32, "{band:?}");
                }
                // From the top down, as long as there are entries that are no mirror images.
                let top = (0..order.heads()).rev().take(entries);
                assert!(top.into_iter().all(|k| of(Band::High)[k] == 1.0));
            }
            let half = |band| counted(&order, &Kept::new(&order, 0.3, band));
            assert_eq!(half(Band::Random(1)), half(Band::Random(1)));
            assert_ne!(half(Band::Random(1)), half(Band::Random(2)));
        }
    }

    #[test]
    fn every_entry_counts_once() {
        for len in 1..60 {
            check(&Order::Natural { len });
            check(&Order::Plain { len });
        }
        for (rows, frequencies) in [(2, vec![0, 2, 1]), (8, vec![0, 1, 2]), (32, vec![3, 0, 2, 1])]
        {
            let grid = rows * frequencies.len();
            for len in [grid, grid - 1, 2 * grid / 3, grid / 2, 2] {
                let frequencies = frequencies.clone();
                check(&Order::Matrix { len, grid, rows, frequencies });
            }
        }
    }
}
