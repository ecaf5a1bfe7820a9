//! Long JSON files, read as a stream.

use super::refusal;
use crate::share::file_error;
use crate::{DataError, Owners};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Reads a file without holding it in memory.
pub(crate) fn read<T>(
    path: &Path,
    seed: impl for<'de> DeserializeSeed<'de, Value = T>,
) -> Result<T, DataError> {
    let file = File::open(path).map_err(|source| file_error("read", path, source))?;
    let mut stream = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    let read = seed.deserialize(&mut stream).and_then(|value| stream.end().map(|()| value));
    read.map_err(|error| {
        let fault = if error.is_eof() { "truncated" } else { "not what it should be" };
        let found = format!("it is {fault}: {error}");
        refusal(path.display(), found, "take another copy of the file")
    })
}

/// A plain value of an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Field {
    Whole(i64),
    Real(f64),
    Text(String),
    Other(IgnoredAny),
}

impl Field {
    /// The same as a name.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Text(text) => text,
            Self::Other(_) => String::new(),
        }
    }
}

/// An array of objects, of which some keys are handed over one object after the other.
pub(crate) struct Objects<'k, const N: usize, F> {
    keys: [&'k str; N],
    take: F,
}

impl<'k, const N: usize, F> Objects<'k, N, F>
where
    F: FnMut([Option<Field>; N]) -> Result<(), &'static str>,
{
    pub(crate) fn new(keys: [&'k str; N], take: F) -> Self {
        Self { keys, take }
    }
}

impl<'de, const N: usize, F> DeserializeSeed<'de> for Objects<'_, N, F>
where
    F: FnMut([Option<Field>; N]) -> Result<(), &'static str>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, const N: usize, F> Visitor<'de> for Objects<'_, N, F>
where
    F: FnMut([Option<Field>; N]) -> Result<(), &'static str>,
{
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut list: S) -> Result<(), S::Error> {
        while let Some(fields) = list.next_element_seed(Object { keys: self.keys })? {
            (self.take)(fields).map_err(S::Error::custom)?;
        }
        Ok(())
    }
}

struct Object<'k, const N: usize> {
    keys: [&'k str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Object<'_, N> {
    type Value = [Option<Field>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Object<'_, N> {
    type Value = [Option<Field>; N];

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut fields = [const { None }; N];
        while let Some(key) = map.next_key::<String>()? {
            match self.keys.iter().position(|known| *known == key) {
                Some(place) => fields[place] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

/// Owners in the order in which they appear.
#[derive(Default)]
pub(crate) struct People {
    places: HashMap<String, u32>,
    names: Vec<String>,
    of: Vec<u32>,
}

impl People {
    /// The next sample is somebody's.
    pub(crate) fn add(&mut self, name: &str) {
        let next = self.names.len() as u32;
        let place = self.places.get(name).copied().unwrap_or(next);
        if place == next {
            self.places.insert(name.to_owned(), place);
            self.names.push(name.to_owned());
        }
        self.of.push(place);
    }

    pub(crate) fn into_owners(self) -> Owners {
        Owners { names: self.names, of: self.of }
    }
}
