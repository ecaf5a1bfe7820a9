//! Krum and Multi-Krum.
//!
//! Blanchard, El Mhamdi, Guerraoui, Stainer: *Machine Learning with Adversaries: Byzantine Tolerant Gradient
//! Descent*, NeurIPS 2017.
//!
//! - score of an upload: the sum of its squared distances to its `n − f − 2` nearest others
//! - the `m` uploads with the least scores are averaged; `m = 1` is Krum
//!
//! `f` is the number of attackers that it withstands, for which it needs `n ≥ 2f + 3` uploads. It does not weigh:
//! every client counts the same, whatever it claims. Of equal scores the first client's counts as less. Distances
//! are of what was trained; statistics are the medians of all uploads'.
//!
//! Departure: if clients fail and fewer than `2f + 3` uploads come, the round goes on with the greatest `f` that
//! these allow, at least 0.

use super::{Uploads, order};
use formant_methods::{MethodError, Treatment};
use formant_numerics::vector::{WeightedMean, distance_squared};

/// What is wrong with Krum's numbers if so many uploads come, if anything.
pub fn fault(attackers: usize, selected: usize, uploads: usize) -> Option<String> {
    if uploads < 2 * attackers + 3 {
        let most = uploads.saturating_sub(3) / 2;
        return Some(format!(
            "against {attackers} attackers needs {} uploads in a round, and {uploads} come: {}",
            2 * attackers + 3,
            if uploads < 3 { "too few for any".into() } else { format!("enough for {most}") },
        ));
    }
    (selected > uploads - attackers).then(|| {
        format!(
            "averages {selected} uploads of {uploads}, of which {attackers} may be attackers': {} at most",
            uploads - attackers
        )
    })
}

pub(super) fn krum(
    uploads: &mut Uploads<'_>,
    attackers: usize,
    selected: usize,
) -> Result<Vec<f32>, MethodError> {
    let count = uploads.len();
    let attackers = attackers.min(count.saturating_sub(3) / 2);
    // Alone there is nobody to be near to, and of two both are as near.
    let neighbours = count.saturating_sub(attackers + 2).max(1).min(count - 1);
    let distances = distances(uploads)?;
    let mut scored: Vec<(f64, usize)> = (0..count)
        .map(|one| {
            let others = (0..count).filter(|other| *other != one);
            let mut to: Vec<f64> = others.map(|other| distances[one * count + other]).collect();
            to.sort_unstable_by(f64::total_cmp);
            (to[..neighbours].iter().sum(), one)
        })
        .collect();
    scored.sort_by(|(a, one), (b, other)| a.total_cmp(b).then(one.cmp(other)));
    let mut chosen: Vec<usize> =
        scored[..selected.clamp(1, count)].iter().map(|(_, one)| *one).collect();
    chosen.sort_unstable();
    let counted = (0..count).map(|one| if chosen.contains(&one) { 1.0 } else { 0.0 });
    uploads.judge(Treatment::LeftOut, counted);
    let mut combined = Vec::new();
    for group in uploads.groups() {
        if group.is_statistics {
            combined.extend(order::medians(uploads, group.coordinates)?);
            continue;
        }
        uploads.spool.for_each_block(group.coordinates, |_, rows| {
            let mut sum = WeightedMean::new(rows.first().map_or(0, |row| row.len()));
            for one in &chosen {
                sum.add(1.0, rows[*one]);
            }
            combined.extend(sum.finish().unwrap_or_default());
        })?;
    }
    Ok(combined)
}

/// Squared distances between all pairs, row by row.
fn distances(uploads: &mut Uploads<'_>) -> Result<Vec<f64>, MethodError> {
    let count = uploads.len();
    let mut distances = vec![0.0; count * count];
    for group in uploads.groups().into_iter().filter(|group| !group.is_statistics) {
        uploads.spool.for_each_block(group.coordinates, |_, rows| {
            for one in 0..count {
                for other in one + 1..count {
                    distances[one * count + other] += distance_squared(rows[one], rows[other]);
                }
            }
        })?;
    }
    for one in 0..count {
        for other in 0..one {
            distances[one * count + other] = distances[other * count + one];
        }
    }
    Ok(distances)
}
