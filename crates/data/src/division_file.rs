//! A division among clients in a file: others' are replayed, and ours are written.
//!
//! JSON: a list with an entry for each client, or an object with a name for each. An entry is a list of samples, as
//! indices into the training samples of the dataset, or an object of the lists `train`, `validation` and `test`, with
//! or without the client's `name`.

use crate::holding::Holding;
use crate::partition::{Division, Shares};
use crate::{ClientData, DataError, Dataset, Federation, PartitionPlan};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes that a file may take for each sample, with room for indentation.
const BYTES_A_SAMPLE: usize = 64;
/// Bytes that it may take besides.
const BYTES_BESIDES: usize = 1 << 20;

const EXPECTED: &str = "write a list of clients, each a list of samples or an object of the lists train, validation and test";

/// XXH3-128 of the content of a file of a division, by which it is known again.
pub fn division_hash(path: &Path) -> Result<String, DataError> {
    let mut file = open(path)?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(|source| unreadable(path, source))? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn unreadable(path: &Path, source: std::io::Error) -> DataError {
    let remedy = "check data.partition_file, which is relative to the working directory".into();
    DataError::Unreadable { path: path.into(), source, remedy }
}

fn open(path: &Path) -> Result<File, DataError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let found = file.metadata().map_err(|source| unreadable(path, source))?;
    if !found.is_file() {
        return Err(unreadable(path, std::io::Error::other("it is not a regular file")));
    }
    Ok(file)
}

fn refuse(place: impl fmt::Display, found: impl Into<String>, remedy: &str) -> DataError {
    DataError::Input { place: place.to_string(), found: found.into(), remedy: remedy.into() }
}

/// Reads the division of a dataset, if the content of the file has the hash that is expected.
pub(crate) fn read(
    plan: &PartitionPlan,
    path: &Path,
    hash: Option<&str>,
    dataset: &Dataset,
) -> Result<Division, DataError> {
    let shown = path.display();
    let limit = dataset.train.len().saturating_mul(BYTES_A_SAMPLE).saturating_add(BYTES_BESIDES);
    let mut bytes = Vec::new();
    let read = open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| unreadable(path, source))?;
    if bytes.len() > limit {
        let samples = dataset.train.len();
        let found = format!(
            "it is longer than {limit} bytes, more than a division of {samples} samples needs"
        );
        return Err(refuse(shown, found, "check that it is the file of this dataset"));
    }
    if let Some(expected) = hash {
        let found = format!("{:032x}", xxh3_128(&bytes));
        if found != expected {
            let found = format!("its hash is {found}, and that of the division is {expected}");
            let remedy =
                "bring back the file as it was, or begin a new run without data.partition_hash";
            return Err(refuse(shown, found, remedy));
        }
    }
    let entries = parse(&bytes, dataset.train.len()).map_err(|error| located(path, &error))?;
    let count = entries.clients.len();
    if count == 0 {
        return Err(refuse(shown, "it lists no clients", EXPECTED));
    }
    if let Some(clients) = plan.clients.filter(|clients| *clients != count) {
        return Err(DataError::Plan {
            key: "clients",
            value: clients.to_string(),
            remedy: format!("{shown} lists {count}: set clients = {count}, or leave it out"),
        });
    }
    let mut remarks = Vec::new();
    let split = entries.split == Some(true);
    if split {
        remarks.push(format!("train, validation and test are those of {shown}"));
    }
    let (names, clients) = ordered(entries);
    let shares = if split {
        Shares::Split(clients.into_iter().map(ClientData::from).collect())
    } else {
        Shares::Whole(clients.iter().map(|client| whole(&client.parts[0], dataset)).collect())
    };
    Ok(Division { shares, names, remarks, repaired: None })
}

/// Where in the file something is wrong, what, and what to do.
fn located(path: &Path, error: &serde_json::Error) -> DataError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let found = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    let remedy = match error.classify() {
        serde_json::error::Category::Data if found.contains("twice") => {
            "give every sample to one client at most, and once"
        }
        serde_json::error::Category::Data => EXPECTED,
        _ => "the file is no complete JSON: write it again",
    };
    refuse(format_args!("{}, line {line}, column {column}", path.display()), found, remedy)
}

/// Names in the order of the file, unless they are the numbers of the clients.
fn ordered(Entries { mut clients, keyed, .. }: Entries) -> (Option<Vec<String>>, Vec<Entry>) {
    let number = |entry: &Entry| {
        let name = entry.name.as_deref()?;
        name.parse::<usize>().ok().filter(|number| number.to_string() == name)
    };
    let mut numbers: Vec<Option<usize>> = clients.iter().map(number).collect();
    numbers.sort_unstable();
    if keyed && numbers.iter().enumerate().all(|(i, number)| *number == Some(i)) {
        clients.sort_by_key(number);
        return (None, clients);
    }
    if clients.iter().all(|client| client.name.is_none()) {
        return (None, clients);
    }
    let name = |(i, client): (usize, &mut Entry)| client.name.take().unwrap_or(i.to_string());
    (Some(clients.iter_mut().enumerate().map(name).collect()), clients)
}

fn whole(samples: &[u32], dataset: &Dataset) -> Holding {
    let mut holding = Holding::default();
    for &sample in samples {
        holding.add(dataset.train.label(sample as usize) as u16, &[sample]);
    }
    holding
}

impl From<Entry> for ClientData {
    fn from(entry: Entry) -> Self {
        let [train, validation, test] = entry.parts;
        Self { train, validation, test }
    }
}

