//! Clients of a simulation that attack it, so that a defence can be measured.
//!
//! An attacker trains like everybody else; then it sends something else (or, with flipped labels, trains on
//! what is wrong). It knows the broadcast, its own data and, if it colludes, what the other colluders trained:
//! never an honest client's upload. Personal models it trains for itself, and honestly; tables give them
//! apart.
//!
//! - sign flip: `w_k ← w − s (w_k − w)`
//! - scale: `w_k ← w + s (w_k − w)`
//! - noise: `w_k ← w_k + s ‖w_k − w‖/√d · N(0, 1)`
//! - zeros: `w_k ← 0`
//! - little is enough (Baruch, Baruch, Goldberg: *A Little Is Enough: Circumventing Defenses For Distributed
//!   Learning*, NeurIPS 2019): all colluders send `μ − s σ`, mean and standard deviation of what they trained,
//!   coordinate by coordinate
//! - label flip: class `c` is trained as `C − 1 − c`
//!
//! Statistics of batch norm are sent as they are, by colluders as their mean.

use crate::RunPlan;
use formant_numerics::vector::distance_squared;
use formant_numerics::{Normalisation, Raw, Rng, Samples, Shape, Stream};
use std::borrow::Cow;
use std::sync::Arc;

/// Some clients and what they do.
#[derive(Debug, Clone, PartialEq)]
pub struct Attack {
    /// What they send.
    pub kind: AttackKind,
    /// Who, ascending.
    pub clients: Vec<usize>,
    /// The training samples that each of them claims, if not those that it has.
    pub samples: Option<u64>,
    /// The first round in which they attack.
    pub from: usize,
}

/// What attackers send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AttackKind {
    /// What they trained.
    None,
    /// What they trained on labels that are wrong.
    LabelFlip,
    /// Their update backwards.
    SignFlip {
        /// How often as long.
        strength: f64,
    },
    /// Their update, longer.
    Scale {
        /// How often as long.
        strength: f64,
    },
    /// Their update and noise.
    Noise {
        /// Its standard deviation, in root mean squares of the update.
        strength: f64,
    },
    /// What is as far from the colluders' mean as honest uploads may be.
    LittleIsEnough {
        /// How many standard deviations.
        strength: f64,
    },
    /// Nothing but zeros.
    Zeros,
}

/// All attacks of a run.
#[derive(Debug, Clone, Default)]
pub struct Attacks {
    list: Vec<Attack>,
    /// The clients' samples with the labels of an attacker.
    flipped: Option<Arc<dyn Samples>>,
}

impl Attacks {
    /// Attacks on clients that hold some of these samples, of so many classes.
    pub fn new(list: Vec<Attack>, samples: &Arc<dyn Samples>, classes: usize) -> Self {
        let flips = list.iter().any(|attack| attack.kind == AttackKind::LabelFlip);
        let flipped: Option<Arc<dyn Samples>> =
            if flips { Some(Arc::new(Flipped { of: samples.clone(), classes })) } else { None };
        Self { list, flipped }
    }

    /// One after the other.
    pub fn list(&self) -> &[Attack] {
        &self.list
    }

    /// Whether a client is an attacker, now or later.
    pub fn has(&self, client: usize) -> bool {
        self.list.iter().any(|attack| attack.clients.binary_search(&client).is_ok())
    }

    /// What clients have, once without the attackers' and once without all others'.
    pub(crate) fn apart<T: Clone + Default>(&self, clients: Vec<T>) -> [Vec<T>; 2] {
        if self.list.is_empty() {
            return [clients, Vec::new()];
        }
        [false, true].map(|attackers| {
            let kept = clients.iter().enumerate().map(|(client, own)| {
                if self.has(client) == attackers { own.clone() } else { T::default() }
            });
            kept.collect()
        })
    }

    /// What a client does in a round, and the place of the attack in the list.
    pub(crate) fn of(&self, client: usize, round: usize) -> Option<(usize, &Attack)> {
        let own = |(_, attack): &(usize, &Attack)| {
            attack.from <= round && attack.clients.binary_search(&client).is_ok()
        };
        self.list.iter().enumerate().find(own)
    }

    /// Whether some clients have to see each other's uploads of a round before they send theirs.
    pub(crate) fn collude(&self, round: usize) -> bool {
        let colludes = |attack: &Attack| {
            attack.from <= round && matches!(attack.kind, AttackKind::LittleIsEnough { .. })
        };
        self.list.iter().any(colludes)
    }
}

