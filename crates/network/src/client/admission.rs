//! Whether a client takes part: what the server asks is compared with the rules of this site, step by
//! step, before anything is read, fetched or trained.

use super::bound::Bound;
use super::policy::{Approval, Policy};
use super::vault::Terms;
use crate::error::NetworkError;
use formant_data::Dataset;
use formant_experiment::{ExperimentError, OneMethod, Side};
use formant_federation::Until;
use formant_methods::{Moment, Zoo};
use formant_runtime::Task;
use formant_runtime::quantity::{bytes, count};
use serde::Serialize;
use std::fmt::Write as _;

/// What approves an experiment that no file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accept {
    /// Nothing: the first join shows it and ends.
    Nothing,
    /// Its hash, said by whoever has looked at it.
    Hash(String),
    /// It needs no approval: server and client are one person's, on one machine.
    Anything,
}

/// What a client knows and permits.
#[derive(Clone)]
pub(crate) struct Admission {
    pub(crate) server: String,
    pub(crate) zoo: Zoo,
    pub(crate) policy: Policy,
    pub(crate) accept: Accept,
}

/// Whether this folder has approved the experiment before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Approved,
    Unknown,
}

impl Known {
    /// By what was approved last.
    pub(crate) fn of(approved: Option<&str>, terms: &Terms) -> Self {
        if approved == Some(&*terms.hash()) { Self::Approved } else { Self::Unknown }
    }
}

/// What would run at this client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proposal {
    /// Who asks.
    pub server: String,
    /// The hash of the experiment.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// The method's title.
    pub method: String,
    /// The network.
    pub network: String,
    /// Its parameters.
    pub parameters: u64,
    /// Clients of the federation.
    pub clients: usize,
    /// Rounds.
    pub rounds: u64,
    /// Share of the clients that take part in a round.
    pub participation: f64,
    /// Samples that this client trains on.
    pub samples: u64,
    /// Samples of a step.
    pub batch: u64,
    /// Epochs of the shared phase, whose result is sent.
    pub epochs: u64,
    /// Its steps.
    pub steps: u64,
    /// Epochs of the personal phase, if there is one with an end.
    pub personal_epochs: Option<u64>,
    /// Bytes of a broadcast.
    pub broadcast_bytes: u64,
    /// Bytes of an upload.
    pub upload_bytes: u64,
    /// Bytes of the whole run.
    pub run_bytes: u64,
    /// What is sent in each round.
    pub sends: Vec<String>,
    /// The experiment as the server has sent it.
    pub experiment: String,
}

impl Proposal {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "{what:<12} {value}");
        };
        line("experiment", format!("{} of {}", self.name, self.server));
        line("hash", self.hash.clone());
        line("method", self.method.clone());
        line("network", format!("{}, {} parameters", self.network, count(self.parameters)));
        let share = 100.0 * self.participation;
        line("clients", format!("{}, {share:.0} % in a round", count(self.clients as u64)));
        line("rounds", count(self.rounds));
        line("samples", format!("{} to train on", count(self.samples)));
        line(
            "shared",
            format!(
                "{} epochs in steps of {} samples: {} steps make an upload",
                count(self.epochs),
                count(self.batch),
                count(self.steps)
            ),
        );
        if let Some(epochs) = self.personal_epochs {
            line("personal", format!("{} epochs; what they train stays here", count(epochs)));
        }
        line(
            "traffic",
            format!(
                "{} to this client and {} from it in a round, {} at most in all",
                bytes(self.broadcast_bytes),
                bytes(self.upload_bytes),
                bytes(self.run_bytes)
            ),
        );
        line("sends", self.sends.join(", "));
        text
    }
}

/// What a server asks of any client, as far as it needs no data.
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) sends_only_vectors: bool,
    pub(super) network: &'a str,
    pub(super) parameters: u64,
    pub(super) rounds: u64,
    pub(super) epochs: u64,
}

/// What goes over the network, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) broadcast: u64,
    pub(super) upload: u64,
    pub(super) run: u64,
}

/// How a shared phase goes over this client's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) held: u64,
    pub(super) batch: u64,
    pub(super) epochs: u64,
}

impl Steps {
    /// Steps of a phase: what trains more than that, such as a head of the client's own, is not counted.
    pub(super) fn a_phase(self) -> u64 {
        self.held.div_ceil(self.batch.max(1)).saturating_mul(self.epochs)
    }

    /// Samples of a step.
    pub(super) fn a_step(self) -> u64 {
        self.batch.min(self.held)
    }
}

/// What was found out without any data.
pub(crate) struct Admitted {
    pub(crate) bound: Bound,
    proposal: Proposal,
    steps: Steps,
}

