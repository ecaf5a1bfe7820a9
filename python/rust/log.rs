//! What a run folder says, as JSON: `formant.Run` reads it.

use crate::error::{chain, raise};
use formant_model::folder::method_folders;
use formant_report::RunLog;
use formant_runtime::EVENTS_FILE;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

fn read(py: Python<'_>, folder: &Path) -> PyResult<RunLog> {
    let log = py.detach(|| RunLog::read(&folder.join(EVENTS_FILE)));
    log.map_err(|error| raise(py, chain(&error)))
}

/// The rows of the table.
#[pyfunction]
pub(crate) fn rows(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    let rows = py.detach(|| formant_report::rows(&log));
    serde_json::to_string(&rows).map_err(|error| raise(py, error))
}

/// The table as the command line prints it.
#[pyfunction]
pub(crate) fn table(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    Ok(py.detach(|| formant_report::table(&formant_report::rows(&log), false)))
}

/// The report as Markdown.
#[pyfunction]
pub(crate) fn markdown(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    Ok(py.detach(|| formant_report::markdown(&log)))
}

/// The report as one page.
#[pyfunction]
pub(crate) fn html(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    Ok(py.detach(|| formant_report::html(std::slice::from_ref(&log))))
}

/// Writes `report.html` and `report.md`.
#[pyfunction]
pub(crate) fn write_reports(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    py.detach(|| formant_report::write_reports(&folder))
        .map(drop)
        .map_err(|error| raise(py, chain(&error)))
}

/// Every evaluation of every method.
#[pyfunction]
pub(crate) fn history(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    let mut rows = Vec::new();
    for method in &log.methods {
        for (round, seen) in &method.evaluations {
            rows.push(json!({
                "method": method.info.label,
                "round": round,
                "gm": seen.gm,
                "gm_loss": seen.gm_loss,
                "pm": seen.pm,
                "pm_mean": seen.pm_mean,
                "pm_worst": seen.worst_decile,
                "seconds": seen.seconds,
                "clock": seen.clock.as_ref().map(|ready| json!(ready)),
                "clients": seen.per_client,
            }));
        }
    }
    Ok(Value::Array(rows).to_string())
}

/// What the run was, and how far it is.
#[pyfunction]
pub(crate) fn log(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let log = read(py, &folder)?;
    let labels: Vec<&str> = log.methods.iter().map(|m| m.info.label.as_str()).collect();
    let folders = method_folders(labels.iter().copied());
    let folders: Map<String, Value> =
        labels.iter().zip(folders).map(|(label, at)| ((*label).to_owned(), at.into())).collect();
    let mut fingerprints = Map::new();
    for method in &log.methods {
        let found = method.finish.as_ref().and_then(|finish| finish.fingerprint.clone());
        if let Some(found) = found {
            fingerprints.insert(method.info.label.clone(), found.into());
        }
    }
    let methods: Vec<Value> = log.methods.iter().map(|m| json!(m.info)).collect();
    let started = &log.started;
    let complete = log.methods.iter().all(|method| method.finish.is_some());
    Ok(json!({
        "name": started.name,
        "seed": started.seed,
        "rounds": started.rounds,
        "formant": started.formant,
        "network": started.network,
        "parameters": started.parameters,
        "dataset": started.dataset,
        "engine": started.engine,
        "split": started.split,
        "clients": started.clients.len(),
        "names": started.names,
        "remarks": started.remarks,
        "config": started.config,
        "methods": methods,
        "complete": complete,
        "fingerprints": fingerprints,
        "folders": folders,
    })
    .to_string())
}