impl Federation {
    /// The division as JSON, for [`Partition::File`](crate::Partition::File) and for other tools: a list of the
    /// clients' `train`, `validation` and `test`, each a list of indices into [`Dataset::train`]. Newcomers come last,
    /// so that as many can be set aside again.
    pub fn to_json(&self) -> String {
        let clients = self.clients.iter().chain(&self.newcomers.clients);
        let mut names = self.names.iter().chain(&self.newcomers.names).flatten();
        let clients = clients.map(|client| {
            let list =
                |indices: &[u32]| indices.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let name = names.next().map_or(String::new(), |name| {
                format!("\"name\": {}, ", serde_json::Value::from(name.as_str()))
            });
            format!(
                "{{{name}\"train\": [{}], \"validation\": [{}], \"test\": [{}]}}",
                list(&client.train),
                list(&client.validation),
                list(&client.test)
            )
        });
        format!("[\n{}\n]\n", clients.collect::<Vec<_>>().join(",\n"))
    }
}

/// What has been read of a file. Its size is bounded by the number of samples, because none may come twice.
struct Entries {
    seen: Vec<bool>,
    clients: Vec<Entry>,
    names: HashSet<String>,
    /// Whether the clients' samples are split; unknown before the first.
    split: Option<bool>,
    /// Whether the clients are the members of an object, whose order means little.
    keyed: bool,
}

/// One client; what is not split stands in the first part.
#[derive(Default)]
struct Entry {
    name: Option<String>,
    parts: [Vec<u32>; 3],
}

fn parse(bytes: &[u8], samples: usize) -> Result<Entries, serde_json::Error> {
    let mut entries = Entries {
        seen: vec![false; samples],
        clients: Vec::new(),
        names: HashSet::new(),
        split: None,
        keyed: false,
    };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    Clients(&mut entries).deserialize(&mut json)?;
    json.end()?;
    Ok(entries)
}

/// Reads all clients.
struct Clients<'e>(&'e mut Entries);

impl<'d> DeserializeSeed<'d> for Clients<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'d>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'d> Visitor<'d> for Clients<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object of clients")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Client { entries: self.0, name: None })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'d>>(self, mut object: A) -> Result<(), A::Error> {
        self.0.keyed = true;
        while let Some(name) = object.next_key()? {
            object.next_value_seed(Client { entries: self.0, name: Some(name) })?;
        }
        Ok(())
    }
}

/// Reads one client.
struct Client<'e> {
    entries: &'e mut Entries,
    name: Option<String>,
}

impl Client<'_> {
    fn finish<E: Error>(self, mut entry: Entry, split: bool) -> Result<(), E> {
        entry.name = entry.name.or(self.name);
        let who = match &entry.name {
            Some(name) => format!("client {name:?}"),
            None => format!("client {}", self.entries.clients.len()),
        };
        if entry.parts[0].is_empty() {
            return Err(E::custom(format!("{who} has no samples to train on")));
        }
        if self.entries.split.is_some_and(|before| before != split) {
            return Err(E::custom(format!("{who} is split into parts, or the ones before it are")));
        }
        if let Some(name) = &entry.name
            && !self.entries.names.insert(name.clone())
        {
            return Err(E::custom(format!("{who} is listed twice")));
        }
        entry.parts.iter_mut().for_each(|part| part.sort_unstable());
        self.entries.split = Some(split);
        self.entries.clients.push(entry);
        Ok(())
    }
}

impl<'d> DeserializeSeed<'d> for Client<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'d>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'d> Visitor<'d> for Client<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples, or an object of the lists train, validation and test")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, list: A) -> Result<(), A::Error> {
        let mut entry = Entry::default();
        entry.parts[0] = Indices(&mut self.entries.seen).visit_seq(list)?;
        self.finish(entry, false)
    }

    fn visit_map<A: MapAccess<'d>>(self, mut object: A) -> Result<(), A::Error> {
        let mut entry = Entry::default();
        let mut given = [false; 3];
        while let Some(key) = object.next_key::<String>()? {
            let part = match key.as_str() {
                "train" => 0,
                "validation" | "val" => 1,
                "test" => 2,
                "name" => {
                    entry.name = Some(object.next_value()?);
                    continue;
                }
                _ => return Err(A::Error::custom(format!("{key:?} is no part of a client"))),
            };
            if std::mem::replace(&mut given[part], true) {
                return Err(A::Error::custom(format!("{key:?} is listed twice")));
            }
            entry.parts[part] = object.next_value_seed(Indices(&mut self.entries.seen))?;
        }
        self.finish(entry, true)
    }
}

/// Reads samples, none of which has been seen before.
struct Indices<'s>(&'s mut [bool]);

impl<'d> DeserializeSeed<'d> for Indices<'_> {
    type Value = Vec<u32>;

    fn deserialize<D: Deserializer<'d>>(self, json: D) -> Result<Vec<u32>, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'d> Visitor<'d> for Indices<'_> {
    type Value = Vec<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut list: A) -> Result<Vec<u32>, A::Error> {
        let mut indices = Vec::new();
        while let Some(index) = list.next_element::<u64>()? {
            let samples = self.0.len();
            let place = usize::try_from(index).ok().and_then(|index| self.0.get_mut(index));
            let Some(seen) = place else {
                return Err(A::Error::custom(format!(
                    "there is no sample {index}, the data have {samples}, from 0"
                )));
            };
            if std::mem::replace(seen, true) {
                return Err(A::Error::custom(format!("sample {index} is listed twice")));
            }
            indices.push(index as u32);
        }
        Ok(indices)
    }
}
