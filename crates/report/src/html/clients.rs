//! How scores are spread over clients.

use std::fmt::Write;

use super::drawing::show_all;
use super::{Drawing, unscored};
use crate::plot::{self, Strip, strips};
use crate::quantity::percent;
use crate::scoreboard::names;
use crate::{RunLog, rows};

/// Clients whose scores are also written down.
const LISTED: usize = 200;

/// The strips, with how to read them.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let found = scores(&logs[0]);
    let scored = found.iter().any(|strip| strip.clients.iter().any(Option::is_some));
    if !scored && logs[0].seconds.is_some() {
        let _ = writeln!(page, "<p class=\"caption\">{}</p>", unscored(&logs[0]));
        return;
    }
    let metric = logs[0].started.metrics.first().title();
    let _ = write!(
        page,
        "<p class=\"caption\">PM {metric} of every client at the last evaluation, one dot per client. \
         The bar is the plain mean over clients, the triangle the mean of the worst tenth.",
    );
    if found.iter().any(|strip| strip.clients.len() > plot::DOTS) {
        let _ = write!(
            page,
            " Of more than {0} clients, {0} evenly spaced ranks are drawn.",
            plot::DOTS
        );
    }
    if logs.len() > 1 {
        let _ = write!(page, " Of the run with seed {}.", logs[0].started.seed);
    }
    page.push_str("</p>\n");
    show_all(page, &figures(logs));
}

/// The strips for a file.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let log = &logs[0];
    let found = scores(log);
    let metric = log.started.metrics.first().title();
    let says =
        format!("PM {metric} of every client at the last evaluation, one strip of dots per method");
    let drawn = strips(&says, &format!("PM {metric} of a client, %"), &found);
    let title = "Personal models at the last evaluation";
    let clients = found.iter().map(|strip| strip.clients.len()).max().unwrap_or(0).min(LISTED);
    let headings = ["client".to_owned()].into_iter().chain(found.iter().map(|s| s.name.clone()));
    let cell = |score: Option<f64>| score.map_or_else(|| "–".to_owned(), percent);
    let row = |client: usize| {
        let scores = found.iter().map(|strip| cell(strip.clients.get(client).copied().flatten()));
        [client.to_string()].into_iter().chain(scores).collect()
    };
    let drawing = Drawing::new("clients", title, drawn, unscored(log));
    vec![drawing.with_data(headings.collect(), (0..clients).map(row).collect())]
}

/// Every client's PM at the last evaluation, method by method.
fn scores(log: &RunLog) -> Vec<Strip> {
    let rows = rows(log);
    let named = names(&rows).into_iter().enumerate().zip(log.methods.iter().zip(&rows));
    let strip =
        |((slot, name), (method, row)): ((usize, String), (&crate::MethodLog, &crate::Row))| {
            let last = method.last().map(|(_, evaluation)| evaluation);
            Strip {
                name,
                slot,
                aside: !row.personal,
                clients: last.map(|evaluation| evaluation.per_client.clone()).unwrap_or_default(),
                mean: row.pm_mean_last,
                worst_decile: row.worst_decile_last,
            }
        };
    named.map(strip).collect()
}
