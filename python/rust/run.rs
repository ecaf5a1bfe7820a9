//! Experiments and runs.

use crate::data::Dataset;
use crate::engine::Engines;
use crate::error::{Unsaid, behind, chain, raise};
use crate::zoo::zoo;
use formant_experiment::{Experiment, ExperimentError, Override, QUICKSTART};
use formant_methods::Zoo;
use formant_runtime::event::Event;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Observer, Progress, RunPlan, files};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use toml::Table;

/// How often somebody is told how far a run is, and asked whether it is to stop.
const EVERY: Duration = Duration::from_millis(200);

const EXPERIMENT_FILE: &str = "experiment.toml";

/// The methods, computed by an engine of Python's if there is one.
pub(crate) fn zoo_with(engine: Option<&Bound<'_, Engines>>) -> Zoo {
    match engine {
        Some(engine) => zoo().with_engines(engine.get().inner.clone()),
        None => zoo(),
    }
}

fn overrides(py: Python<'_>, sets: &[String]) -> PyResult<Vec<Override>> {
    sets.iter().map(|set| Override::parse(set).map_err(|error| raise(py, error))).collect()
}

/// An error of an experiment; what Python code has raised comes out as it was.
fn refused(py: Python<'_>, error: &ExperimentError) -> PyErr {
    let text = chain(error);
    behind(&text).unwrap_or_else(|| raise(py, text))
}

pub(crate) fn parsed(
    py: Python<'_>,
    text: &str,
    sets: &[String],
    zoo: &Zoo,
) -> PyResult<Experiment> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let reason = error.to_string();
        raise(py, format!("the experiment is not valid TOML: {}", reason.trim_end()))
    })?;
    Experiment::parse(&table, &overrides(py, sets)?, zoo).map_err(|error| refused(py, &error))
}

/// The experiment that `formant run` executes without arguments.
#[pyfunction]
pub(crate) fn quickstart() -> &'static str {
    QUICKSTART
}

/// The resolved experiment, as JSON.
#[pyfunction]
pub(crate) fn resolve(py: Python<'_>, text: &str, sets: Vec<String>) -> PyResult<String> {
    let experiment = parsed(py, text, &sets, &zoo())?;
    serde_json::to_string(&experiment.to_table()).map_err(|error| raise(py, error))
}

/// The command line; gives the exit code.
#[pyfunction]
#[pyo3(signature = (argv, engine=None))]
pub(crate) fn cli(py: Python<'_>, argv: Vec<String>, engine: Option<&Bound<'_, Engines>>) -> u8 {
    let zoo = zoo_with(engine);
    py.detach(|| formant_cli::main_from(&zoo, argv.into_iter().map(Into::into)))
}

/// What happens in a run, for whoever asks from time to time.
#[derive(Default)]
struct Watch {
    events: Mutex<Vec<Value>>,
    progress: Mutex<Option<Arc<Progress>>>,
    stop: AtomicBool,
    /// The round after whose evaluation somebody wants to stop.
    last: Option<usize>,
}

impl Observer for Watch {
    fn event(&self, event: &Event) {
        if let Event::Evaluated(seen) = event
            && self.last.is_some_and(|last| seen.round >= last)
        {
            self.stop.store(true, Ordering::Relaxed);
        }
        let event = serde_json::to_value(event).unwrap_or_default();
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn progress(&self, progress: &Arc<Progress>) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
    }
}

impl Watch {
    fn news(&self, plan: &RunPlan) -> String {
        let events =
            std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let progress = progress.map(|progress| {
            let (at, load) = (progress.position(), progress.workload());
            let label = plan.methods.get(at.method).map(|method| method.label.as_str());
            let work = load.methods.get(at.method);
            json!({
                "method": at.method,
                "methods": plan.methods.len(),
                "label": label,
                "round": at.rounds,
                "rounds": plan.rounds,
                "trained": at.trained,
                "scored": at.scored,
                "samples_to_train": work.map(|work| work.training()),
                "samples_to_score": work.map(|work| work.scoring()),
            })
        });
        json!({ "events": events, "progress": progress }).to_string()
    }
}

