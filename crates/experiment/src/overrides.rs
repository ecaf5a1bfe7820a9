//! `--set KEY=VALUE` and `--method NAME`: changes to an experiment from the command line.

use crate::ExperimentError;
use crate::origin::{FORMERLY, SOURCE};
use crate::section::{Decision, SECTIONS, Section};
use formant_methods::schema::suggest;
use formant_methods::{ALLOW_DEGENERATE, Entry, Zoo};
use toml::{Table, Value};

/// One change: a dotted key and a value, or none to unset it.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    path: Vec<String>,
    value: Option<Value>,
}

/// A path with the names that keys have today.
fn current(mut path: Vec<String>) -> Vec<String> {
    if let [section, key] = &mut *path
        && section == "data"
        && key == FORMERLY
    {
        SOURCE.clone_into(key);
    }
    path
}

impl Override {
    /// Reads `key.sub=value`; the value is TOML, or else text. An empty value unsets the key.
    ///
    /// ```
    /// use formant_experiment::Override;
    /// assert!(Override::parse("method.lambda_p=3").is_ok());
    /// assert!(Override::parse("data.dataset=cifar10").is_ok());
    /// assert!(Override::parse("rounds").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ExperimentError> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            ExperimentError::combination(
                format!("`--set {text}` has no `=`"),
                "write --set KEY=VALUE, e.g. --set rounds=10 or --set method.lambda_p=3",
            )
        })?;
        let path: Vec<String> = key.trim().split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) {
            return Err(ExperimentError::combination(
                format!("`--set {text}` does not name a key"),
                "write --set KEY=VALUE, e.g. --set rounds=10 or --set method.lambda_p=3",
            ));
        }
        let path = current(path);
        let value = value.trim();
        if value.is_empty() {
            return Ok(Self { path, value: None });
        }
        let parsed = format!("value = {value}").parse::<Table>().ok();
        let parsed = parsed.and_then(|mut table| table.remove("value"));
        Ok(Self { path, value: Some(parsed.unwrap_or_else(|| Value::String(value.into()))) })
    }

    /// A change by its parts.
    pub fn new(path: &[&str], value: impl Into<Value>) -> Self {
        let path = current(path.iter().map(|p| (*p).to_owned()).collect());
        Self { path, value: Some(value.into()) }
    }

    /// The key and its value, unless it unsets the key.
    pub(crate) fn set(&self) -> Option<(&[String], &Value)> {
        self.value.as_ref().map(|value| (&*self.path, value))
    }

    /// The key that it changes, with dots.
    pub fn key(&self) -> String {
        self.path.join(".")
    }

    /// Whether it chooses a partition, a network or an optimiser, each of which has keys of its own.
    pub(crate) fn is_decisive(&self) -> bool {
        self.decided().is_some()
    }

    /// The section in which it decides what other keys mean something, and how.
    fn decided(&self) -> Option<(&'static Section, &'static Decision)> {
        let [.., section, key] = &*self.path else { return None };
        let section = SECTIONS.iter().find(|known| known.name == section)?;
        Some((section, section.decision(key)?))
    }

    /// Drops what a table says about a partition, network or optimiser that is no longer used.
    fn drop_idle(&self, table: &mut Table) {
        if let Some((section, decision)) = self.decided()
            && let Some(Value::Table(section)) = table.get_mut(section.name)
        {
            let chooser = section.clone();
            decision.drop_idle(section, &chooser);
        }
    }

    pub(crate) fn apply(&self, table: &mut Table, zoo: &Zoo) -> Result<(), ExperimentError> {
        if self.path[0] == "method" && self.path.len() > 1 {
            return self.apply_to_methods(table, zoo);
        }
        insert(table, &self.path, self.value.as_ref())?;
        self.drop_idle(table);
        Ok(())
    }

    /// `method.KEY` changes every method that has the key; `method.LABEL.KEY` only that one.
    fn apply_to_methods(&self, table: &mut Table, zoo: &Zoo) -> Result<(), ExperimentError> {
        let mut entries: Vec<&mut Table> = match table.get_mut("method") {
            Some(Value::Table(one)) => vec![one],
            Some(Value::Array(many)) => many.iter_mut().filter_map(Value::as_table_mut).collect(),
            _ => Vec::new(),
        };
        let shown = self.path.join(".");
        if self.path.len() > 2 && self.path[1] != "train" {
            let label = Some(self.path[1].as_str());
            let Some(index) = entries.iter().position(|entry| label_of(entry) == label) else {
                let labels: Vec<&str> = entries.iter().filter_map(|e| label_of(e)).collect();
                return Err(ExperimentError::combination(
                    format!("`--set {shown}` names no method of this experiment"),
                    suggest(&self.path[1], labels.into_iter(), "labels"),
                ));
            };
            insert(entries[index], &self.path[2..], self.value.as_ref())?;
            self.drop_idle(entries[index]);
            return Ok(());
        }
        let key = &self.path[1];
        let takes = |entry: &Entry| {
            entry.keys.iter().any(|known| known.name == key)
                || entry.can_degenerate() && key == ALLOW_DEGENERATE.name
        };
        let has_key = |table: &Table| {
            let named = text_of(table, "name").and_then(|name| zoo.entry(name).ok());
            key == "train" || named.is_some_and(takes)
        };
        let mut changed = false;
        for entry in entries.iter_mut().filter(|entry| has_key(entry)) {
            insert(entry, &self.path[1..], self.value.as_ref())?;
            self.drop_idle(entry);
            changed = true;
        }
        if changed {
            return Ok(());
        }
        let names: Vec<&str> = entries.iter().filter_map(|entry| text_of(entry, "name")).collect();
        let known: Vec<&str> = zoo
            .entries()
            .iter()
            .filter(|e| names.contains(&e.name))
            .flat_map(|e| e.keys.iter().map(|k| k.name))
            .chain(["train"])
            .collect();
        Err(ExperimentError::combination(
            format!("`--set {shown}`: no method of this experiment has the key `{key}`"),
            suggest(key, known.iter().copied(), "keys"),
        ))
    }
}

