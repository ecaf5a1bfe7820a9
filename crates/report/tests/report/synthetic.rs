//! Event logs made up in code, small enough to know every figure by heart.

mod insight;

pub(crate) use insight::{Size, methods, told};

use formant_report::RunLog;
use formant_runtime::event::{
    ClientSize, Evaluated, Event, FORMAT, Measures, MethodInfo, PersonalScore, Phase, RunStarted,
    Score, Side, finite,
};
use formant_runtime::seal::{Check, seal};
use serde_json::json;
use std::collections::BTreeMap;

pub(crate) fn method(label: &str, title: &str, generic: bool, personal: bool) -> MethodInfo {
    MethodInfo {
        label: label.to_owned(),
        name: label.to_owned(),
        title: title.to_owned(),
        generic,
        personal,
        hyper_parameters: json!({"learning_rate": 0.1}),
        degenerate: None,
    }
}

pub(crate) fn started(methods: Vec<MethodInfo>, clients: usize, rounds: usize) -> Event {
    Event::RunStarted(Box::new(RunStarted {
        format: FORMAT,
        formant: "0.1.0".to_owned(),
        name: "a small comparison".to_owned(),
        seed: 7,
        rounds,
        config: json!({"data": {"partition": "dirichlet", "alpha": 0.5}}),
        network: "lenet5".to_owned(),
        parameters: 44_426,
        dataset: "fashion-mnist".to_owned(),
        data_check: None,
        split: "test".to_owned(),
        metrics: Measures::default(),
        global_test: 10_000,
        clients: (0..clients).map(|id| Some(ClientSize { train: 100 + id, test: 20 })).collect(),
        names: Vec::new(),
        remarks: Vec::new(),
        side: Side::default(),
        attacks: Vec::new(),
        division: None,
        engine: None,
        methods,
    }))
}

pub(crate) fn evaluated(method: &str, round: usize, gm: f64, pm: f64, clients: usize) -> Event {
    Event::Evaluated(Evaluated {
        clock: None,
        attackers: None,
        guard: None,
        method: method.to_owned(),
        round,
        gm: Some(Score { accuracy: gm, loss: finite(1.0 - gm), further: BTreeMap::new() }),
        gm_candidates: Vec::new(),
        pm: Some(PersonalScore {
            weighted: pm,
            mean: pm - 0.01,
            worst_decile: pm - 0.1,
            per_client: vec![Some(pm); clients],
            further: BTreeMap::new(),
        }),
        seconds: 0.5,
    })
}

/// A whole round with both phases of every client: 2 s of training, 1,000 bytes per upload.
pub(crate) fn round(method: &str, round: usize, clients: usize, loss: Option<f64>) -> Vec<Event> {
    let participants = (0..clients).collect();
    let mut events = vec![Event::RoundStarted { method: method.to_owned(), round, participants }];
    for client in 0..clients {
        for phase in [Phase::Shared, Phase::Personal] {
            events.push(Event::PhaseDone {
                method: method.to_owned(),
                round,
                client,
                phase,
                seconds: 0.25,
                samples: 50,
                steps: 5,
                loss,
                terms: None,
                clock: None,
                privacy: None,
            });
        }
        let method = method.to_owned();
        events.push(Event::Uploaded { method, round, client, bytes: 1_000, clock: None });
    }
    let method = method.to_owned();
    events.push(Event::RoundFinished {
        privacy: None,
        method,
        round,
        seconds: 2.0,
        broadcast_bytes: 900,
        clock: None,
    });
    events
}

pub(crate) fn failed(method: &str, round: usize, client: usize, error: &str) -> Event {
    Event::ClientFailed {
        method: method.to_owned(),
        round,
        client,
        phase: Phase::Shared,
        error: error.to_owned(),
    }
}

pub(crate) fn finished(method: &str, rounds: usize, seconds: f64, stopped: Option<&str>) -> Event {
    Event::MethodFinished {
        server_fingerprint: None,
        clock: None,
        method: method.to_owned(),
        rounds,
        seconds,
        fingerprint: Some(format!("print-of-{method}")),
        stopped: stopped.map(str::to_owned),
        best_round: None,
    }
}

/// Four methods, three clients, three rounds: FedAvg has no PM, Local no GM, Ditto diverges and
/// stops early, SCD is still at its second round when the log is torn.
pub(crate) fn comparison() -> Vec<Event> {
    let mut events = vec![started(
        vec![
            method("fedavg", "FedAvg", true, false),
            method("local", "Local", false, true),
            method("ditto", "Ditto", true, true),
            method("scd", "SCD", true, true),
        ],
        3,
        3,
    )];
    let scores = [
        ("fedavg", vec![(0.10, 0.99), (0.70, 0.60), (0.974, 0.931), (0.95, 0.92)]),
        ("local", vec![(0.10, 0.10), (0.30, 0.70), (0.99, 0.75), (0.32, 0.75)]),
        ("ditto", vec![(0.10, 0.10), (0.60, 0.80), (f64::NAN, 0.20)]),
        ("scd", vec![(0.10, 0.10), (0.65, 0.7501), (0.71, 0.74)]),
    ];
    for (method, scores) in scores {
        events.push(Event::MethodStarted { method: method.to_owned() });
        for (done, (gm, pm)) in scores.into_iter().enumerate() {
            if done > 0 {
                events.extend(round(method, done, 3, Some(2.0 / done as f64)));
            }
            if method == "ditto" && done == 2 {
                events.push(failed(method, done, 1, "the loss is NaN"));
                events.push(failed(method, done, 2, "the loss is NaN"));
            }
            events.push(evaluated(method, done, gm, pm, 3));
        }
        match method {
            "ditto" => events.push(finished(method, 2, 61.0, Some("every client diverged"))),
            "scd" => {}
            _ => events.push(finished(method, 3, 12.0, None)),
        }
    }
    events
}

/// The events as the recorder writes them.
pub(crate) fn lines(events: &[Event]) -> String {
    sealed(&plain(events))
}

/// The events without checks, to be changed before they are sealed.
pub(crate) fn plain(events: &[Event]) -> String {
    events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
}

/// A log of the first format, whose lines had no checks.
pub(crate) fn early(events: &[Event]) -> String {
    plain(events).replacen(&format!("\"format\":{FORMAT},"), "\"format\":1,", 1)
}

/// Seals every line.
pub(crate) fn sealed(plain: &str) -> String {
    let mut check = Check::default();
    let mut sealed = Vec::new();
    for line in plain.lines() {
        let mut line = line.as_bytes().to_vec();
        check = seal(&mut line, check);
        sealed.extend(line);
        sealed.push(b'\n');
    }
    String::from_utf8(sealed).unwrap()
}

pub(crate) fn parsed(text: &str) -> Result<RunLog, formant_report::ReportError> {
    RunLog::from_reader("runs/x/events.jsonl".as_ref(), text.as_bytes())
}

pub(crate) fn log(events: &[Event]) -> RunLog {
    parsed(&lines(events)).unwrap()
}
