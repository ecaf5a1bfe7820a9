//! The scores of a sweep, kept in its folder: what is there is not run again.

use crate::{Score, StudyError};
use formant_runtime::seal::{Check, seal, verify};
use formant_runtime::{RuntimeError, files};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The results' name in a sweep's folder.
const RESULTS_FILE: &str = "results.jsonl";

/// All scores that a folder holds, and the lock on that folder.
pub(crate) struct Results {
    path: PathBuf,
    known: HashMap<String, Score>,
    /// Keeps other sweeps out.
    _lock: File,
}

impl Results {
    /// Takes a folder, which is made where there is none, and reads what it holds.
    pub(crate) fn open(folder: &Path) -> Result<Self, StudyError> {
        files::create_folder(folder)?;
        let lock = files::lock(folder)?;
        let path = folder.join(RESULTS_FILE);
        let known = if path.exists() { read(&path)? } else { HashMap::new() };
        Ok(Self { path, known, _lock: lock })
    }

    /// What a folder holds, read while others may write to it; nothing if there is no folder.
    pub(crate) fn peek(folder: &Path) -> Result<HashMap<String, Score>, StudyError> {
        let path = folder.join(RESULTS_FILE);
        if path.exists() { read(&path) } else { Ok(HashMap::new()) }
    }

    /// The scores with these keys, if all of them are there.
    pub(crate) fn all(&self, keys: &[String]) -> Option<Vec<Score>> {
        keys.iter().map(|key| self.known.get(key).cloned()).collect()
    }

    /// Adds what is new.
    pub(crate) fn keep(&mut self, fresh: &[Score]) -> Result<(), StudyError> {
        for score in fresh {
            if !self.known.contains_key(&score.key) {
                self.append(score)?;
            }
            self.known.insert(score.key.clone(), score.clone());
        }
        Ok(())
    }

    fn append(&self, score: &Score) -> Result<(), StudyError> {
        let fail = |error| RuntimeError::file("write", &self.path, error);
        let mut line = serde_json::to_vec(score)?;
        seal(&mut line, Check::default());
        line.push(b'\n');
        // Behind a line that a crash has torn, so that the two are not taken for one.
        let torn =
            files::read(&self.path).is_ok_and(|text| text.last().is_some_and(|c| *c != b'\n'));
        if torn {
            line.insert(0, b'\n');
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        Ok(file.and_then(|mut file| file.write_all(&line)).map_err(fail)?)
    }
}

fn read(path: &Path) -> Result<HashMap<String, Score>, StudyError> {
    let bytes = files::read(path)?;
    // A line that a crash has torn, or that is not as it was written, is a combination that will run again.
    let whole =
        bytes.split(|byte| *byte == b'\n').filter(|line| verify(line, Check::default()).is_ok());
    let scores = whole.filter_map(|line| serde_json::from_slice::<Score>(line).ok());
    Ok(scores.map(|score| (score.key.clone(), score)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(key: &str) -> Score {
        let (method, setting) = ("ditto".to_owned(), "a=1".to_owned());
        let (key, gm, metric) = (key.into(), Some(0.5), formant_numerics::Metric::MacroF1);
        Score { key, method, setting, seed: 1, gm, pm: None, failed: false, metric }
    }

    #[test]
    fn what_is_kept_is_found_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut results = Results::open(folder.path()).unwrap();
        results.keep(&[score("x"), score("y")]).unwrap();
        results.keep(&[score("y")]).unwrap();
        let path = folder.path().join(RESULTS_FILE);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert!(Results::open(folder.path()).is_err(), "the folder is in use");
        drop(results);
        let again = Results::open(folder.path()).unwrap();
        assert_eq!(again.all(&keys(&["y", "x"])).unwrap(), [score("y"), score("x")]);
        assert_eq!(again.all(&keys(&["x", "z"])), None);
        drop(again);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
        let torn = Results::open(folder.path()).unwrap();
        assert!(torn.all(&keys(&["x"])).is_some() && torn.all(&keys(&["y"])).is_none());
        drop(torn);
        // A score that somebody, or a disk, has changed is not one of the sweep.
        std::fs::write(&path, String::from_utf8(bytes).unwrap().replacen("0.5", "0.9", 1)).unwrap();
        let changed = Results::open(folder.path()).unwrap();
        assert!(changed.all(&keys(&["x"])).is_none() && changed.all(&keys(&["y"])).is_some());
    }
}
