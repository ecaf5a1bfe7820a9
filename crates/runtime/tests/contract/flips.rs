//! One byte of a run folder is changed: the run, its report and its models are refused with the file's name, or are
//! what they would have been.
//!
//! `FORMANT_FLIPS=10000 cargo test --release --test contract flips` changes as many, of each folder.

use crate::standard::experiment;
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_model::folder::{BROADCAST, all};
use formant_model::{ModelFile, read_broadcast};
use formant_report::{RunLog, rows};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Quiet, RunPlan};
use formant_testing::{DENSE, Fate, Fell, Flips, Folder, Whole, federation, run};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const FILE: &str = "experiment.toml";

/// Two methods, of which the first keeps a broadcast of its own; with patience, models wait for the end of the second.
fn begun(patience: Option<usize>) -> (Folder, RunPlan) {
    let mut settings =
        experiment(&["name = \"fedrod\"", "name = \"ditto\""], DENSE).settings().clone();
    settings.rounds = 4;
    settings.evaluation.patience = patience;
    let experiment = Experiment::new(settings).unwrap();
    let folder = Folder::new();
    fs::write(folder.file(FILE), experiment.to_kept()).unwrap();
    let plan = experiment.plan_on(federation().clone()).unwrap();
    (folder, plan)
}

/// Goes on as `formant run --resume` does.
fn resume(folder: &Path, longer: usize) -> Result<Outcome, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let path = folder.join(FILE);
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let read = Experiment::read(&path, &[], &Zoo::standard()).map_err(|error| named(&error))?;
    let mut settings = read.settings().clone();
    settings.rounds += longer;
    let experiment = Experiment::new(settings).map_err(|error| named(&error))?;
    let plan = experiment.plan_on(federation().clone()).map_err(|error| named(&error))?;
    let stop = AtomicBool::new(false);
    let outcome = if longer > 0 {
        sim::extend(&plan, folder, &Quiet, &stop)
    } else {
        sim::run(&plan, folder, &Quiet, &stop)
    };
    outcome.map_err(|error| told(&error))
}

/// What a report says of a folder, without times.
fn reported(folder: &Path) -> Result<String, String> {
    let log = RunLog::read(&folder.join(EVENTS_FILE)).map_err(|error| error.to_string())?;
    Ok(format!("{} {:?} {:?}", log.truncated, rows(&log), log.started))
}

/// All models of a folder as whoever uses them reads them.
fn models(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for path in all(folder, None).map_err(|error| error.to_string())? {
        let file = ModelFile::read(&path).map_err(|error| error.to_string())?;
        let broadcast = read_broadcast(&path.with_file_name(BROADCAST));
        let broadcast = broadcast.map_err(|error| error.to_string())?;
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        found.push((name, format!("{:?} {:?} {broadcast:?}", file.card, file.model)));
    }
    Ok(found)
}

/// Everything at once; the first refusal is the answer.
fn attempt<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| panic!("{what}: it panicked"))
}

/// What came of a folder, seen from outside: nothing may depend on who computed when.
fn fate(folder: &Path) -> Fate {
    Folder::at(folder).result()
}

#[test]
fn a_run_that_goes_on_from_a_changed_byte_is_refused_or_the_same() {
    let (folder, plan) = begun(Some(3));
    let expected = run(&plan);
    folder.run_until(&plan, 1, 3);
    let listed = reported(folder.path()).unwrap();
    let whole = Whole::of(folder.path(), |_| false);
    let mut flips = Flips::new(1, 120);
    while let Some(flipped) = flips.next(&whole) {
        let what = flipped.to_string();
        let told = attempt(&what, || {
            let now = reported(flipped.path())?;
            assert_eq!(now, listed, "{what}: the report is another one");
            resume(flipped.path(), 0)?;
            let models = models(flipped.path())?;
            let mut fate = fate(flipped.path());
            // Bytes of a model file that no reader believes anything of are its own business.
            assert_eq!(models.len(), expected.models.len(), "{what}");
            fate.models.clone_from(&expected.models);
            assert_eq!(fate, expected, "{what}: another result");
            Ok(models)
        });
        let fell = match told {
            Ok(found) => {
                assert_eq!(found, models_of(&plan), "{what}: other models");
                Fell::Harmless
            }
            Err(error) => {
                assert!(
                    flipped.is_named_by(&error) || is_about(&flipped, &error),
                    "{what}: {error}"
                );
                Fell::Detected
            }
        };
        flips.note(&flipped, fell);
    }
    println!("a run that goes on\n{flips}");
}

#[test]
fn a_finished_run_with_a_changed_byte_is_refused_or_the_same() {
    // With patience there would be nothing to go on to.
    let (folder, plan) = begun(None);
    folder.run(&plan).unwrap();
    let (listed, expected) = (reported(folder.path()).unwrap(), models(folder.path()).unwrap());
    let longer = {
        let copy = Folder::new();
        formant_testing::copy_all(folder.path(), copy.path());
        resume(copy.path(), 2).unwrap();
        copy.result().fingerprints
    };
    let whole = Whole::of(folder.path(), |_| false);
    let mut flips = Flips::new(2, 150);
    while let Some(flipped) = flips.next(&whole) {
        let what = flipped.to_string();
        let told = attempt(&what, || {
            assert_eq!(reported(flipped.path())?, listed, "{what}: the report is another one");
            assert_eq!(models(flipped.path())?, expected, "{what}: other models");
            resume(flipped.path(), 2)?;
            let now = fate(flipped.path()).fingerprints;
            assert_eq!(now, longer, "{what}: goes on to something else");
            Ok(())
        });
        let fell = match told {
            Ok(()) => Fell::Harmless,
            Err(error) => {
                assert!(
                    flipped.is_named_by(&error) || is_about(&flipped, &error),
                    "{what}: {error}"
                );
                Fell::Detected
            }
        };
        flips.note(&flipped, fell);
    }
    println!("a finished run\n{flips}");
}

/// An experiment that is another one is told by its key, and a remedy.
fn is_about(flipped: &formant_testing::Flipped, error: &str) -> bool {
    flipped.file() == Path::new(FILE) && error.contains("\nhint: ")
}

/// The models that nobody disturbed.
fn models_of(plan: &RunPlan) -> Vec<(String, String)> {
    use std::sync::OnceLock;
    static MODELS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    MODELS
        .get_or_init(|| {
            let folder = Folder::new();
            folder.run(plan).unwrap();
            models(folder.path()).unwrap()
        })
        .clone()
}
