//! What the zoo says of a method: names, keys, models, and how it is built.

use crate::erased::Erased;
use crate::schema::{Default, Key, Kind, resolve};
use crate::{ErasedMethod, Method, MethodError, Needs, Receive};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use toml::{Table, Value};

/// One line of a zoo. It stands in the method's own file, next to its keys.
///
/// ```
/// use formant_methods::{Entry, FedAvg};
///
/// const ENTRY: Entry = Entry {
///     name: "my-fedavg",
///     title: "My FedAvg",
///     summary: "FedAvg under another name",
///     citation: "McMahan et al., AISTATS 2017",
///     ..Entry::of::<FedAvg>("//! My FedAvg.\n//!\n//! - client: FedAvg's\n")
/// };
/// assert_eq!(ENTRY.documentation(), "My FedAvg.\n\n- client: FedAvg's");
/// ```
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself, and any may hold")]
pub struct Entry {
    /// The name in an experiment.
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
    /// Whether it divides a network into body and head, so that a network without a body makes no
    /// sense.
    pub needs_body: bool,
    /// Whether its steps look at the labels of a batch themselves, so that samples which are mixed of two and
    /// have two labels make no sense.
    pub needs_labels: bool,
    /// What its server needs of a round's uploads; [`Entry::of`] sees it in the type.
    pub needs: Needs,
    /// Its hyper-parameters.
    pub keys: &'static [Key],
    /// The text of the file that it is written in; what it opens with is the documentation.
    pub source: &'static str,
    /// Fills in defaults that depend on other keys.
    pub complete: fn(&mut Table),
    /// Settings that make it another method.
    pub degenerate: &'static [Degenerate],
    /// Makes the method; see [`Entry::of`].
    pub build: Build,
}

/// Values of some keys that, together, make a method another one.
#[derive(Debug, Clone, Copy)]
pub struct Degenerate {
    /// The keys with these values.
    pub values: &'static [(&'static str, f64)],
    /// What the method is then.
    pub becomes: &'static str,
}

impl Degenerate {
    /// With these values of these keys the method is another one.
    pub const fn when(values: &'static [(&'static str, f64)], becomes: &'static str) -> Self {
        Self { values, becomes }
    }
}

/// Makes a method from hyper-parameters that its keys have checked; an error says why not.
pub type Build = fn(Entry, Table) -> Result<Arc<dyn ErasedMethod>, String>;

/// The key that admits a setting that makes a method another one.
pub const ALLOW_DEGENERATE: Key = Key {
    name: "allow_degenerate",
    symbol: "",
    kind: Kind::Flag,
    default: Default::Flag(false),
    help: "accept a setting that makes the method another one",
};

/// A method with the hyper-parameters it was built from.
#[derive(Clone)]
pub struct Built {
    /// The method.
    pub method: Arc<dyn ErasedMethod>,
    /// Its hyper-parameters, every default filled in: building it from these gives the same method.
    pub parameters: Table,
    /// What these make of it, if that is another method: a sentence for logs and tables.
    pub degenerate: Option<String>,
}

impl Entry {
    /// An entry that builds `M` from its hyper-parameters, and the text of the file that `M` is written
    /// in; names and models are filled in by whoever writes it.
    pub const fn of<M: Method + DeserializeOwned>(source: &'static str) -> Self {
        Self {
            name: "",
            title: "",
            summary: "",
            citation: "",
            generic: true,
            personal: false,
            needs_body: false,
            needs_labels: false,
            needs: <M::Received<'static> as Receive<'static, M::Upload>>::NEEDS,
            keys: &[],
            source,
            complete: |_| {},
            degenerate: &[],
            build: erase::<M>,
        }
    }

    /// What the method's file opens with: title, citation, update rules and departures, as Markdown.
    pub fn documentation(&self) -> String {
        let lines = self.source.lines().take_while(|line| line.starts_with("//!"));
        let lines =
            lines.map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or(""));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether there is a setting that makes it another method.
    pub fn can_degenerate(&self) -> bool {
        !self.degenerate.is_empty()
    }

    /// Builds the method from hyper-parameters.
    pub fn build(&self, given: &Table) -> Result<Built, MethodError> {
        let mut given = given.clone();
        let allowed = self.admits(&mut given)?;
        let mut parameters = resolve("method", self.keys, &given)?;
        (self.complete)(&mut parameters);
        let degeneration = self.degeneration(&parameters);
        if let Some((setting, becomes)) = &degeneration
            && !allowed
        {
            let (setting, becomes) = (setting.clone(), *becomes);
            return Err(MethodError::Degenerate { title: self.title, setting, becomes });
        }
        let method = (self.build)(*self, parameters.clone()).map_err(|reason| {
            MethodError::Decode { method: self.name, what: "hyper-parameters", reason }
        })?;
        if allowed {
            // Kept, so that what a run resolved to can be built again.
            parameters.insert(ALLOW_DEGENERATE.name.into(), Value::Boolean(true));
        }
        let degenerate = degeneration
            .map(|(setting, becomes)| format!("{setting} turns {} into {becomes}", self.title));
        Ok(Built { method, parameters, degenerate })
    }

    /// Takes the key that admits a degenerate setting out of a table; a method that has no such
    /// setting does not know it.
    fn admits(&self, given: &mut Table) -> Result<bool, MethodError> {
        if !self.can_degenerate() {
            return Ok(false);
        }
        let Some(value) = given.remove(ALLOW_DEGENERATE.name) else { return Ok(false) };
        let own = Table::from_iter([(ALLOW_DEGENERATE.name.to_owned(), value)]);
        let resolved = resolve("method", &[ALLOW_DEGENERATE], &own)?;
        Ok(resolved.get(ALLOW_DEGENERATE.name) == Some(&Value::Boolean(true)))
    }

    /// The setting that makes it another method, if the table has it, and which one.
    fn degeneration(&self, table: &Table) -> Option<(String, &'static str)> {
        let number = |key: &str| match table.get(key) {
            Some(Value::Float(x)) => Some(*x),
            Some(Value::Integer(x)) => Some(*x as f64),
            _ => None,
        };
        let case = self.degenerate.iter().find(|case| {
            // As the method sees it: a number too small for an f32 is zero.
            let same = |key: &str, value: f64| number(key).map(|x| x as f32) == Some(value as f32);
            case.values.iter().all(|(key, value)| same(key, *value))
        })?;
        let shown: Vec<_> = case.values.iter().map(|(key, x)| format!("`{key} = {x}`")).collect();
        Some((shown.join(" with "), case.becomes))
    }
}

/// Makes a method of type `M`: what [`Entry::of`] builds with, and what an entry of several types chooses
/// from.
pub fn erase<M: Method + DeserializeOwned>(
    entry: Entry,
    table: Table,
) -> Result<Arc<dyn ErasedMethod>, String> {
    let method: M = table.try_into().map_err(|error| error.to_string())?;
    Ok(Arc::new(Erased { method, entry }))
}

/// A method that is there already, with its line in the zoo: for entries whose methods are made in a way of their own.
pub fn erased<M: Method>(entry: Entry, method: M) -> Arc<dyn ErasedMethod> {
    Arc::new(Erased { method, entry })
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built")
            .field("name", &self.method.entry().name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// Two methods are the same if they have the same name and hyper-parameters.
impl PartialEq for Built {
    fn eq(&self, other: &Self) -> bool {
        self.method.entry().name == other.method.entry().name && self.parameters == other.parameters
    }
}
