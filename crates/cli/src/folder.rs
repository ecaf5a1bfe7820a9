//! Run folders: which one is used, and that no two runs use the same.

use crate::output::pasteable;
use anyhow::{Context, bail};
use formant_experiment::{Experiment, Override};
use formant_methods::Zoo;
use formant_report::RunLog;
use formant_runtime::{Checkpoint, EVENTS_FILE, RuntimeError, check_experiment, files};
use formant_study::{Series, series_folders};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The resolved experiment's name in a run folder.
const EXPERIMENT_FILE: &str = "experiment.toml";

/// Refuses a folder in which a run would meet files that are not its own.
pub(crate) fn check_unused(folder: &Path) -> anyhow::Result<()> {
    if folder.join(EXPERIMENT_FILE).exists() {
        return Err(holds_a_run(folder));
    }
    check_empty(folder, "choose a new folder with --out, or none at all")
}

/// Refuses a folder with something in it; one that is not there is empty.
pub(crate) fn check_empty(folder: &Path, remedy: &str) -> anyhow::Result<()> {
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(RuntimeError::file("use", folder, error).into()),
        Ok(mut entries) => entries.next(),
    };
    if let Some(Ok(found)) = found {
        bail!(
            "{} is not empty: it holds {}\nhint: {remedy}",
            folder.display(),
            found.file_name().to_string_lossy()
        );
    }
    Ok(())
}

/// Makes the run folder (without a choice, `runs/NAME-TIME`) and puts the experiment into it.
/// Whoever creates that file owns the folder, however many start in the same moment.
pub(crate) fn claim(chosen: Option<PathBuf>, experiment: &Experiment) -> anyhow::Result<PathBuf> {
    let folder = make(chosen, &experiment.name)?;
    let text = experiment.to_kept();
    let path = folder.join(EXPERIMENT_FILE);
    let written = File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Ok(folder),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(holds_a_run(&folder)),
        Err(error) => Err(RuntimeError::file("write", &path, error).into()),
    }
}

/// Undoes a claim: nothing was begun, and the same command may be given again.
pub(crate) fn give_back(folder: &Path) {
    // What cannot be removed is named by the next command that meets it.
    let _ = fs::remove_file(folder.join(EXPERIMENT_FILE));
    let _ = fs::remove_dir(folder.join("states"));
    let _ = fs::remove_dir(folder);
}

/// Makes the folder that was chosen, or `runs/NAME-TIME`.
pub(crate) fn make(chosen: Option<PathBuf>, name: &str) -> anyhow::Result<PathBuf> {
    let Some(folder) = chosen else { return fresh(Path::new("runs"), name) };
    files::create_folder(&folder)?;
    Ok(folder)
}

/// The experiment of a run that has ended.
pub(crate) fn finished_experiment(
    run_dir: &Path,
    overrides: &[Override],
    zoo: &Zoo,
) -> anyhow::Result<Experiment> {
    if Series::is_one(run_dir) {
        bail!(
            "{} holds several seeds\nhint: name one of them, such as {}",
            run_dir.display(),
            series_folders(run_dir)?
                .first()
                .map_or_else(|| run_dir.join("seed-1"), Clone::clone)
                .display()
        );
    }
    let path = experiment_file(run_dir)?;
    let experiment =
        Experiment::read(&path, overrides, zoo).with_context(|| path.display().to_string())?;
    let is_complete = |at: Checkpoint| at.is_complete(experiment.methods.len(), experiment.rounds);
    if !Checkpoint::read(run_dir)?.is_some_and(is_complete) {
        bail!(
            "the run in {} has not ended\nhint: go on with it by `formant run --resume {}`",
            run_dir.display(),
            pasteable(run_dir)
        );
    }
    // A file that was changed since would give figures of another experiment to this run's models.
    let log = RunLog::skim(&run_dir.join(EVENTS_FILE))?;
    let now = serde_json::to_value(Experiment::read_table(&path)?)?;
    check_experiment(&log.started.config, &now, run_dir)?;
    Ok(experiment)
}

/// The experiment file of a run.
pub(crate) fn experiment_file(run_dir: &Path) -> anyhow::Result<PathBuf> {
    let path = run_dir.join(EXPERIMENT_FILE);
    if !path.exists() {
        bail!(
            "{} is not a run folder: it has no {EXPERIMENT_FILE}\nhint: name the folder that `formant run` printed, such as runs/quickstart-20260101-120000",
            run_dir.display()
        );
    }
    Ok(path)
}

fn holds_a_run(folder: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{} holds a run already\nhint: go on with it by --resume {}, or choose another folder with --out",
        folder.display(),
        pasteable(folder)
    )
}

/// `NAME-TIME`, with a number behind it if that exists.
fn fresh(parent: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let allowed = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let safe: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let safe = if safe.is_empty() { "run".to_owned() } else { safe };
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    files::create_folder(parent)?;
    let mut count = 1;
    loop {
        let suffix = if count == 1 { String::new() } else { format!("-{count}") };
        let folder = parent.join(format!("{safe}-{time}{suffix}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => count += 1,
            Err(error) => return Err(RuntimeError::file("create", &folder, error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_start_together_get_folders_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> =
            (0..3).map(|_| fresh(parent.path(), "a/b c").unwrap()).collect();
        for (i, folder) in folders.iter().enumerate() {
            assert!(folder.is_dir() && !folders[..i].contains(folder));
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with("a-b-c-"), "{name}");
        }
    }

    #[test]
    fn a_folder_is_claimed_once() {
        let parent = tempfile::tempdir().unwrap();
        let table = "[[method]]\nname = \"local\"".parse().unwrap();
        let experiment = Experiment::parse(&table, &[], &Zoo::standard()).unwrap();
        let out = parent.path().join("deep/run");
        check_unused(&out).unwrap();
        assert_eq!(claim(Some(out.clone()), &experiment).unwrap(), out);
        let file = experiment_file(&out).unwrap();
        assert_eq!(Experiment::read(&file, &[], &Zoo::standard()).unwrap(), experiment);
        let again = claim(Some(out.clone()), &experiment).unwrap_err();
        assert!(again.to_string().contains("holds a run already"), "{again}");
        assert!(check_unused(&out).is_err() && check_unused(parent.path()).is_err());
    }
}