/// Makes a run folder; an error if a run lives there already.
fn claim(py: Python<'_>, folder: &Path, experiment: &Experiment) -> PyResult<()> {
    let kept = experiment.to_kept();
    files::create_folder(folder).map_err(|error| raise(py, chain(&error)))?;
    let path = folder.join(EXPERIMENT_FILE);
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(kept.as_bytes()));
    written.map_err(|error| {
        raise(
            py,
            format!(
                "cannot begin a run in {}: {error}\nhint: choose another folder with out=, or go on with formant.resume",
                folder.display()
            ),
        )
    })
}

fn is_ctrl_c(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py)
}

/// Runs an experiment in a folder, or goes on with one.
#[pyfunction]
#[pyo3(signature = (text, sets, out, *, resume, dataset=None, engine=None, poll=None, stop_after=None))]
#[expect(clippy::too_many_arguments, reason = "keywords, in Python")]
pub(crate) fn run(
    py: Python<'_>,
    text: &str,
    sets: Vec<String>,
    out: PathBuf,
    resume: bool,
    dataset: Option<&Bound<'_, Dataset>>,
    engine: Option<&Bound<'_, Engines>>,
    poll: Option<Py<PyAny>>,
    stop_after: Option<usize>,
) -> PyResult<&'static str> {
    let unsaid = Unsaid::begin();
    let zoo = zoo_with(engine);
    let experiment = if resume {
        let path = out.join(EXPERIMENT_FILE);
        Experiment::read(&path, &overrides(py, &sets)?, &zoo)
            .map_err(|error| refused(py, &error))?
    } else {
        parsed(py, text, &sets, &zoo)?
    };
    let lent = dataset.map(|dataset| dataset.get().inner.clone());
    let plan = py.detach(|| {
        let federation = match lent {
            Some(dataset) => experiment.divide(dataset),
            None => experiment.federation(),
        };
        experiment.plan_on(federation?)
    });
    let plan = plan.map_err(|error| refused(py, &error))?;
    if !resume {
        claim(py, &out, &experiment)?;
    }
    let watch = Watch { last: stop_after, ..Watch::default() };
    let stop = &watch.stop;
    let over = AtomicBool::new(false);
    let tell = |py: Python<'_>| match &poll {
        Some(poll) => poll.call1(py, (watch.news(&plan),)).map(drop),
        None => Ok(()),
    };
    // The run has a thread of its own, so that this one, which may be Python's main thread, hears signals.
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let outcome = sim::extend(&plan, &out, &watch, stop);
            over.store(true, Ordering::Release);
            outcome
        });
        let (mut raised, mut abandoned) = (None, false);
        while !running.is_finished() {
            py.detach(|| {
                // In short steps: a run of milliseconds should not wait for the next look.
                let mut waited = Duration::ZERO;
                while waited < EVERY && !over.load(Ordering::Acquire) {
                    let step = Duration::from_millis(5);
                    std::thread::sleep(step);
                    waited += step;
                }
            });
            if raised.is_none() {
                if let Err(error) = py.check_signals().and_then(|()| tell(py)) {
                    stop.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            } else if py.check_signals().is_err() || abandoned {
                abandoned = true;
                // Whoever asks again does not want to wait for a method that never looks up, nor for one that
                // another thread was just about to enter.
                let _ = py.import("formant._bridge").and_then(|m| m.call_method0("abandon"));
            }
        }
        let outcome = py.detach(|| running.join());
        (outcome, raised, abandoned)
    });
    let (outcome, raised, abandoned) = outcome;
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(_) => {
            let text = "the run has ended in a panic, which is a fault of Formant's\nhint: its folder holds everything up to the last checkpoint; please report it";
            return Err(raise(py, text));
        }
    };
    match outcome {
        // Something that had no way to say so has failed in Python.
        Ok(Outcome::Interrupted) if raised.is_none() => match unsaid.take() {
            Some(error) => Err(error),
            None => Ok("interrupted"),
        },
        Ok(Outcome::Interrupted) => match raised {
            Some(error) if is_ctrl_c(py, &error) => Ok("interrupted"),
            Some(error) => Err(error),
            None => Ok("interrupted"),
        },
        Ok(Outcome::Complete) => {
            if let Some(error) = raised.or_else(|| unsaid.take()) {
                return Err(error);
            }
            tell(py)?;
            Ok("complete")
        }
        // Methods that were ended in the midst of a call may leave any error: it is the end that was asked for.
        Err(_) if abandoned => Ok("interrupted"),
        Err(error) => {
            let text = chain(&error);
            Err(behind(&text).unwrap_or_else(|| raise(py, text)))
        }
    }
}
