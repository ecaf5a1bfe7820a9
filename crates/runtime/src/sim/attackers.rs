//! What attackers make of uploads before the server sees them.

use super::Course;
use super::aggregation::History;
use crate::attack::{Agreement, AttackKind, Disguise, rng};
use crate::store::{Sender, Uploads};
use crate::{Arrival, RuntimeError};
use formant_numerics::vector::all_finite;
use std::collections::BTreeMap;

/// What those who know of each other send in a round, by the attack.
#[derive(Default)]
pub(super) struct Conspiracy(BTreeMap<usize, Vec<Vec<f32>>>);

impl Course<'_> {
    /// Lets colluders look at what all of them have trained for a round; it stays where it is.
    pub(super) fn conspire(
        &self,
        round: u64,
        uploads: &[(usize, u64)],
        waiting: &Uploads<'_>,
    ) -> Result<Conspiracy, RuntimeError> {
        let (method, attacks) = (&*self.method.method, &self.plan.attacks);
        let mut conspiracy = Conspiracy::default();
        if !attacks.collude(round as usize) {
            return Ok(conspiracy);
        }
        for (place, attack) in attacks.list().iter().enumerate() {
            let AttackKind::LittleIsEnough { strength } = attack.kind else { continue };
            let mut agreement = Agreement::default();
            for &(client, answered) in uploads {
                let is_of_it =
                    attacks.of(client, answered as usize).is_some_and(|(of, _)| of == place);
                let from = Sender { client, round: answered };
                let upload = if is_of_it { waiting.take(from)? } else { None };
                if let Some(upload) = upload {
                    agreement.add(&method.upload_vectors(&upload)?);
                    waiting.put(from, upload)?;
                }
            }
            conspiracy.0.insert(place, agreement.sent(strength, method.upload_statistics()));
        }
        Ok(conspiracy)
    }

    /// An upload as its client sends it; none if no server would take it.
    pub(super) fn deceive(
        &self,
        mut arrival: Arrival,
        history: History<'_>,
        conspiracy: &Conspiracy,
    ) -> Result<Option<Arrival>, RuntimeError> {
        let Arrival { client, answered, .. } = arrival;
        let Some((place, attack)) = self.plan.attacks.of(client, answered as usize) else {
            return Ok(Some(arrival));
        };
        if let Some(claimed) = attack.samples {
            arrival.samples = claimed as f64;
        }
        let method = &*self.method.method;
        let broadcast = self.broadcast(answered, history)?;
        let disguise = Disguise {
            reference: &method.broadcast_vectors(&broadcast)?,
            statistics: method.upload_statistics(),
            agreed: conspiracy.0.get(&place).map(Vec::as_slice),
            rng: rng(self.plan.seed, answered, client),
        };
        disguise.change(attack.kind, method.upload_vectors_mut(&mut arrival.message)?);
        let vectors = method.upload_vectors(&arrival.message)?;
        let is_finite = vectors.iter().all(|vector| all_finite(vector));
        drop(vectors);
        Ok(is_finite.then_some(arrival))
    }
}
