//! The section `[server]` of a server's file.

use crate::codec::Packing;
use crate::error::NetworkError;
use crate::wire::proto::{Encoding, Precision};
use formant_experiment::units::{self, MAYBE_TIME, Size, Span};
use formant_experiment::{Experiment, ExperimentError, OneMethod};
use formant_methods::schema::{Default, Form, Key, Kind, SchemaError, resolve, suggest};
use formant_methods::{Zoo, choice};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

const fn key(name: &'static str, kind: Kind, default: Default, help: &'static str) -> Key {
    Key { name, symbol: "", kind, default, help }
}

/// The keys of `[server]`; `clients`, a list of names, and `samples`, numbers of training samples by name,
/// stand beside them.
pub const SERVER: &[Key] = &[
    key(
        "listen",
        Kind::Form(&ADDRESS),
        Default::Text("0.0.0.0:7700"),
        "where clients connect: address and port",
    ),
    key(
        "ops",
        Kind::Form(&MAYBE_ADDRESS),
        Default::Text("127.0.0.1:7701"),
        "where /healthz, /metrics and /status are served, without TLS: on loopback, or empty for nowhere",
    ),
    key("state", Kind::Text, Default::Text("server-state"), "the folder that survives a crash"),
    key("certs", Kind::Text, Default::Text("certs"), "the folder of `formant cert`"),
    key(
        "max_clients",
        Kind::Integer { min: 1, max: 1_000_000 },
        Default::Unset,
        "connections at the same time; without it, twice as many as there are clients, and 16",
    ),
    key(
        "max_samples",
        Kind::Integer { min: 1, max: i64::MAX },
        Default::Integer(10_000_000),
        "an upload that claims more samples is refused: they are its weight",
    ),
    key(
        "max_upload",
        Kind::Form(&SIZE),
        Default::Unset,
        "largest upload; without it, four times the first broadcast and 1 MiB",
    ),
    key(
        "max_norm_ratio",
        Kind::Above { min: 0.0, max: f64::INFINITY },
        Default::Number(100.0),
        "an upload whose model is further from the broadcast than this times the broadcast's norm is refused",
    ),
    key(
        "compress",
        Kind::Choice(Compression::WORDS),
        Default::Text(Compression::None.word()),
        "compression of broadcasts and uploads",
    ),
    key(
        "upload_precision",
        Kind::Choice(UploadPrecision::WORDS),
        Default::Text(UploadPrecision::F32.word()),
        "f16 halves uploads and rounds their parameters",
    ),
    key(
        "patience",
        Kind::Form(&MAYBE_TIME),
        Default::Text("1h"),
        "after this long a round closes with what is there, where federation.deadline is not set; empty: never",
    ),
    key(
        "collapse",
        Kind::Number { min: 0.0, max: 1.0 },
        Default::Number(0.25),
        "the run stops when twice in a row the GM's accuracy above chance is below this share of its best, or a clueless model's loss below this share of its loss; 0: never",
    ),
    key(
        "keep_states",
        Kind::Integer { min: 0, max: 10_000 },
        Default::Integer(5),
        "earlier rounds to which `formant serve --rollback ROUND` can take the run back",
    ),
    key(
        "max_calls",
        Kind::Integer { min: 1, max: 1_000_000 },
        Default::Integer(100),
        "calls a second of one client, over the last ten seconds; more are told to come again",
    ),
    key(
        "chunk",
        Kind::Form(&CHUNK),
        Default::Text("256KiB"),
        "most bytes in one message of a transfer; fewer where more than 512 connections are allowed",
    ),
    key(
        "idle_timeout",
        Kind::Form(&TIME),
        Default::Text("30s"),
        "a transfer without a chunk for so long is given up",
    ),
    key(
        "min_rate",
        Kind::Form(&SIZE),
        Default::Text("1KiB"),
        "an upload that is slower than so many bytes per second, after the idle timeout, is given up",
    ),
    key(
        "rate_limit",
        Kind::Form(&SIZE),
        Default::Unset,
        "most bytes per second in each direction, over all connections; without it, no limit",
    ),
    key(
        "linger",
        Kind::Form(&TIME),
        Default::Text("60s"),
        "how long the server stays after the last round for clients that were away",
    ),
];

