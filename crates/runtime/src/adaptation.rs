//! Personal models for clients that join when training is over: from what a finished run has left, and as events.

use crate::event::{Adapted, Approach};
use crate::executor::{Adaptation, Progress};
use crate::sim::personal_score;
use crate::{RunPlan, RuntimeError};
use formant_methods::Value;
use formant_model::folder::{self, BROADCAST, GENERIC, MODELS};
use formant_model::{ModelError, ModelFile, read_broadcast};
use formant_numerics::Model;
use std::path::Path;

/// What a method of a finished run has left for newcomers.
#[derive(Debug)]
pub struct Legacy {
    /// The generic model, or the mean of the personal ones.
    pub model: Model,
    /// Rounds that it was trained for.
    pub round: usize,
    /// What clients would get; none if the folder does not have it, as one of an early version may not.
    pub broadcast: Option<Value>,
}

impl Legacy {
    /// An error with its remedy if a generic model was not kept.
    pub fn check_kept(path: &Path) -> Result<(), RuntimeError> {
        if path.is_file() {
            return Ok(());
        }
        Err(RuntimeError::Model(ModelError::Choice {
            found: format!("{} is not there: the run has not kept it", path.display()),
            remedy: "run the experiment again with runtime.keep = \"generic\" or \"all\", and a larger runtime.keep_limit if that left it out".into(),
        }))
    }

    /// Reads what a run folder has of a method, given by its place in the plan.
    pub fn read(plan: &RunPlan, method: usize, run_dir: &Path) -> Result<Self, RuntimeError> {
        let labels = plan.methods.iter().map(|method| method.label.as_str());
        let name = folder::method_folders(labels).swap_remove(method);
        let folder = run_dir.join(MODELS).join(name);
        let path = folder.join(GENERIC);
        Self::check_kept(&path)?;
        let ModelFile { card, model } = ModelFile::read(&path)?;
        let layout = plan.engine.network().layout();
        let sizes = (model.parameters.len(), model.buffers.len());
        if sizes != (layout.parameters(), layout.buffer_values())
            || card.classes != plan.card.classes
        {
            return Err(RuntimeError::Damaged {
                path,
                found: format!(
                    "a model of {} with {} parameters and {} classes, and the experiment has {} parameters and {} classes",
                    card.network.name,
                    sizes.0,
                    card.classes.len(),
                    layout.parameters(),
                    plan.card.classes.len()
                ),
                hint: "the folder's experiment.toml or its data are not those of its models; bring them back".into(),
            });
        }
        let erased = &*plan.methods[method].method;
        let broadcast = match read_broadcast(&folder.join(BROADCAST))? {
            Some(bytes) => Some(erased.decode_broadcast(&bytes)?),
            // It is left out where it is the generic model and nothing else.
            None if erased.entry().generic => erased.broadcast_of(&model),
            None => None,
        };
        Ok(Self { model, round: card.round as usize, broadcast })
    }
}

impl RunPlan {
    /// What newcomers came to, for the log: by fine-tuning, and by the method's own rule if there is one. Nothing if
    /// none of them has anything to be scored on.
    pub fn adapted(&self, method: usize, round: usize, found: &[Adaptation]) -> Vec<Adapted> {
        let split = self.evaluation.split;
        let newcomers = self.federation.newcomers.clients.iter();
        let sizes: Vec<usize> = newcomers.map(|data| split.of(data).len()).collect();
        let of = |approach, progress: Vec<&Progress>| {
            let epochs = progress.iter().map(|progress| progress.figures.len()).min()?;
            let scores = (0..epochs).map(|epoch| {
                let figures: Vec<_> = progress.iter().map(|p| p.figures[epoch].clone()).collect();
                personal_score(&figures, &sizes, &self.evaluation.metrics)
            });
            Some(Adapted {
                method: self.methods[method].label.clone(),
                round,
                approach,
                epochs: scores.collect::<Option<_>>()?,
                test: sizes.clone(),
                failed: progress.iter().filter(|progress| progress.failed).count(),
                seconds: progress.iter().map(|progress| progress.seconds).sum(),
            })
        };
        let own = found.iter().filter_map(|newcomer| newcomer.own.as_ref()).collect();
        let fine_tuned = found.iter().map(|newcomer| &newcomer.fine_tuned).collect();
        [of(Approach::FineTuning, fine_tuned), of(Approach::Own, own)]
            .into_iter()
            .flatten()
            .collect()
    }
}
