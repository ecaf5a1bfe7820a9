//! What is in each CSV file.

mod clients;
mod insight;
mod results;
mod training;

use super::csv::Sheet;
use crate::RunLog;

/// All files of some runs; those without rows are empty.
pub(super) fn all(logs: &[RunLog]) -> Vec<Sheet> {
    vec![
        results::table(logs),
        results::further(logs),
        results::candidates(logs),
        results::notes(logs),
        results::setting(logs),
        training::history(logs),
        training::rounds(logs),
        training::cost(logs),
        training::failures(logs),
        training::refusals(logs),
        training::timeline(logs),
        clients::clients(logs),
        clients::division(logs),
        insight::confusion(logs),
        insight::reliability(logs),
        insight::spectra(logs),
        insight::bands(logs),
    ]
}