const ADDRESS: Form = Form {
    description: "an address and a port, such as \"0.0.0.0:7700\"",
    accepts: |text| text.parse::<SocketAddr>().is_ok(),
};

const MAYBE_ADDRESS: Form = Form {
    description: "an address and a port, such as \"127.0.0.1:7701\"",
    accepts: |text| text.is_empty() || (ADDRESS.accepts)(text),
};

const SIZE: Form = Form {
    description: "a size such as \"256KiB\" or \"2MB\"",
    accepts: |text| parse_bytes(text).is_some(),
};

const CHUNK: Form = Form {
    description: "a size from \"1KiB\" to \"2MiB\"",
    accepts: |text| parse_bytes(text).is_some_and(|size| (1 << 10..=2 << 20).contains(&size)),
};

const TIME: Form = Form {
    description: "a time such as \"30s\" or \"500ms\"",
    accepts: |text| units::duration(text).is_some(),
};

choice! {
    enum Compression {
        None = "none",
        Zstd = "zstd",
    }
}

choice! {
    enum UploadPrecision {
        F32 = "f32",
        F16 = "f16",
    }
}

/// The section once its keys are checked and filled in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    listen: SocketAddr,
    #[serde(deserialize_with = "unless_empty")]
    ops: Option<SocketAddr>,
    state: PathBuf,
    certs: PathBuf,
    max_clients: Option<usize>,
    max_samples: u64,
    max_upload: Option<Size>,
    max_norm_ratio: f64,
    compress: Compression,
    upload_precision: UploadPrecision,
    #[serde(deserialize_with = "unless_empty_time")]
    patience: Option<Span>,
    collapse: f64,
    keep_states: usize,
    max_calls: u32,
    chunk: Size,
    idle_timeout: Span,
    min_rate: Size,
    rate_limit: Option<Size>,
    linger: Span,
}

fn unless_empty<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address = (!text.is_empty()).then(|| text.parse().map_err(serde::de::Error::custom));
    address.transpose()
}

fn unless_empty_time<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = (!text.is_empty()).then(|| Span::try_from(text).map_err(serde::de::Error::custom));
    time.transpose()
}

/// Back to an earlier state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// The run goes on as it was after so many rounds.
    pub round: u64,
    /// Names of clients that take no part from then on.
    pub exclude: Vec<String>,
}

/// A server's settings, checked and filled in.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where `/healthz`, `/metrics` and `/status` are served.
    pub ops: Option<SocketAddr>,
    /// The folder that survives a crash.
    pub state: PathBuf,
    /// The folder of `formant cert`.
    pub certs: PathBuf,
    /// The clients' names, in the order of their places.
    pub clients: Vec<String>,
    /// The training samples of clients whose word is not taken for them, in the order of their places.
    pub samples: Vec<Option<u64>>,
    /// Connections at the same time.
    pub max_clients: usize,
    /// Most samples an upload may claim.
    pub max_samples: u64,
    /// Largest upload in bytes; without it, a multiple of the first broadcast.
    pub max_upload: Option<u64>,
    /// Furthest that an upload may be from its broadcast, as a multiple of the broadcast's norm.
    pub max_norm_ratio: f64,
    /// After this long a round closes with what is there, if the experiment does not say.
    pub patience: Option<Duration>,
    /// Share of its best that the GM's accuracy above chance may fall to.
    pub collapse: f64,
    /// Earlier rounds to which the run can be taken back.
    pub keep_states: usize,
    /// Calls a second of one client.
    pub max_calls: u32,
    /// Whether the run is to be taken back before it goes on. No key of the file: it is done once.
    pub rollback: Option<Rollback>,
    /// Bytes in one message of a transfer.
    pub chunk: usize,
    /// A transfer without a chunk for so long is given up.
    pub idle_timeout: Duration,
    /// Slowest upload, in bytes per second.
    pub min_rate: u64,
    /// Most bytes per second in each direction.
    pub rate_limit: Option<u64>,
    /// How long the server stays after the last round.
    pub linger: Duration,
    pub(crate) packing: Packing,
}

