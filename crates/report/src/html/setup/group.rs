//! The resolved experiment as facts in words, topic by topic. Keys that have no words here are shown by
//! their names: nothing is left out because it is new.

use std::collections::BTreeSet;

use formant_runtime::event::Metric;
use serde_json::{Map, Value};

use crate::quantity::{count, counted};
use crate::{RunLog, setting};

/// Facts about one topic.
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) facts: Vec<(String, String)>,
}

/// All topics of which the logs know something.
pub(super) fn groups(logs: &[RunLog]) -> Vec<Group> {
    let log = &logs[0];
    let config = &log.started.config;
    let sections = [
        ("Seeds and rounds", seeds(logs)),
        ("Data", data(log)),
        ("Network", network(log)),
        ("Training", section(config, "train", training)),
        ("Federation", federation(config)),
        ("Devices and links", fleet(config)),
        ("Evaluation", evaluation(log)),
        ("Machine", section(config, "runtime", |_| {})),
    ];
    let known = sections.into_iter().filter(|(_, facts)| !facts.is_empty());
    let mut groups: Vec<Group> = known.map(|(title, facts)| Group { title, facts }).collect();
    if config.as_object().is_none_or(Map::is_empty) {
        groups.clear();
    }
    groups
}

/// The facts of a section, and which of its keys have been told.
struct Facts<'c> {
    section: &'c Map<String, Value>,
    told: BTreeSet<&'c str>,
    said: Vec<(String, String)>,
}

