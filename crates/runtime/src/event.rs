//! The event log's vocabulary: one self-describing stream from which every table is computed.
//!
//! A run folder holds one `events.jsonl`, a JSON object per line, tagged by `event`. Readers skip
//! kinds that they do not know; a field is never given a second meaning. From format 2 on, every line
//! ends with a check that hangs on the line before ([`crate::seal`]).

use formant_numerics::Tally;
use serde::{Deserialize, Deserializer, Serialize};

/// The version of this vocabulary, in every log's first line.
pub const FORMAT: u32 = 2;

/// The first version of which every line is sealed.
pub const SEALED_SINCE: u32 = 2;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Opens the log: everything needed to run it again.
    RunStarted(RunStarted),
    /// One method of the run begins (a run may compare several, one after the other).
    MethodStarted {
        /// The method's label in this run.
        method: String,
    },
    /// A round begins.
    RoundStarted {
        /// The method's label.
        method: String,
        /// Counted from 1.
        round: usize,
        /// Client ids, ascending.
        participants: Vec<usize>,
    },
    /// A client finished one phase of its local training.
    PhaseDone {
        /// The method's label.
        method: String,
        /// Counted from 1.
        round: usize,
        /// The client.
        client: usize,
        /// Which of the two.
        phase: Phase,
        /// Wall time.
        seconds: f64,
        /// Samples that went forward and backward.
        samples: u64,
        /// Optimiser steps.
        steps: u64,
        /// Mean objective over the phase's steps; absent when no step was made.
        loss: Option<f64>,
        /// From when to when, by the virtual clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<Span>,
    },
    /// A broadcast reached a client, by the virtual clock.
    Received {
        /// The method's label.
        method: String,
        /// The round that it opens.
        round: usize,
        /// The client.
        client: usize,
        /// Encoded size.
        bytes: u64,
        /// From when to when it was on its way.
        clock: Span,
    },
    /// A client's upload was accepted.
    Uploaded {
        /// The method's label.
        method: String,
        /// Counted from 1.
        round: usize,
        /// The client.
        client: usize,
        /// Encoded size.
        bytes: u64,
        /// From when to when it was on its way, by the virtual clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<Span>,
    },
    /// A client's upload was refused.
    Refused {
        /// The method's label.
        method: String,
        /// The round that it answers.
        round: usize,
        /// The client.
        client: usize,
        /// Encoded size.
        #[serde(default)]
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// A client's phase failed. Its state stays as it was before the phase; if it was the shared
    /// phase, nothing of the client is aggregated and there is no personal phase.
    ClientFailed {
        /// The method's label.
        method: String,
        /// Counted from 1.
        round: usize,
        /// The client.
        client: usize,
        /// Which of the two.
        phase: Phase,
        /// Why.
        error: String,
    },
    /// The server aggregated the round.
    RoundFinished {
        /// The method's label.
        method: String,
        /// Counted from 1.
        round: usize,
        /// Wall time of the whole round without evaluation.
        seconds: f64,
        /// Encoded size of one broadcast of this round.
        broadcast_bytes: u64,
        /// When, by the virtual clock, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<f64>,
    },
    /// Both models were scored.
    Evaluated(Evaluated),
    /// A method's models were written to `models/`, in a folder named by its label.
    ModelsKept {
        /// The method's label.
        method: String,
        /// The round of the generic and the personal models.
        round: usize,
        /// The round of the generic model that scored best; absent if none was scored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        best_round: Option<usize>,
        /// Personal models.
        personal: usize,
        /// Bytes of all files.
        bytes: u64,
        /// Bytes of models that `runtime.keep_limit` has left out, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beyond_limit: Option<u64>,
    },
    /// A method ended: all its rounds done, or stopped early for a reason.
    MethodFinished {
        /// The method's label.
        method: String,
        /// Rounds completed.
        rounds: usize,
        /// Wall time of training and evaluation, over all sessions of a resumed run.
        seconds: f64,
        /// Hash of the final server and client states, equal for equal bits.
        fingerprint: String,
        /// Hash of the final server state alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_fingerprint: Option<String>,
        /// What the virtual clock says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<Runtime>,
        /// Why it stopped before its last round, if it did.
        stopped: Option<String>,
    },
    /// Closes the log.
    RunFinished {
        /// Wall time, over all sessions of a resumed run.
        seconds: f64,
    },
}

/// A stretch of time in seconds since the method began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its beginning.
    pub start: f64,
    /// Its end.
    pub end: f64,
}

/// What the virtual clock says of a whole method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runtime {
    /// Seconds until the last aggregation.
    pub closed: f64,
    /// Seconds until that and the last phase were over; with stragglers, theirs.
    pub seconds: f64,
    /// Seconds of these in which a client computed nothing, in client order.
    pub idle: Vec<f64>,
}

