//! `--set KEY=VALUE` and `--method NAME`: changes to an experiment from the command line.

use crate::{ExperimentError, combination};
use formant_methods::schema::suggest;
use formant_methods::{ALLOW_DEGENERATE, Entry, Zoo};
use toml::{Table, Value};

/// One change: a dotted key and a value, or none to unset it.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    path: Vec<String>,
    value: Option<Value>,
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
        let path = path.iter().map(|p| (*p).to_owned()).collect();
        Self { path, value: Some(value.into()) }
    }

    /// Whether it chooses a partition or a network, each of which has keys of its own.
    pub(crate) fn is_decisive(&self) -> bool {
        matches!(&*self.path, [section, key] if combination::decides(section) == Some(key.as_str()))
    }

    pub(crate) fn apply(&self, table: &mut Table) -> Result<(), ExperimentError> {
        if self.path[0] == "method" && self.path.len() > 1 {
            return self.apply_to_methods(table);
        }
        insert(table, &self.path, self.value.as_ref())?;
        if self.is_decisive()
            && let Some(chosen) = self.value.as_ref().and_then(Value::as_str)
            && let Some(Value::Table(section)) = table.get_mut(&self.path[0])
        {
            // What the file says about a partition or network that is no longer used.
            section.retain(|key, _| !combination::is_idle(&self.path[0], key, chosen));
        }
        Ok(())
    }

    /// `method.KEY` changes every method that has the key; `method.LABEL.KEY` only that one.
    fn apply_to_methods(&self, table: &mut Table) -> Result<(), ExperimentError> {
        let mut entries: Vec<&mut Table> = match table.get_mut("method") {
            Some(Value::Table(one)) => vec![one],
            Some(Value::Array(many)) => many.iter_mut().filter_map(Value::as_table_mut).collect(),
            _ => Vec::new(),
        };
        let shown = self.path.join(".");
        let label_of = |entry: &Table| {
            let label = entry.get("label").or_else(|| entry.get("name"));
            label.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let labels: Vec<String> = entries.iter().map(|entry| label_of(entry)).collect();
        if self.path.len() > 2 && self.path[1] != "train" {
            let Some(index) = labels.iter().position(|label| *label == self.path[1]) else {
                return Err(ExperimentError::combination(
                    format!("`--set {shown}` names no method of this experiment"),
                    suggest(&self.path[1], labels.iter().map(String::as_str), "labels"),
                ));
            };
            return insert(entries[index], &self.path[2..], self.value.as_ref());
        }
        let (key, zoo) = (&self.path[1], Zoo::standard());
        let has_key = |table: &Table| {
            let name = table.get("name").and_then(Value::as_str).unwrap_or_default();
            let takes = |e: &Entry| {
                e.keys.iter().any(|k| k.name == key)
                    || e.can_degenerate() && key == ALLOW_DEGENERATE.name
            };
            key == "train" || zoo.entry(name).is_ok_and(takes)
        };
        let mut changed = false;
        for entry in entries.iter_mut().filter(|entry| has_key(entry)) {
            insert(entry, &self.path[1..], self.value.as_ref())?;
            changed = true;
        }
        if changed {
            return Ok(());
        }
        let names: Vec<&str> = entries.iter().filter_map(|e| e.get("name")?.as_str()).collect();
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
                    format!("`--set {}`: `{part} = {other}` is no section", path.join(".")),
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
pub fn choose_methods(table: &mut Table, names: &[String]) -> Result<(), ExperimentError> {
    if names.is_empty() {
        return Ok(());
    }
    let entries: Vec<Value> = match table.get("method") {
        Some(Value::Table(one)) => vec![Value::Table(one.clone())],
        Some(Value::Array(many)) => many.clone(),
        _ => Vec::new(),
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let label = |value: &Value| text(value, "label").or_else(|| text(value, "name"));
    let (mut chosen, zoo): (Vec<Value>, _) = (Vec::new(), Zoo::standard());
    for name in names {
        // A label means one setting, a method's name all settings of it that the experiment has.
        let mut found: Vec<&Value> =
            entries.iter().filter(|value| label(value).as_ref() == Some(name)).collect();
        if found.is_empty() {
            found =
                entries.iter().filter(|value| text(value, "name").as_ref() == Some(name)).collect();
        }
        if found.is_empty() {
            let labels: Vec<String> = entries.iter().filter_map(label).collect();
            let others = zoo
                .entries()
                .iter()
                .map(|e| e.name)
                .filter(|name| !labels.iter().any(|l| l == name));
            let known = labels.iter().map(String::as_str).chain(others);
            let entry = zoo.entries().iter().find(|e| e.name == name).ok_or_else(|| {
                ExperimentError::combination(
                    format!("unknown method `{name}`"),
                    suggest(name, known, "labels of this experiment and methods"),
                )
            })?;
            let mut fresh = Table::new();
            fresh.insert("name".into(), Value::String(entry.name.into()));
            chosen.push(Value::Table(fresh));
        }
        for value in found {
            if !chosen.contains(value) {
                chosen.push(value.clone());
            }
        }
    }
    table.insert("method".into(), Value::Array(chosen));
    Ok(())
}
