//! Lifting small clients to the minimum size.
//!
//! Drawing again until every client is large enough may never end. Moving samples one at a time
//! always does, but what small clients take makes them less particular than they were drawn;
//! [`redraw`](crate::redraw) is the other way.

use crate::DataError;
use crate::heterogeneity::mean_concentration;
use crate::holding::{Holding, move_sample};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What it took to give every client the minimum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Repaired {
    /// Samples were moved.
    Moved {
        /// So many.
        samples: usize,
        /// [`Federation::concentration`](crate::Federation::concentration) as drawn, before they were;
        /// absent where the sizes were changed before anything was dealt.
        drawn: Option<f64>,
    },
    /// So many clients drew again.
    Redrawn {
        /// Each is counted once.
        clients: usize,
    },
}

/// Has holdings repaired if a client is below the minimum, and says what that changed.
pub(crate) fn repaired(
    mut holdings: Vec<Holding>,
    min: usize,
    repair: impl FnOnce(&mut [Holding]) -> Result<(), DataError>,
) -> Result<(Vec<Holding>, Option<Repaired>), DataError> {
    if holdings.iter().all(|holding| holding.size() >= min) {
        return Ok((holdings, None));
    }
    let drawn = mean_concentration(holdings.iter().map(Holding::counts));
    let owners = |holdings: &[Holding]| {
        let owned = holdings.iter().enumerate();
        let owned = owned.flat_map(|(client, own)| own.samples().map(move |s| (s, client)));
        let mut owned: Vec<(u32, usize)> = owned.collect();
        owned.sort_unstable();
        owned
    };
    let before = owners(&holdings);
    repair(&mut holdings)?;
    let samples = before.iter().zip(owners(&holdings)).filter(|(was, is)| **was != *is).count();
    Ok((holdings, Some(Repaired::Moved { samples, drawn })))
}

/// Clients below the minimum take samples, one at a time, from the most plentiful class of the
/// client that is the largest at that moment. There are at least `holdings.len() * min` samples.
pub(crate) fn from_anyone(holdings: &mut [Holding], min: usize) {
    let mut givers: BinaryHeap<(usize, Reverse<usize>)> = holdings
        .iter()
        .enumerate()
        .filter(|(_, holding)| holding.size() > min)
        .map(|(client, holding)| (holding.size(), Reverse(client)))
        .collect();
    for taker in 0..holdings.len() {
        while holdings[taker].size() < min {
            // As long as one client is below the mean another is above it: the heap is not empty.
            let Some((size, Reverse(giver))) = givers.pop() else { return };
            let Some(class) = holdings[giver].most_plentiful() else { return };
            move_sample(holdings, giver, taker, class);
            if size - 1 > min {
                givers.push((size - 1, Reverse(giver)));
            }
        }
    }
}

/// The same, but no client gains or loses a class: samples move only between owners of their class,
/// and no client gives away its last one. When all clients that share a class with the taker are at
/// the minimum themselves, they pass on what they take from further clients, so that the error means
/// that no exchange at all reaches the minimum. It suggests more of the key by which classes are spread.
pub(crate) fn within_classes(
    holdings: &mut [Holding],
    owners: &[Vec<usize>],
    min: usize,
    spread: &'static str,
) -> Result<(), DataError> {
    for taker in 0..holdings.len() {
        while holdings[taker].size() < min {
            let chain =
                chain(holdings, owners, min, taker).ok_or_else(|| DataError::Unrepairable {
                    client: taker,
                    held: holdings[taker].size(),
                    classes: listed(holdings[taker].classes()),
                    min_samples: min,
                    spread,
                })?;
            for Link { giver, receiver, class } in chain {
                move_sample(holdings, giver, receiver, class);
            }
        }
    }
    Ok(())
}

/// One sample of `class` goes from `giver` to `receiver`.
#[derive(Clone, Copy)]
struct Link {
    giver: usize,
    receiver: usize,
    class: u16,
}