impl<'c> Facts<'c> {
    /// What a key holds; it counts as told.
    fn take(&mut self, key: &'c str) -> Option<&'c Value> {
        self.told.insert(key);
        self.section.get(key).filter(|value| !value.is_null())
    }

    fn number(&mut self, key: &'c str) -> Option<f64> {
        self.take(key).and_then(Value::as_f64)
    }

    fn word(&mut self, key: &'c str) -> Option<&'c str> {
        self.take(key).and_then(Value::as_str)
    }

    fn say(&mut self, name: &str, value: impl Into<String>) {
        self.said.push((name.to_owned(), value.into()));
    }

    /// A key as it is, under another name.
    fn tell(&mut self, key: &'c str, name: &str) {
        if let Some(value) = self.take(key) {
            self.say(name, written(value));
        }
    }

    /// The same, with what an unset key means.
    fn tell_or(&mut self, key: &'c str, name: &str, unset: &str) {
        let value = self.take(key).map_or_else(|| unset.to_owned(), written);
        self.say(name, value);
    }

    /// Everything that has not been told.
    fn rest(&mut self) {
        for (key, value) in self.section {
            if !self.told.contains(key.as_str()) && !value.is_null() {
                self.said.push((spoken(key), written(value)));
            }
        }
    }
}

/// The facts of one section of the experiment, told by a function and then by their keys.
fn section<'c>(
    config: &'c Value,
    name: &str,
    tell: impl FnOnce(&mut Facts<'c>),
) -> Vec<(String, String)> {
    let Some(section) = config.get(name).and_then(Value::as_object) else { return Vec::new() };
    let mut facts = Facts { section, told: BTreeSet::new(), said: Vec::new() };
    tell(&mut facts);
    facts.rest();
    facts.said
}

/// A key of an experiment in plain words.
pub(super) fn spoken(key: &str) -> String {
    key.replace('_', " ")
}

/// A value of an experiment without quotes and braces.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) if whole >= 10_000 => count(whole),
            _ => match number.as_f64() {
                Some(tiny) if tiny != 0.0 && tiny.abs() < 1e-4 => format!("{tiny:e}"),
                Some(plain) => plain.to_string(),
                None => number.to_string(),
            },
        },
        Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let pairs =
                map.iter().map(|(key, value)| format!("{} {}", spoken(key), written(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A share in percent, `25 %` or `2.5 %`, that no line breaks.
fn share(fraction: f64) -> String {
    let percent = (fraction * 1e6).round() / 1e4;
    format!("{percent}\u{a0}%")
}

fn seeds(logs: &[RunLog]) -> Vec<(String, String)> {
    let run = &logs[0].started;
    let seeds: Vec<_> = logs.iter().map(|log| log.started.seed.to_string()).collect();
    let own = run.config.get("data").and_then(|data| data.get("seed")).filter(|s| !s.is_null());
    let division = own.map_or_else(|| "as the experiment's".to_owned(), written);
    vec![
        ("seed of all randomness".to_owned(), seeds.join(", ")),
        ("seed of the division of the data".to_owned(), division),
        ("rounds".to_owned(), count(run.rounds as u64)),
    ]
}

fn data(log: &RunLog) -> Vec<(String, String)> {
    let config = &log.started.config;
    section(config, "data", |facts| {
        facts.say("dataset", log.started.dataset.clone());
        facts.tell("source", "source");
        facts.tell_or(
            "normalisation",
            "normalisation",
            "mean and deviation of the training samples",
        );
        facts.tell("samples", "samples of the source");
        facts.say("clients", setting::clients(&log.started.clients));
        if let Some(partition) = setting::partition(config) {
            facts.say("division", partition);
        }
        for key in [
            "clients",
            "partition",
            "class_probability",
            "alpha",
            "classes_per_client",
            "shards_per_client",
            "partition_file",
            "skew",
            "skew_strength",
            "seed",
        ] {
            facts.take(key);
        }
        facts.tell("min_samples", "least samples of a client");
        if let Some(train) = facts.number("train_fraction") {
            let validation = facts.number("validation_fraction").unwrap_or(0.0);
            let test = 1.0 - train - validation;
            facts.say(
                "of each client's samples",
                format!(
                    "{} to train on, {} to choose on, {} to test on",
                    share(train),
                    share(validation),
                    share(test)
                ),
            );
        }
        facts.tell_or("augment", "augmentation", "none");
    })
}

fn network(log: &RunLog) -> Vec<(String, String)> {
    section(&log.started.config, "network", |facts| {
        facts.tell("name", "network");
        facts.say("trainable parameters", count(log.started.parameters as u64));
    })
}

fn training(facts: &mut Facts<'_>) {
    facts.take("participation");
    facts.tell("batch", "batch");
    facts.tell("epochs", "epochs of the shared phase");
    facts.tell("personal_epochs", "epochs of the personal phase");
    facts.tell("learning_rate", "learning rate of the shared phase");
    facts.tell_or("personal_learning_rate", "learning rate of the personal phase", "the same");
    let schedule = schedule(facts);
    facts.say("learning rates over the rounds", schedule);
    if let Some(optimiser) = facts.word("optimiser") {
        let mut words = vec![optimiser.to_owned()];
        for key in ["momentum", "beta1", "beta2", "epsilon"] {
            words.extend(facts.number(key).map(|value| format!("{key} {value}")));
        }
        if facts.take("nesterov") == Some(&Value::Bool(true)) {
            words.push("Nesterov's".to_owned());
        }
        facts.say("optimiser", words.join(", "));
    }
    facts.tell("weight_decay", "weight decay");
    facts.tell_or("clip", "largest norm of a gradient", "no limit");
    facts.tell("label_smoothing", "label smoothing");
    facts.tell_or("class_weights", "weights of classes", "all the same");
    facts.tell("cost", "device time of a sample, shared phase");
    facts.tell("personal_cost", "device time of a sample, personal phase");
}

/// How learning rates go over the rounds, in a sentence.
fn schedule(facts: &mut Facts<'_>) -> String {
    let word = facts.word("schedule").unwrap_or("constant");
    let (decay, every) = (facts.number("decay"), facts.number("step_every"));
    let floor = facts.number("floor");
    let schedule = match (word, decay, every, floor) {
        ("exponential", Some(1.0) | None, _, _) => "constant".to_owned(),
        ("exponential", Some(decay), _, _) => format!("times {decay} from round to round"),
        ("step", Some(decay), Some(every), _) => format!("times {decay} every {every} rounds"),
        ("cosine", _, _, Some(floor)) => {
            format!("a cosine down to {} at the end", share(floor))
        }
        (other, ..) => other.to_owned(),
    };
    match facts.number("warmup") {
        Some(rounds) if rounds > 0.0 => {
            let rounds = counted(rounds as usize, "round");
            format!("{schedule}, after a rise over {rounds}")
        }
        _ => schedule,
    }
}

fn federation(config: &Value) -> Vec<(String, String)> {
    let train = config.get("train");
    let participation = train.and_then(|t| t.get("participation")).and_then(Value::as_f64);
    section(config, "federation", |facts| {
        if let Some(participation) = participation {
            facts.say("clients that take part in a round", share(participation));
        }
        let buffered = facts.section.get("schedule").and_then(Value::as_str) == Some("buffered");
        facts.tell("schedule", "schedule");
        let buffer = facts.take("buffer");
        if let Some(buffer) = buffer.filter(|_| buffered) {
            facts.say("uploads in one aggregation", written(buffer));
        }
        if let Some(quorum) = facts.number("quorum") {
            facts.say("uploads that close a round", share(quorum));
        }
        facts.tell_or("deadline", "deadline of a round", "none");
        let weighed = facts.section.get("late").and_then(Value::as_str) == Some("weigh");
        facts.tell("late", "late uploads");
        let exponent = facts.take("staleness_exponent");
        if let Some(exponent) = exponent.filter(|_| buffered || weighed) {
            facts.say("exponent of staleness", written(exponent));
        }
        facts.tell("personal", "whose personal models are trained");
        facts.tell("personal_until", "a personal phase lasts for");
    })
}

fn fleet(config: &Value) -> Vec<(String, String)> {
    let mut found = section(config, "devices", |facts| {
        let speed = facts.number("samples_per_second");
        let speed = speed.map_or_else(
            || "training takes no time".to_owned(),
            |speed| format!("{speed} samples a second"),
        );
        facts.say("median device", speed);
        facts.tell("spread", "spread of devices (log scale)");
    });
    found.extend(section(config, "links", |facts| {
        facts.tell_or("up", "median link up", "no limit");
        facts.tell_or("down", "median link down", "no limit");
        facts.tell("spread", "spread of links (log scale)");
        facts.tell("latency", "latency");
        facts.tell("jitter", "jitter");
        if let Some(loss) = facts.number("loss") {
            facts.say("packets that are lost", share(loss));
        }
    }));
    let free = |section: &str, keys: &[&str]| {
        keys.iter().all(|key| config.get(section).is_none_or(|s| s.get(*key).is_none()))
    };
    if !found.is_empty()
        && free("devices", &["samples_per_second"])
        && free("links", &["up", "down"])
    {
        return vec![("virtual clock".to_owned(), "none: no device or link was given".to_owned())];
    }
    found
}

fn evaluation(log: &RunLog) -> Vec<(String, String)> {
    let run = &log.started;
    section(&run.config, "evaluation", |facts| {
        let every = facts.number("every").unwrap_or(1.0) as usize;
        let every = if every == 1 { "round".to_owned() } else { counted(every, "round") };
        facts.say("scored every", every);
        facts.take("split");
        facts.say("scored on", format!("the {} split", run.split));
        if run.global_test > 0 {
            let size = counted(run.global_test, "sample");
            facts.say("global test set, for the GM", size);
        }
        facts.take("metrics");
        let metrics: Vec<_> = run.metrics.iter().map(Metric::title).collect();
        facts.say("metrics", metrics.join(", "));
        facts.tell_or("patience", "patience", "none: all rounds are done");
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(section_of: &Value) -> Vec<(String, String)> {
        section(section_of, "train", training)
    }

    #[test]
    fn learning_rates_are_told_in_a_sentence() {
        let of = |train: Value| {
            let facts = told(&json!({ "train": train }));
            let found = facts.into_iter().find(|(name, _)| name.starts_with("learning rates"));
            found.unwrap().1
        };
        assert_eq!(of(json!({"schedule": "exponential", "decay": 1.0})), "constant");
        assert_eq!(
            of(json!({"schedule": "step", "decay": 0.1, "step_every": 10, "warmup": 3})),
            "times 0.1 every 10 rounds, after a rise over 3 rounds"
        );
        assert_eq!(
            of(json!({"schedule": "cosine", "floor": 0.05})),
            "a cosine down to 5\u{a0}% at the end"
        );
    }

    #[test]
    fn a_key_without_words_is_shown_by_its_name() {
        let facts = told(&json!({ "train": {"batch": 20, "brand_new": [1, 2], "optimiser": "sgd",
            "momentum": 0.9, "nesterov": true} }));
        let has = |name: &str, value: &str| facts.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("batch", "20") && has("brand new", "1, 2"), "{facts:?}");
        assert!(has("optimiser", "sgd, momentum 0.9, Nesterov's"), "{facts:?}");
    }

    #[test]
    fn without_devices_there_is_no_clock() {
        let bare = json!({"devices": {"spread": 0.0}, "links": {"spread": 0.0, "loss": 0.0}});
        assert_eq!(fleet(&bare)[0].0, "virtual clock");
        let given = json!({"devices": {"spread": 0.3, "samples_per_second": 300},
            "links": {"up": "1Mbit", "loss": 0.01}});
        let facts = fleet(&given);
        assert!(facts.contains(&("median device".to_owned(), "300 samples a second".to_owned())));
        assert!(facts.contains(&("packets that are lost".to_owned(), "1\u{a0}%".to_owned())));
    }
}
