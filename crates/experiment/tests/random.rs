//! Experiments that are made in Rust, at random: they are what they were made of, and reading what they
//! write gives them again.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use core::time::Duration;
use formant_data::{CATALOGUE, Partition, Repair, Skew};
use formant_experiment::units::{Pixels, Rate, Size, Span};
use formant_experiment::{
    AttackSetting, Attackers, ClassWeights, Data, Devices, Evaluation, Experiment, Links,
    MethodSetting, Moments, Optimiser, Origin, Privacy, Rules, Runtime, Sampling, Settings,
    Strength, Training, Whose,
};
use formant_federation::{Late, Schedule, Until};
use formant_methods::Zoo;
use formant_numerics::{
    Augmentation, Convolution, Family, Measures, Metric, NetworkSpec, Norm, Stem,
};
use formant_runtime::event::Place;
use formant_runtime::{AttackKind, Curve, Guard, Keep, Rule, Scored};
use proptest::prelude::*;
use proptest::{option, sample};
use toml::Table;

fn partition() -> impl Strategy<Value = Partition> {
    let file = ("[a-z/]{1,9}", option::of("[0-9a-f]{32}"));
    prop_oneof![
        Just(Partition::Iid),
        Just(Partition::Natural),
        (1e-6..1e6).prop_map(|alpha| Partition::Dirichlet { alpha }),
        (1e-6..1e6).prop_map(|alpha| Partition::Quantity { alpha }),
        (1usize..100).prop_map(|n| Partition::Pathological { classes_per_client: n }),
        (1usize..100).prop_map(|n| Partition::Shards { shards_per_client: n }),
        (0.01..=1.0, 1e-6..1e6).prop_map(|(class_probability, alpha)| Partition::Bernoulli {
            class_probability,
            alpha
        }),
        file.prop_map(|(file, partition_hash)| Partition::File {
            partition_file: file.into(),
            partition_hash
        }),
    ]
}

fn skew() -> impl Strategy<Value = Skew> {
    prop_oneof![
        Just(Skew::None),
        (0.1..180.0).prop_map(|skew_strength| Skew::Rotation { skew_strength }),
        (0.01..1.0).prop_map(|skew_strength| Skew::Noise { skew_strength }),
        (0.01..1.0).prop_map(|skew_strength| Skew::Colour { skew_strength }),
    ]
}

prop_compose! {
    fn augment()(
        (crop, cutout) in (0u32..9, 0u32..9),
        (flip, rotation) in (0.0..1.0, 0.0..180.0),
        (brightness, contrast, saturation) in (0.0..2.0, 0.0..2.0, 0.0..2.0),
        mixup in prop_oneof![Just(0.0), 0.0..2.0],
        off in any::<bool>(),
    ) -> Augmentation {
        let all = Augmentation { crop, flip, rotation, brightness, contrast, saturation, cutout, mixup };
        if off { Augmentation::NONE } else { all }
    }
}

prop_compose! {
    fn data()(
        origin in origin(),
        samples in option::of(1usize..100_000),
        clients in 20usize..1_000,
        (partition, skew) in (partition(), skew()),
        (min_samples, redraw) in (2usize..1_000, any::<bool>()),
        (seed, new_clients) in (option::of(0u64..1 << 62), option::of(1usize..10)),
        part in option::of((1u32..9, 9u32..1_000)),
        train_fraction in 0.01..0.5,
        validation_fraction in 0.1..0.5,
        augment in augment(),
    ) -> Data {
        let samples = samples.filter(|_| !matches!(partition, Partition::File { .. }));
        let part = part.filter(|_| !matches!(partition, Partition::File { .. }));
        let part = part.map(|(place, of)| format!("{place}/{of}").parse().unwrap());
        // Clients that are there already need not be counted.
        let counted = !matches!(partition, Partition::File { .. } | Partition::Natural);
        let clients = (counted || clients % 2 == 0).then_some(clients);
        let redraw = redraw && matches!(partition, Partition::Dirichlet { .. });
        let repair = if redraw { Repair::Redraw } else { Repair::Move };
        Data {
            origin, part, samples, clients, new_clients, partition, skew, min_samples, repair, seed, train_fraction,
            validation_fraction, augment,
        }
    }
}

