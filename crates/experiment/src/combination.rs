//! Settings that are right by themselves and do not go together.

use crate::federation::combining;
use crate::{ExperimentError, Settings, privacy, training};
use formant_data::{Federation, Partition};
use formant_federation::{Protocol, Until};
use formant_methods::Moment;
use formant_runtime::Scored;

/// Refuses settings that are right by themselves but nonsense together.
pub(crate) fn check(settings: &Settings) -> Result<(), ExperimentError> {
    settings.data.check()?;
    settings.check_mixing()?;
    training::check(settings)?;
    // A file of a division may have validation sets of its own.
    let drawn = !matches!(settings.data.partition, Partition::File { .. });
    if drawn
        && settings.evaluation.split == Scored::Validation
        && settings.data.validation_fraction == 0.0
    {
        return Err(ExperimentError::combination(
            "`evaluation.split = \"validation\"` needs a validation set, but `data.validation_fraction = 0`",
            "set data.validation_fraction, e.g. to 0.25",
        ));
    }
    let guard = settings.evaluation.guard;
    if drawn && !guard.is_off() && settings.data.validation_fraction == 0.0 {
        return Err(ExperimentError::combination(
            format!(
                "`evaluation.guard = \"{}\"` chooses on validation samples, but `data.validation_fraction = 0`",
                guard.word()
            ),
            "set data.validation_fraction, e.g. to 0.25, or evaluation.guard = \"off\"",
        ));
    }
    let epochs = settings.evaluation.adapt_epochs.map(|epochs| epochs.to_string());
    let rate = settings.evaluation.adapt_learning_rate.map(|rate| rate.to_string());
    for (key, value) in [("adapt_epochs", epochs), ("adapt_learning_rate", rate)] {
        if let (Some(value), None) = (value, settings.data.new_clients) {
            return Err(ExperimentError::combination(
                format!("`evaluation.{key} = {value}` does nothing: there are no new clients"),
                format!("set data.new_clients, or remove evaluation.{key}"),
            ));
        }
    }
    check_rules(settings)
}

/// Refuses rules that cannot work, and methods that cannot work with them.
fn check_rules(settings: &Settings) -> Result<(), ExperimentError> {
    // What a number of clients rules out that only the data know is seen when these are there.
    let protocol = settings.protocol(settings.data.trained().unwrap_or(usize::MAX));
    check_protocol(&protocol)?;
    combining::check(settings, &protocol)?;
    privacy::check(settings, &protocol)?;
    let at = Moment { round: 1, rounds: settings.rounds };
    for setting in &settings.methods {
        if !protocol.is_synchronous() && !setting.method.method.hints(at).stale_uploads {
            return Err(ExperimentError::combination(
                format!(
                    "`{}` needs synchronous rounds: every upload answers the newest broadcast, and nobody is left behind",
                    setting.label
                ),
                "leave out that method, or set federation.late = \"drop\" and another schedule than buffered",
            ));
        }
    }
    Ok(())
}

/// Refuses rules that cannot work.
pub(crate) fn check_protocol(protocol: &Protocol) -> Result<(), ExperimentError> {
    match protocol.fault() {
        Some((fault, remedy)) => {
            Err(ExperimentError::combination(format!("[federation]: {fault}"), remedy))
        }
        None => Ok(()),
    }
}

/// Refuses clients of which none has anything to be judged by.
pub(crate) fn check_scored(
    settings: &Settings,
    federation: &Federation,
) -> Result<(), ExperimentError> {
    let split = settings.evaluation.split;
    if !settings.evaluation.guard.is_off()
        && federation.clients.iter().all(|data| data.validation.is_empty())
    {
        return Err(ExperimentError::combination(
            "`evaluation.guard` chooses on validation samples, and no client has any",
            "set evaluation.guard = \"off\", or list validation samples in data.partition_file",
        ));
    }
    let mut holders = federation.clients.iter().chain(&federation.newcomers.clients);
    if split != Scored::Validation || holders.any(|data| !split.of(data).is_empty()) {
        return Ok(());
    }
    Err(ExperimentError::combination(
        "`evaluation.split = \"validation\"` needs a validation set, and no client has one",
        "set evaluation.split = \"test\", or list validation samples in data.partition_file",
    ))
}

