//! The registry: every method that exists. Help, docs and config errors derive from it.

use crate::erased::Erased;
use crate::schema::{Key, resolve, suggest};
use crate::{Ditto, ErasedMethod, FedAvg, LocalOnly, Method, MethodError, Scd, ditto, scd};
use serde::de::DeserializeOwned;
use toml::Table;

/// One line of the zoo.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name in a config.
    pub name: &'static str,
    /// How tables call it.
    pub title: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Whether it trains a generic model.
    pub generic: bool,
    /// Whether it trains personal models.
    pub personal: bool,
    /// Its hyper-parameters.
    pub keys: &'static [Key],
    /// Fills in defaults that depend on other keys.
    complete: fn(&mut Table),
    build: Build,
}

/// Makes a method from hyper-parameters that its keys have checked; an error says why not.
type Build = fn(&'static Entry, Table) -> Result<Box<dyn ErasedMethod>, String>;

/// Every method, in the order of tables.
pub const ZOO: &[Entry] = &[
    Entry {
        name: "local",
        title: "Local",
        summary: "each client trains alone: the floor that every table needs",
        citation: "no federation",
        generic: false,
        personal: true,
        keys: &[],
        complete: |_| {},
        build: erase::<LocalOnly>,
    },
    Entry {
        name: "fedavg",
        title: "FedAvg",
        summary: "local SGD from the global model, averaged by sample counts",
        citation: "McMahan et al., AISTATS 2017",
        generic: true,
        personal: false,
        keys: &[],
        complete: |_| {},
        build: erase::<FedAvg>,
    },
    Entry {
        name: "ditto",
        title: "Ditto",
        summary: "FedAvg, and a personal model with a proximal pull towards the received one",
        citation: "Li et al., ICML 2021",
        generic: true,
        personal: true,
        keys: ditto::KEYS,
        complete: |_| {},
        build: erase::<Ditto>,
    },
    Entry {
        name: "scd",
        title: "SCD",
        summary: "spectral co-distillation: each model teaches the other through its Fourier spectrum",
        citation: "Chen et al., NeurIPS 2023",
        generic: true,
        personal: true,
        keys: scd::KEYS,
        complete: scd::complete,
        build: erase::<Scd>,
    },
];

fn erase<M: Method + DeserializeOwned>(
    entry: &'static Entry,
    table: Table,
) -> Result<Box<dyn ErasedMethod>, String> {
    let method: M = table.try_into().map_err(|error| error.to_string())?;
    Ok(Box::new(Erased { method, entry }))
}

/// The line of a method.
pub fn entry(name: &str) -> Result<&'static Entry, MethodError> {
    ZOO.iter().find(|e| e.name == name).ok_or_else(|| MethodError::Unknown {
        name: name.into(),
        hint: suggest(name, ZOO.iter().map(|e| e.name), "methods"),
    })
}

/// Builds a method from its hyper-parameters; returns it with every default filled in.
///
/// ```
/// let (method, resolved) = formant_methods::build("ditto", &toml::Table::new())?;
/// assert_eq!(method.entry().title, "Ditto");
/// assert!(resolved.contains_key("lambda"));
/// # Ok::<(), formant_methods::MethodError>(())
/// ```
pub fn build(name: &str, given: &Table) -> Result<(Box<dyn ErasedMethod>, Table), MethodError> {
    let entry = entry(name)?;
    let mut resolved = resolve("method", entry.keys, given)?;
    (entry.complete)(&mut resolved);
    let method = (entry.build)(entry, resolved.clone()).map_err(|reason| MethodError::Decode {
        method: entry.name,
        what: "hyper-parameters",
        reason,
    })?;
    Ok((method, resolved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_from_its_defaults_alone() {
        for entry in ZOO {
            let (method, resolved) = build(entry.name, &Table::new()).unwrap();
            assert_eq!(method.entry().name, entry.name);
            assert_eq!(resolved.len(), entry.keys.len(), "{}: a key without a default", entry.name);
            assert!(entry.generic || entry.personal);
        }
    }

    #[test]
    fn names_are_unique_and_errors_suggest() {
        let mut names: Vec<_> = ZOO.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ZOO.len());
        let error = build("dito", &Table::new()).err().unwrap().to_string();
        assert!(error.contains("did you mean `ditto`?"), "{error}");
    }
}