prop_compose! {
    fn origin()(
        source in prop_oneof![(0..CATALOGUE.len()).prop_map(|i| CATALOGUE[i].name.to_owned()), "[a-z./]{1,9}"],
        dir in option::of("[a-z/]{1,9}"),
        (label, features, client) in (option::of("[a-z]{1,9}"), option::of("[a-z]{1,9}"), option::of("[a-z]{1,9}")),
        exclude in option::of(prop::collection::vec("[a-z]{1,9}", 0..4)),
        size in option::of((1usize..4_096, 1usize..4_096)),
        test_fraction in option::of(0.0..0.9),
        skip_bad in option::of(any::<bool>()),
        described in option::of(0..CATALOGUE.len()),
    ) -> Origin {
        let dir = dir.map(Into::into);
        let all = Origin {
            source,
            dir,
            label,
            features,
            exclude,
            client,
            size: size.map(|(width, height)| Pixels(formant_numerics::Size { width, height })),
            normalisation: None,
            test_fraction,
            skip_bad,
            description: described.map(|i| CATALOGUE[i].description()),
        };
        // Nothing more can be said of a known dataset.
        if all.known().is_some() { Origin { dir: all.dir, ..Origin::of(all.source) } } else { all }
    }
}

prop_compose! {
    fn network()(
        entry in sample::select(formant_numerics::CATALOGUE),
        norm in option::of(sample::select(&[Norm::Batch, Norm::Group][..])),
        stem in option::of(sample::select(&[Stem::Cifar, Stem::Imagenet][..])),
        width in option::of(1usize..100),
        hidden in option::of(prop::collection::vec(1usize..1_000, 1..4)),
        convolution in option::of(sample::select(&[Convolution::Fast, Convolution::Direct][..])),
        module in option::weighted(0.1, "[A-Za-z]{1,9}"),
    ) -> NetworkSpec {
        if module.is_some() {
            return NetworkSpec { module, ..NetworkSpec::named("module") };
        }
        let plain = NetworkSpec::named(entry.name);
        match entry.family {
            Family::Fixed => plain,
            Family::Mlp => NetworkSpec { hidden, ..plain },
            Family::Convolutional => NetworkSpec { convolution, ..plain },
            Family::ResNet => NetworkSpec { norm, stem, width, convolution, ..plain },
        }
    }
}

fn curve() -> impl Strategy<Value = Curve> {
    prop_oneof![
        Just(Curve::Constant),
        (1e-3..1.0).prop_map(|decay| Curve::Exponential { decay }),
        (1e-3..1.0, 1usize..99).prop_map(|(decay, step_every)| Curve::Step { decay, step_every }),
        (0.0..1.0).prop_map(|floor| Curve::Cosine { floor }),
    ]
}

fn optimiser() -> impl Strategy<Value = Optimiser> {
    let moments = (0.0..0.99, 0.0..0.99, 1e-9..1.0).prop_map(|(beta1, beta2, epsilon)| Moments {
        beta1,
        beta2,
        epsilon,
    });
    prop_oneof![
        (1e-3..0.99, any::<bool>())
            .prop_map(|(momentum, nesterov)| Optimiser::Sgd { momentum, nesterov }),
        moments.clone().prop_map(Optimiser::Adam),
        moments.prop_map(Optimiser::AdamW),
    ]
}

fn class_weights() -> impl Strategy<Value = ClassWeights> {
    prop_oneof![
        Just(ClassWeights::Balanced),
        prop::collection::vec(1e-3..1e3, 1..12).prop_map(ClassWeights::Given),
    ]
}

prop_compose! {
    fn training()(
        (batch, epochs, personal_epochs) in (1usize..65_536, 1usize..10_000, 1usize..10_000),
        (learning_rate, personal_learning_rate) in (1e-9..1e3, option::of(1e-9..1e3)),
        (schedule, warmup) in (curve(), 0usize..2),
        optimiser in optimiser(),
        (weight_decay, clip) in (0.0..1e3, option::of(1e-3..1e9)),
        (label_smoothing, class_weights) in (0.0..0.99, option::of(class_weights())),
        (cost, personal_cost) in (0.001..1e6, 0.001..1e6),
    ) -> Training {
        Training {
            batch, epochs, personal_epochs, learning_rate, personal_learning_rate, schedule, warmup,
            optimiser, weight_decay, clip, label_smoothing, class_weights, cost, personal_cost,
        }
    }
}

fn late() -> impl Strategy<Value = Late> {
    prop_oneof![Just(Late::Drop), (0.0..100.0).prop_map(|exponent| Late::Weigh { exponent })]
}

fn combining() -> impl Strategy<Value = Rule> {
    prop_oneof![
        Just(Rule::Mean),
        (0.01..1e6).prop_map(|clip| Rule::Clipped { clip }),
        Just(Rule::Median),
        (0.0..0.49).prop_map(|trim| Rule::TrimmedMean { trim }),
        (1usize..1_000).prop_map(|steps| Rule::GeometricMedian { steps }),
    ]
}

fn span(least: u64) -> impl Strategy<Value = Span> {
    (least..1_000_000).prop_map(|millis| Span(Duration::from_millis(millis)))
}

