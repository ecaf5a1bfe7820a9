//! The event log's vocabulary: one self-describing stream from which every table is computed.
//!
//! A run folder holds one `events.jsonl`, a JSON object per line, tagged by `event`. Readers skip
//! kinds that they do not know; a field is never given a second meaning. What is not known is absent,
//! or `null` where a list has a place for it; there are no placeholders.
//!
//! - Format 1: the lines alone.
//! - Format 2: every line ends with a check that hangs on the line before ([`crate::seal`]).
//! - Format 3: what is not known is absent. Before, a figure that was not a number was `null`, and a
//!   server's log had an empty fingerprint and clients without samples. All three are read.

mod adaptation;
mod insight;
mod privacy;
mod ranks;
mod score;

pub use adaptation::{Adapted, Approach};
pub use insight::{ClientSpectra, Detailed, Division, Errors, LayerSpectrum, Reliability, Spectra};
pub use privacy::{NoiseSource, Place, Spent};
pub use ranks::{RankWork, Ranks};
pub use score::{Candidate, Evaluated, Guarded, PersonalScore, Score, finite};

pub use formant_numerics::{Measures, Metric};
use serde::{Deserialize, Deserializer, Serialize};

/// The version of this vocabulary, in every log's first line.
pub const FORMAT: u32 = 3;

/// The first version of which every line is sealed.
pub const SEALED_SINCE: u32 = 2;

/// The first version in which what is not known is absent.
pub const ABSENT_SINCE: u32 = 3;

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Opens the log: everything needed to run it again.
    RunStarted(Box<RunStarted>),
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
        /// Mean objective over the phase's steps; absent when no step was made, or if it is not finite.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
        /// Mean of what the method's terms (such as SCD's spectral one) have added to the loss, weights
        /// included; absent without terms, or if it is not finite.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terms: Option<f64>,
        /// From when to when, by the virtual clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<Span>,
        /// In a client's own log, of a shared phase: what has been revealed of it once its upload counts;
        /// absent without `[privacy]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        privacy: Option<Spent>,
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
    /// A client's upload was refused for good. The server and the client record the same line, in the
    /// words of [`formant_federation::Refusal`].
    Refused {
        /// The method's label.
        method: String,
        /// The round that it answers.
        round: usize,
        /// The client.
        client: usize,
        /// Encoded size; absent if the client has announced none, or more than the server takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Why, in one word.
        reason: String,
        /// Why, in a sentence; absent in logs of early versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
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
        /// What all rounds up to this one may have revealed; absent without `[privacy]`, and where nothing is
        /// uploaded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        privacy: Option<Spent>,
    },
    /// Both models were scored.
    Evaluated(Evaluated),
    /// How the spectra of some models lie to each other, at an evaluation.
    Spectra(Spectra),
    /// Where a method's last models err.
    Detailed(Detailed),
    /// Clients that joined when training was over have personal models.
    Adapted(Adapted),
    /// Where the method's work was done, if the simulation ran in more than one process.
    Ranks(Ranks),
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
        /// Hash of the final server and client states, equal for equal bits; absent where nobody has
        /// them all.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_empty")]
        fingerprint: Option<String>,
        /// Hash of the final server state alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_fingerprint: Option<String>,
        /// What the virtual clock says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<Runtime>,
        /// Why it stopped before its last round, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<String>,
        /// The round whose models were kept because none after it were better; absent without
        /// `evaluation.patience`. A method that has it and stopped did so as planned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        best_round: Option<usize>,
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
    /// A hash of the data, as far as they are there: a run goes on with the same ones only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_check: Option<String>,
    /// Which split is scored: `test` or `validation`.
    pub split: String,
    /// What models are scored by, the first for tables and rankings; absent if by accuracy alone.
    #[serde(default, skip_serializing_if = "Measures::is_plain")]
    pub metrics: Measures,
    /// Size of the set on which the GM is scored; 0 where there is none.
    pub global_test: usize,
    /// Per client: samples to train on and samples to score on. `None` for a client whose data is its
    /// own business: in a network, nobody else knows.
    pub clients: Vec<Option<ClientSize>>,
    /// What the clients are called, in client order; absent if they are only counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// What was decided about the data that the experiment does not say: samples that were left out, say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Whose log this is.
    #[serde(default, skip_serializing_if = "Side::is_simulation")]
    pub side: Side,
    /// Who holds what; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub division: Option<Division>,
    /// Who attacks the simulation, and how; absent if nobody does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attacks: Vec<AttackInfo>,
    /// What computes, if not Formant's own engine: bits are promised per engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The methods, in the order in which they run.
    pub methods: Vec<MethodInfo>,
}

