//! What a client lets a server have it do: rules with safe defaults, and a file that changes them.

use super::admission::{Asked, Steps, Traffic};
use crate::approval::is_experiment_hash;
use crate::error::NetworkError;
use crate::settings::parse_bytes;
use formant_experiment::units::Size;
use formant_experiment::{Experiment, ExperimentError};
use formant_methods::Zoo;
use formant_methods::schema::{Default as Preset, Form, Key, Kind, SchemaError, resolve, suggest};
use formant_numerics::CATALOGUE;
use formant_runtime::quantity::count;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;
use toml::Table;

const fn key(name: &'static str, kind: Kind, default: Preset, help: &'static str) -> Key {
    Key { name, symbol: "", kind, default, help }
}

/// The keys of a policy.
pub const POLICY: &[Key] = &[
    key(
        "experiment",
        Kind::Form(&EXPERIMENT),
        Preset::Text(ASK),
        "which experiment this site takes part in: its hash; ask: the first join shows it and wants --accept; any: each that keeps to the other rules",
    ),
    key(
        "methods",
        Kind::Texts,
        Preset::Unset,
        "methods that may be trained; unset: all that this program knows",
    ),
    key(
        "networks",
        Kind::Texts,
        Preset::Unset,
        "networks that may be trained; unset: all that this program knows",
    ),
    key(
        "max_parameters",
        whole(1),
        Preset::Integer(50_000_000),
        "parameters of the largest network",
    ),
    key(
        "min_steps",
        whole(1),
        Preset::Integer(4),
        "fewest optimiser steps of a shared phase on this client's own samples: an upload of one step is a gradient, from which samples can be rebuilt",
    ),
    key(
        "min_batch",
        whole(1),
        Preset::Integer(4),
        "fewest samples of a step, but for what is left at the end of an epoch: a step over one sample tells of that one alone",
    ),
    key(
        "max_batch_share",
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Number(0.5),
        "largest share of this client's samples in one step, so that an epoch is not one step in disguise",
    ),
    key(
        "max_epochs",
        whole(1),
        Preset::Integer(100),
        "most passes over the samples in a phase, or before a model is scored: epochs, and what a method repeats or adds",
    ),
    key("max_rounds", whole(1), Preset::Integer(2_000), "most rounds of a run"),
    key(
        "max_message",
        Kind::Form(&SIZE),
        Preset::Text("512MB"),
        "largest broadcast and largest upload",
    ),
    key(
        "max_traffic",
        Kind::Form(&SIZE),
        Preset::Text("100GB"),
        "most bytes of a whole run, broadcasts and uploads together",
    ),
    key(
        "send_label_counts",
        Kind::Flag,
        Preset::Flag(false),
        "whether a method may send more than what was trained, such as how many samples of each class this client has, as FedGen does",
    ),
    key(
        "send_loss",
        Kind::Flag,
        Preset::Flag(false),
        "whether the server is told the mean loss of each shared phase, for its metrics; never with differential privacy",
    ),
];

const fn whole(min: i64) -> Kind {
    Kind::Integer { min, max: i64::MAX }
}

const ASK: &str = "ask";
const ANY: &str = "any";

const EXPERIMENT: Form = Form {
    description: "the hash of an experiment such as \"sha256:0123…\", \"ask\" or \"any\"",
    accepts: |text| [ASK, ANY].contains(&text) || is_experiment_hash(text),
};

const SIZE: Form = Form {
    description: "a size such as \"512MB\" or \"2GiB\"",
    accepts: |text| parse_bytes(text).is_some(),
};

/// Which experiments a site takes part in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Approval {
    /// Each is approved once, by its hash.
    Ask,
    /// Each that keeps to the other rules.
    Any,
    /// This one.
    Only(String),
}

impl From<String> for Approval {
    fn from(text: String) -> Self {
        match &*text {
            ASK => Self::Ask,
            ANY => Self::Any,
            _ => Self::Only(text),
        }
    }
}