impl Admission {
    /// The rules that need no data of this client, in an order in which nothing large is made before it is
    /// known to be small enough.
    pub(crate) fn admit(
        &self,
        terms: &Terms,
        experiment: &OneMethod,
        described: &Dataset,
    ) -> Result<Admitted, NetworkError> {
        let hash = terms.hash();
        if let Approval::Only(pinned) = &self.policy.experiment
            && *pinned != hash
        {
            return Err(NetworkError::Policy {
                rule: format!("policy.experiment = \"{pinned}\""),
                asked: format!("the experiment `{}`, {hash}", experiment.name),
                remedy: "look at the new experiment (join without --policy shows it), and write its hash into the policy if this site wants it".into(),
            });
        }
        let setting = experiment.method();
        let entry = setting.method.method.entry();
        let mut asked = Asked {
            method: entry.name,
            sends_only_vectors: setting.method.method.sends_only_vectors(),
            network: &experiment.network.name,
            parameters: 0,
            rounds: experiment.rounds as u64,
            epochs: 0,
        };
        // The names first: nothing is built that may not be.
        self.policy.check_plan(&asked)?;
        let (task, header) = experiment.task(described, Side::Server).map_err(impossible)?;
        let (shared, own) = (&task.method.shared.base, &task.method.personal.base);
        let is_personal = task.rules.personal.exists;
        asked.parameters = header.parameters as u64;
        asked.epochs = most_passes(&task);
        self.policy.check_plan(&asked)?;
        let bound = Bound::of(&task, &experiment.network.name)?;
        let traffic = traffic(terms, &bound, asked.rounds);
        self.policy.check_traffic(traffic)?;
        let steps = Steps { held: 0, batch: shared.batch as u64, epochs: shared.epochs as u64 };
        let ends = task.rules.personal.until == Until::Epochs;
        let proposal = Proposal {
            server: self.server.clone(),
            hash,
            name: experiment.name.clone(),
            method: entry.title.into(),
            network: experiment.network.name.clone(),
            parameters: asked.parameters,
            clients: experiment.clients(),
            rounds: asked.rounds,
            participation: task.rules.participation,
            samples: 0,
            batch: 0,
            epochs: steps.epochs,
            steps: 0,
            personal_epochs: (is_personal && ends).then_some(own.epochs as u64),
            broadcast_bytes: traffic.broadcast,
            upload_bytes: traffic.upload,
            run_bytes: traffic.run,
            sends: sends(&task, &bound, &self.policy),
            experiment: terms.experiment.clone(),
        };
        Ok(Admitted { bound, proposal, steps })
    }

    /// The rules about so many training samples, and whether the whole is approved.
    pub(crate) fn admit_samples(
        &self,
        admitted: Admitted,
        samples: usize,
        known: Known,
    ) -> Result<Bound, NetworkError> {
        let Admitted { bound, proposal, steps } = admitted;
        let steps = Steps { held: samples as u64, ..steps };
        if bound.sent > 0 {
            self.policy.check_steps(steps)?;
        }
        let is_approved = match (&self.policy.experiment, &self.accept) {
            (Approval::Any | Approval::Only(_), _) | (_, Accept::Anything) => true,
            (Approval::Ask, Accept::Hash(hash)) if *hash == proposal.hash => true,
            (Approval::Ask, _) => known == Known::Approved,
        };
        if is_approved {
            return Ok(bound);
        }
        let proposal = Proposal {
            samples: steps.held,
            batch: steps.a_step(),
            steps: steps.a_phase(),
            ..proposal
        };
        Err(NetworkError::Unapproved { proposal: Box::new(proposal) })
    }
}

/// How often a phase, or the scoring of a copy that is fine-tuned first, goes over this client's samples at most: epochs, and
/// what a method repeats or adds.
fn most_passes(task: &Task) -> u64 {
    let rounds = task.rules.rounds as usize;
    let of_round = |round| {
        let hints = task.method.method.hints(Moment { round, rounds });
        let own = task.method.personal.base.epochs;
        let personal = if hints.personal_phase { hints.personal.of(own) } else { 0 };
        hints.shared.of(task.method.shared.base.epochs).max(personal).max(hints.scoring)
    };
    // What changes with rounds, such as a warm-up, has begun or ended by the last one.
    of_round(1).max(of_round(rounds)) as u64
}

/// An experiment that cannot be run here, whoever wants it.
fn impossible(error: ExperimentError) -> NetworkError {
    let told = error.to_string();
    if told.contains("\nhint: ") {
        return error.into();
    }
    NetworkError::setting(
        told,
        "have the operator change the experiment: this client cannot run it",
    )
}

/// Every round has a broadcast and an upload, and after the last one there is a broadcast more.
fn traffic(terms: &Terms, bound: &Bound, rounds: u64) -> Traffic {
    let value = if terms.sends_halves() { 2 } else { 4 };
    let broadcast = bound.later();
    let upload = value * bound.sent;
    let run = (broadcast + upload).saturating_mul(rounds).saturating_add(broadcast);
    Traffic { broadcast, upload, run }
}

/// What goes to the server, in words.
fn sends(task: &Task, bound: &Bound, policy: &Policy) -> Vec<String> {
    let mut sends = Vec::new();
    if bound.sent > 0 {
        sends.push(format!(
            "{} numbers that training on this client's samples has made",
            count(bound.sent)
        ));
    }
    sends.push("how many training samples there are".into());
    if !task.method.method.sends_only_vectors() {
        sends.push(
            "what the method adds to them, such as how many samples of each class there are".into(),
        );
    }
    if policy.send_loss && task.privacy.is_none() {
        sends.push("the mean loss of each shared phase".into());
    }
    sends
}
