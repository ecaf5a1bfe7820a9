//! Ends a method whose models no longer become better, and keeps those of its best evaluation.
//!
//! The decision hangs on what was evaluated and on the checkpoint, and on nothing else: a run that was
//! killed stops in the same round. The models lie on disk, in a folder that is replaced at each
//! improvement; one that a killed session has put there comes again at the same evaluation.

use super::drive::Drive;
use super::evaluate::Found;
use super::shelf::Shelf;
use super::{Course, End};
use crate::RuntimeError;
use crate::event::{Evaluated, Event, Ready};
use crate::executor::Written;
use crate::recorder::Recorder;
use formant_numerics::Model;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// The best evaluation of a method with patience.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// Its round.
    pub(super) round: usize,
    /// By the first metric.
    figure: f64,
    /// Evaluations after it, none of them better.
    since: usize,
    /// The personal models that were written, and bytes of the generic one with them.
    pub(super) written: Written,
    /// Whether a power cut may still undo these.
    #[serde(skip)]
    pub(super) unsynced: bool,
}

/// What an evaluation has left behind.
pub(super) struct Looked<'d> {
    pub(super) generic: Cow<'d, Model>,
    pub(super) written: Written,
    /// Whether the models are those to keep: always without patience, else if they are the best.
    pub(super) is_kept: bool,
}

impl Course<'_> {
    /// Scores both models after a round that is not the last. Gives how the method ends if it does here.
    pub(super) fn evaluate_between(
        &self,
        round: usize,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<End>, RuntimeError> {
        let Some(patience) = self.plan.evaluation.patience else {
            self.evaluate_after(round, drive, None, recorder)?;
            return Ok(None);
        };
        let shelf = self.shelf(round)?;
        let folder = shelf.as_ref().and_then(Shelf::personal);
        let looked = self.evaluate_after(round, drive, folder.as_deref(), recorder)?;
        let (is_kept, generic, mut written) =
            (looked.is_kept, looked.generic.into_owned(), looked.written);
        if let Some(shelf) = shelf {
            if is_kept {
                written.bytes += shelf.put_by(&generic, &drive.server)?;
            } else {
                shelf.discard()?;
            }
        }
        let Some(standing) = &mut drive.standing else { return Ok(None) };
        if is_kept {
            (standing.written, standing.unsynced) = (written, true);
        }
        let (since, best) = (standing.since, standing.round);
        let evaluations = if since == 1 { "evaluation" } else { "evaluations in a row" };
        let why = format!("{since} {evaluations} no better than that of round {best}");
        Ok((since >= patience).then(|| End { is_planned: true, ..End::early(round, why) }))
    }

    /// Scores both models and records it; personal ones are written into a folder, if there is one.
    pub(super) fn evaluate_after<'d>(
        &self,
        round: usize,
        drive: &'d mut Drive<'_>,
        folder: Option<&Path>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Looked<'d>, RuntimeError> {
        let Found { mut evaluated, generic, written } =
            self.evaluate(round, &drive.server, folder, &mut *drive.executor)?;
        let (gm, pm) = drive.situation.ready();
        evaluated.clock = self.is_timed().then_some(Ready { gm, pm });
        if let Some(figure) =
            evaluated.gm.as_ref().and_then(|gm| gm.figure(self.plan.evaluation.metrics.first()))
        {
            self.remember(&mut drive.best, round, figure, &generic)?;
        }
        let is_kept = self.judge(round, &evaluated, &mut drive.standing);
        recorder.record(&Event::Evaluated(evaluated))?;
        Ok(Looked { generic, written, is_kept })
    }

    /// Whether the models of an evaluation are those to keep. One without a figure decides nothing.
    fn judge(&self, round: usize, found: &Evaluated, standing: &mut Option<Standing>) -> bool {
        if self.plan.evaluation.patience.is_none() {
            return true;
        }
        let metric = self.plan.evaluation.metrics.first();
        let figure = if self.method.method.entry().personal {
            found.pm.as_ref().and_then(|pm| pm.by(metric)).map(|pm| pm.weighted)
        } else {
            found.gm.as_ref().and_then(|gm| gm.figure(metric))
        };
        let Some(figure) = figure else { return false };
        match standing {
            Some(best) if !metric.is_better(figure, best.figure) => {
                best.since += 1;
                false
            }
            _ => {
                let (written, unsynced) = (Written::default(), false);
                *standing = Some(Standing { round, figure, since: 0, written, unsynced });
                true
            }
        }
    }

    /// The last evaluation, in which the models are written that it scores, unless an earlier one was
    /// better. Those of a method that was stopped are kept, though nothing is recorded of their scores.
    pub(super) fn keep_models(
        &self,
        end: &End,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let shelf = self.shelf(end.round)?;
        let folder = shelf.as_ref().and_then(Shelf::personal);
        let fresh = if end.is_scored {
            let looked = self.evaluate_after(end.round, drive, folder.as_deref(), recorder)?;
            let (generic, written, is_kept) =
                (looked.generic.into_owned(), looked.written, looked.is_kept);
            (is_kept || drive.standing.is_none()).then_some((generic, written))
        } else if shelf.is_some() && drive.standing.is_none() {
            let executor = &mut *drive.executor;
            let found = self.evaluate(end.round, &drive.server, folder.as_deref(), executor)?;
            Some((found.generic.into_owned(), found.written))
        } else {
            None
        };
        let Some(shelf) = shelf else { return Ok(()) };
        match (fresh, &drive.standing) {
            (Some((generic, written)), _) => {
                shelf.close(&generic, &drive.server, drive.best.as_ref(), written, recorder)
            }
            (None, Some(standing)) => shelf.go_back(standing, drive.best.as_ref(), recorder),
            (None, None) => Ok(()),
        }
    }
}
