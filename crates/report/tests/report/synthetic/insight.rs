//! A made-up run of any size that tells everything besides scores.

use formant_runtime::event::{
    ClientSize, ClientSpectra, Detailed, Division, Errors, Evaluated, Event, LayerSpectrum,
    MethodInfo, PersonalScore, Phase, Reliability, Score, Spectra,
};
use std::collections::BTreeMap;

use super::{finished, method, round, started};

/// How large the run is.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) clients: usize,
    pub(crate) classes: usize,
    pub(crate) layers: usize,
    pub(crate) rounds: usize,
}

/// A number from 0 to 1 that looks random and is the same every time.
fn noise(a: usize, b: usize) -> f64 {
    let mixed = (a as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (b as u64 + 7).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Local, FedAvg, Ditto and SCD, and as many others as wanted.
pub(crate) fn methods(others: usize) -> Vec<MethodInfo> {
    let mut methods = vec![
        method("local", "Local", false, true),
        method("fedavg", "FedAvg", true, false),
        method("ditto", "Ditto", true, true),
        method("scd", "SCD", true, true),
    ];
    methods.extend(
        (0..others).map(|id| method(&format!("m{id}"), &format!("Method {id}"), true, true)),
    );
    methods
}

/// The whole log.
pub(crate) fn told(methods: &[MethodInfo], size: Size) -> Vec<Event> {
    let Event::RunStarted(mut run) = started(methods.to_vec(), size.clients, size.rounds) else {
        unreachable!("`started` makes a RunStarted");
    };
    let counts: Vec<Vec<u32>> = (0..size.clients)
        .map(|client| {
            let held = |class| (noise(client, class).powi(6) * 80.0) as u32;
            (0..size.classes).map(held).collect()
        })
        .collect();
    run.clients = counts
        .iter()
        .map(|held| Some(ClientSize { train: held.iter().sum::<u32>() as usize + 1, test: 40 }))
        .collect();
    run.division = Some(Division {
        classes: (0..size.classes).map(|class| format!("class {class}")).collect(),
        counts: (size.clients * size.classes <= Division::MOST).then_some(counts),
        moved: 312,
        divided: 12_000,
        concentration: 0.31,
        drawn_concentration: Some(0.34),
    });
    let mut events = vec![Event::RunStarted(run)];
    for (place, info) in methods.iter().enumerate() {
        one(&mut events, place, info, size);
    }
    events.push(Event::RunFinished { seconds: 60.0 });
    events
}

fn one(events: &mut Vec<Event>, place: usize, info: &MethodInfo, size: Size) {
    let label = info.label.as_str();
    events.push(Event::MethodStarted { method: label.to_owned() });
    for done in 0..=size.rounds {
        if done > 0 {
            let loss = 2.0 / (done as f64).sqrt();
            events.extend(
                round(label, done, 2, Some(loss)).into_iter().map(|event| with_term(event, place)),
            );
        }
        let gained = done as f64 / size.rounds as f64;
        let accuracy = |client: usize| {
            (0.5 + 0.4 * gained + 0.3 * (noise(client, place) - 0.5)).clamp(0.0, 1.0)
        };
        let per_client: Vec<_> = (0..size.clients).map(|client| Some(accuracy(client))).collect();
        events.push(Event::Evaluated(Evaluated {
            clock: None,
            attackers: None,
            guard: None,
            method: label.to_owned(),
            round: done,
            gm: Some(Score {
                accuracy: 0.4 + 0.5 * gained,
                loss: Some(1.0),
                further: BTreeMap::new(),
            }),
            gm_candidates: Vec::new(),
            pm: Some(PersonalScore {
                weighted: 0.9,
                mean: 0.9,
                worst_decile: 0.7,
                per_client,
                further: BTreeMap::new(),
            }),
            seconds: 0.5,
        }));
        events.push(Event::Spectra(spectra(label, place, done, info.personal, size)));
    }
    events.push(Event::Detailed(Detailed {
        method: label.to_owned(),
        round: size.rounds,
        gm: Some(errors(place, size.classes, 400)),
        pm: Some(errors(place + 20, size.classes, 200)),
        gm_on_clients: (0..size.clients)
            .map(|id| Some(0.7 + 0.25 * noise(id, place + 99)))
            .collect(),
    }));
    events.push(finished(label, size.rounds, 12.0, None));
}

/// From the third method on there is a term, which fades.
fn with_term(mut event: Event, place: usize) -> Event {
    if let Event::PhaseDone { terms, round, phase, .. } = &mut event
        && place >= 2
    {
        let strength = if *phase == Phase::Shared { 0.1 } else { 0.5 };
        *terms = Some(strength / *round as f64);
    }
    event
}

fn errors(seed: usize, classes: usize, samples: u64) -> Errors {
    let cell = |class: usize, answer: usize| {
        let found = noise(seed * 131 + class, answer);
        if class == answer {
            (samples as f64 * (0.7 + 0.3 * found)) as u64
        } else {
            (samples as f64 * 0.1 * found.powi(8)) as u64
        }
    };
    let matrix = (0..classes).map(|class| (0..classes).map(|answer| cell(class, answer)).collect());
    let bin = |place: usize| {
        let sure = (place as f64 + 0.5) / 15.0;
        let held = 10 + (place * place * 4) as u64;
        Reliability {
            samples: held,
            right: (held as f64 * (sure - 0.15 * noise(seed, place)).clamp(0.0, 1.0)) as u64,
            confidence: held as f64 * sure,
        }
    };
    Errors {
        confusion: (classes <= Errors::CLASSES).then(|| matrix.collect()),
        reliability: (0..15).map(bin).collect(),
    }
}

fn spectra(label: &str, place: usize, done: usize, personal: bool, size: Size) -> Spectra {
    let whole = done == 0 || done == size.rounds;
    let layers = |seed: usize, spread: f64| -> Vec<LayerSpectrum> {
        let layer = |layer: usize| {
            let bands = if layer.is_multiple_of(2) { 24 } else { 4 };
            let grown = done as f64 / size.rounds as f64;
            let band = |band: usize| {
                let low = (1.0 - band as f64 / f64::from(bands)).powi(3);
                let own = spread * (noise(seed, layer * 64 + band) - 0.5);
                (0.05 * (1.0 + 4.0 * grown * low) * (1.0 + own)) as f32
            };
            LayerSpectrum {
                layer: format!("layer{}.{}", layer / 2, ["weight", "bias"][layer % 2]),
                bands: (0..bands as usize).map(band).collect(),
            }
        };
        (0..size.layers).map(layer).collect()
    };
    let spread = if personal { 0.8 / (1.0 + place as f64) } else { 0.0 };
    let apart = spread * done as f64 / size.rounds as f64;
    let client = |client: usize| ClientSpectra {
        client: client * 3,
        divergence: 0.05 * apart * (1.0 + 0.2 * noise(client, done)),
        low_divergence: 0.02 * apart,
        distance: apart,
        layers: whole.then(|| layers(client + 10, if done == 0 { 0.0 } else { spread })),
    };
    Spectra {
        method: label.to_owned(),
        round: done,
        gm: whole.then(|| layers(1, 0.0)),
        clients: (0..4).map(client).collect(),
    }
}
