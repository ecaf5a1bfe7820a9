//! The section `[server]` of a server's file.

use crate::codec::Packing;
use crate::error::NetworkError;
use crate::wire::proto::{Encoding, Precision};
use formant_experiment::{Experiment, units};
use formant_methods::schema::{Default, Key, Kind, SchemaError, resolve, suggest};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};

const fn key(name: &'static str, kind: Kind, default: Default, help: &'static str) -> Key {
    Key { name, symbol: "", kind, default, help }
}

/// The keys of `[server]`; `clients` is a list of names and stands beside them.
pub const SERVER: &[Key] = &[
    key(
        "listen",
        Kind::Text,
        Default::Text("0.0.0.0:7700"),
        "where clients connect: address and port",
    ),
    key(
        "ops",
        Kind::Text,
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
        Kind::Text,
        Default::Unset,
        "largest upload, such as \"64MiB\"; without it, four times the first broadcast and 1 MiB",
    ),
    key(
        "max_norm_ratio",
        Kind::Above { min: 0.0, max: f64::INFINITY },
        Default::Number(100.0),
        "an upload whose model is further from the broadcast than this times the broadcast's norm is refused",
    ),
    key(
        "compress",
        Kind::Choice(&["none", "zstd"]),
        Default::Text("none"),
        "compression of broadcasts and uploads",
    ),
    key(
        "upload_precision",
        Kind::Choice(&["f32", "f16"]),
        Default::Text("f32"),
        "f16 halves uploads and rounds their parameters",
    ),
    key(
        "chunk",
        Kind::Text,
        Default::Text("256KiB"),
        "bytes in one message of a transfer, from 1 KiB to 2 MiB",
    ),
    key(
        "idle_timeout",
        Kind::Text,
        Default::Text("30s"),
        "a transfer without a chunk for so long is given up",
    ),
    key(
        "min_rate",
        Kind::Text,
        Default::Text("1KiB"),
        "an upload that is slower than so many bytes per second, after the idle timeout, is given up",
    ),
    key(
        "rate_limit",
        Kind::Text,
        Default::Unset,
        "most bytes per second in each direction, over all connections; without it, no limit",
    ),
    key(
        "linger",
        Kind::Text,
        Default::Text("60s"),
        "how long the server stays after the last round for clients that were away",
    ),
];

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
    /// Connections at the same time.
    pub max_clients: usize,
    /// Most samples an upload may claim.
    pub max_samples: u64,
    /// Largest upload in bytes; without it, a multiple of the first broadcast.
    pub max_upload: Option<u64>,
    /// Furthest that an upload may be from its broadcast, as a multiple of the broadcast's norm.
    pub max_norm_ratio: f64,
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
    pub fn read(path: &Path) -> Result<(Experiment, Self), NetworkError> {
        Self::parse(&Experiment::read_table(path)?)
    }

    /// The same from a table.
    pub fn parse(table: &Table) -> Result<(Experiment, Self), NetworkError> {
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
        let experiment = Experiment::parse_for_network(&table, &[])?;
        if experiment.methods().len() != 1 {
            let labels: Vec<&str> = experiment.methods().iter().map(|m| m.label.as_str()).collect();
            return Err(NetworkError::setting(
                format!("a server runs one method, and the file has {}", labels.join(", ")),
                "keep one [[method]]",
            ));
        }
        let settings = Self::resolve(given, &experiment)?;
        Ok((experiment, settings))
    }

    fn resolve(mut given: Table, experiment: &Experiment) -> Result<Self, NetworkError> {
        let names = given.remove("clients");
        let known = |key: &String| SERVER.iter().any(|k| k.name == key);
        if let Some(unknown) = given.keys().find(|key| !known(key)) {
            let keys = SERVER.iter().map(|key| key.name).chain(["clients"]);
            let hint = suggest(unknown, keys, "keys");
            return Err(SchemaError::Unknown { path: format!("server.{unknown}"), hint }.into());
        }
        let table = resolve("server", SERVER, &given)?;
        let count =
            experiment.to_table().get("data").and_then(|data| data.get("clients")?.as_integer());
        let clients = client_names(names, count.unwrap_or_default() as usize)?;
        let text = |key: &str| table.get(key).and_then(Value::as_str);
        let integer = |key: &str| table.get(key).and_then(Value::as_integer).map(|x| x as u64);
        let chunk = bytes(&table, "chunk")?.unwrap_or_default();
        if !(1_024..=2 * 1_024 * 1_024).contains(&chunk) {
            return Err(wrong("chunk", text("chunk"), "from \"1KiB\" to \"2MiB\""));
        }
        let encoding = match text("compress") {
            Some("zstd") => Encoding::Zstd,
            _ => Encoding::None,
        };
        let precision = match text("upload_precision") {
            Some("f16") => Precision::F16,
            _ => Precision::F32,
        };
        Ok(Self {
            listen: address("listen", text("listen").unwrap_or_default())?,
            ops: match text("ops") {
                None | Some("") => None,
                Some(given) => Some(loopback("ops", given)?),
            },
            state: text("state").unwrap_or_default().into(),
            certs: text("certs").unwrap_or_default().into(),
            max_clients: integer("max_clients").map_or(2 * clients.len() + 16, |x| x as usize),
            max_samples: integer("max_samples").unwrap_or(u64::MAX),
            max_upload: bytes(&table, "max_upload")?,
            max_norm_ratio: table
                .get("max_norm_ratio")
                .and_then(Value::as_float)
                .unwrap_or(f64::MAX),
            chunk: chunk as usize,
            idle_timeout: duration(&table, "idle_timeout")?,
            min_rate: bytes(&table, "min_rate")?.unwrap_or_default(),
            rate_limit: bytes(&table, "rate_limit")?,
            linger: duration(&table, "linger")?,
            packing: Packing { encoding, precision },
            clients,
        })
    }
}

