//! What an event log says, method by method.
//!
//! A log is an append-only record of a program that may be killed and resumed, so reading it means
//! following that story: a round that is started again replaces what an earlier session wrote of it
//! and of everything after it, and a torn last line is simply not there yet.

mod loose;
mod reader;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use formant_runtime::Checkpoint;
use formant_runtime::event::{
    Adapted, Detailed, Guarded, MethodInfo, Metric, Phase, Ranks, Ready, RunStarted, Runtime, Span,
    Spectra, Spent,
};

use crate::ReportError;
use reader::Depth;

/// A run as far as its log goes.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLog {
    /// The log's first line: setting, clients, methods.
    pub started: RunStarted,
    /// One entry per announced method, in the order in which they run.
    pub methods: Vec<MethodLog>,
    /// Wall time of the whole run; absent while it is unfinished.
    pub seconds: Option<f64>,
    /// Whether the last line was torn, as a program killed in mid-write leaves it. It was skipped.
    pub truncated: bool,
}

/// One method of a run as far as the log goes.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodLog {
    /// Who it is.
    pub info: MethodInfo,
    /// Scores by rounds completed; 0 is before training.
    pub evaluations: BTreeMap<usize, Evaluation>,
    /// Training by round, counted from 1.
    pub rounds: BTreeMap<usize, RoundLog>,
    /// How some models' spectra lie to each other, by rounds completed.
    pub spectra: BTreeMap<usize, Spectra>,
    /// Where its last models err, if it has ended.
    pub detail: Option<Detailed>,
    /// What clients came to that joined when training was over, in each way.
    pub newcomers: Vec<Adapted>,
    /// Where its work was done, if in more than one process.
    pub ranks: Option<Ranks>,
    /// The models that were kept of it, if any.
    pub models: Option<Models>,
    /// Uploads that were refused, in the order in which they were.
    pub refusals: Vec<RefusedUpload>,
    /// How it ended; absent while it is unfinished.
    pub finish: Option<Finish>,
}

/// An upload that did not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedUpload {
    /// The round that it answers.
    pub round: usize,
    /// The client.
    pub client: usize,
    /// Encoded size, if the log knows it.
    pub bytes: Option<u64>,
    /// Why, in one word.
    pub reason: String,
}

/// The models of a method in the run folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Models {
    /// Personal ones.
    pub personal: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes of those that a limit has left out.
    pub left_out: u64,
}

/// Scores of both models after a round, by the first metric of the run, which is accuracy unless it says
/// otherwise. A figure is absent where the model had diverged, or where nobody has scored it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The generic model (or the averaged PM) on the global test set.
    pub gm: Option<f64>,
    /// Its mean cross-entropy there.
    pub gm_loss: Option<f64>,
    /// Further models that could be called the generic one, by name.
    pub gm_candidates: Vec<(String, Option<f64>)>,
    /// The PMs, weighted by local test sizes.
    pub pm: Option<f64>,
    /// The PMs, plain mean over clients.
    pub pm_mean: Option<f64>,
    /// Mean of the worst tenth of the clients.
    pub worst_decile: Option<f64>,
    /// The PM of every client, in id order; absent also for a client without test samples.
    pub per_client: Vec<Option<f64>>,
    /// Both models by the other metrics of the run.
    pub further: BTreeMap<Metric, Further>,
    /// The PMs of a simulation's attackers, who are not among the clients of the figures above; weighted by
    /// local test sizes.
    pub attackers: Option<f64>,
    /// What clients serve as their PMs; absent if nobody had a choice.
    pub guard: Option<Guarded>,
    /// Wall time of the evaluation.
    pub seconds: f64,
    /// When the models were ready, by the virtual clock.
    pub clock: Option<Ready>,
    /// Whether a figure was not a number, which is what a diverged model scores.
    pub diverged: bool,
}

/// Scores of both models by one of the other metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Further {
    /// The generic model.
    pub gm: Option<f64>,
    /// The PMs, weighted by local test sizes.
    pub pm: Option<f64>,
    /// Mean of the worst tenth of the clients.
    pub worst_decile: Option<f64>,
}

