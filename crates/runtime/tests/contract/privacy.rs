//! Client-level differential privacy, in whole runs.

use crate::standard::{case, experiment};
use formant_federation::{Draw, Protocol};
use formant_methods::{Value, Zoo};
use formant_numerics::{Model, Rng, Stream};
use formant_runtime::event::{Event, NoiseSource, Place, Spent};
use formant_runtime::{Hand, Ledger, Privacy, PrivateMean, Quiet, RunPlan, sim};
use formant_testing::{ByHand, DENSE, Folder, federation, run};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// So little clipping and noise that `f32` sees neither.
const NONE: Privacy = Privacy {
    place: Place::Server,
    clip: 1e9,
    noise_multiplier: 1e-30,
    delta: 1e-5,
    noise: NoiseSource::Keyed,
};

/// A plan for some methods over the tiny federation, with more lines of the experiment's file.
fn private(methods: &[&str], lines: &str) -> RunPlan {
    let experiment = experiment(methods, &format!("{DENSE}\n{lines}"));
    experiment.plan_on(federation().clone()).unwrap()
}

const AT_SERVER: &str = "[privacy]\nwhere = \"server\"\nclip = 0.5\nnoise_multiplier = 0.3";
const AT_CLIENT: &str = "[privacy]\nwhere = \"client\"\nclip = 0.5\nnoise_multiplier = 0.3";

/// What a method has spent after each of its rounds.
fn course(folder: &Folder, label: &str) -> Vec<Option<Spent>> {
    let rounds = folder.events().into_iter().filter_map(|event| match event {
        Event::RoundFinished { method, privacy, .. } if method == label => Some(privacy),
        _ => None,
    });
    rounds.collect()
}

#[test]
fn noise_is_the_same_for_any_thread_count_and_after_a_resume() {
    for lines in [AT_SERVER, AT_CLIENT] {
        for name in ["fedavg", "feddyn", "fedavgm", "pfedme", "fedrep", "fedrod", "scd"] {
            let method = format!("name = \"{name}\"");
            let plan = |threads: usize| {
                let plan = private(&[&method], lines);
                RunPlan { threads, ..plan }
            };
            let (one, two) = (run(&plan(1)), run(&plan(2)));
            assert_eq!(one, two, "{name}, {lines}: threads");
            let open = run(&case(&method, DENSE).plan());
            assert_ne!(one.fingerprints, open.fingerprints, "{name}, {lines}: there is noise");
            let folder = Folder::new();
            folder.run_until(&plan(2), 0, 1);
            folder.run(&plan(2)).unwrap();
            assert_eq!(folder.result(), one, "{name}, {lines}: resumed");
            assert!(course(&folder, name).iter().all(Option::is_some), "{name}, {lines}");
        }
    }
}

#[test]
fn without_clip_and_noise_the_server_takes_the_mean_of_equals() {
    let mut plan = case("name = \"fedavg\"", DENSE).plan();
    let mut open = ByHand::new(&plan);
    open.round();
    let sent: Vec<Model> = (0..5).map(|place| open.sent_model(place)).collect();
    let (init, open) = (open.init.clone(), open.gm());
    plan.combine = Arc::new(PrivateMean::new(NONE, plan.protocol.clone()));
    let mut private = ByHand::new(&plan);
    private.round();
    let private = private.gm();
    for (i, private) in private.parameters.iter().enumerate() {
        let mean = sent.iter().map(|sent| f64::from(sent.parameters[i])).sum::<f64>() / 5.0;
        assert!((f64::from(*private) - mean).abs() < 1e-7, "{private} and {mean}");
    }
    // Clients differ in size, so that FedAvg's mean is another one.
    assert!(open != private && private != init);
}