fn client_names(given: Option<Value>, count: usize) -> Result<Vec<String>, NetworkError> {
    let Some(given) = given else {
        return Ok((0..count).map(|client| format!("client-{client:03}")).collect());
    };
    let wrong = |value: &Value| {
        wrong("clients", Some(&value.to_string()), "a list of names, such as [\"alice\", \"bob\"]")
    };
    let list = given.as_array().ok_or_else(|| wrong(&given))?;
    let names: Option<Vec<String>> =
        list.iter().map(|name| Some(name.as_str()?.to_owned())).collect();
    let names = names.ok_or_else(|| wrong(&given))?;
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

fn wrong(key: &str, value: Option<&str>, expected: &str) -> NetworkError {
    SchemaError::Range {
        path: format!("server.{key}"),
        value: value.unwrap_or_default().to_owned(),
        expected: expected.into(),
        help: SERVER.iter().find(|k| k.name == key).map_or("", |k| k.help).into(),
    }
    .into()
}

fn address(key: &str, given: &str) -> Result<SocketAddr, NetworkError> {
    given.parse().map_err(|_| {
        wrong(key, Some(&format!("\"{given}\"")), "an address and a port, such as \"0.0.0.0:7700\"")
    })
}

/// An address that only this machine can reach.
fn loopback(key: &str, given: &str) -> Result<SocketAddr, NetworkError> {
    let address = address(key, given)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(NetworkError::setting(
        format!("`server.{key} = \"{given}\"` is open to other machines, and it has no TLS"),
        "use a loopback address such as \"127.0.0.1:7701\", and a proxy or a tunnel to reach it",
    ))
}

fn bytes(table: &Table, key: &str) -> Result<Option<u64>, NetworkError> {
    let Some(given) = table.get(key).and_then(Value::as_str) else { return Ok(None) };
    let size = parse_bytes(given);
    size.map(Some).ok_or_else(|| {
        wrong(key, Some(&format!("\"{given}\"")), "a size such as \"256KiB\" or \"2MB\"")
    })
}

fn duration(table: &Table, key: &str) -> Result<Duration, NetworkError> {
    let given = table.get(key).and_then(Value::as_str).unwrap_or_default();
    units::duration(given).ok_or_else(|| {
        wrong(key, Some(&format!("\"{given}\"")), "a time such as \"30s\" or \"500ms\"")
    })
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
        ServerSettings::parse(&text.parse().unwrap()).map(|(_, settings)| settings)
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
        let error = ServerSettings::parse(&two).unwrap_err().to_string();
        assert!(error.contains("scd, ditto"), "{error}");
    }
}