/// Refuses rules that cannot work where time is simulated and training takes none.
pub(crate) fn check_clock(settings: &Settings) -> Result<(), ExperimentError> {
    let endless = settings.devices.samples_per_second.is_none();
    if endless && settings.federation.personal_until == Until::Broadcast {
        return Err(ExperimentError::combination(
            "`federation.personal_until = \"broadcast\"` needs devices that take time: without, they would never stop",
            "set devices.samples_per_second; `formant devices` measures it",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Moments, Optimiser, Override, Training};
    use formant_methods::Zoo;
    use formant_runtime::Curve;

    fn parse(text: &str, set: &[&str]) -> Result<Experiment, String> {
        let text = format!("{text}\n[[method]]\nname = \"local\"");
        let overrides: Vec<_> = set.iter().map(|s| Override::parse(s).unwrap()).collect();
        let zoo = Zoo::standard();
        Experiment::parse(&text.parse().unwrap(), &overrides, &zoo)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_an_idle_key_is_refused() {
        for (text, expected) in [
            ("[data]\npartition = \"iid\"\nalpha = 1", "`data.alpha = 1.0` does nothing with"),
            ("[data]\nskew_strength = 3", "`data.skew_strength = 3.0` does nothing with"),
            (
                "[data]\npartition = \"file\"\npartition_file = \"a\"\nsamples = 9",
                "`data.samples = 9` does nothing with",
            ),
            ("[data]\npartition_file = \"a\"", "`data.partition_file = \"a\"` does nothing with"),
            ("[data]\nclasses_per_client = 3", "`data.classes_per_client = 3` does nothing with"),
            ("[network]\nname = \"cnn\"\nhidden = [3]", "`network.hidden = [3]` does nothing"),
            ("[network]\nname = \"mlp\"\nwidth = 3", "`network.width = 3` does nothing with"),
            (
                "[train]\noptimiser = \"adam\"\nmomentum = 0.9",
                "`train.momentum = 0.9` does nothing with `train.optimiser = \"adam\"`",
            ),
            ("[train]\nbeta1 = 0.5", "`train.beta1 = 0.5` does nothing with"),
            ("[train]\nschedule = \"cosine\"\ndecay = 0.9", "`train.decay = 0.9` does nothing"),
            ("[train]\nfloor = 0.9", "`train.floor = 0.9` does nothing with"),
        ] {
            let error = parse(text, &[]).unwrap_err();
            assert!(error.starts_with(expected) && error.contains("\nhint: remove it"), "{error}");
        }
    }

    #[test]
    fn choosing_another_partition_or_network_drops_what_the_file_said_of_the_old_one() {
        let file = "[data]\nalpha = 0.1\n[network]\nname = \"mlp\"\nhidden = [9]";
        let changed = parse(file, &["data.partition=iid", "network.name=lenet5"]).unwrap();
        assert_eq!(changed.data.partition, Partition::Iid);
        assert_eq!((&*changed.network.name, &changed.network.hidden), ("lenet5", &None));
        // What is named on the same command line is not dropped, wherever it stands.
        for set in [["data.alpha=2", "data.partition=iid"], ["data.partition=iid", "data.alpha=2"]]
        {
            assert!(parse(file, &set).unwrap_err().starts_with("`data.alpha = 2.0` does nothing"));
        }
        let same = parse(file, &["data.partition=dirichlet", "network.name=mlp"]).unwrap();
        assert_eq!(same, parse(file, &[]).unwrap());
    }

    #[test]
    fn another_optimiser_drops_what_was_said_of_the_old_one() {
        let file = "[train]\nmomentum = 0.9\nlearning_rate = 0.1\ndecay = 0.9";
        let adam = Optimiser::Adam(Moments::default());
        let changed = parse(file, &["train.optimiser=adam", "train.schedule=cosine"]).unwrap();
        let Training { optimiser, schedule, learning_rate, .. } = changed.training;
        assert_eq!((optimiser, learning_rate), (adam, 0.1));
        assert_eq!(schedule, Curve::Cosine { floor: 0.0 });
        // The same for one method alone, in the file and on the command line.
        let own =
            format!("{file}\n[[method]]\nname = \"fedavg\"\ntrain = {{ optimiser = \"adam\" }}");
        let by_file = parse(&own, &[]).unwrap();
        let other = format!("{file}\n[[method]]\nname = \"fedavg\"\ntrain = {{ momentum = 0.5 }}");
        let set = "method.fedavg.train.optimiser=adam";
        for experiment in [by_file, parse(&other, &[set]).unwrap()] {
            let [fedavg, local] = &*experiment.methods else { panic!("two methods") };
            assert_eq!(fedavg.training.as_ref().unwrap().optimiser, adam);
            assert_eq!(local.training, None);
            let text = toml::to_string(&experiment.to_table()).unwrap();
            let again = Experiment::parse(&text.parse().unwrap(), &[], &Zoo::standard());
            assert_eq!(again.unwrap(), experiment);
            assert_eq!(Experiment::new(experiment.settings().clone()).unwrap(), experiment);
        }
        let kept = parse(file, &["train.optimiser=adam", "train.momentum=0.5"]).unwrap_err();
        assert!(kept.starts_with("`train.momentum = 0.5` does nothing"), "{kept}");
    }

    #[test]
    fn rates_and_decays_suit_the_optimiser_unless_they_are_set() {
        let of = |text: &str| {
            let training = parse(&format!("[train]\n{text}"), &[]).unwrap().training.clone();
            (training.learning_rate, training.weight_decay)
        };
        assert_eq!(of(""), (0.05, 0.0));
        assert_eq!(of("optimiser = \"adam\""), (0.001, 0.0));
        assert_eq!(of("optimiser = \"adamw\""), (0.001, 0.01));
        assert_eq!(of("optimiser = \"adamw\"\nweight_decay = 0\nlearning_rate = 1"), (1.0, 0.0));
    }

    #[test]
    fn training_that_cannot_be_meant_is_refused() {
        let ten = "class_weights = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]";
        parse(&format!("[train]\n{ten}"), &[]).unwrap().plan().unwrap();
        for (text, expected) in [
            ("nesterov = true", "`train.nesterov = true` does nothing with"),
            ("warmup = 40", "`train.warmup = 40` leaves none of `rounds = 40`"),
            ("class_weights = [1, 0]", "`train.class_weights = [1, 0]` is outside its range"),
            ("class_weights = \"even\"", "`train.class_weights = \"even\"` is outside its range"),
            ("class_weights = [\"a\"]", "`train.class_weights = [\"a\"]` is not \"balanced\""),
            ("optimiser = \"adma\"", "`train.optimiser = \"adma\"` is none of the choices"),
            ("class_weights = [1, 2]", "`train.class_weights` has 2 numbers, and the dataset 10"),
        ] {
            let parsed = parse(&format!("[train]\n{text}"), &[]);
            let planned = parsed.and_then(|e| e.plan().map_err(|error| error.to_string()));
            let Err(error) = planned else { panic!("{text} is accepted") };
            assert!(error.starts_with(expected) && error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn an_empty_value_unsets_a_key() {
        let file = "rounds = 3\n[data]\nalpha = 0.1\n[train]\nclip = 1";
        let changed = parse(file, &["data.alpha=", "train.clip=", "rounds="]).unwrap();
        assert_eq!(changed, parse("", &[]).unwrap());
    }
}
