//! The sections of an experiment file: how each is checked, read and written. The sections themselves
//! stand in files of their own: the keys, and the struct that they fill.

use crate::{
    ExperimentError, augment, data, evaluation, federation, fleet, network, privacy, runtime,
    settings, training,
};
use formant_methods::Zoo;
use formant_methods::schema::{Default, Key, Kind, SchemaError, resolve, suggest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// A section of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name; empty for the top of the file. A section within a section is `outer.inner`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Fills in defaults that depend on other keys.
    pub(crate) complete: fn(&mut Table),
    /// The keys on whose values it depends which others mean something.
    pub(crate) decisions: &'static [Decision],
    /// Whether a file that says nothing in it has none.
    pub(crate) optional: bool,
}

/// A key whose value has keys of its own beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    /// The key.
    pub(crate) key: &'static str,
    /// The values for which another key means something; `None` if it does for all.
    pub(crate) owners: fn(&str) -> Option<Vec<&'static str>>,
}

/// All sections but `[[method]]`, whose keys come from the zoo.
pub const SECTIONS: &[Section] = &[
    settings::TOP,
    data::SECTION,
    augment::SECTION,
    network::SECTION,
    training::SECTION,
    federation::SECTION,
    fleet::DEVICES,
    fleet::LINKS,
    privacy::SECTION,
    evaluation::SECTION,
    runtime::SECTION,
];

impl Section {
    pub(crate) const fn new(name: &'static str, help: &'static str, keys: &'static [Key]) -> Self {
        Self { name, help, keys, complete: |_| {}, decisions: &[], optional: false }
    }

    /// What a file gives for the section.
    pub(crate) fn given(&self, file: &Table) -> Result<Table, ExperimentError> {
        if !self.name.is_empty() {
            let mut own = given(file, self.name)?;
            // A section in it is checked when its turn comes.
            self.inner().for_each(|(name, _)| drop(own.remove(name)));
            return Ok(own);
        }
        let own = |key: &str| self.keys.iter().any(|known| known.name == key);
        let top = file.iter().filter(|(key, _)| own(key));
        Ok(top.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// The sections within it, by what they are called there.
    fn inner(&self) -> impl Iterator<Item = (&'static str, &'static Self)> + Clone {
        let inside = |section: &'static Self| {
            let name = section.name.strip_prefix(self.name)?.strip_prefix('.')?;
            Some((name, section))
        };
        SECTIONS.iter().filter_map(inside)
    }

    /// Puts what it says into a file. An optional section is left out if it says nothing, and so is one within
    /// another.
    pub(crate) fn put(&self, file: &mut Table, table: Table) {
        let Some((outer, inner)) = self.name.rsplit_once('.') else {
            if self.name.is_empty() {
                file.extend(table);
            } else if !(self.optional && table.is_empty()) {
                file.insert(self.name.into(), Value::Table(table));
            }
            return;
        };
        if !table.is_empty()
            && let Value::Table(outer) = file.entry(outer).or_insert_with(|| Table::new().into())
        {
            outer.insert(inner.into(), Value::Table(table));
        }
    }

    /// Refuses keys that do not exist, knowing of the sections within this one.
    fn check_names(&self, given: &Table) -> Result<(), ExperimentError> {
        let known = self.keys.iter().map(|key| key.name);
        let Some(name) = given.keys().find(|name| !known.clone().any(|known| known == *name))
        else {
            return Ok(());
        };
        let has_it = |(_, inner): &(&str, &Self)| inner.keys.iter().any(|key| key.name == name);
        let hint = match self.inner().find(has_it) {
            Some((_, inner)) => format!("did you mean `{}.{name}`?", inner.name),
            None => suggest(name, known.chain(self.inner().map(|(name, _)| name)), "keys"),
        };
        let path =
            if self.name.is_empty() { name.clone() } else { format!("{}.{name}", self.name) };
        Err(SchemaError::Unknown { path, hint }.into())
    }

    /// A section of a file, checked and filled in.
    pub(crate) fn resolve(&self, given: &Table) -> Result<Table, ExperimentError> {
        self.check_names(given)?;
        let mut table = resolve(self.name, self.keys, given)?;
        (self.complete)(&mut table);
        self.check_idle(&table)?;
        Ok(table)
    }

    /// What a section says, once it is [resolved](Self::resolve). The names of the fields are the keys.
    pub(crate) fn read<T: DeserializeOwned>(&self, mut table: Table) -> Result<T, ExperimentError> {
        // Nothing in quotes where a time or a rate is expected: unset, as if the key were not there.
        let is_form = |name: &str| {
            self.keys.iter().any(|key| key.name == name && matches!(key.kind, Kind::Form(_)))
        };
        table.retain(|key, value| value.as_str() != Some("") || !is_form(key));
        table.try_into().map_err(|error: toml::de::Error| self.broken(&error))
    }

    /// The section that says it.
    pub(crate) fn write<T: Serialize>(&self, value: &T) -> Result<Table, ExperimentError> {
        Table::try_from(value).map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &dyn std::error::Error) -> ExperimentError {
        let origin = match self.name {
            "" => "the top of the experiment".into(),
            name => format!("section [{name}]"),
        };
        ExperimentError::Syntax { origin, reason: error.to_string().trim_end().to_owned() }
    }

    /// What the section says if nobody writes anything into it.
    pub(crate) fn defaults<T: DeserializeOwned>(&self) -> T {
        let resolved = self.resolve(&Table::new());
        // No key is required, and the tests read every section.
        resolved.and_then(|table| self.read(table)).expect("a section has defaults")
    }

    /// The decision that a key makes, if it does.
    pub(crate) fn decision(&self, key: &str) -> Option<&'static Decision> {
        self.decisions.iter().find(|decision| decision.key == key)
    }

