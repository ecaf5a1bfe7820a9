//! A folder as MLflow's file store keeps experiments and runs.
//!
//! An experiment of MLflow is an experiment's name, a run is one method with one seed. Ids are hashes, so that the same
//! run has the same ones wherever it is written. The log knows no date: times are milliseconds since the method began,
//! as if that had been in 1970.

use std::path::{Path, PathBuf};

use formant_runtime::files::fingerprint;
use serde_json::Value;
use std::fmt::Write as _;

use super::scalars::{Point, scalars};
use super::{ExportFile, flattened, settings};
use crate::{MethodLog, Row, RunLog, markdown, rows};

/// The longest value of a parameter that MLflow takes.
const LONGEST: usize = 6_000;

/// The files of all runs below a store's root. `root` is the absolute path of that folder: MLflow wants to know where
/// artifacts are.
pub fn mlflow(logs: &[RunLog], root: &Path) -> Vec<ExportFile> {
    let mut files = Vec::new();
    for log in logs {
        let store = Store::new(log, root);
        files.push(ExportFile::new(store.folder().join("meta.yaml"), store.meta()));
        for (method, row) in log.methods.iter().zip(&rows(log)) {
            files.extend(store.run(log, method, row));
        }
    }
    // Runs of one experiment share its own file.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup();
    files
}

/// The place of an experiment in a store.
struct Store<'l> {
    name: &'l str,
    id: String,
    location: String,
}

impl<'l> Store<'l> {
    fn new(log: &'l RunLog, root: &Path) -> Self {
        let name = log.started.name.as_str();
        let hash = fingerprint(format!("experiment {name}").as_bytes());
        // Numbers of 18 digits, as MLflow draws them.
        let number = u64::from_str_radix(&hash[..16], 16).unwrap_or_default();
        let id = format!("{:018}", number % 900_000_000_000_000_000 + 100_000_000_000_000_000);
        let location = file_uri(&root.join(&id));
        Self { name, id, location }
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(&self.id)
    }

    fn meta(&self) -> String {
        yaml(&[
            ("artifact_location", self.location.as_str().into()),
            ("creation_time", 0.into()),
            ("experiment_id", self.id.as_str().into()),
            ("last_update_time", 0.into()),
            ("lifecycle_stage", "active".into()),
            ("name", self.name.into()),
        ])
    }

    fn run(&self, log: &RunLog, method: &MethodLog, row: &Row) -> Vec<ExportFile> {
        let (run, info) = (&log.started, &method.info);
        let identity = format!("{}\n{}\n{}\n{}", run.name, run.seed, info.label, run.config);
        let id = fingerprint(identity.as_bytes());
        let folder = self.folder().join(&id);
        let name = format!("{}, seed {}", info.label, run.seed);
        let status = match (row.finished, row.gave_up()) {
            (true, false) => 3,
            (true, true) => 4,
            (false, _) => 1,
        };
        let meta = yaml(&[
            ("artifact_uri", format!("{}/{id}/artifacts", self.location).into()),
            ("end_time", if row.finished { milliseconds(row.seconds).into() } else { Value::Null }),
            ("entry_point_name", "".into()),
            ("experiment_id", self.id.as_str().into()),
            ("lifecycle_stage", "active".into()),
            ("run_id", id.as_str().into()),
            ("run_name", name.as_str().into()),
            ("run_uuid", id.as_str().into()),
            ("source_name", "formant".into()),
            ("source_type", 4.into()),
            ("source_version", run.formant.as_str().into()),
            ("start_time", 0.into()),
            ("status", status.into()),
            ("tags", Value::Array(Vec::new())),
            ("user_id", "formant".into()),
        ]);
        let mut files = vec![
            ExportFile::new("meta.yaml", meta),
            ExportFile::new("artifacts/experiment.json", format!("{:#}\n", run.config)),
            ExportFile::new("artifacts/report.md", markdown(log)),
        ];
        files.extend(parameters(log, method));
        files.extend(metrics(log, method, row));
        let print = method.finish.as_ref().and_then(|finish| finish.fingerprint.as_deref());
        let tags = [
            ("mlflow.runName", Some(name.as_str())),
            ("mlflow.source.name", Some("formant")),
            ("mlflow.source.type", Some("LOCAL")),
            ("mlflow.user", Some("formant")),
            ("formant.title", Some(info.title.as_str())),
            ("formant.fingerprint", print),
        ];
        for (tag, text) in tags {
            let file = |text: &str| ExportFile::new(Path::new("tags").join(tag), text);
            files.extend(text.map(file));
        }
        files.into_iter().map(|file| file.below(&folder)).collect()
    }
}