/// Who writes a log, which decides what it can know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// A simulation knows everything.
    #[default]
    Simulation,
    /// A server knows who uploaded what and when, and nobody's data and personal models.
    Server,
    /// A client knows its own.
    Client,
}

impl Side {
    /// Whether it is a simulation's.
    pub fn is_simulation(&self) -> bool {
        *self == Self::Simulation
    }
}

/// Some clients of a simulation that attack it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackInfo {
    /// What they do, in the word of an experiment.
    pub kind: String,
    /// Who, ascending.
    pub clients: Vec<usize>,
    /// The first round in which they do it.
    pub from: usize,
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

/// Up to format 2, an empty text stood for a fingerprint that nobody knows.
fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.filter(|text: &String| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn evaluated(loss: f64, pm: Option<PersonalScore>) -> Event {
        let gm = Score { accuracy: 0.1, loss: finite(loss), further: BTreeMap::default() };
        Event::Evaluated(Evaluated {
            method: "a".into(),
            round: 1,
            gm: Some(gm.clone()),
            gm_candidates: vec![Candidate { name: "b".into(), score: gm }],
            pm,
            attackers: None,
            guard: None,
            seconds: 0.0,
            clock: None,
        })
    }

    fn read(line: &str) -> Event {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn what_is_not_known_is_absent_and_survives_the_log() {
        let per_client = vec![None, Some(0.5)];
        let further = BTreeMap::default();
        let pm = PersonalScore { weighted: 0.5, mean: 0.5, worst_decile: 0.5, per_client, further };
        let finished = |fingerprint| Event::MethodFinished {
            method: "a".into(),
            rounds: 1,
            seconds: 1.0,
            fingerprint,
            server_fingerprint: None,
            clock: None,
            stopped: None,
            best_round: None,
        };
        let refused = |bytes| Event::Refused {
            method: "a".into(),
            round: 1,
            client: 0,
            bytes,
            reason: "late".into(),
            detail: None,
        };
        for (event, absent) in [
            (evaluated(f64::INFINITY, Some(pm.clone())), "loss"),
            (evaluated(f64::NAN, Some(pm)), "loss"),
            (evaluated(1.0, None), "pm"),
            (finished(None), "fingerprint"),
            (refused(None), "bytes"),
        ] {
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains(absent), "{line}");
            assert_eq!(read(&line), event, "{line}");
        }
        assert!(serde_json::from_str::<Score>(r#"{"loss":0.1}"#).is_err());
    }

    #[test]
    fn what_earlier_formats_wrote_in_its_place_is_read_as_absent() {
        let line = r#"{"event":"evaluated","method":"a","round":1,"gm":{"accuracy":0.1,"loss":null},
            "pm":{"weighted":null,"mean":null,"worst_decile":null,"per_client":[]},"seconds":0.0}"#;
        let Event::Evaluated(found) = read(line) else { panic!("another event") };
        assert_eq!((found.gm.unwrap().loss, found.pm), (None, None));
        let line = r#"{"event":"method_finished","method":"a","rounds":1,"seconds":1.0,
            "fingerprint":"","server_fingerprint":"f","stopped":null}"#;
        let Event::MethodFinished { fingerprint, stopped, .. } = read(line) else {
            panic!("another event")
        };
        assert_eq!((fingerprint, stopped), (None, None));
    }
}