    /// Refuses keys that would do nothing.
    fn check_idle(&self, table: &Table) -> Result<(), ExperimentError> {
        let section = self.name;
        for decision in self.decisions {
            let decisive = decision.key;
            let Some(chosen) = table.get(decisive).and_then(Value::as_str) else { continue };
            let mut idle = table.iter().filter(|(key, _)| decision.is_idle(key, chosen));
            if let Some((key, value)) = idle.next() {
                let owners = (decision.owners)(key).unwrap_or_default();
                return Err(ExperimentError::combination(
                    format!(
                        "`{section}.{key} = {value}` does nothing with `{section}.{decisive} = \"{chosen}\"`"
                    ),
                    format!(
                        "remove it, or set {section}.{decisive} = \"{}\"",
                        owners.join("\" or \"")
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Decision {
    /// Whether a key does nothing with a value of this one.
    pub(crate) fn is_idle(&self, key: &str, chosen: &str) -> bool {
        (self.owners)(key).is_some_and(|owners| !owners.contains(&chosen))
    }

    /// Removes from a section what does nothing with what another table chooses, if it chooses.
    pub(crate) fn drop_idle(&self, section: &mut Table, chooser: &Table) {
        if let Some(chosen) = chooser.get(self.key).and_then(Value::as_str) {
            section.retain(|key, _| !self.is_idle(key, chosen));
        }
    }
}

/// What a table gives for a section, which may be one within another.
pub(crate) fn given(table: &Table, name: &str) -> Result<Table, ExperimentError> {
    let (mut table, mut path) = (table, String::new());
    for part in name.split('.') {
        path = if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
        table = match table.get(part) {
            None => return Ok(Table::new()),
            Some(Value::Table(given)) => given,
            Some(other) => {
                return Err(SchemaError::Type {
                    value: other.to_string(),
                    expected: format!("a section; write [{path}] on a line of its own"),
                    help: "`formant init` shows all sections".into(),
                    path,
                }
                .into());
            }
        };
    }
    Ok(table.clone())
}

/// Where a key of this name stands, for somebody who left out the section.
pub(crate) fn elsewhere(name: &str, zoo: &Zoo) -> Option<String> {
    let sections = SECTIONS.iter().map(|s| (s.name, s.keys));
    let methods = zoo.entries().iter().map(|e| ("method", e.keys));
    let (section, _) = sections
        .chain(methods)
        .filter(|(section, _)| !section.is_empty())
        .find(|(_, keys)| keys.iter().any(|key| key.name == name))?;
    Some(format!("did you mean `{section}.{name}`?"))
}

pub(crate) const fn key(
    name: &'static str,
    kind: Kind,
    default: Default,
    help: &'static str,
) -> Key {
    Key { name, symbol: "", kind, default, help }
}

/// A key that stands for a symbol of the papers.
pub(crate) const fn symbol(symbol: &'static str, key: Key) -> Key {
    Key { symbol, ..key }
}

pub(crate) const fn whole(min: i64) -> Kind {
    Kind::Integer { min, max: i64::MAX }
}