impl ServerSettings {
    /// Takes `[server]` out of a server's file and reads both: the experiment, and how it is served.
    pub fn read(path: &Path, zoo: &Zoo) -> Result<(OneMethod, Self), NetworkError> {
        Self::parse(&Experiment::read_table(path)?, zoo)
    }

    /// The same from a table.
    pub fn parse(table: &Table, zoo: &Zoo) -> Result<(OneMethod, Self), NetworkError> {
        let mut table = table.clone();
        let given = match table.remove("server") {
            None => Table::new(),
            Some(Value::Table(given)) => given,
            Some(other) => {
                return Err(SchemaError::Type {
                    path: "server".into(),
                    value: other.to_string(),
                    expected: "a section; write [server] on a line of its own".into(),
                    help: "examples/deploy/server.toml shows one".into(),
                }
                .into());
            }
        };
        let experiment = OneMethod::new(Experiment::parse_for_network(&table, &[], zoo)?)?;
        let settings = Self::resolve(given, experiment.clients())?;
        Ok((experiment, settings))
    }

    fn resolve(mut given: Table, clients: usize) -> Result<Self, NetworkError> {
        let (names, samples) = (given.remove("clients"), given.remove("samples"));
        let known = |key: &String| SERVER.iter().any(|k| k.name == key);
        if let Some(unknown) = given.keys().find(|key| !known(key)) {
            let keys = SERVER.iter().map(|key| key.name).chain(["clients", "samples"]);
            let hint = suggest(unknown, keys, "keys");
            return Err(SchemaError::Unknown { path: format!("server.{unknown}"), hint }.into());
        }
        let keys: Keys = resolve("server", SERVER, &given)?.try_into().map_err(|error| {
            let reason = toml::de::Error::to_string(&error);
            ExperimentError::Syntax { origin: "section [server]".into(), reason }
        })?;
        let clients = client_names(names, clients)?;
        let samples = known_samples(samples, &clients)?;
        Ok(Self {
            listen: keys.listen,
            ops: keys.ops.map(loopback).transpose()?,
            state: keys.state,
            certs: keys.certs,
            samples,
            max_clients: keys.max_clients.unwrap_or(2 * clients.len() + 16),
            max_samples: keys.max_samples,
            max_upload: keys.max_upload.map(|size| size.0),
            max_norm_ratio: keys.max_norm_ratio,
            patience: keys.patience.map(|span| span.0),
            collapse: keys.collapse,
            keep_states: keys.keep_states,
            max_calls: keys.max_calls,
            rollback: None,
            chunk: keys.chunk.0 as usize,
            idle_timeout: keys.idle_timeout.0,
            min_rate: keys.min_rate.0,
            rate_limit: keys.rate_limit.map(|size| size.0),
            linger: keys.linger.0,
            packing: Packing {
                encoding: match keys.compress {
                    Compression::None => Encoding::None,
                    Compression::Zstd => Encoding::Zstd,
                },
                precision: match keys.upload_precision {
                    UploadPrecision::F32 => Precision::F32,
                    UploadPrecision::F16 => Precision::F16,
                },
            },
            clients,
        })
    }
}

/// How many training samples clients have, as far as the operator says so.
fn known_samples(
    given: Option<Value>,
    clients: &[String],
) -> Result<Vec<Option<u64>>, NetworkError> {
    let wrong = |path: String, value: String| {
        SchemaError::Type {
        path,
        value,
        expected: "a whole number from 1".into(),
        help: "write samples = { alice = 1200 }, a number for every client whose word is not to be taken"
            .into(),
    }
    };
    let mut samples = vec![None; clients.len()];
    let table = match given {
        None => return Ok(samples),
        Some(Value::Table(table)) => table,
        Some(other) => return Err(wrong("server.samples".into(), other.to_string()).into()),
    };
    for (name, value) in table {
        let path = format!("server.samples.{name}");
        let Some(place) = clients.iter().position(|client| *client == name) else {
            let hint = suggest(&name, clients.iter().map(String::as_str), "clients");
            return Err(SchemaError::Unknown { path, hint }.into());
        };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| *number > 0);
        samples[place] = Some(number.ok_or_else(|| wrong(path, value.to_string()))?);
    }
    Ok(samples)
}