#[test]
fn a_client_sends_its_change_shortened_to_the_clip() {
    let shared = |privacy: Option<Privacy>| -> (Model, Model) {
        let mut plan = case("name = \"fedavg\"", DENSE).plan();
        plan.privacy = privacy;
        let method = &plan.methods[0];
        let init = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
        let erased = &*method.method;
        let got = erased.broadcast(&erased.start_server(&init)).unwrap();
        let mut hand = Hand::new(&*plan.engine, 64);
        let mut state = erased.start_client(&init);
        let desk = plan.desk(method, 1);
        let (sent, _) = desk.shared(1, &mut state, &got, &mut hand).unwrap();
        (model(&sent.unwrap()), init)
    };
    let change = |(sent, init): (Model, Model)| -> Vec<f64> {
        let pairs = sent.parameters.iter().zip(&init.parameters);
        pairs.map(|(sent, init)| f64::from(*sent) - f64::from(*init)).collect()
    };
    let norm = |change: &[f64]| change.iter().map(|x| x * x).sum::<f64>().sqrt();
    let open = change(shared(None));
    let clip = norm(&open) / 8.0;
    let local = Privacy { place: Place::Client, clip, ..NONE };
    let clipped = change(shared(Some(local)));
    assert!((norm(&clipped) / clip - 1.0).abs() < 1e-4, "{} and {clip}", norm(&clipped));
    for (clipped, open) in clipped.iter().zip(&open) {
        assert!((8.0 * clipped - open).abs() < 1e-5, "{clipped} and {open}");
    }
    // One that is short enough is sent as it is, but for rounding.
    let loose = change(shared(Some(Privacy { clip: 16.0 * clip, ..local })));
    assert!(loose.iter().zip(&open).all(|(loose, open)| (loose - open).abs() < 1e-6));
    // With noise, every number differs from what was learnt, and by about as much as was said.
    let noisy = change(shared(Some(Privacy { noise_multiplier: 2.0, ..local })));
    let noise: Vec<f64> =
        noisy.iter().zip(&clipped).map(|(noisy, clipped)| noisy - clipped).collect();
    let deviation = norm(&noise) / (noise.len() as f64).sqrt();
    // Of n = 1,252 draws, within 1/√(2n) or 2 % once in three; here five of these.
    assert!((deviation / (2.0 * clip) - 1.0).abs() < 0.1, "{deviation}");
}

fn model(upload: &Value) -> Model {
    postcard::from_bytes(&upload.encode().unwrap()).unwrap()
}

#[test]
fn the_log_has_what_the_formula_says() {
    let lines = format!("{AT_SERVER}\nsampling = \"poisson\"");
    let methods = ["name = \"local\"", "name = \"fedavg\"\ntrain = { epochs = 1 }"];
    let plan = private(&methods, &lines);
    let protocol = Protocol { participation: 0.6, ..plan.protocol.clone() };
    assert_eq!(protocol.draw, Draw::Tosses);
    let privacy = plan.privacy.unwrap();
    let combine = Arc::new(PrivateMean::new(privacy, protocol.clone()));
    let plan = RunPlan { combine, protocol, ..plan };
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    // Nothing of Local's is ever uploaded.
    assert_eq!(course(&folder, "local"), [None; 3]);
    let rules = plan.rules(&plan.methods[1]);
    let mut ledger = Ledger::new(privacy, rules);
    let spent = course(&folder, "number-1");
    let expected: Vec<_> = (1..=3).map(|round| Some(ledger.spent(round))).collect();
    assert_eq!(spent, expected);
    assert!(spent.is_sorted_by_key(|spent| spent.unwrap().epsilon));
    let by_hand = formant_privacy::Accountant::new(0.3, 0.6).epsilon(3, 1e-5);
    let last = spent[2].unwrap();
    assert_eq!((last.epsilon, last.delta, last.noise), (by_hand, 1e-5, NoiseSource::Keyed));
}

#[test]
fn more_rounds_are_refused_where_all_of_them_share_what_may_be_spent() {
    let lines = "[privacy]\nwhere = \"server\"\nclip = 1\ntarget_epsilon = 8";
    let with = |rounds: usize| {
        let experiment = experiment(&["name = \"fedavg\""], &format!("{DENSE}\n{lines}"));
        let mut settings = experiment.settings().clone();
        settings.rounds = rounds;
        let experiment = formant_experiment::Experiment::new(settings).unwrap();
        experiment.plan_on(federation().clone()).unwrap()
    };
    let folder = Folder::new();
    folder.run(&with(3)).unwrap();
    let spent = course(&folder, "fedavg").pop().unwrap().unwrap();
    assert!(spent.epsilon <= 8.0 && spent.epsilon > 7.999, "{spent:?}");
    let extended = sim::extend(&with(4), folder.path(), &Quiet, &AtomicBool::new(false));
    let error = extended.unwrap_err().to_string();
    assert!(error.contains("privacy.target_epsilon") && error.contains("hint: "), "{error}");
}

#[test]
fn every_method_says_whether_it_can_be_private() {
    for entry in Zoo::standard().entries() {
        for (place, lines) in [("server", AT_SERVER), ("client", AT_CLIENT)] {
            let mut settings = experiment(&["name = \"local\""], DENSE).settings().clone();
            let private = experiment(&["name = \"fedavg\""], &format!("{DENSE}\n{lines}"));
            settings.privacy = private.settings().privacy;
            let method = formant_experiment::MethodSetting::new(
                &Zoo::standard(),
                entry.name,
                &formant_methods::toml::Table::new(),
            );
            settings.methods = vec![method.unwrap()];
            let made = formant_experiment::Experiment::new(settings);
            // It sends label counts.
            if entry.name == "fedgen" {
                let error = made.unwrap_err().to_string();
                assert!(error.starts_with("`fedgen` sends more than"), "{place}: {error}");
            } else {
                made.unwrap();
            }
        }
    }
}