/// The shortest chain from a client above the minimum to the taker; of those, the one that starts
/// at the largest client. A breadth-first search that sees every class once.
fn chain(
    holdings: &[Holding],
    owners: &[Vec<usize>],
    min: usize,
    taker: usize,
) -> Option<Vec<Link>> {
    let mut links: Vec<Option<Link>> = vec![None; holdings.len()];
    let mut seen_class = vec![false; owners.len()];
    let mut depths = vec![0; holdings.len()];
    let mut level = vec![taker];
    for depth in 1.. {
        if level.is_empty() {
            break;
        }
        let mut next: Vec<usize> = Vec::new();
        for &receiver in &level {
            for class in holdings[receiver].classes() {
                if std::mem::replace(&mut seen_class[usize::from(class)], true) {
                    continue;
                }
                for &giver in &owners[usize::from(class)] {
                    let stock = holdings[giver].count(class);
                    if giver == taker || stock < 2 {
                        continue;
                    }
                    // A client reached twice at this level gives from its more plentiful class.
                    let better = match links[giver] {
                        None => {
                            next.push(giver);
                            depths[giver] = depth;
                            true
                        }
                        Some(link) => {
                            depths[giver] == depth && stock > holdings[giver].count(link.class)
                        }
                    };
                    if better {
                        links[giver] = Some(Link { giver, receiver, class });
                    }
                }
            }
        }
        let spare = next.iter().copied().filter(|&client| holdings[client].size() > min);
        if let Some(start) = spare.max_by_key(|&client| (holdings[client].size(), Reverse(client)))
        {
            let step = |link: &Link| links[link.receiver];
            return Some(std::iter::successors(links[start], step).collect());
        }
        level = next;
    }
    None
}

fn listed(classes: impl Iterator<Item = u16>) -> String {
    classes.map(|class| class.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holdings from the number of samples of each class.
    fn holdings(counts: &[&[usize]]) -> Vec<Holding> {
        let mut next = 0..;
        counts
            .iter()
            .map(|counts| {
                let mut holding = Holding::default();
                for (class, &count) in (0u16..).zip(*counts) {
                    holding.add(class, &next.by_ref().take(count).collect::<Vec<u32>>());
                }
                holding
            })
            .collect()
    }

    fn counts(holdings: &[Holding], classes: u16) -> Vec<Vec<usize>> {
        holdings.iter().map(|h| (0..classes).map(|class| h.count(class)).collect()).collect()
    }

    fn owners(holdings: &[Holding], classes: u16) -> Vec<Vec<usize>> {
        let owns = |class| (0..holdings.len()).filter(|&i| holdings[i].count(class) > 0).collect();
        (0..classes).map(owns).collect()
    }

    #[test]
    fn the_largest_client_gives_from_its_most_plentiful_class() {
        let mut clients = holdings(&[&[0, 0], &[6, 4], &[0, 9]]);
        from_anyone(&mut clients, 3);
        // Sizes 0, 10, 9: two from class 0 of client 1 with one of client 2 in between.
        assert_eq!(counts(&clients, 2), [[2, 1], [4, 4], [0, 8]]);
    }

    #[test]
    fn a_chain_reaches_a_client_that_shares_no_class() {
        let mut clients = holdings(&[&[2, 0, 0], &[2, 1, 0], &[0, 4, 4]]);
        let owners = owners(&clients, 3);
        within_classes(&mut clients, &owners, 3, "classes_per_client").unwrap();
        assert_eq!(counts(&clients, 3), [[3, 0, 0], [1, 2, 0], [0, 3, 4]]);
    }

    #[test]
    fn nobody_gives_the_last_sample_of_a_class() {
        let mut clients = holdings(&[&[2, 0], &[1, 9]]);
        let owners = owners(&clients, 2);
        let message =
            within_classes(&mut clients, &owners, 3, "classes_per_client").unwrap_err().to_string();
        for part in ["client 0", "2 samples", "classes 0", "min_samples = 3", "lower min_samples"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
