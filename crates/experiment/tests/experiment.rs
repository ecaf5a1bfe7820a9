//! Files and command-line changes become experiments, and experiments become files again.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_experiment::{
    Experiment, OneMethod, Optimiser, Override, QUICKSTART, SPEEDUP, Training, choose_methods,
    template,
};
use formant_methods::Zoo;
use toml::Table;

fn parse(text: &str, set: &[&str]) -> Result<Experiment, String> {
    let overrides: Vec<_> = set.iter().map(|s| Override::parse(s).unwrap()).collect();
    let zoo = Zoo::standard();
    Experiment::parse(&text.parse().unwrap(), &overrides, &zoo).map_err(|error| error.to_string())
}

const TWO: &str = "
[train]
learning_rate = 0.3
[[method]]
name = \"ditto\"
train = { epochs = 7 }
[[method]]
name = \"scd\"
label = \"mine\"
";

#[test]
fn a_resolved_experiment_reads_back_as_itself() {
    let template = template(&Zoo::standard());
    for text in [QUICKSTART, SPEEDUP, &template, TWO] {
        let experiment = parse(text, &[]).unwrap();
        let written = toml::to_string(&experiment.to_table()).unwrap();
        assert_eq!(parse(&written, &[]).unwrap(), experiment, "{written}");
    }
}

