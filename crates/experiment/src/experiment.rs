//! A validated experiment.

use crate::keys::{self, Section};
use crate::overrides::Override;
use crate::{ExperimentError, combination, units};
use formant_methods::Zoo;
use formant_methods::schema::{SchemaError, resolve, suggest};
use std::path::Path;
use toml::{Table, Value};

/// An experiment in which every key is known, in range and filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    pub(crate) top: Table,
    pub(crate) data: Table,
    pub(crate) network: Table,
    pub(crate) train: Table,
    pub(crate) rules: Table,
    pub(crate) devices: Table,
    pub(crate) links: Table,
    pub(crate) evaluation: Table,
    pub(crate) runtime: Table,
    pub(crate) methods: Vec<MethodSetting>,
}

/// One `[[method]]` of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodSetting {
    /// Unique in the experiment.
    pub label: String,
    /// The method's name in the zoo.
    pub name: String,
    /// Its hyper-parameters, every default filled in.
    pub parameters: Table,
    /// `[train]` with this method's own settings laid over it.
    pub train: Table,
}

impl Experiment {
    /// Reads an experiment file and lays overrides over it.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, ExperimentError> {
        Self::parse(&Self::read_table(path)?, overrides)
    }

    /// Reads a file without judging it.
    pub fn read_table(path: &Path) -> Result<Table, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ExperimentError::Unreadable { path: path.into(), source })?;
        text.parse().map_err(|error: toml::de::Error| ExperimentError::Syntax {
            origin: path.display().to_string(),
            reason: error.to_string().trim_end().replacen("TOML parse error at", "at", 1),
        })
    }

    /// Checks a table and lays overrides over it.
    pub fn parse(table: &Table, overrides: &[Override]) -> Result<Self, ExperimentError> {
        let experiment = Self::parse_for_network(table, overrides)?;
        experiment.check_clock()?;
        Ok(experiment)
    }

    /// The same for a real network, where time passes without devices that say how fast they are.
    pub fn parse_for_network(
        table: &Table,
        overrides: &[Override],
    ) -> Result<Self, ExperimentError> {
        let mut table = table.clone();
        // What a server needs besides the experiment: simulated, it is the same experiment.
        if table.get("server").is_some_and(Value::is_table) {
            table.remove("server");
        }
        // What decides which other keys make sense comes first, whatever the order it was given in.
        let (first, then): (Vec<_>, Vec<_>) = overrides.iter().partition(|o| o.is_decisive());
        for change in first.into_iter().chain(then) {
            change.apply(&mut table)?;
        }
        let mut top = Table::new();
        for (key, value) in &table {
            let is_section = key == "method" || keys::SECTIONS.iter().any(|s| s.name == key);
            if !is_section {
                if !keys::TOP.iter().any(|k| k.name == key) {
                    let hint = keys::elsewhere(key).unwrap_or_else(|| {
                        let known = keys::TOP.iter().map(|k| k.name);
                        let known = known
                            .chain(keys::SECTIONS.iter().map(|s| s.name))
                            .filter(|n| !n.is_empty());
                        suggest(key, known.chain(["method"]), "keys and sections")
                    });
                    return Err(SchemaError::Unknown { path: key.clone(), hint }.into());
                }
                top.insert(key.clone(), value.clone());
            }
        }
        let train = section(&table, "train")?;
        let experiment = Self {
            top: resolve("", keys::TOP, &top)?,
            data: combination::complete_partition(section(&table, "data")?),
            network: section(&table, "network")?,
            rules: section(&table, "federation")?,
            devices: section(&table, "devices")?,
            links: section(&table, "links")?,
            evaluation: section(&table, "evaluation")?,
            runtime: section(&table, "runtime")?,
            methods: methods(&table, &given(&table, "train")?)?,
            train,
        };
        combination::check(&experiment)?;
        experiment.memory()?;
        experiment.keep_limit()?;
        experiment.check_rules()?;
        Ok(experiment)
    }

    /// The name of the run.
    pub fn name(&self) -> &str {
        text(&self.top, "name")
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        integer(&self.top, "seed") as u64
    }

    /// Rounds per method.
    pub fn rounds(&self) -> usize {
        integer(&self.top, "rounds") as usize
    }

    /// The methods, in order.
    pub fn methods(&self) -> &[MethodSetting] {
        &self.methods
    }

    /// Bytes of client states that may stay in memory.
    pub(crate) fn memory(&self) -> Result<u64, ExperimentError> {
        self.size("memory", "client states beyond this are kept on disk")
    }

    /// Bytes of models that may be kept.
    pub(crate) fn keep_limit(&self) -> Result<u64, ExperimentError> {
        self.size("keep_limit", "models beyond this are not kept")
    }

    fn size(&self, key: &str, help: &str) -> Result<u64, ExperimentError> {
        let given = text(&self.runtime, key);
        units::bytes(given).map(|bytes| bytes as u64).ok_or_else(|| {
            SchemaError::Range {
                path: format!("runtime.{key}"),
                value: format!("\"{given}\""),
                expected: "a size such as \"1GiB\", \"512MiB\" or \"2GB\"".into(),
                help: help.into(),
            }
            .into()
        })
    }

    /// The resolved experiment as a table: reading it again gives the same experiment.
    pub fn to_table(&self) -> Table {
        let mut table = self.top.clone();
        for (name, section) in [
            ("data", &self.data),
            ("network", &self.network),
            ("train", &self.train),
            ("federation", &self.rules),
            ("devices", &self.devices),
            ("links", &self.links),
            ("evaluation", &self.evaluation),
            ("runtime", &self.runtime),
        ] {
            table.insert(name.into(), Value::Table(section.clone()));
        }
        let methods = self.methods.iter().map(|method| {
            let mut entry = Table::new();
            entry.insert("name".into(), Value::String(method.name.clone()));
            entry.insert("label".into(), Value::String(method.label.clone()));
            entry.extend(method.parameters.clone());
            let own: Table = method
                .train
                .iter()
                .filter(|(key, value)| self.train.get(*key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            if !own.is_empty() {
                entry.insert("train".into(), Value::Table(own));
            }
            Value::Table(entry)
        });
        table.insert("method".into(), Value::Array(methods.collect()));
        table
    }
}

/// What a file gives for a section.
fn given(table: &Table, name: &str) -> Result<Table, ExperimentError> {
    match table.get(name) {
        None => Ok(Table::new()),
        Some(Value::Table(given)) => Ok(given.clone()),
        Some(other) => Err(SchemaError::Type {
            path: name.into(),
            value: other.to_string(),
            expected: format!("a section; write [{name}] on a line of its own"),
            help: "`formant init` shows all sections".into(),
        }
        .into()),
    }
}

/// A section, checked and filled in.
fn section(table: &Table, name: &str) -> Result<Table, ExperimentError> {
    let keys = keys::SECTIONS.iter().find(|s| s.name == name).map_or(&[][..], |s: &Section| s.keys);
    Ok(resolve(name, keys, &given(table, name)?)?)
}

/// The `[[method]]` entries; one `[method]` is a list of one.
fn methods(table: &Table, train: &Table) -> Result<Vec<MethodSetting>, ExperimentError> {
    let entries: Vec<Table> = match table.get("method") {
        Some(Value::Table(one)) => vec![one.clone()],
        Some(Value::Array(many)) if many.iter().all(Value::is_table) => {
            many.iter().filter_map(Value::as_table).cloned().collect()
        }
        Some(other) => {
            return Err(SchemaError::Type {
                path: "method".into(),
                value: other.to_string(),
                expected: "a section; write [[method]] and name = \"scd\" below it".into(),
                help: "`formant methods` lists what exists".into(),
            }
            .into());
        }
        None => Vec::new(),
    };
    if entries.is_empty() {
        return Err(ExperimentError::combination(
            "the experiment has no method",
            "add a section [[method]] with name = \"scd\"; `formant methods` lists what exists",
        ));
    }
    let mut settings: Vec<MethodSetting> = Vec::new();
    for entry in entries {
        let setting = method(entry, train)?;
        if settings.iter().any(|s| s.label == setting.label) {
            return Err(ExperimentError::combination(
                format!("two methods are called `{}`", setting.label),
                "give each [[method]] a label of its own, e.g. label = \"scd-complex\"",
            ));
        }
        settings.push(setting);
    }
    Ok(settings)
}

fn method(mut entry: Table, train: &Table) -> Result<MethodSetting, ExperimentError> {
    let word = |value: Option<Value>, key: &str| match value {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(other) => Err(SchemaError::Type {
            path: format!("method.{key}"),
            value: other.to_string(),
            expected: "text in quotes".into(),
            help: "`formant methods` lists what exists".into(),
        }),
    };
    let name = word(entry.remove("name"), "name")?.ok_or_else(|| SchemaError::Missing {
        path: "method.name".into(),
        expected: "the name of a method in quotes".into(),
        help: "`formant methods` lists what exists".into(),
    })?;
    let label = word(entry.remove("label"), "label")?.unwrap_or_else(|| name.clone());
    let valid =
        |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ' | '(' | ')' | '=' | ',');
    if label.trim().is_empty() || label.len() > 80 || !label.chars().all(valid) {
        return Err(ExperimentError::combination(
            format!("`method.label = \"{label}\"` cannot name a method"),
            "use letters, digits, spaces and -_.()=, and at most 80 of them",
        ));
    }
    let own = given(&entry, "train")?;
    entry.remove("train");
    if let Some(value) = own.get("participation") {
        return Err(ExperimentError::combination(
            format!(
                "`method.train.participation = {value}` would compare methods on different clients"
            ),
            "set train.participation for all methods",
        ));
    }
    let mut merged = train.clone();
    merged.extend(own);
    let train = resolve("train", keys::TRAIN, &merged)?;
    let parameters = Zoo::standard().build(&name, &entry)?.parameters;
    Ok(MethodSetting { label, name, parameters, train })
}

pub(crate) fn text<'t>(table: &'t Table, key: &str) -> &'t str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn number(table: &Table, key: &str) -> f64 {
    table.get(key).and_then(Value::as_float).unwrap_or_default()
}

pub(crate) fn integer(table: &Table, key: &str) -> i64 {
    table.get(key).and_then(Value::as_integer).unwrap_or_default()
}