/// What a client lets a server have it do. The default is for whoever has written no file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Which experiments.
    pub experiment: Approval,
    /// Methods by their names; without, all that the client knows.
    pub methods: Option<Vec<String>>,
    /// Networks by their names; without, all.
    pub networks: Option<Vec<String>>,
    /// Parameters of the largest network.
    pub max_parameters: u64,
    /// Fewest steps of a shared phase.
    pub min_steps: u64,
    /// Fewest samples of a step.
    pub min_batch: u64,
    /// Largest share of the client's samples in a step.
    pub max_batch_share: f64,
    /// Most epochs of a phase.
    pub max_epochs: u64,
    /// Most rounds of a run.
    pub max_rounds: u64,
    /// Largest broadcast and largest upload, in bytes.
    pub max_message: Size,
    /// Most bytes of a whole run.
    pub max_traffic: Size,
    /// Whether more may be sent than what was trained, such as how many samples of each class there are.
    pub send_label_counts: bool,
    /// Whether it may be sent the mean loss of a shared phase.
    pub send_loss: bool,
}

impl Default for Policy {
    fn default() -> Self {
        // The table's own defaults satisfy the table, which a test sees to.
        let preset = || resolve(SECTION, POLICY, &Table::new()).ok()?.try_into().ok();
        preset().unwrap_or_else(|| unreachable!("the defaults of a policy are a policy"))
    }
}

const SECTION: &str = "policy";

impl Policy {
    /// Reads a file: keys without a section.
    pub fn read(path: &Path, zoo: &Zoo) -> Result<Self, NetworkError> {
        Self::parse(&Experiment::read_table(path)?, zoo)
    }

    /// The same from a table.
    pub fn parse(given: &Table, zoo: &Zoo) -> Result<Self, NetworkError> {
        let policy: Self =
            resolve(SECTION, POLICY, given)?.try_into().map_err(|error: toml::de::Error| {
                ExperimentError::Syntax { origin: "the policy".into(), reason: error.to_string() }
            })?;
        let methods: Vec<&str> = zoo.entries().iter().map(|entry| entry.name).collect();
        let networks: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        known("methods", policy.methods.as_deref(), &methods)?;
        known("networks", policy.networks.as_deref(), &networks)?;
        Ok(policy)
    }

