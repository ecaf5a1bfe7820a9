//! Formant for Python: what the package `formant` calls. Whatever can be said in Python is said there; here is what must
//! not be written twice (experiments, runs, logs, models) and the two bridges back: engines and methods.

mod data;
mod engine;
mod error;
mod local;
mod log;
mod method;
mod objective;
mod oracle;
mod predict;
mod run;
mod task;
mod worker;
mod zoo;

use pyo3::prelude::*;

/// The extension.
#[pymodule]
fn _formant(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<data::Dataset>()?;
    m.add_class::<engine::Engines>()?;
    m.add_class::<local::Local>()?;
    m.add_class::<predict::Predictor>()?;
    m.add_class::<task::Task>()?;
    m.add_function(wrap_pyfunction!(zoo::methods, m)?)?;
    m.add_function(wrap_pyfunction!(zoo::networks, m)?)?;
    m.add_function(wrap_pyfunction!(zoo::register, m)?)?;
    m.add_function(wrap_pyfunction!(run::cli, m)?)?;
    m.add_function(wrap_pyfunction!(run::quickstart, m)?)?;
    m.add_function(wrap_pyfunction!(run::resolve, m)?)?;
    m.add_function(wrap_pyfunction!(run::run, m)?)?;
    m.add_function(wrap_pyfunction!(log::rows, m)?)?;
    m.add_function(wrap_pyfunction!(log::table, m)?)?;
    m.add_function(wrap_pyfunction!(log::markdown, m)?)?;
    m.add_function(wrap_pyfunction!(log::html, m)?)?;
    m.add_function(wrap_pyfunction!(log::write_reports, m)?)?;
    m.add_function(wrap_pyfunction!(log::history, m)?)?;
    m.add_function(wrap_pyfunction!(log::log, m)?)?;
    m.add_function(wrap_pyfunction!(oracle::oracle, m)?)?;
    m.add_function(wrap_pyfunction!(oracle::initial, m)?)?;
    m.add("Stopped", m.py().get_type::<local::Stopped>())?;
    m.add("Diverged", m.py().get_type::<local::Diverged>())?;
    Ok(())
}