/// The settings of the experiment and the method's own.
fn parameters(log: &RunLog, method: &MethodLog) -> Vec<ExportFile> {
    let (run, info) = (&log.started, &method.info);
    let known = [
        ("method.label", info.label.clone()),
        ("method.name", info.name.clone()),
        ("run.dataset", run.dataset.clone()),
        ("run.network", run.network.clone()),
        ("run.parameters", run.parameters.to_string()),
        ("run.split", run.split.clone()),
        ("run.clients", run.clients.len().to_string()),
    ];
    let known = known.map(|(key, value)| (key.to_owned(), value));
    let own = flattened("method", &info.hyper_parameters);
    let all = known.into_iter().chain(settings(log)).chain(own);
    let mut files: Vec<ExportFile> = Vec::new();
    for (key, value) in all.filter(|(_, value)| value != "null") {
        // A key is a file's name, and may have no other letters than these.
        let allowed = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
        let key: String = key.chars().map(|c| if allowed(c) { c } else { '_' }).take(200).collect();
        let value: String = value.chars().take(LONGEST).collect();
        let path = Path::new("params").join(key);
        if !files.iter().any(|file| file.path == path) {
            files.push(ExportFile::new(path, value));
        }
    }
    files
}

/// Every series, and the best figures by themselves, by which MLflow sorts runs.
fn metrics(log: &RunLog, method: &MethodLog, row: &Row) -> Vec<ExportFile> {
    let mut all = scalars(log, method);
    for (tag, value, round) in
        [("GM_best", row.gm_best, row.best_round_gm), ("PM_best", row.pm_best, row.best_round_pm)]
    {
        if let (Some(value), Some(round)) = (value, round) {
            all.insert(tag.to_owned(), vec![Point { round, seconds: row.seconds, value }]);
        }
    }
    let files = all.into_iter().map(|(tag, points)| {
        let mut lines = String::new();
        for Point { round, seconds, value } in points {
            let _ = writeln!(lines, "{} {value} {round}", milliseconds(seconds));
        }
        ExportFile::new(Path::new("metrics").join(tag), lines)
    });
    files.collect()
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1_000.0).round() as u64
}

/// A flat mapping. Texts are quoted as JSON does, which YAML reads.
fn yaml(fields: &[(&str, Value)]) -> String {
    fields.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{key}: {value}");
        text
    })
}

/// The address of a folder on this machine.
fn file_uri(path: &Path) -> String {
    let shown = path.to_string_lossy().replace('\\', "/");
    let mut uri = String::from(if shown.starts_with('/') { "file://" } else { "file:///" });
    for byte in shown.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~:".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_letters_that_mean_something() {
        assert_eq!(file_uri(Path::new("/a b/ü#?")), "file:///a%20b/%C3%BC%23%3F");
        assert_eq!(file_uri(Path::new(r"C:\runs")), "file:///C:/runs");
    }

    #[test]
    fn texts_are_yaml_whatever_they_hold() {
        let fields = [("name", "a: \"b\"\n# c".into()), ("status", 3.into()), ("end", Value::Null)];
        assert_eq!(yaml(&fields), "name: \"a: \\\"b\\\"\\n# c\"\nstatus: 3\nend: null\n");
    }
}