fn text_of<'t>(entry: &'t Table, key: &str) -> Option<&'t str> {
    entry.get(key).and_then(Value::as_str)
}

/// The label of a `[[method]]`, which is its name unless it has one.
fn label_of(entry: &Table) -> Option<&str> {
    text_of(entry, "label").or_else(|| text_of(entry, "name"))
}

/// Sets or unsets a nested key, making tables on the way.
fn insert(
    table: &mut Table,
    path: &[String],
    value: Option<&Value>,
) -> Result<(), ExperimentError> {
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    let mut at = table;
    for part in parents {
        let next = at.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
        at = match next {
            Value::Table(table) => table,
            other => {
                return Err(ExperimentError::combination(
                    format!("`--set {}`: `{part} = {other}` is not a section", path.join(".")),
                    "name the section first, e.g. --set data.clients=50",
                ));
            }
        };
    }
    match value {
        Some(value) => at.insert(last.clone(), value.clone()),
        None => at.remove(last),
    };
    Ok(())
}

/// Keeps only the named methods: a label of the experiment, or a method's name for all its settings
/// there, or, where there is none, the method with its defaults.
pub fn choose_methods(
    table: &mut Table,
    names: &[String],
    zoo: &Zoo,
) -> Result<(), ExperimentError> {
    if names.is_empty() {
        return Ok(());
    }
    let entries: Vec<Table> = match table.get("method") {
        Some(Value::Table(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_table).cloned().collect(),
        Some(_) | None => Vec::new(),
    };
    let mut chosen: Vec<Table> = Vec::new();
    for name in names {
        // A label means one setting, a method's name all settings of it that the experiment has.
        let by = |word: fn(&Table) -> Option<&str>| -> Vec<&Table> {
            entries.iter().filter(|entry| word(entry) == Some(name)).collect()
        };
        let mut found = by(label_of);
        if found.is_empty() {
            found = by(|entry| text_of(entry, "name"));
        }
        let fresh = if found.is_empty() { Some(fresh(name, &entries, zoo)?) } else { None };
        for entry in found.into_iter().chain(&fresh) {
            if !chosen.contains(entry) {
                chosen.push(entry.clone());
            }
        }
    }
    let chosen = chosen.into_iter().map(Value::Table).collect();
    table.insert("method".into(), Value::Array(chosen));
    Ok(())
}

/// A method of the zoo with its defaults, beside the ones that the experiment has.
fn fresh(name: &str, entries: &[Table], zoo: &Zoo) -> Result<Table, ExperimentError> {
    let labels: Vec<&str> = entries.iter().filter_map(label_of).collect();
    let others = zoo.entries().iter().map(|e| e.name).filter(|name| !labels.contains(name));
    let known = labels.iter().copied().chain(others);
    let entry = zoo.entries().iter().find(|e| e.name == name).ok_or_else(|| {
        ExperimentError::combination(
            format!("unknown method `{name}`"),
            suggest(name, known, "labels of this experiment and methods"),
        )
    })?;
    Ok(Table::from_iter([("name".to_owned(), Value::String(entry.name.into()))]))
}