/// One round of training, summed over its clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundLog {
    /// How many clients took part.
    pub participants: usize,
    /// The phases that train what is uploaded.
    pub shared: PhaseTotals,
    /// The phases that train what stays.
    pub personal: PhaseTotals,
    /// Encoded size of all accepted uploads.
    pub uploaded_bytes: u64,
    /// Whose uploads were accepted, with their sizes.
    pub uploads: Vec<(usize, u64)>,
    /// Encoded size of one broadcast; absent until the round has finished.
    pub broadcast_bytes: Option<u64>,
    /// Wall time without evaluation; absent until the round has finished.
    pub seconds: Option<f64>,
    /// Client phases that failed.
    pub failures: Vec<Failure>,
    /// Size of all broadcasts that were sent, if there was a clock.
    pub downloaded_bytes: u64,
    /// When it was closed, by the virtual clock.
    pub clock: Option<f64>,
    /// What all rounds up to it may have revealed of a client.
    pub privacy: Option<Spent>,
    /// What clients did when, by the virtual clock.
    pub activities: Vec<(usize, Activity, Span)>,
}

/// What a client or its link does in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// A broadcast is on its way to it.
    Download,
    /// It trains what is uploaded.
    Shared,
    /// It trains what stays.
    Personal,
    /// Its upload is on its way.
    Upload,
}

/// What one kind of phase cost, summed over clients (and rounds).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PhaseTotals {
    /// Phases done.
    pub phases: usize,
    /// Time summed over clients: clients that train side by side count once each.
    pub seconds: f64,
    /// Samples that went forward and backward.
    pub samples: u64,
    /// Optimiser steps.
    pub steps: u64,
    /// Sum of the phases' finite losses, of which there are [`Self::losses`].
    pub loss_sum: f64,
    /// Phases with a finite loss.
    pub losses: usize,
    /// Phases that made steps and still have no finite loss.
    pub diverged: usize,
    /// Sum over phases of what terms have added to the loss, of which there are [`Self::with_terms`].
    pub terms_sum: f64,
    /// Phases with such terms.
    pub with_terms: usize,
}

/// A client phase that failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Counted from 1.
    pub round: usize,
    /// The client.
    pub client: usize,
    /// Which of the two.
    pub phase: Phase,
    /// Why.
    pub error: String,
}

/// How a method ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Rounds completed.
    pub rounds: usize,
    /// Wall time of training and evaluation, over all sessions.
    pub seconds: f64,
    /// Hash of the final states; absent in the log of a server, which does not have its clients'.
    pub fingerprint: Option<String>,
    /// Hash of the final server state.
    pub server_fingerprint: Option<String>,
    /// What the virtual clock says.
    pub clock: Option<Runtime>,
    /// Why it stopped before its last round, if it did.
    pub stopped: Option<String>,
    /// The round whose models were kept as the best, if the method had patience and ended as planned.
    pub best_round: Option<usize>,
}

impl RunLog {
    /// Reads an `events.jsonl`.
    ///
    /// Event kinds that are not known are skipped, so is a torn last line (see
    /// [`RunLog::truncated`]), and a run may be unfinished. Everything else that does not belong is
    /// refused with its line.
    pub fn read(file: &Path) -> Result<Self, ReportError> {
        Self::open(file, Depth::All)
    }

    /// The same without what single clients did in a round, which is most of a log: scores and how far the run
    /// is. Every line is checked all the same.
    pub fn skim(file: &Path) -> Result<Self, ReportError> {
        Self::open(file, Depth::Scores)
    }

    fn open(file: &Path, depth: Depth) -> Result<Self, ReportError> {
        let opened = File::open(file).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                ReportError::Absent { file: file.to_owned() }
            }
            _ => ReportError::Unreadable { file: file.to_owned(), line: 1, source },
        })?;
        // Every line has a check, but only the checkpoint knows how many there were. It is asked first: a run that
        // goes on meanwhile makes the log longer.
        let checkpoint = file.parent().and_then(|folder| Checkpoint::read(folder).ok().flatten());
        let expected = checkpoint.map_or(0, |checkpoint| checkpoint.log.bytes);
        let length = opened.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let log = reader::read(file, BufReader::new(opened), depth, expected)?;
        if length < expected {
            return Err(ReportError::Cut { file: file.to_owned(), length, expected });
        }
        Ok(log)
    }

    /// Reads a log from anywhere; `file` is what errors call it.
    ///
    /// ```
    /// use formant_report::{ReportError, RunLog};
    ///
    /// let refused = RunLog::from_reader("events.jsonl".as_ref(), &b""[..]);
    /// assert!(matches!(refused, Err(ReportError::Empty { .. })));
    /// ```
    pub fn from_reader(file: &Path, lines: impl BufRead) -> Result<Self, ReportError> {
        reader::read(file, lines, Depth::All, 0)
    }
}