prop_compose! {
    fn waiting()(
        participation in 0.01..1.0,
        schedule in sample::select(&[Schedule::WaitFree, Schedule::ComputeAndWait][..]),
        quorum in prop_oneof![0.01..1.0, Just(1.0)],
        min_success in 0.0..1.0,
        deadline in option::of(span(1)),
        late in late(),
        personal in sample::select(&[Whose::Participants, Whose::Everyone][..]),
        until in sample::select(&[Until::Epochs, Until::Broadcast][..]),
        combine in combining(),
        max_share in 0.01..1.0,
    ) -> Rules {
        let personal_until = if schedule == Schedule::WaitFree { until } else { Until::Epochs };
        Rules {
            participation, schedule, quorum, min_success, deadline, late, personal, personal_until, combine,
            max_share,
        }
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let buffered = (1usize..10, 0.0..100.0).prop_map(|(size, exponent)| Rules {
        schedule: Schedule::Buffered { size },
        late: Late::Weigh { exponent },
        ..Rules::default()
    });
    prop_oneof![waiting(), buffered]
}

prop_compose! {
    fn privacy()(
        place in sample::select(&[Place::Server, Place::Client][..]),
        clip in 1e-3..1e6,
        strength in prop_oneof![
            (1e-3..1e6).prop_map(Strength::NoiseMultiplier),
            (1e-3..1e6).prop_map(Strength::TargetEpsilon),
        ],
        delta in option::of(1e-9..0.5),
        sampling in sample::select(&[Sampling::Fixed, Sampling::Poisson][..]),
    ) -> Privacy {
        // What a client sends everybody may know to be its own.
        let sampling = if place == Place::Client { Sampling::Fixed } else { sampling };
        Privacy { place, clip, strength, delta, sampling }
    }
}

/// Whether uploads of one round count in that round alone, and which they are depends on nobody's data.
fn can_be_private(rules: &Rules) -> bool {
    !matches!(rules.schedule, Schedule::Buffered { .. })
        && rules.late == Late::Drop
        && rules.quorum == 1.0
        && (rules.combine, rules.max_share) == (Rule::Mean, Rules::default().max_share)
}

prop_compose! {
    fn links()(
        up in option::of((1e-3..1e12).prop_map(Rate)),
        down in option::of((1e-3..1e12).prop_map(Rate)),
        spread in 0.0..5.0,
        (latency, jitter) in (span(0), span(0)),
        loss in 0.0..0.99,
    ) -> Links {
        Links { up, down, spread, latency, jitter, loss }
    }
}

prop_compose! {
    fn runtime()(
        threads in option::of(1usize..4_096),
        memory in prop_oneof![(0u64..1 << 50).prop_map(Size), (0u64..1 << 20).prop_map(|n| Size(n << 20))],
        checkpoint_every in 1usize..1_000,
        keep in sample::select(&[Keep::All, Keep::Generic, Keep::None][..]),
        keep_limit in (0u64..1 << 50).prop_map(Size),
    ) -> Runtime {
        Runtime { threads, memory, checkpoint_every, keep, keep_limit }
    }
}

fn attack() -> impl Strategy<Value = AttackSetting> {
    let strength = 0.01..1e6;
    let kind = prop_oneof![
        Just(AttackKind::None),
        Just(AttackKind::LabelFlip),
        Just(AttackKind::Zeros),
        strength.clone().prop_map(|strength| AttackKind::SignFlip { strength }),
        strength.clone().prop_map(|strength| AttackKind::Scale { strength }),
        strength.clone().prop_map(|strength| AttackKind::Noise { strength }),
        strength.prop_map(|strength| AttackKind::LittleIsEnough { strength }),
    ];
    let attackers = prop_oneof![
        prop::collection::btree_set(0usize..100, 1..4)
            .prop_map(|clients| Attackers::Clients(clients.into_iter().collect())),
        (0.01..1.0).prop_map(Attackers::Share),
    ];
    (kind, attackers, option::of(1u64..1 << 40), 1usize..100).prop_map(
        |(kind, attackers, samples, from)| AttackSetting { kind, attackers, samples, from },
    )
}

/// Methods that take part in any schedule; the first may be trained otherwise than the rest.
fn methods(own: Option<Training>) -> Vec<MethodSetting> {
    let zoo = Zoo::standard();
    let named = |name| MethodSetting::new(&zoo, name, &Table::new()).unwrap();
    let first = MethodSetting { training: own, ..named("scd") };
    vec![first, named("ditto"), named("scd").labelled("again (1)")]
}

prop_compose! {
    fn settings()(
        name in "[a-zA-Zα\" ]{0,9}",
        (seed, rounds) in (0u64..1 << 62, 2usize..1_000_000),
        data in data(),
        network in network(),
        training in training(),
        own in option::of(1usize..10_000),
        federation in rules(),
        (samples_per_second, spread) in (1e-3..1e12, 0.0..5.0),
        links in links(),
        privacy in option::of(privacy()),
        (every, adapt_epochs, adapt_rate) in (1usize..100, option::of(1usize..1_000), option::of(1e-4..1.0)),
        split in sample::select(&[Scored::Test, Scored::Validation][..]),
        metrics in sample::subsequence(Metric::ALL.to_vec(), 1..=5).prop_shuffle(),
        patience in option::of(1usize..100),
        guard in sample::select(&[Guard::Off, Guard::Best, Guard::Blend, Guard::Bands][..]),
        runtime in runtime(),
        attacks in prop::collection::vec(attack(), 0..3),
    ) -> Settings {
        let own = own.filter(|epochs| *epochs != training.epochs);
        let own = own.map(|epochs| Training { epochs, ..training.clone() });
        let devices = Devices { samples_per_second: Some(samples_per_second), spread };
        let metrics = Measures::new(metrics).unwrap();
        let spectra = (every * 7) % 5;
        let adapt_epochs = adapt_epochs.filter(|_| data.new_clients.is_some());
        let adapt_learning_rate = adapt_rate.filter(|_| data.new_clients.is_some());
        let evaluation = Evaluation {
            every, split, metrics, guard, patience, spectra, adapt_epochs, adapt_learning_rate,
        };
        let methods = methods(own);
        let privacy = privacy.filter(|_| can_be_private(&federation));
        Settings {
            name, seed, rounds, data, network, training, federation, devices, links, privacy,
            evaluation, runtime, attacks, methods,
        }
    }
}

proptest! {
    #[test]
    fn made_in_rust_written_and_read(settings in settings()) {
        let zoo = Zoo::standard();
        let experiment = Experiment::new(settings.clone()).unwrap();
        prop_assert_eq!(experiment.settings(), &settings);
        let text = toml::to_string(&experiment.to_table()).unwrap();
        let read = Experiment::parse(&text.parse().unwrap(), &[], &zoo).unwrap();
        prop_assert_eq!(&read, &experiment);
        prop_assert_eq!(toml::to_string(&read.to_table()).unwrap(), text);
    }
}

/// A change to settings, and how its refusal begins.
type Case<'c> = (&'c dyn Fn(&mut Settings), &'c str);

#[test]
fn settings_of_rust_are_refused_as_those_of_a_file_are() {
    let methods = methods(None);
    let fine = Settings { methods, ..Settings::default() };
    Experiment::new(fine.clone()).unwrap();
    let refusal = |change: &dyn Fn(&mut Settings)| {
        let mut settings = fine.clone();
        change(&mut settings);
        Experiment::new(settings).unwrap_err().to_string()
    };
    let cases: [Case<'_>; 11] = [
        (&|s| s.rounds = 0, "`rounds = 0` is outside its range\nhint: it must be a whole number"),
        (&|s| s.data.clients = Some(0), "`data.clients = 0` is outside its range\nhint: "),
        (&|s| s.data.validation_fraction = 0.5, "`data.train_fraction = 0.75` and"),
        (
            &|s| {
                s.training.optimiser = Optimiser::Sgd { momentum: f64::NAN, nesterov: false };
            },
            "`train.momentum = nan` is outside its range\nhint: ",
        ),
        (&|s| s.network.width = Some(3), "`network.width = 3` does nothing with"),
        (&|s| s.network.name = "lenet".into(), "`network.name = \"lenet\"` is none of the choices"),
        (&|s| s.links.up = Some(Rate(0.0)), "`links.up = \"0B\"` is outside its range\nhint: "),
        (&|s| s.evaluation.split = Scored::Validation, "`evaluation.split = \"validation\"` needs"),
        (&|s| s.methods.clear(), "the experiment has no method\nhint: "),
        (&|s| s.methods[1].label = "scd".into(), "two methods are called `scd`\nhint: "),
        (
            &|s| {
                s.methods[0].training = Some(s.training.clone());
                s.training.clip = Some(1.0);
            },
            "`scd` unsets what is set for the training of all methods\nhint: ",
        ),
    ];
    for (change, expected) in cases {
        let message = refusal(change);
        assert!(message.starts_with(expected), "{message}");
    }
    let late = refusal(&|s| s.seed = u64::MAX);
    assert!(late.contains("the top of the experiment"), "{late}");
}

#[test]
fn an_asynchronous_schedule_always_weighs() {
    let federation =
        Rules { schedule: Schedule::Buffered { size: 3 }, late: Late::Drop, ..Rules::default() };
    let settings = Settings { federation, methods: methods(None), ..Settings::default() };
    let experiment = Experiment::new(settings).unwrap();
    assert_eq!(experiment.federation.late, Late::Weigh { exponent: 0.5 });
}