impl RunPlan {
    /// The samples that a client trains its upload on in a round, if they are not what its data are.
    pub(crate) fn misled(&self, client: usize, round: usize) -> Option<&dyn Samples> {
        let (_, attack) = self.attacks.of(client, round)?;
        let flips = attack.kind == AttackKind::LabelFlip;
        self.attacks.flipped.as_deref().filter(|_| flips)
    }
}

/// An upload's vectors beside those of the broadcast that it answers.
pub(crate) struct Disguise<'a> {
    pub(crate) reference: &'a [&'a [f32]],
    /// Which vector holds statistics.
    pub(crate) statistics: usize,
    /// What colluders have agreed on.
    pub(crate) agreed: Option<&'a [Vec<f32>]>,
    /// Keyed by round and client.
    pub(crate) rng: Rng,
}

impl Disguise<'_> {
    /// Makes of an honest upload what an attacker sends.
    pub(crate) fn change(mut self, kind: AttackKind, mut vectors: Vec<&mut Vec<f32>>) {
        if let (AttackKind::LittleIsEnough { .. }, Some(agreed)) = (kind, self.agreed) {
            for (vector, agreed) in vectors.iter_mut().zip(agreed) {
                vector.clone_from(agreed);
            }
            return;
        }
        let deviation = match kind {
            AttackKind::Noise { strength } => strength * self.root_mean_square(&vectors),
            _ => 0.0,
        };
        for (place, vector) in vectors.into_iter().enumerate() {
            if place == self.statistics {
                continue;
            }
            let reference = self.reference.get(place).copied().unwrap_or_default();
            for (i, x) in vector.iter_mut().enumerate() {
                let (w, own) = (f64::from(at(reference, i)), f64::from(*x));
                *x = match kind {
                    AttackKind::None
                    | AttackKind::LabelFlip
                    | AttackKind::LittleIsEnough { .. } => own,
                    AttackKind::SignFlip { strength } => w - strength * (own - w),
                    AttackKind::Scale { strength } => w + strength * (own - w),
                    AttackKind::Noise { .. } => own + deviation * self.rng.normal(),
                    AttackKind::Zeros => 0.0,
                } as f32;
            }
        }
    }

    /// Of the update, over everything that was trained.
    fn root_mean_square(&self, vectors: &[&mut Vec<f32>]) -> f64 {
        let (mut square, mut count) = (0.0, 0);
        for (place, vector) in vectors.iter().enumerate() {
            if place == self.statistics {
                continue;
            }
            let reference = self.reference.get(place).copied().unwrap_or_default();
            let fitted: Vec<f32> = (0..vector.len()).map(|i| at(reference, i)).collect();
            square += distance_squared(vector, &fitted);
            count += vector.len();
        }
        (square / count.max(1) as f64).sqrt()
    }
}

/// Where a client began: with zeros where the broadcast had nothing.
fn at(reference: &[f32], i: usize) -> f32 {
    reference.get(i).copied().unwrap_or(0.0)
}

/// Mean and deviation of what colluders trained, one upload after the other.
#[derive(Default)]
pub(crate) struct Agreement {
    count: f64,
    /// Vector by vector; the second of each pair is the sum of squared deviations from the first.
    spread: Vec<Vec<(f64, f64)>>,
}

impl Agreement {
    /// Takes in one upload.
    pub(crate) fn add(&mut self, vectors: &[&[f32]]) {
        self.count += 1.0;
        if self.spread.is_empty() {
            self.spread = vectors.iter().map(|vector| vec![(0.0, 0.0); vector.len()]).collect();
        }
        for (spread, vector) in self.spread.iter_mut().zip(vectors) {
            for ((mean, squares), x) in spread.iter_mut().zip(*vector) {
                let x = f64::from(*x);
                let off = x - *mean;
                *mean += off / self.count;
                *squares += off * (x - *mean);
            }
        }
    }

    /// What all of them send.
    pub(crate) fn sent(self, strength: f64, statistics: usize) -> Vec<Vec<f32>> {
        let count = self.count.max(1.0);
        let vectors = self.spread.into_iter().enumerate().map(|(place, spread)| {
            let strength = if place == statistics { 0.0 } else { strength };
            let sent = spread.into_iter().map(|(mean, squares)| {
                (mean - strength * (squares / count).max(0.0).sqrt()) as f32
            });
            sent.collect()
        });
        vectors.collect()
    }
}

