//! Ends a method whose models no longer become better, and keeps those of its best evaluation.
//!
//! The decision hangs on what was evaluated and on the checkpoint, and on nothing else: a run that was
//! killed stops in the same round. The models lie on disk, in a folder that is replaced at each
//! improvement; one that a killed session has put there comes again at the same evaluation.

use super::drive::Drive;
use super::evaluate::{Found, Wanted};
use super::shelf::Shelf;
use super::{Course, End};
use crate::event::{Detailed, Evaluated, Event, Ready};
use crate::executor::Written;
use crate::recorder::Recorder;
use crate::{Evaluation, RuntimeError};
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
    /// Where these models err.
    #[serde(default)]
    detailed: Option<Detailed>,
    /// Whether a power cut may still undo these.
    #[serde(skip)]
    pub(super) unsynced: bool,
}

/// Which evaluation it is.
#[derive(Clone, Copy)]
struct At {
    round: usize,
    /// Whether the method ends with it.
    is_last: bool,
}

/// What an evaluation has left behind.
pub(super) struct Looked<'d> {
    pub(super) generic: Cow<'d, Model>,
    pub(super) written: Written,
    /// Whether the models are those to keep: always without patience, else if they are the best.
    pub(super) is_kept: bool,
    /// Where the models err: of a last evaluation, and of one whose models are kept.
    detailed: Option<Detailed>,
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
            self.evaluate_after(At { round, is_last: false }, drive, None, recorder)?;
            return Ok(None);
        };
        let shelf = self.shelf(round)?;
        let folder = shelf.as_ref().and_then(Shelf::personal);
        let at = At { round, is_last: false };
        let looked = self.evaluate_after(at, drive, folder.as_deref(), recorder)?;
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
    fn evaluate_after<'d>(
        &self,
        At { round, is_last }: At,
        drive: &'d mut Drive<'_>,
        folder: Option<&Path>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Looked<'d>, RuntimeError> {
        let Evaluation { patience, spectra, every, ref metrics, .. } = self.plan.evaluation;
        let models = if self.method.method.entry().personal { spectra } else { 0 };
        let wanted = Wanted { folder, answers: is_last || patience.is_some(), models };
        let executor = &mut *drive.executor;
        let Found { mut evaluated, generic, written, answered, models } =
            self.evaluate(round, &drive.server, wanted, executor)?;
        let (gm, pm) = drive.situation.ready();
        evaluated.clock = self.is_timed().then_some(Ready { gm, pm });
        if let Some(figure) = evaluated.gm.as_ref().and_then(|gm| gm.figure(metrics.first())) {
            self.remember(&mut drive.best, round, figure, &generic)?;
        }
        let is_kept = self.judge(round, &evaluated, &mut drive.standing);
        recorder.record(&Event::Evaluated(evaluated))?;
        let since = drive.standing.as_ref().map_or(0, |standing| standing.since);
        let is_over = is_last || patience.is_some_and(|patience| since >= patience);
        let with_layers = round == every || is_over;
        if let Some(spectra) =
            self.spectra(round, &generic, &models, with_layers, &mut drive.lens)?
        {
            recorder.record(&Event::Spectra(spectra))?;
        }
        let is_needed = is_kept || is_last && drive.standing.is_none();
        let answered = answered.filter(|_| is_needed);
        let detailed = answered.map(|found| self.detailed(round, found, &generic, executor));
        let detailed = detailed.transpose()?;
        if let Some(standing) = drive.standing.as_mut().filter(|_| is_kept) {
            standing.detailed.clone_from(&detailed);
        }
        Ok(Looked { generic, written, is_kept, detailed })
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
                let detailed = None;
                *standing = Some(Standing { round, figure, since: 0, written, detailed, unsynced });
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
        let mut detailed = None;
        let fresh = if end.is_scored {
            let at = At { round: end.round, is_last: true };
            let looked = self.evaluate_after(at, drive, folder.as_deref(), recorder)?;
            let (generic, written, is_kept) =
                (looked.generic.into_owned(), looked.written, looked.is_kept);
            detailed = looked.detailed;
            (is_kept || drive.standing.is_none()).then_some((generic, written))
        } else if shelf.is_some() && drive.standing.is_none() {
            let executor = &mut *drive.executor;
            let wanted = Wanted { folder: folder.as_deref(), answers: false, models: 0 };
            let found = self.evaluate(end.round, &drive.server, wanted, executor)?;
            Some((found.generic.into_owned(), found.written))
        } else {
            None
        };
        if let (None, Some(standing)) = (&fresh, &drive.standing) {
            detailed.clone_from(&standing.detailed);
        }
        if let Some(detailed) = detailed {
            recorder.record(&Event::Detailed(detailed))?;
        }
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
