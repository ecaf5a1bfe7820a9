//! Clients that join after a method's last round.

use super::drive::Drive;
use super::{Course, End};
use crate::RuntimeError;
use crate::event::Event;
use crate::executor::{Adapting, Look};
use crate::recorder::Recorder;
use formant_numerics::Model;
use std::borrow::Cow;

impl Course<'_> {
    /// Gives the newcomers personal models and records what these are worth. A method that was stopped has nothing
    /// to give. Nothing that is kept of the method changes.
    pub(super) fn adapt_newcomers(
        &self,
        end: &End,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        if self.plan.federation.newcomers.clients.is_empty() || !end.is_planned {
            return Ok(());
        }
        let (method, pulse) = (&*self.method.method, self.other_pulse());
        let broadcast = method.broadcast(&drive.server)?;
        let model: Cow<'_, Model> = if let Some(model) = method.global_model(&drive.server)? {
            model
        } else {
            let look = Look {
                round: end.round,
                broadcast: &broadcast,
                mean: true,
                folder: None,
                answers: false,
                models: 0,
                pulse,
            };
            Cow::Owned(drive.executor.score_personal(&look)?.mean.unwrap_or_default())
        };
        let parameters = self.plan.engine.network().layout().parameters();
        if model.parameters.len() != parameters || !model.is_finite() {
            // All personal models have diverged, or the generic one has.
            return Ok(());
        }
        let asked = Adapting {
            method: self.index,
            model: &model,
            broadcast: Some(&broadcast),
            epochs: self.plan.evaluation.adapt_epochs,
            keep: false,
            done: &|| {},
            pulse,
        };
        let found = drive.executor.adapt(&asked)?;
        for adapted in self.plan.adapted(self.index, end.round, &found) {
            recorder.record(&Event::Adapted(adapted))?;
        }
        Ok(())
    }
}