/// Samples whose classes are counted from the other end.
#[derive(Debug)]
struct Flipped {
    of: Arc<dyn Samples>,
    classes: usize,
}

impl Samples for Flipped {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn shape(&self) -> Shape {
        self.of.shape()
    }

    fn label(&self, i: usize) -> usize {
        self.classes.saturating_sub(1 + self.of.label(i))
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        self.of.gather(indices, out);
    }

    fn normalisation(&self) -> &[Normalisation] {
        self.of.normalisation()
    }

    fn bytes(&self, i: usize) -> Option<Cow<'_, [u8]>> {
        self.of.bytes(i)
    }

    fn floats(&self, i: usize) -> Option<Cow<'_, [f32]>> {
        self.of.floats(i)
    }

    fn raw<'s>(&'s self, i: usize, memory: &'s mut Vec<f32>) -> Raw<'s> {
        self.of.raw(i, memory)
    }
}

/// The generator of an attacker in a round.
pub(crate) fn rng(seed: u64, round: u64, client: usize) -> Rng {
    Rng::new(seed, Stream::Attack, round, client as u64)
}

/// Who of so many clients attacks, if it is a share of them: drawn by the seed, another draw for each attack.
pub fn drawn(seed: u64, attack: usize, share: f64, clients: usize) -> Vec<usize> {
    let count = ((share * clients as f64).round() as usize).clamp(1, clients.max(1));
    let mut all: Vec<usize> = (0..clients).collect();
    Rng::new(seed, Stream::Attack, 0, attack as u64).shuffle(&mut all);
    all.truncate(count);
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent in place of 3 and 1, where 1 and 2 were received, and of the statistic 5.
    fn sent(kind: AttackKind) -> (Vec<f32>, Vec<f32>) {
        let (mut own, mut statistics) = (vec![3.0, 1.0], vec![5.0]);
        let disguise = Disguise {
            reference: &[&[1.0, 2.0, 9.0], &[4.0]],
            statistics: 1,
            agreed: None,
            rng: rng(1, 2, 3),
        };
        disguise.change(kind, vec![&mut own, &mut statistics]);
        (own, statistics)
    }

    #[test]
    fn attacks_by_hand() {
        assert_eq!(sent(AttackKind::None).0, [3.0, 1.0]);
        assert_eq!(sent(AttackKind::SignFlip { strength: 1.0 }).0, [-1.0, 3.0]);
        assert_eq!(sent(AttackKind::SignFlip { strength: 10.0 }).0, [-19.0, 12.0]);
        assert_eq!(sent(AttackKind::Scale { strength: 10.0 }).0, [21.0, -8.0]);
        assert_eq!(sent(AttackKind::Zeros), (vec![0.0, 0.0], vec![5.0]));
        // An update of (2, −1): noise of √(5/2), the same for the same round and client.
        let (mut rng, deviation) = (rng(1, 2, 3), 2.5f64.sqrt());
        let noisy = [3.0, 1.0].map(|x| (x + deviation * rng.normal()) as f32);
        assert_eq!(sent(AttackKind::Noise { strength: 1.0 }).0, noisy);
    }

    #[test]
    fn colluders_send_their_mean_less_some_deviations() {
        let mut agreement = Agreement::default();
        for (own, statistics) in [(1.0, 2.0), (3.0, 4.0), (5.0, 9.0)] {
            agreement.add(&[&[own], &[statistics]]);
        }
        // The mean is 3, the deviation √(8/3); statistics are their mean.
        let sent = agreement.sent(2.0, 1);
        assert_eq!(sent, [[(3.0 - 2.0 * (8f64 / 3.0).sqrt()) as f32], [5.0]]);
        let mut alone = Agreement::default();
        alone.add(&[&[7.0], &[]]);
        assert_eq!(alone.sent(2.0, 1), [vec![7.0], vec![]], "alone there is no deviation");
    }

    #[test]
    fn a_colluding_share_is_drawn_by_the_seed() {
        let four = drawn(1, 0, 0.2, 20);
        assert_eq!((four.len(), drawn(1, 0, 0.2, 20)), (4, four.clone()));
        assert!(four.is_sorted() && four.iter().all(|client| *client < 20));
        assert_ne!(four, drawn(2, 0, 0.2, 20));
        assert_ne!(four, drawn(1, 1, 0.2, 20));
        assert_eq!(drawn(1, 0, 0.01, 3).len(), 1, "somebody attacks");
    }
}
