//! What a report shows, in files that other programs read.
//!
//! Everything here is made in memory, as [`ExportFile`]s with paths below a folder that somebody has named, and put in
//! place by [`write_exports`], which replaces nothing unasked.

mod comparison;
mod csv;
mod latex;
mod mlflow;
mod pictures;
mod record;
mod scalars;
mod sheets;
mod tensorboard;

use formant_runtime::files::{self, Replacement, Synced, Writers, replace};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{ReportError, RunLog};

pub use comparison::{comparison_csv, comparison_latex};
pub use csv::{csv, seed_csv};
pub(crate) use latex::{Tabular, tabulars};
pub use latex::{latex, seed_latex};
pub use mlflow::mlflow;
pub use pictures::{Picture, pictures, png};
pub use record::{MethodRecord, Record, RunFacts, Scores, record};
pub use tensorboard::tensorboard;

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    /// Where, below the folder of the export.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl ExportFile {
    /// A file of some bytes.
    pub fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }

    /// The same file below a folder.
    #[must_use]
    pub fn below(self, folder: &Path) -> Self {
        Self { path: folder.join(self.path), ..self }
    }
}

/// Writes files, and the folders that they are in.
///
/// Before the first one is written, all are looked at: unless `replacing`, none of them may be there already with
/// another content. Each appears whole or not at all. Other files in the folders are left alone.
pub fn write_exports(files: &[ExportFile], replacing: bool) -> Result<(), ReportError> {
    for ExportFile { path, bytes } in files {
        if path.is_dir() {
            return Err(ReportError::IsFolder { path: path.clone() });
        }
        if path.exists() && !replacing && !files::read(path).is_ok_and(|found| found == *bytes) {
            return Err(ReportError::Exists { file: path.clone() });
        }
        // `a/b` cannot be written where `a` is a file; the nearest thing that exists has to be a folder.
        let above = path.ancestors().skip(1).find(|above| above.exists());
        if let Some(above) = above.filter(|above| !above.is_dir()) {
            return Err(ReportError::NoFolder { path: above.to_owned() });
        }
    }
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.path.parent()).collect();
    for folder in folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
        files::create_folder(folder)
            .map_err(|error| ReportError::Folder { why: error.to_string() })?;
    }
    for ExportFile { path, bytes } in files {
        let how = Replacement { writers: Writers::Many, ..Replacement::synced(Synced::Nothing) };
        replace(path, how, |file| file.write_all(bytes))
            .map_err(|source| ReportError::Unwritable { file: path.clone(), source })?;
    }
    Ok(())
}

/// The leaves of a value with their keys joined by dots, in the value's order. Lists of plain values are one leaf.
fn flattened(prefix: &str, value: &Value) -> Vec<(String, String)> {
    let mut leaves = Vec::new();
    collect(prefix, value, &mut leaves);
    leaves
}

fn collect(prefix: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    let key =
        |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(&key(name), field, leaves);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (place, item) in items.iter().enumerate() {
                collect(&key(&place.to_string()), item, leaves);
            }
        }
        Value::String(text) => leaves.push((prefix.to_owned(), text.clone())),
        other => leaves.push((prefix.to_owned(), other.to_string())),
    }
}

/// What an experiment says besides its methods: key and value.
fn settings(log: &RunLog) -> Vec<(String, String)> {
    let mut config = log.started.config.clone();
    if let Some(sections) = config.as_object_mut() {
        // Every method has its own keys, as its hyper-parameters.
        sections.shift_remove("method");
    }
    flattened("", &config)
}

/// A name for a folder or a tag: of a text of any kind, what every system takes.
pub(crate) fn plain_name(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let words = text.split(|c: char| !allowed(c)).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-");
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "run".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_have_their_whole_key() {
        let value =
            json!({"a": {"b": 1, "c": [1, 2]}, "d": [{"e": "x"}, {"e": null}], "f": "y\"z"});
        let pairs =
            [("a.b", "1"), ("a.c", "[1,2]"), ("d.0.e", "x"), ("d.1.e", "null"), ("f", "y\"z")];
        let expected = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(flattened("", &value), expected);
    }

    #[test]
    fn names_are_fit_for_every_system() {
        assert_eq!(plain_name("../a b/ü"), "a-b");
        assert_eq!(plain_name("SCD (λ = 3)"), "SCD-3");
        assert_eq!(plain_name("…"), "run");
    }
}
