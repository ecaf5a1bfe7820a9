//! What the plots show, taken from the log.

use crate::plot::{Curve, Strip};
use crate::scoreboard::names;
use crate::{Evaluation, MethodLog, Row, RunLog};

/// GM accuracy by round.
pub(super) fn gm(log: &RunLog, rows: &[Row]) -> Vec<Curve> {
    each(log, rows, |name, slot, method, row| Curve {
        name,
        slot,
        aside: !row.generic,
        points: scores(method, |evaluation| evaluation.gm),
        best: row.best_round_gm,
    })
}

/// PM accuracy by round, weighted by local test sizes.
pub(super) fn pm(log: &RunLog, rows: &[Row]) -> Vec<Curve> {
    each(log, rows, |name, slot, method, row| Curve {
        name,
        slot,
        aside: !row.personal,
        points: scores(method, |evaluation| evaluation.pm),
        best: row.best_round_pm,
    })
}

/// Mean loss of the shared phases by round.
pub(super) fn loss(log: &RunLog, rows: &[Row]) -> Vec<Curve> {
    each(log, rows, |name, slot, method, _| Curve {
        name,
        slot,
        aside: false,
        points: method
            .rounds
            .iter()
            .filter(|(_, round)| round.shared.losses > 0 || round.shared.diverged > 0)
            .map(|(&round, done)| (round, done.shared.mean_loss()))
            .collect(),
        best: None,
    })
}

/// Every client's PM accuracy at the last evaluation.
pub(super) fn clients(log: &RunLog, rows: &[Row]) -> Vec<Strip> {
    each(log, rows, |name, slot, method, row| {
        let last = method.last().map(|(_, evaluation)| evaluation);
        Strip {
            name,
            slot,
            aside: !row.personal,
            clients: last.map(|evaluation| evaluation.per_client.clone()).unwrap_or_default(),
            mean: row.pm_mean_last,
            worst_decile: row.worst_decile_last,
        }
    })
}

fn each<T>(
    log: &RunLog,
    rows: &[Row],
    make: impl Fn(String, usize, &MethodLog, &Row) -> T,
) -> Vec<T> {
    let named = names(rows).into_iter().enumerate().zip(log.methods.iter().zip(rows));
    named.map(|((slot, name), (method, row))| make(name, slot, method, row)).collect()
}

fn scores(
    method: &MethodLog,
    figure: impl Fn(&Evaluation) -> Option<f64>,
) -> Vec<(usize, Option<f64>)> {
    method.evaluations.iter().map(|(&round, evaluation)| (round, figure(evaluation))).collect()
}