/// When an evaluation's models were ready, by the virtual clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Seconds until the generic model was aggregated.
    pub gm: f64,
    /// Seconds until that and the last personal phase were over.
    pub pm: f64,
}

/// The two phases of a client's round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Trains what is uploaded.
    Shared,
    /// Trains what stays.
    Personal,
}

/// The log's first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub formant: String,
    /// The experiment's name.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Rounds planned.
    pub rounds: usize,
    /// The resolved experiment, every default filled in.
    pub config: serde_json::Value,
    /// The network's name.
    pub network: String,
    /// Its trainable parameters.
    pub parameters: usize,
    /// The dataset's name.
    pub dataset: String,
    /// Which split is scored: `test` or `validation`.
    pub split: String,
    /// Size of the set on which the GM is scored.
    pub global_test: usize,
    /// Per client: samples to train on and samples to score on.
    pub clients: Vec<ClientSize>,
    /// The methods, in the order in which they run.
    pub methods: Vec<MethodInfo>,
}

/// How much data a client holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSize {
    /// Training samples.
    pub train: usize,
    /// Samples that its PM is scored on.
    pub test: usize,
}

/// One method of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodInfo {
    /// Unique in the run.
    pub label: String,
    /// The method's name in the zoo.
    pub name: String,
    /// How tables call it.
    pub title: String,
    /// Whether it trains a generic model; if not, the GM column shows the averaged PM.
    pub generic: bool,
    /// Whether it trains personal models; if not, the PM column shows the GM on local test sets.
    pub personal: bool,
    /// Hyper-parameters, every default filled in.
    pub hyper_parameters: serde_json::Value,
    /// What these make of it, if that is another method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degenerate: Option<String>,
}

/// Scores of both models after a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The method's label.
    pub method: String,
    /// Rounds completed; 0 is before training.
    pub round: usize,
    /// The generic model (or the averaged PM) on the global test set.
    pub gm: Score,
    /// Further models that could be called the generic one, on the same set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gm_candidates: Vec<Candidate>,
    /// The personal models (or the GM) on the local test sets.
    pub pm: PersonalScore,
    /// Wall time of the evaluation.
    pub seconds: f64,
    /// When the models were ready, by the virtual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Ready>,
}

/// A model that could be called the generic one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What the method calls it.
    pub name: String,
    /// Its score on the global test set.
    pub score: Score,
}

/// Accuracy and mean cross-entropy on one set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Fraction right, 0 to 1.
    #[serde(deserialize_with = "figure")]
    pub accuracy: f64,
    /// Mean cross-entropy.
    #[serde(deserialize_with = "figure")]
    pub loss: f64,
}

impl Score {
    /// What a model has on so many samples; none if there are none.
    pub fn of(tally: Tally, samples: usize) -> Option<Self> {
        let count = samples as f64;
        (samples > 0)
            .then(|| Self { accuracy: tally.right as f64 / count, loss: tally.loss / count })
    }
}

/// Accuracy of all clients' personal models. A client without samples to score on counts nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonalScore {
    /// Mean weighted by local test sizes: the paper's figure.
    #[serde(deserialize_with = "figure")]
    pub weighted: f64,
    /// Plain mean over clients.
    #[serde(deserialize_with = "figure")]
    pub mean: f64,
    /// Mean of the worst tenth of the clients, at least one.
    #[serde(deserialize_with = "figure")]
    pub worst_decile: f64,
    /// Every client, in id order; not a number for a client without samples to score on.
    #[serde(deserialize_with = "figures")]
    pub per_client: Vec<f64>,
}

/// JSON has no NaN and writes `null`; reading it back must not fail.
fn figure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let figures: Vec<Option<f64>> = Vec::deserialize(deserializer)?;
    Ok(figures.into_iter().map(|figure| figure.unwrap_or(f64::NAN)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_no_number_survives_the_log() {
        let pm = PersonalScore {
            weighted: 0.5,
            mean: 0.5,
            worst_decile: 0.5,
            per_client: vec![f64::NAN, 0.5],
        };
        let gm = Score { accuracy: 0.1, loss: f64::INFINITY };
        let event = Event::Evaluated(Evaluated {
            method: "a".into(),
            round: 1,
            gm,
            gm_candidates: vec![Candidate { name: "b".into(), score: gm }],
            pm,
            seconds: 0.0,
            clock: None,
        });
        let line = serde_json::to_string(&event).unwrap();
        let Event::Evaluated(read) = serde_json::from_str(&line).unwrap() else {
            panic!("another event")
        };
        assert!(read.pm.per_client[0].is_nan() && read.gm.loss.is_nan());
        assert_eq!(serde_json::to_string(&Event::Evaluated(read)).unwrap(), line);
        // A figure that is left out is no figure.
        assert!(serde_json::from_str::<Score>(r#"{"accuracy":0.1}"#).is_err());
    }
}
