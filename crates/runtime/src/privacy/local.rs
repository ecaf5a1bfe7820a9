//! A client that clips and adds noise itself, before anybody sees what it has learnt.

use super::{Privacy, changes};
use formant_methods::{ErasedMethod, MethodError, Value};
use formant_numerics::{Rng, Stream};

impl Privacy {
    /// Makes `w + clip(w_i − w) + N(0, (zC)² I)` of an upload. Noise is drawn once for each upload: whoever
    /// sends it again sends the same.
    pub(crate) fn hide(
        &self,
        seed: u64,
        round: usize,
        client: usize,
        method: &dyn ErasedMethod,
        upload: &mut Value,
        got: &Value,
    ) -> Result<(), MethodError> {
        let got = method.broadcast_vectors(got)?;
        let got = |place: usize| got.get(place).copied().unwrap_or_default();
        let sent = method.upload_vectors(upload)?;
        let all = sent.iter().enumerate().flat_map(|(place, sent)| changes(sent, got(place)));
        let factor = self.factor(all);
        let keyed = || Rng::new(seed, Stream::Privacy, round as u64, client as u64);
        let (mut noise, deviation) = (self.generator(keyed)?, self.deviation());
        for (place, sent) in method.upload_vectors_mut(upload)?.into_iter().enumerate() {
            let got = got(place).iter().copied().chain(std::iter::repeat(0.0));
            for (sent, got) in sent.iter_mut().zip(got) {
                let got = f64::from(got);
                let change = factor.map_or(0.0, |factor| factor * (f64::from(*sent) - got));
                *sent = (got + change + deviation * noise.normal()) as f32;
            }
        }
        Ok(())
    }
}