fn client_names(given: Option<Value>, count: usize) -> Result<Vec<String>, NetworkError> {
    let Some(given) = given else {
        return Ok((0..count).map(|client| format!("client-{client:03}")).collect());
    };
    let names: Option<Vec<String>> = given
        .as_array()
        .and_then(|list| list.iter().map(|name| Some(name.as_str()?.to_owned())).collect());
    let names = names.ok_or_else(|| SchemaError::Type {
        path: "server.clients".into(),
        value: given.to_string(),
        expected: "a list of names, such as [\"alice\", \"bob\"]".into(),
        help: "the clients' names, in the order of their places".into(),
    })?;
    let legal = |name: &String| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && name.len() <= 64 && name.chars().all(letter)
    };
    if let Some(name) = names.iter().find(|name| !legal(name)) {
        return Err(NetworkError::setting(
            format!("`server.clients` has the name \"{name}\""),
            "a name is 1 to 64 letters, digits and -_.",
        ));
    }
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(NetworkError::setting(
            format!("`server.clients` names \"{name}\" twice"),
            "give every client a name of its own",
        ));
    }
    if names.len() != count {
        return Err(NetworkError::setting(
            format!("`server.clients` has {} names, and `data.clients = {count}`", names.len()),
            format!("set data.clients = {}, or name {count} clients", names.len()),
        ));
    }
    Ok(names)
}

/// An address that only this machine can reach.
fn loopback(address: SocketAddr) -> Result<SocketAddr, NetworkError> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(NetworkError::setting(
        format!("`server.ops = \"{address}\"` is open to other machines, and it has no TLS"),
        "use a loopback address such as \"127.0.0.1:7701\", and a proxy or a tunnel to reach it",
    ))
}

/// Reads `256KiB`, `2MB` or plain bytes.
///
/// ```
/// assert_eq!(formant_network::parse_bytes("2MB"), Some(2_000_000));
/// assert_eq!(formant_network::parse_bytes("1.5 KiB"), Some(1_536));
/// assert_eq!(formant_network::parse_bytes("many"), None);
/// ```
pub fn parse_bytes(given: &str) -> Option<u64> {
    units::bytes(given).map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(server: &str) -> Result<ServerSettings, NetworkError> {
        let text = format!("data.clients = 2\n[[method]]\nname = \"scd\"\n[server]\n{server}");
        ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard())
            .map(|(_, settings)| settings)
    }

    #[test]
    fn defaults_name_the_clients() {
        let settings = parse("").unwrap();
        assert_eq!(settings.clients, ["client-000", "client-001"]);
        assert_eq!((settings.chunk, settings.max_clients), (256 * 1024, 20));
        assert_eq!(settings.idle_timeout, Duration::from_secs(30));
        assert_eq!(parse("ops = \"\"").unwrap().ops, None);
    }

    #[test]
    fn what_is_wrong_is_named_with_a_remedy() {
        for (server, part) in [
            ("listen = \"here\"", "server.listen"),
            ("ops = \"0.0.0.0:7701\"", "server.ops = \"0.0.0.0:7701\""),
            ("clients = [\"a\"]", "has 1 names, and `data.clients = 2`"),
            ("clients = [\"a\", \"a\"]", "names \"a\" twice"),
            ("clients = [\"a\", \"../b\"]", "\"../b\""),
            ("clients = 3", "server.clients = 3"),
            ("chunk = \"1\"", "server.chunk"),
            ("idle_timeout = \"soon\"", "server.idle_timeout"),
            ("lissten = \"x\"", "did you mean `listen`?"),
            ("compress = \"gzip\"", "server.compress"),
        ] {
            let error = parse(server).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("\nhint: "), "{error}");
        }
        let two = "[[method]]\nname = \"scd\"\n[[method]]\nname = \"ditto\"".parse().unwrap();
        let error = ServerSettings::parse(&two, &Zoo::standard()).unwrap_err().to_string();
        assert!(error.contains("scd, ditto"), "{error}");
    }
}
