//! What can be wrong with an experiment.

use formant_data::DataError;
use formant_methods::{MethodError, schema::SchemaError};
use formant_numerics::NumericsError;
use std::path::PathBuf;

/// An experiment that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}\nhint: `formant init` writes a commented experiment.toml to start from", path = path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not as a run folder was given it.
    #[error(
        "{path} has changed since Formant wrote it: the check in its last line does not match\nhint: put it back as it was; or, if the change is meant, take its last line out", path = path.display()
    )]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The file is no TOML.
    #[error(
        "{origin} is not valid TOML: {reason}\nhint: `formant init` writes a commented experiment.toml to compare with"
    )]
    Syntax {
        /// File or `--set` argument.
        origin: String,
        /// What the parser says, with line and column.
        reason: String,
    },
    /// A key or value is wrong.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Two keys, each right, that do not go together.
    #[error("{problem}\nhint: {hint}")]
    Combination {
        /// Both keys and values.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// The method cannot be built.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// The data cannot be had or divided.
    #[error("{}", data(.0))]
    Data(DataError),
    /// The network cannot be built.
    #[error("{}", numerics(.0))]
    Numerics(NumericsError),
}

/// A setting of the partition under the name that it has in a file.
fn data(error: &DataError) -> String {
    match error {
        DataError::Plan { key, value, remedy } => {
            format!("`data.{key} = {value}` does not make a partition\nhint: {remedy}")
        }
        other => hinted(other),
    }
}

/// These two put their remedies behind semicolons; here each gets a line of its own.
fn hinted(error: &dyn std::error::Error) -> String {
    error.to_string().replace("; ", "\nhint: ")
}

/// What an engine from outside says is already as it should be.
fn numerics(error: &NumericsError) -> String {
    if matches!(error, NumericsError::Engine(_)) { error.to_string() } else { hinted(error) }
}

// Written out, because a derived conversion would make the inner error a cause too, and a caller
// who prints causes would print everything twice.
impl From<DataError> for ExperimentError {
    fn from(error: DataError) -> Self {
        Self::Data(error)
    }
}

impl From<NumericsError> for ExperimentError {
    fn from(error: NumericsError) -> Self {
        Self::Numerics(error)
    }
}

impl ExperimentError {
    pub(crate) fn combination(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Combination { problem: problem.into(), hint: hint.into() }
    }
}