impl MethodLog {
    pub(crate) fn new(info: MethodInfo) -> Self {
        Self {
            info,
            evaluations: BTreeMap::new(),
            rounds: BTreeMap::new(),
            spectra: BTreeMap::new(),
            detail: None,
            newcomers: Vec::new(),
            ranks: None,
            models: None,
            refusals: Vec::new(),
            finish: None,
        }
    }

    /// Rounds completed so far.
    pub fn completed(&self) -> usize {
        let ended = self.rounds.iter().rev().find(|(_, round)| round.seconds.is_some());
        let scored = self.evaluations.keys().next_back();
        let seen = ended.map_or(0, |(&round, _)| round).max(scored.copied().unwrap_or(0));
        self.finish.as_ref().map_or(seen, |finish| finish.rounds)
    }

    /// The latest evaluation and its round.
    pub fn last(&self) -> Option<(usize, &Evaluation)> {
        self.evaluations.iter().next_back().map(|(&round, evaluation)| (round, evaluation))
    }

    /// All phases of one kind, over all rounds.
    pub fn phases(&self, phase: Phase) -> PhaseTotals {
        self.rounds.values().fold(PhaseTotals::default(), |mut sum, round| {
            sum.add(round.phase(phase));
            sum
        })
    }

    /// Encoded size of all accepted uploads.
    pub fn uploaded_bytes(&self) -> u64 {
        self.rounds.values().fold(0, |sum, round| sum.saturating_add(round.uploaded_bytes))
    }

    /// Client phases that failed, in the order in which they did.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.rounds.values().flat_map(|round| &round.failures)
    }

    /// Wall time of all finished rounds, without evaluation.
    pub fn train_seconds(&self) -> f64 {
        self.rounds.values().filter_map(|round| round.seconds).sum()
    }

    /// Wall time of all evaluations.
    pub fn evaluation_seconds(&self) -> f64 {
        self.evaluations.values().map(|evaluation| evaluation.seconds).sum()
    }

    /// Forgets `round` and what follows it: a resumed session is about to do them again.
    pub(crate) fn rewind(&mut self, round: usize) {
        self.rounds.split_off(&round);
        self.evaluations.split_off(&round);
        self.spectra.split_off(&round);
        self.detail = None;
        self.refusals.retain(|refused| refused.round < round);
        self.newcomers.clear();
        self.ranks = None;
        self.models = None;
        self.finish = None;
    }
}

impl RoundLog {
    /// The totals of one kind of phase.
    pub fn phase(&self, phase: Phase) -> &PhaseTotals {
        match phase {
            Phase::Shared => &self.shared,
            Phase::Personal => &self.personal,
        }
    }

    pub(crate) fn phase_mut(&mut self, phase: Phase) -> &mut PhaseTotals {
        match phase {
            Phase::Shared => &mut self.shared,
            Phase::Personal => &mut self.personal,
        }
    }
}

impl PhaseTotals {
    /// Mean of the phases' finite losses.
    ///
    /// ```
    /// use formant_report::PhaseTotals;
    ///
    /// let totals = PhaseTotals { loss_sum: 3.0, losses: 2, ..PhaseTotals::default() };
    /// assert_eq!(totals.mean_loss(), Some(1.5));
    /// assert_eq!(PhaseTotals::default().mean_loss(), None);
    /// ```
    pub fn mean_loss(&self) -> Option<f64> {
        (self.losses > 0).then(|| self.loss_sum / self.losses as f64)
    }

    /// Mean of what terms have added to the loss, over the phases that had any.
    pub fn mean_terms(&self) -> Option<f64> {
        (self.with_terms > 0).then(|| self.terms_sum / self.with_terms as f64)
    }

    /// Takes the sum of both.
    pub(crate) fn add(&mut self, other: &Self) {
        self.phases += other.phases;
        self.seconds += other.seconds;
        self.samples = self.samples.saturating_add(other.samples);
        self.steps = self.steps.saturating_add(other.steps);
        self.loss_sum += other.loss_sum;
        self.losses += other.losses;
        self.diverged += other.diverged;
        self.terms_sum += other.terms_sum;
        self.with_terms += other.with_terms;
    }
}