    /// The rules that need nothing but the experiment.
    pub(super) fn check_plan(&self, asked: &Asked<'_>) -> Result<(), NetworkError> {
        let named = |list: &Option<Vec<String>>, name: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|known| known == name))
        };
        let rule = |key: &str, list: &Option<Vec<String>>| {
            format!("policy.{key} = {:?}", list.clone().unwrap_or_default())
        };
        if !named(&self.methods, asked.method) {
            let rule = rule("methods", &self.methods);
            return Err(refusal(rule, format!("method `{}`", asked.method), "add it to the list"));
        }
        if !named(&self.networks, asked.network) {
            let rule = rule("networks", &self.networks);
            return Err(refusal(
                rule,
                format!("network `{}`", asked.network),
                "add it to the list",
            ));
        }
        if !asked.sends_only_vectors && !self.send_label_counts {
            return Err(refusal(
                "policy.send_label_counts = false".into(),
                format!(
                    "method `{}`, whose uploads hold more than numbers that were trained, such as how many samples of each class there are",
                    asked.method
                ),
                "set it to true if the server may know",
            ));
        }
        at_most("max_parameters", self.max_parameters, asked.parameters, "parameters")?;
        at_most("max_rounds", self.max_rounds, asked.rounds, "rounds")?;
        at_most("max_epochs", self.max_epochs, asked.epochs, "epochs of a phase")
    }

    /// The rules about what goes over the network.
    pub(super) fn check_traffic(&self, traffic: Traffic) -> Result<(), NetworkError> {
        let largest = traffic.broadcast.max(traffic.upload);
        at_most("max_message", self.max_message.0, largest, "bytes in one message")?;
        at_most("max_traffic", self.max_traffic.0, traffic.run, "bytes over the whole run")
    }

    /// The rules about how much of this client's data a step may see. An upload of nothing tells nothing.
    pub(super) fn check_steps(&self, steps: Steps) -> Result<(), NetworkError> {
        let Steps { held, batch, epochs, .. } = steps;
        let (made, seen) = (steps.a_phase(), steps.a_step());
        let origin = format!(
            "(train.batch = {batch} and train.epochs = {epochs} on {held} training samples)"
        );
        if made < self.min_steps {
            return Err(refusal(
                format!("policy.min_steps = {}", self.min_steps),
                format!("{} of a shared phase {origin}", counted(made, "step")),
                "bring more samples, or have the operator set a smaller train.batch or more train.epochs; a smaller rule lets the server see nearly a gradient",
            ));
        }
        if seen < self.min_batch {
            return Err(refusal(
                format!("policy.min_batch = {}", self.min_batch),
                format!("{} of a step {origin}", counted(seen, "sample")),
                "have the operator set a larger train.batch; a smaller rule lets a step tell of few samples",
            ));
        }
        if seen as f64 > self.max_batch_share * held as f64 {
            return Err(refusal(
                format!("policy.max_batch_share = {}", self.max_batch_share),
                format!("{} of a step {origin}", counted(seen, "sample")),
                "bring more samples, or have the operator set a smaller train.batch; a larger rule lets an epoch be one step",
            ));
        }
        Ok(())
    }

    /// A file with every key, what it means and its default.
    ///
    /// ```
    /// use formant_network::client::Policy;
    ///
    /// let written = Policy::template().parse().unwrap();
    /// let zoo = formant_methods::Zoo::standard();
    /// assert_eq!(Policy::parse(&written, &zoo).unwrap(), Policy::default());
    /// ```
    pub fn template() -> String {
        let mut text = String::from(
            "# What this client lets a server have it do (`formant join --policy FILE`). These are the defaults:\n\
             # what is left out is as it stands here. docs/SECURITY.md says what each rule is worth.\n",
        );
        for key in POLICY {
            let mut line = String::new();
            let words = format!("{} ({})", key.help, key.kind.describe());
            text.push('\n');
            for word in words.split(' ') {
                if line.len() + word.len() > 100 {
                    let _ = writeln!(text, "#{line}");
                    line.clear();
                }
                line.push(' ');
                line.push_str(word);
            }
            let _ = writeln!(text, "#{line}");
            let _ = match key.default_value() {
                Some(value) => writeln!(text, "{} = {value}", key.name),
                None => writeln!(text, "# {} = [\"…\"]", key.name),
            };
        }
        text
    }

    /// The keys as a table for people.
    pub fn table() -> String {
        let mut text = String::from("| key | default | |\n| --- | --- | --- |\n");
        for key in POLICY {
            let value =
                key.default_value().map_or("unset".to_owned(), |value| format!("`{value}`"));
            let _ = writeln!(text, "| `{}` | {value} | {} |", key.name, key.help);
        }
        text
    }
}

fn at_most(key: &str, most: u64, asked: u64, what: &str) -> Result<(), NetworkError> {
    if asked <= most {
        return Ok(());
    }
    let (rule, asked) =
        (format!("policy.{key} = {}", count(most)), format!("{} {what}", count(asked)));
    Err(refusal(rule, asked, "set a larger one if this site wants it"))
}

fn refusal(rule: String, asked: String, remedy: &str) -> NetworkError {
    let remedy = format!("{remedy} (--policy FILE; docs/SECURITY.md has the rules)");
    NetworkError::Policy { rule, asked, remedy }
}

fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(number))
}

