//! The methods that there are: Formant's own, and those that Python has brought.

use crate::error::raise;
use crate::method::PyMethod;
use formant_methods::schema::{Default, Key, Kind};
use formant_methods::{Entry, ErasedMethod, Needs, Zoo};
use formant_numerics::CATALOGUE;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toml::Table;

/// A class that was registered: its line, and what makes a bridge of hyper-parameters.
struct Registered {
    entry: Entry,
    make: Py<PyAny>,
}

static REGISTRY: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

fn registry() -> MutexGuard<'static, Vec<Registered>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keys of every `[[method]]`.
const RESERVED: [&str; 4] = ["name", "label", "train", "allow_degenerate"];

/// All methods.
pub(crate) fn zoo() -> Zoo {
    let entries: Vec<Entry> = registry().iter().map(|known| known.entry).collect();
    entries.into_iter().fold(Zoo::standard(), Zoo::with)
}

/// What Python says of a method.
#[derive(Deserialize)]
struct Told {
    name: String,
    title: String,
    summary: String,
    citation: String,
    documentation: String,
    generic: bool,
    personal: bool,
    needs_body: bool,
    keys: Vec<ToldKey>,
}

#[derive(Deserialize)]
struct ToldKey {
    name: String,
    symbol: String,
    help: String,
    min: Option<f64>,
    max: Option<f64>,
    choices: Option<Vec<String>>,
    default: Value,
}

fn text(text: String) -> &'static str {
    // A zoo's lines live as long as the program, and classes are written by hand.
    text.leak()
}

fn key(told: ToldKey) -> Result<Key, String> {
    let ToldKey { name, symbol, help, min, max, choices, default } = told;
    let (lowest, highest) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
    let (kind, default) = match (default, choices) {
        (Value::String(word), Some(words)) => {
            let words: Vec<&'static str> = words.into_iter().map(text).collect();
            (Kind::Choice(words.leak()), Default::Text(text(word)))
        }
        (Value::String(word), None) => (Kind::Text, Default::Text(text(word))),
        (Value::Bool(flag), _) => (Kind::Flag, Default::Flag(flag)),
        (Value::Number(number), _) => match number.as_i64() {
            Some(whole) => {
                let (min, max) = (lowest.max(-9e18) as i64, highest.min(9e18) as i64);
                (Kind::Integer { min, max }, Default::Integer(whole))
            }
            None => {
                let number = number.as_f64().unwrap_or(0.0);
                (Kind::Number { min: lowest, max: highest }, Default::Number(number))
            }
        },
        (other, _) => {
            return Err(format!(
                "the default of `{name}` is {other}\nhint: it must be a number, a whole number, true or false, or text"
            ));
        }
    };
    Ok(Key { name: text(name), symbol: text(symbol), kind, default, help: text(help) })
}

/// Refuses words of which a zoo would panic, in every later call as well.
fn check_words(told: &Told) -> Result<(), String> {
    let name = &told.name;
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(letter) {
        return Err(format!(
            "name = {name:?} cannot name a method\nhint: use lower-case letters, digits, - and _"
        ));
    }
    match told.keys.iter().find(|key| RESERVED.contains(&key.name.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(format!("{name} has a key `{}`, which every method has\nhint: rename it", key.name))
        }
    }
}

/// Makes a method known; one of the same name is replaced. `told` is JSON, `make` gives a bridge for hyper-parameters as
/// JSON.
#[pyfunction]
pub(crate) fn register(py: Python<'_>, told: &str, make: Py<PyAny>) -> PyResult<()> {
    let told: Told = serde_json::from_str(told).map_err(|error| raise(py, error))?;
    if Zoo::standard().entry(&told.name).is_ok() {
        let name = told.name;
        return Err(raise(
            py,
            format!("a method of Formant's is called {name:?} already\nhint: set another `name`"),
        ));
    }
    check_words(&told).map_err(|error| raise(py, error))?;
    let keys = told.keys.into_iter().map(key).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|error| raise(py, error))?;
    let documentation: String =
        told.documentation.lines().map(|line| format!("//! {line}\n")).collect();
    let entry = Entry {
        name: text(told.name),
        title: text(told.title),
        summary: text(told.summary),
        citation: text(told.citation),
        generic: told.generic,
        personal: told.personal,
        needs_body: told.needs_body,
        needs_labels: false,
        needs: Needs::Uploads,
        keys: keys.leak(),
        source: text(documentation),
        complete: |_| {},
        degenerate: &[],
        build,
    };
    let mut known = registry();
    known.retain(|other| other.entry.name != entry.name);
    known.push(Registered { entry, make });
    Ok(())
}

/// Makes a method of its hyper-parameters.
fn build(entry: Entry, parameters: Table) -> Result<Arc<dyn ErasedMethod>, String> {
    let parameters = serde_json::to_string(&parameters).map_err(|error| error.to_string())?;
    Python::attach(|py| {
        let make = {
            let known = registry();
            let found = known.iter().find(|known| known.entry.name == entry.name);
            found.map(|found| found.make.clone_ref(py))
        };
        let make = make.ok_or_else(|| format!("{} is not registered", entry.name))?;
        let bridge = make.bind(py).call1((parameters,));
        bridge
            .and_then(|bridge| PyMethod::erased(entry, &bridge))
            .map_err(|error| crate::error::keep(py, entry.title, error))
    })
}

/// All methods, as JSON.
#[pyfunction]
pub(crate) fn methods() -> String {
    let list: Vec<Value> = zoo()
        .entries()
        .iter()
        .map(|entry| {
            let keys: Vec<Value> = entry
                .keys
                .iter()
                .map(|key| {
                    json!({
                        "name": key.name,
                        "symbol": key.symbol,
                        "default": key.default_value(),
                        "expected": key.kind.describe(),
                        "help": key.help,
                    })
                })
                .collect();
            json!({
                "name": entry.name,
                "title": entry.title,
                "summary": entry.summary,
                "citation": entry.citation,
                "generic": entry.generic,
                "personal": entry.personal,
                "documentation": entry.documentation(),
                "keys": keys,
            })
        })
        .collect();
    Value::Array(list).to_string()
}

/// All networks, as JSON.
#[pyfunction]
pub(crate) fn networks() -> String {
    let list = CATALOGUE.iter().map(|e| json!({ "name": e.name, "summary": e.summary }));
    Value::Array(list.collect()).to_string()
}
