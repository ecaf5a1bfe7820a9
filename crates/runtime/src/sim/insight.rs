//! What the log tells of models besides their scores: where they err, and how their spectra lie to each other.
//! It is made of models that an evaluation has looked at anyway, and nothing that training sees is changed.

use super::Course;
use crate::RuntimeError;
use crate::event::{ClientSpectra, Detailed, Errors, LayerSpectrum, Spectra};
use crate::executor::{Executor, Figures};
use formant_methods::MethodError;
use formant_numerics::{Metric, Model, SpectralBands, SpectralComparison, vector};
use std::collections::BTreeMap;

/// The share of the spectrum that counts as low frequencies.
const LOW: f64 = 0.1;

/// Where the models of an evaluation err.
pub(super) struct Answered {
    pub(super) gm: Option<Errors>,
    pub(super) pm: Option<Errors>,
    /// Accuracy of the generic model on every client's own samples, if that was scored.
    pub(super) gm_on_clients: Option<Vec<Option<f64>>>,
}

/// Everybody's accuracy.
pub(super) fn accuracies(clients: &[Figures]) -> Vec<Option<f64>> {
    clients.iter().map(|figures| figures.get(&Metric::Accuracy).copied()).collect()
}

/// The Fourier plans of a method's spectra, made at the first evaluation.
pub(super) struct Lens {
    comparison: SpectralComparison,
    bands: SpectralBands,
}

impl Course<'_> {
    /// Completes what is to be told of models that are kept, the generic one of which is scored on the clients'
    /// samples if nobody has.
    pub(super) fn detailed(
        &self,
        round: usize,
        answered: Answered,
        generic: &Model,
        executor: &mut dyn Executor,
    ) -> Result<Detailed, RuntimeError> {
        let pulse = self.other_pulse();
        let gm_on_clients = match answered.gm_on_clients {
            Some(known) => known,
            None => accuracies(&executor.score_own(generic, false, pulse)?.clients),
        };
        let method = self.method.label.clone();
        Ok(Detailed { method, round, gm: answered.gm, pm: answered.pm, gm_on_clients })
    }

    /// How the spectra of personal models lie to that of the generic one; with the tensors of all of them, if that
    /// is wanted. Nothing where no model is left that is finite.
    pub(super) fn spectra(
        &self,
        round: usize,
        generic: &Model,
        models: BTreeMap<usize, Model>,
        with_layers: bool,
        lens: &mut Option<Lens>,
    ) -> Result<Option<Spectra>, RuntimeError> {
        let of: Vec<(&usize, &Model)> =
            models.iter().filter(|(_, model)| model.is_finite()).collect();
        if of.is_empty() || !generic.is_finite() {
            return Ok(None);
        }
        if self.is_stopped() {
            return Err(MethodError::Stopped.into());
        }
        let layout = self.plan.engine.network().layout();
        let Lens { comparison, bands } = lens.get_or_insert_with(|| Lens {
            comparison: SpectralComparison::new(layout),
            bands: SpectralBands::new(layout),
        });
        let (students, teacher): (Vec<&[f32]>, &[f32]) =
            (of.iter().map(|(_, model)| &*model.parameters).collect(), &generic.parameters);
        let diverge = |tau| {
            let found = comparison.divergences(&students, teacher, tau);
            found.map_err(|error| RuntimeError::from(MethodError::from(error)))
        };
        let (all, low) = (diverge(1.0)?, diverge(LOW)?);
        let layers = |w: &[f32]| -> Vec<LayerSpectrum> {
            let bands = bands.of(w).into_iter();
            bands.map(|(layer, bands)| LayerSpectrum { layer: layer.into(), bands }).collect()
        };
        let norm = vector::norm(teacher);
        let clients =
            of.iter().zip(all.into_iter().zip(low)).filter_map(|((id, model), (all, low))| {
                let distance = vector::distance_squared(&model.parameters, teacher).sqrt() / norm;
                let told = [all, low, distance].iter().all(|figure| figure.is_finite());
                told.then(|| ClientSpectra {
                    client: **id,
                    divergence: all,
                    low_divergence: low,
                    distance,
                    layers: with_layers.then(|| layers(&model.parameters)),
                })
            });
        let clients: Vec<ClientSpectra> = clients.collect();
        if clients.is_empty() {
            return Ok(None);
        }
        let gm = with_layers.then(|| layers(teacher));
        Ok(Some(Spectra { method: self.method.label.clone(), round, gm, clients }))
    }
}
