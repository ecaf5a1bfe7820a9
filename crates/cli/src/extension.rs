//! `formant run --resume`: a run that goes on, perhaps with more rounds or methods than it had.

use crate::folder::experiment_file;
use crate::output::pasteable;
use anyhow::{Context, bail};
use formant_experiment::{Experiment, Override};
use formant_methods::Zoo;
use formant_runtime::files::{self, Synced};
use formant_runtime::{Checkpoint, RuntimeError};
use formant_study::Series;
use std::path::Path;
use toml::{Table, Value};

/// What a run is to have more of.
pub(crate) struct More {
    rounds: Vec<Override>,
    methods: Vec<String>,
}

impl More {
    pub(crate) fn is_something(&self) -> bool {
        !self.rounds.is_empty() || !self.methods.is_empty()
    }
}

/// Reads `--set` and `--add-method`; refuses whatever would make it another run.
pub(crate) fn asked_for(set: &[String], methods: &[String]) -> anyhow::Result<More> {
    let mut rounds = Vec::new();
    for text in set {
        let change = Override::parse(text)?;
        if change.key() != "rounds" {
            bail!(
                "--resume cannot go with --set {text}: a run goes on as it began, or with more rounds or methods\nhint: use --set rounds=N and --add-method NAME, or start a new run without --resume"
            );
        }
        rounds.push(change);
    }
    Ok(More { rounds, methods: methods.to_vec() })
}

/// Refuses to give one seed of several more than the others have.
pub(crate) fn check_alone(run_dir: &Path) -> anyhow::Result<()> {
    let above = run_dir.join("..");
    if Series::is_one(&above) {
        let above = run_dir.parent().filter(|above| above.file_name().is_some()).unwrap_or(&above);
        bail!(
            "{} is one of several seeds, which are to stay repetitions of one experiment\nhint: extend all of them: formant run --resume {}",
            run_dir.display(),
            pasteable(above)
        );
    }
    Ok(())
}

/// The experiment of a run that is to go on, with what it is to have more of.
pub(crate) fn experiment(
    run_dir: &Path,
    more: &More,
    machine: &[Override],
    zoo: &Zoo,
) -> anyhow::Result<Experiment> {
    let path = experiment_file(run_dir)?;
    let mut table = Experiment::read_table(&path)?;
    let changes = [&more.rounds[..], machine].concat();
    for name in &more.methods {
        zoo.entry(name)?;
        let is_there = |method: &Value| {
            let word = |key| method.get(key).and_then(Value::as_str);
            word("label").or(word("name")) == Some(name)
        };
        if table.get("method").and_then(Value::as_array).is_some_and(|all| all.iter().any(is_there))
        {
            bail!(
                "--add-method {name}: the run in {} has it already\nhint: other settings of the same method are another run; `formant compare` puts both side by side",
                run_dir.display()
            );
        }
        let entry = Table::from_iter([("name".to_owned(), Value::String(name.clone()))]);
        let list = table.entry("method").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(Value::Table(entry));
        }
    }
    let experiment =
        Experiment::parse(&table, &changes, zoo).with_context(|| path.display().to_string())?;
    // Asked here already, because reading the data may take long.
    let is_complete = |at: Checkpoint| at.is_complete(experiment.methods.len(), experiment.rounds);
    if !more.is_something() && Checkpoint::read(run_dir)?.is_some_and(is_complete) {
        return Err(RuntimeError::Complete { path: run_dir.into() }.into());
    }
    Ok(experiment)
}

/// Has the folder say what the run is from now on. A session that ends right after this begins with it.
pub(crate) fn write(run_dir: &Path, experiment: &Experiment) -> anyhow::Result<()> {
    let kept = experiment.to_kept();
    files::write(&experiment_file(run_dir)?, kept.as_bytes(), Synced::Content)?;
    Ok(())
}