#[test]
fn metrics_are_known_words_none_of_them_twice() {
    let set = |value: &str| parse(TWO, &[&format!("evaluation.metrics={value}")]);
    let metrics = set("[\"macro_f1\", \"accuracy\"]").unwrap().evaluation.metrics.clone();
    assert_eq!(metrics.first().word(), "macro_f1");
    for (value, expected) in [
        ("[\"macro_f2\"]", "is none of the choices\nhint: did you mean `macro_f1`?"),
        ("[]", "is outside its range\nhint: it must be a list of some of `accuracy`,"),
        ("[\"auroc\", \"auroc\"]", "is outside its range\nhint: "),
        ("\"auroc\"", "is not a list of some of `accuracy`"),
        ("[1]", "is not a list of some of"),
    ] {
        let message = set(value).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    assert!(parse(TWO, &["evaluation.patience=0"]).unwrap_err().contains("at least 1"));
    // What everybody has need not be written, so that logs and keys of results stay what they were.
    let written = parse(TWO, &[]).unwrap().to_table().to_string();
    assert!(!written.contains("metrics") && !written.contains("patience"), "{written}");
}

#[test]
fn a_network_has_no_patience() {
    let one = "[evaluation]\npatience = 3\n[[method]]\nname = \"scd\"";
    let refused = OneMethod::new(parse(one, &[]).unwrap()).unwrap_err().to_string();
    assert!(
        refused.starts_with("`evaluation.patience = 3` works in simulations alone"),
        "{refused}"
    );
    assert!(refused.contains("\nhint: remove evaluation.patience"), "{refused}");
}

#[test]
fn the_built_in_experiment_can_be_run_and_swept() {
    parse(QUICKSTART, &[]).unwrap().plan().unwrap();
    // A sweep needs a validation set.
    let swept = parse(QUICKSTART, &["evaluation.split=validation"]).unwrap().plan().unwrap();
    assert!(swept.scored_globally() > 0);
}

#[test]
fn a_methods_own_settings_lie_over_those_of_all() {
    let experiment = parse(TWO, &["train.batch=3", "method.train.momentum=0.5"]).unwrap();
    let all = &experiment.training;
    let at_rest = Optimiser::Sgd { momentum: 0.0, nesterov: false };
    assert_eq!((all.learning_rate, all.batch, all.optimiser, all.epochs), (0.3, 3, at_rest, 2));
    let [ditto, mine] = &*experiment.methods else { panic!("two methods") };
    let optimiser = Optimiser::Sgd { momentum: 0.5, nesterov: false };
    let own = Training { optimiser, ..all.clone() };
    assert_eq!(ditto.training, Some(Training { epochs: 7, ..own.clone() }));
    assert_eq!(mine.training_beside(all), &own);
    let plan = experiment.plan().unwrap();
    assert_eq!(plan.methods[0].shared.base.epochs, 7);
    assert_eq!(plan.methods[1].personal.base.optimiser.learning_rate, 0.3);
}

#[test]
fn a_change_reaches_every_method_that_has_the_key_or_the_one_that_is_named() {
    let lambda = |set: &[&str]| -> Vec<String> {
        let text = "[[method]]\nname = \"scd\"\n[[method]]\nname = \"scd\"\nlabel = \"b c\"\n[[method]]\nname = \"local\"";
        let experiment = parse(text, set).unwrap();
        let own = experiment.methods.iter().filter_map(|m| m.method.parameters.get("lambda_p"));
        own.map(ToString::to_string).collect()
    };
    assert_eq!(lambda(&["method.lambda_p=3"]), ["3.0", "3.0"]);
    assert_eq!(lambda(&["method.lambda_p=3", "method.b c.lambda_p=4"]), ["3.0", "4.0"]);
}

#[test]
fn methods_are_chosen_by_label_or_from_the_zoo() {
    let mut table: Table = TWO.parse().unwrap();
    let zoo = Zoo::standard();
    choose_methods(&mut table, &["mine".into(), "local".into()], &zoo).unwrap();
    let experiment = Experiment::parse(&table, &[], &zoo).unwrap();
    let chosen: Vec<_> = experiment.methods.iter().map(|m| (&*m.label, m.name())).collect();
    assert_eq!(chosen, [("mine", "scd"), ("local", "local")]);
    let error = choose_methods(&mut table, &["mien".into()], &zoo).unwrap_err().to_string();
    assert!(error.starts_with("unknown method `mien`"), "{error}");
}

#[test]
fn settings_that_would_spoil_a_comparison_are_refused() {
    let participation = "[[method]]\nname = \"local\"\ntrain = { participation = 0.5 }";
    let error = parse(participation, &[]).unwrap_err();
    assert!(error.contains("would compare methods on different clients"), "{error}");
    let twins = "[[method]]\nname = \"scd\"\n[[method]]\nname = \"scd\"";
    assert!(parse(twins, &[]).unwrap_err().starts_with("two methods are called `scd`"));
    for label in ["", "a|b", "x\u{1b}[31m"] {
        let text = format!("[[method]]\nname = \"scd\"\nlabel = {label:?}");
        let text = text.replace("\\u{1b}", "\\u001b");
        assert!(parse(&text, &[]).unwrap_err().contains("cannot name a method"), "{label:?}");
    }
}

#[test]
fn sizes_are_read_with_their_units() {
    let memory = |size: &str| {
        let set = format!("runtime.memory=\"{size}\"");
        parse(TWO, &[&set]).map(|experiment| experiment.plan().unwrap().memory)
    };
    for (size, bytes) in [("0", 0), ("1KiB", 1_024), ("1.5 MB", 1_500_000), ("2gib", 1 << 31)] {
        assert_eq!(memory(size), Ok(bytes), "{size}");
    }
    for size in ["", "much", "1 GiB or so", "-1GB", "1e3"] {
        let error = memory(size).unwrap_err();
        assert!(error.contains("runtime.memory") && error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn rules_that_cannot_work_are_refused_with_a_remedy() {
    let cases: [(&[&str], &str); 11] = [
        (&["federation.schedule=compute"], "`federation.schedule"),
        (&["federation.deadline=soon"], "`federation.deadline = \"soon\"`"),
        (&["federation.deadline=0s"], "`federation.deadline = \"0s\"`"),
        (&["links.up=fast"], "`links.up = \"fast\"`"),
        (&["links.latency=1 fortnight"], "`links.latency = \"1 fortnight\"`"),
        (&["links.loss=1"], "`links.loss"),
        (&["federation.quorum=0"], "`federation.quorum"),
        (&["federation.schedule=buffered", "federation.buffer=21"], "the buffer is never full"),
        (
            &["federation.schedule=buffered", "federation.personal=everyone"],
            "no rounds that a client",
        ),
        (&["federation.personal_until=broadcast"], "needs devices that take time"),
        (
            &[
                "federation.schedule=compute-and-wait",
                "federation.personal_until=broadcast",
                "devices.samples_per_second=10",
            ],
            "would wait for the broadcast that waits for the upload",
        ),
    ];
    for (set, expected) in cases {
        let error = parse(TWO, set).unwrap_err();
        assert!(error.contains(expected) && error.contains("\nhint: "), "{set:?}: {error}");
    }
    let feddyn = "[[method]]\nname = \"feddyn\"";
    for stale in ["federation.late=weigh", "federation.schedule=buffered"] {
        let error = parse(feddyn, &[stale]).unwrap_err();
        assert!(error.starts_with("`feddyn` needs synchronous rounds"), "{error}");
    }
    parse(feddyn, &["federation.quorum=0.5", "federation.deadline=1min"]).unwrap();
}

#[test]
fn rules_reach_the_plan() {
    let set = [
        "federation.schedule=buffered",
        "federation.buffer=3",
        "federation.staleness_exponent=1",
        "federation.deadline=2min",
        "devices.samples_per_second=50",
        "links.down=8Mbit",
        "links.latency=20ms",
        "method.train.personal_cost=1.5",
    ];
    let plan = parse(TWO, &set).unwrap().plan().unwrap();
    assert_eq!(plan.protocol.schedule, formant_federation::Schedule::Buffered { size: 3 });
    assert_eq!(plan.protocol.weight(3), 0.25);
    assert_eq!(plan.protocol.deadline, Some(std::time::Duration::from_secs(120)));
    let profile = &plan.profile;
    assert_eq!((profile.samples_per_second, profile.down, profile.latency), (50.0, 1e6, 0.02));
    assert_eq!(profile.up, f64::INFINITY);
    let costs = plan.methods.iter().map(|method| (method.shared.cost, method.personal.cost));
    assert!(costs.eq([(1.0, 1.5); 2]));
}

#[test]
fn a_section_within_a_section_is_set_checked_and_suggested() {
    let text = "[data.augment]\nflip = 0.5\n[[method]]\nname = \"fedavg\"";
    let experiment = parse(text, &["data.augment.crop=4", "data.clients=7"]).unwrap();
    let augment = experiment.data.augment;
    assert_eq!((augment.crop, augment.flip, augment.mixup), (4, 0.5, 0.0));
    assert_eq!(experiment.data.clients, Some(7));
    let table = experiment.to_table();
    assert_eq!(table["data"]["augment"]["crop"].as_integer(), Some(4));
    let plan = experiment.plan().unwrap();
    let method = &plan.methods[0];
    assert_eq!([method.shared.base.augment, method.personal.base.augment], [augment; 2]);
    // Unset again, nothing of it is left.
    let without = parse(text, &["data.augment.flip="]).unwrap();
    assert!(!without.to_table()["data"].as_table().unwrap().contains_key("augment"));
    for (set, expected) in [
        ("data.augment.crp=4", "unknown key `data.augment.crp`\nhint: did you mean `crop`?"),
        ("data.augmnt.crop=4", "unknown key `data.augmnt`\nhint: did you mean `augment`?"),
        ("data.crop=4", "unknown key `data.crop`\nhint: did you mean `data.augment.crop`?"),
        ("crop=4", "unknown key `crop`\nhint: did you mean `data.augment.crop`?"),
        ("data.augment.flip=2", "`data.augment.flip = 2` is outside its range"),
        ("data.augment=4", "`data.augment = 4` is not a section; write [data.augment]"),
    ] {
        let error = parse(text, &[set]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn mixed_samples_are_refused_for_methods_that_look_at_labels() {
    for (method, title) in [("fedrod", "FedRoD"), ("fedgen", "FedGen")] {
        let text = format!("[data.augment]\nmixup = 0.2\n[[method]]\nname = \"{method}\"");
        let error = parse(&text, &[]).unwrap_err();
        let expected =
            format!("`data.augment.mixup = 0.2` gives every sample two labels, and {title}");
        assert!(error.starts_with(&expected) && error.contains("\nhint: "), "{error}");
        assert!(parse(&text, &["data.augment.mixup=0"]).is_ok());
    }
}

#[test]
fn the_template_shows_every_transformation_behind_a_hash() {
    let text = template(&Zoo::standard());
    let section = text.split("[data.augment]\n").nth(1).unwrap().split("\n[").next().unwrap();
    for key in
        ["crop", "flip", "rotation", "brightness", "contrast", "saturation", "cutout", "mixup"]
    {
        assert!(section.contains(&format!("\n# {key} =\n")), "{section}");
    }
}
