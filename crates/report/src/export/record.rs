//! A run with all that its report shows, for JSON.

use formant_runtime::event::{ClientSize, Detailed, Division, Metric, Ready, Spectra};
use serde::Serialize;
use std::collections::BTreeMap;

use crate::{Evaluation, Further, MethodLog, Row, RunLog, rows};

/// A run as `formant report --json` prints it. Fractions are from 0 to 1; what is not known is `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record<'l> {
    /// What was run.
    pub run: RunFacts<'l>,
    /// The table: one row per method.
    pub rows: Vec<Row>,
    /// Each method by round and by client, in the order of the rows.
    pub methods: Vec<MethodRecord<'l>>,
    /// How much data each client holds; `null` where only the client knows.
    pub clients: &'l [Option<ClientSize>],
    /// Who holds what.
    pub division: Option<&'l Division>,
    /// Wall time of the whole run; `null` while it is unfinished.
    pub seconds: Option<f64>,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunFacts<'l> {
    /// The experiment's name.
    pub name: &'l str,
    /// The seed.
    pub seed: u64,
    /// Version of the program.
    pub formant: &'l str,
    /// The dataset's name.
    pub dataset: &'l str,
    /// The network's name.
    pub network: &'l str,
    /// Its trainable parameters.
    pub parameters: usize,
    /// Which split is scored.
    pub split: &'l str,
    /// What models are scored by.
    pub metrics: Vec<&'static str>,
    /// Size of the set on which the GM is scored.
    pub global_test: usize,
    /// Rounds planned.
    pub rounds: usize,
    /// The resolved experiment.
    pub config: &'l serde_json::Value,
}

/// One method by round and by client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodRecord<'l> {
    /// Unique in the run.
    pub label: &'l str,
    /// Hyper-parameters, every default filled in.
    pub hyper_parameters: &'l serde_json::Value,
    /// Every evaluation, by ascending round.
    pub evaluations: Vec<Scores>,
    /// The PM of every client at the round of the best PM, in client order.
    pub pm_best: &'l [Option<f64>],
    /// The PM of every client at the last evaluation.
    pub pm_last: &'l [Option<f64>],
    /// Accuracy of the last GM on every client's own samples; empty if it was not scored there.
    pub gm_on_clients: &'l [Option<f64>],
    /// Where the last models err.
    pub detail: Option<&'l Detailed>,
    /// How spectra lie to each other, by ascending round.
    pub spectra: Vec<&'l Spectra>,
    /// Hash of the final states.
    pub fingerprint: Option<&'l str>,
}

/// Both models after a round, by the first metric of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Rounds completed; 0 is before training.
    pub round: usize,
    /// The generic model.
    pub gm: Option<f64>,
    /// Its mean cross-entropy.
    pub gm_loss: Option<f64>,
    /// Further models that could be called the generic one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gm_candidates: BTreeMap<String, Option<f64>>,
    /// The PMs, weighted by local test sizes.
    pub pm: Option<f64>,
    /// The PMs, plain mean over clients.
    pub pm_mean: Option<f64>,
    /// Mean of the worst tenth of the clients.
    pub worst_decile: Option<f64>,
    /// Both models by the other metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub further: BTreeMap<&'static str, Further>,
    /// Wall time of the evaluation.
    pub seconds: f64,
    /// When the models were ready, by the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<Ready>,
}

/// Everything that the report of a run shows.
pub fn record(log: &RunLog) -> Record<'_> {
    let run = &log.started;
    let rows = rows(log);
    let methods = log.methods.iter().zip(&rows).map(|(method, row)| {
        let figures = ClientFigures::new(method, row);
        MethodRecord {
            label: &method.info.label,
            hyper_parameters: &method.info.hyper_parameters,
            evaluations: method
                .evaluations
                .iter()
                .map(|(round, found)| scores(*round, found))
                .collect(),
            pm_best: figures.best,
            pm_last: figures.last,
            gm_on_clients: figures.gm,
            detail: method.detail.as_ref(),
            spectra: method.spectra.values().collect(),
            fingerprint: method.finish.as_ref().and_then(|finish| finish.fingerprint.as_deref()),
        }
    });
    Record {
        methods: methods.collect(),
        rows: rows.clone(),
        run: RunFacts {
            name: &run.name,
            seed: run.seed,
            formant: &run.formant,
            dataset: &run.dataset,
            network: &run.network,
            parameters: run.parameters,
            split: &run.split,
            metrics: run.metrics.iter().map(Metric::word).collect(),
            global_test: run.global_test,
            rounds: run.rounds,
            config: &run.config,
        },
        clients: &run.clients,
        division: run.division.as_ref(),
        seconds: log.seconds,
    }
}

fn scores(round: usize, found: &Evaluation) -> Scores {
    Scores {
        round,
        gm: found.gm,
        gm_loss: found.gm_loss,
        gm_candidates: found.gm_candidates.iter().cloned().collect(),
        pm: found.pm,
        pm_mean: found.pm_mean,
        worst_decile: found.worst_decile,
        further: found.further.iter().map(|(metric, by)| (metric.word(), *by)).collect(),
        seconds: found.seconds,
        clock: found.clock,
    }
}

/// What is known of every client with a method; empty where nothing is.
pub(super) struct ClientFigures<'l> {
    /// PMs at the round of the best PM.
    pub(super) best: &'l [Option<f64>],
    /// PMs at the last evaluation.
    pub(super) last: &'l [Option<f64>],
    /// The last GM.
    pub(super) gm: &'l [Option<f64>],
}

impl<'l> ClientFigures<'l> {
    pub(super) fn new(method: &'l MethodLog, row: &Row) -> Self {
        let best = row.best_round_pm.and_then(|round| method.evaluations.get(&round));
        let last = method.last().map(|(_, evaluation)| evaluation);
        let of = |found: Option<&'l Evaluation>| found.map_or(&[][..], |found| &found.per_client);
        let gm = method.detail.as_ref().map_or(&[][..], |detail| &detail.gm_on_clients);
        Self { best: of(best), last: of(last), gm }
    }
}
