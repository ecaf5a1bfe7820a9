//! Settings that are right by themselves and do not go together.

use crate::{ExperimentError, Settings};
use formant_data::{ClientData, Partition};
use formant_federation::{Protocol, Until};
use formant_methods::Moment;
use formant_runtime::Scored;

/// Refuses settings that are right by themselves but nonsense together.
pub(crate) fn check(settings: &Settings) -> Result<(), ExperimentError> {
    settings.data.check()?;
    settings.check_mixing()?;
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
    check_rules(settings)
}

/// Refuses rules that cannot work, and methods that cannot work with them.
fn check_rules(settings: &Settings) -> Result<(), ExperimentError> {
    // What a number of clients rules out that only the data know is seen when these are there.
    let protocol = settings.protocol(settings.data.clients.unwrap_or(usize::MAX));
    check_protocol(&protocol)?;
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
    clients: &[ClientData],
) -> Result<(), ExperimentError> {
    let split = settings.evaluation.split;
    if split != Scored::Validation || clients.iter().any(|data| !split.of(data).is_empty()) {
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
    use crate::{Experiment, Override};
    use formant_methods::Zoo;

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
    fn an_empty_value_unsets_a_key() {
        let file = "rounds = 3\n[data]\nalpha = 0.1\n[train]\nclip = 1";
        let changed = parse(file, &["data.alpha=", "train.clip=", "rounds="]).unwrap();
        assert_eq!(changed, parse("", &[]).unwrap());
    }
}
