//! An experiment before its last changes: what a study varies.

use crate::{StudyError, Tuned};
use formant_experiment::{Experiment, ExperimentError, Override, choose_methods};
use formant_methods::Zoo;
use std::path::{Path, PathBuf};
use toml::Table;

/// A file's table, or a built-in one, with changes to it. Every run of a study is this with a few more
/// changes.
#[derive(Debug, Clone)]
pub struct Draft {
    table: Table,
    changes: Vec<Override>,
    /// The file, which errors name.
    file: Option<PathBuf>,
    zoo: Zoo,
}

impl Draft {
    /// Reads an experiment file without judging it. Its methods are those of the zoo.
    pub fn read(path: &Path, zoo: &Zoo) -> Result<Self, StudyError> {
        Ok(Self { file: Some(path.into()), ..Self::new(Experiment::read_table(path)?, zoo) })
    }

    /// An experiment that comes from no file.
    pub fn new(table: Table, zoo: &Zoo) -> Self {
        Self { table, changes: Vec::new(), file: None, zoo: zoo.clone() }
    }

    /// Says which file it comes from, for errors to name.
    pub(crate) fn is_from(&mut self, path: &Path) {
        self.file = Some(path.into());
    }

    /// Takes the winners of a tuning that were chosen for its methods where it stands. Changes that are there, and
    /// those that come, go before them.
    pub fn take(&mut self, tuned: &Tuned) -> Result<(), StudyError> {
        let winners = tuned.of_experiment(&self.experiment(&[])?);
        self.changes.splice(0..0, winners);
        Ok(())
    }

    /// Keeps only these methods: labels of the experiment or names of the zoo. No names keep all.
    pub fn choose_methods(&mut self, names: &[String]) -> Result<(), StudyError> {
        Ok(choose_methods(&mut self.table, names, &self.zoo)?)
    }

    /// Lays a change over those that are there.
    pub fn change(&mut self, change: Override) {
        self.changes.push(change);
    }

    /// The experiment with the changes of this draft and some more, which come last. Files that it names are
    /// [pinned](Experiment::pins).
    pub fn experiment(&self, more: &[Override]) -> Result<Experiment, StudyError> {
        let changes = [&self.changes, more].concat();
        let parse = |changes: &[Override]| {
            Experiment::parse(&self.table, changes, &self.zoo).map_err(|error| self.blame(error))
        };
        let experiment = parse(&changes)?;
        let pins = experiment.pins()?;
        if pins.is_empty() { Ok(experiment) } else { parse(&[changes, pins].concat()) }
    }

    /// The file is to blame only for what is wrong without any changes too.
    fn blame(&self, error: ExperimentError) -> StudyError {
        match &self.file {
            Some(path) if Experiment::parse(&self.table, &[], &self.zoo).is_err() => {
                StudyError::File { path: path.clone(), source: Box::new(error) }
            }
            _ => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_blamed_for_its_own_faults_alone() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |text: &str, change: &str| {
            let path = folder.path().join("e.toml");
            std::fs::write(&path, text).unwrap();
            let draft = Draft::read(&path, &Zoo::standard()).unwrap();
            draft.experiment(&[Override::parse(change).unwrap()]).unwrap_err().to_string()
        };
        let good = refusal("[[method]]\nname = \"local\"", "rounds=-1");
        assert!(good.starts_with("`rounds = -1`"), "{good}");
        let bad = refusal("rounds = -1\n[[method]]\nname = \"local\"", "seed=1");
        assert!(bad.contains("e.toml: `rounds = -1`") && bad.contains("\nhint: "), "{bad}");
    }

    #[test]
    fn later_changes_win() {
        let mut draft = Draft::new(
            "rounds = 3\n[[method]]\nname = \"local\"".parse().unwrap(),
            &Zoo::standard(),
        );
        draft.change(Override::new(&["rounds"], 4));
        assert_eq!(draft.experiment(&[]).unwrap().rounds, 4);
        assert_eq!(draft.experiment(&[Override::new(&["rounds"], 5)]).unwrap().rounds, 5);
        draft.choose_methods(&["ditto".to_owned()]).unwrap();
        assert_eq!(draft.experiment(&[]).unwrap().methods[0].name(), "ditto");
    }
}