fn known(key: &str, given: Option<&[String]>, known: &[&str]) -> Result<(), SchemaError> {
    let stranger = given.into_iter().flatten().find(|name| !known.contains(&name.as_str()));
    stranger.map_or(Ok(()), |name| {
        let hint = suggest(name, known.iter().copied(), key);
        Err(SchemaError::Choice {
            path: format!("{SECTION}.{key}"),
            value: format!("\"{name}\""),
            hint,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, NetworkError> {
        Policy::parse(&text.parse().unwrap(), &Zoo::standard())
    }

    fn asked() -> Asked<'static> {
        Asked {
            method: "scd",
            sends_only_vectors: true,
            network: "lenet5",
            parameters: 44_426,
            rounds: 20,
            epochs: 2,
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_a_remedy() {
        for (text, part) in [
            ("min_stepps = 1", "did you mean `min_steps`?"),
            ("min_steps = 0", "`policy.min_steps = 0` is outside its range"),
            ("methods = [\"sdc\"]", "did you mean `scd`?"),
            ("networks = [\"lenet\"]", "did you mean `lenet5`?"),
            ("experiment = \"sha256:1\"", "policy.experiment"),
            ("max_traffic = \"much\"", "policy.max_traffic"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("\nhint: "), "{error}");
        }
        let pinned = format!("sha256:{}", "0f".repeat(32));
        let policy = parse(&format!("experiment = \"{pinned}\"")).unwrap();
        assert_eq!(policy.experiment, Approval::Only(pinned));
    }

    #[test]
    fn every_rule_refuses_what_is_beyond_it_and_nothing_else() {
        let strict = parse(
            "methods = [\"scd\"]\nnetworks = [\"lenet5\"]\nmax_parameters = 44426\nmax_rounds = 20\nmax_epochs = 2",
        )
        .unwrap();
        strict.check_plan(&asked()).unwrap();
        for (beyond, rule) in [
            (Asked { method: "ditto", ..asked() }, "`policy.methods = [\"scd\"]`"),
            (Asked { network: "mlp", ..asked() }, "`policy.networks = [\"lenet5\"]`"),
            (Asked { parameters: 44_427, ..asked() }, "`policy.max_parameters = 44,426`"),
            (Asked { rounds: 21, ..asked() }, "`policy.max_rounds = 20`"),
            (Asked { epochs: 3, ..asked() }, "`policy.max_epochs = 2`"),
            (Asked { sends_only_vectors: false, ..asked() }, "`policy.send_label_counts = false`"),
        ] {
            let error = strict.check_plan(&beyond).unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("\nhint: "), "{error}");
        }
        let traffic = Traffic { broadcast: 10, upload: 20, run: 600 };
        let narrow = |text: &str| parse(text).unwrap().check_traffic(traffic);
        narrow("max_message = \"20\"\nmax_traffic = \"600\"").unwrap();
        let error = narrow("max_message = \"19\"").unwrap_err().to_string();
        assert!(
            error.contains("`policy.max_message = 19`: the server asks for 20 bytes"),
            "{error}"
        );
        assert!(narrow("max_traffic = \"599\"").unwrap_err().to_string().contains("max_traffic"));
    }

    #[test]
    fn a_gradient_in_disguise_is_refused() {
        let policy = Policy::default();
        let steps = |held, batch, epochs| policy.check_steps(Steps { held, batch, epochs });
        // The attack: one step over all samples. Then the same several times over, and single samples.
        for (asked, rule) in [
            (
                (41, 65_536, 1),
                "`policy.min_steps = 4`: the server asks for 1 step of a shared phase",
            ),
            (
                (41, 65_536, 4),
                "`policy.max_batch_share = 0.5`: the server asks for 41 samples of a step",
            ),
            ((41, 1, 1), "`policy.min_batch = 4`: the server asks for 1 sample of a step"),
            ((3, 1, 9), "policy.min_batch"),
            ((20, 10, 1), "policy.min_steps"),
        ] {
            let error = steps(asked.0, asked.1, asked.2).unwrap_err().to_string();
            assert!(error.contains(rule) && error.contains("\nhint: "), "{error}");
        }
        // What people do.
        for (held, batch, epochs) in [(75, 10, 2), (27, 10, 2), (40, 5, 1), (4_000, 20, 2)] {
            steps(held, batch, epochs).unwrap();
        }
    }
}
