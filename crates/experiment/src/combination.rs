//! Keys that mean something only together with another: refused where they would do nothing.

use crate::experiment::{number, text};
use crate::{Experiment, ExperimentError};
use formant_numerics::CATALOGUE;
use toml::{Table, Value};

/// The key of a section on whose value it depends which other keys mean something.
pub(crate) fn decides(section: &str) -> Option<&'static str> {
    match section {
        "data" => Some("partition"),
        "network" => Some("name"),
        _ => None,
    }
}

/// Whether a key does nothing with what its section has chosen.
pub(crate) fn is_idle(section: &str, key: &str, chosen: &str) -> bool {
    owners(section, key).is_some_and(|owners| !owners.contains(&chosen))
}

/// The partitions or networks for which a key means something; `None` if it does for all.
fn owners(section: &str, key: &str) -> Option<Vec<&'static str>> {
    let networks = |option: &str| {
        let takers = CATALOGUE.iter().filter(|entry| entry.family.takes(option));
        Some(takers.map(|entry| entry.name).collect())
    };
    match (section, key) {
        ("data", "alpha") => Some(vec!["dirichlet"]),
        ("data", "classes_per_client") => Some(vec!["pathological"]),
        ("network", option) if option != "name" => networks(option),
        _ => None,
    }
}

/// Fills in the parameter of the chosen partition, so that the resolved experiment says it.
pub(crate) fn complete_partition(mut data: Table) -> Table {
    let (key, value) = match text(&data, "partition") {
        // The paper's middle value.
        "dirichlet" => ("alpha", Value::Float(0.5)),
        // As most papers have it.
        "pathological" => ("classes_per_client", Value::Integer(2)),
        _ => return data,
    };
    data.entry(key).or_insert(value);
    data
}

/// Refuses settings that are right by themselves but do nothing, or nonsense, together.
pub(crate) fn check(experiment: &Experiment) -> Result<(), ExperimentError> {
    check_idle("data", &experiment.data)?;
    check_idle("network", &experiment.network)?;
    let train = number(&experiment.data, "train_fraction");
    let validation = number(&experiment.data, "validation_fraction");
    if train + validation >= 1.0 {
        return Err(ExperimentError::combination(
            format!(
                "`data.train_fraction = {train}` and `data.validation_fraction = {validation}` leave nothing for the local test sets"
            ),
            "they must add up to less than 1",
        ));
    }
    if text(&experiment.evaluation, "split") == "validation" && validation == 0.0 {
        return Err(ExperimentError::combination(
            "`evaluation.split = \"validation\"` needs a validation set, but `data.validation_fraction = 0`",
            "set data.validation_fraction, e.g. to 0.25",
        ));
    }
    Ok(())
}

fn check_idle(section: &str, table: &Table) -> Result<(), ExperimentError> {
    let Some(decisive) = decides(section) else { return Ok(()) };
    let chosen = text(table, decisive);
    for (key, value) in table {
        if is_idle(section, key, chosen) {
            let owner = owners(section, key).and_then(|owners| owners.first().copied());
            let owner = owner.unwrap_or_default();
            return Err(ExperimentError::combination(
                format!(
                    "`{section}.{key} = {value}` does nothing with `{section}.{decisive} = \"{chosen}\"`"
                ),
                format!("remove it, or set {section}.{decisive} = \"{owner}\""),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Override;

    fn parse(text: &str, set: &[&str]) -> Result<Experiment, String> {
        let text = format!("{text}\n[[method]]\nname = \"local\"");
        let overrides: Vec<_> = set.iter().map(|s| Override::parse(s).unwrap()).collect();
        Experiment::parse(&text.parse().unwrap(), &overrides).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_an_idle_key_is_refused() {
        for (text, expected) in [
            ("[data]\npartition = \"iid\"\nalpha = 1", "`data.alpha = 1.0` does nothing with"),
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
        assert!(changed.data.get("alpha").is_none() && changed.network.get("hidden").is_none());
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
