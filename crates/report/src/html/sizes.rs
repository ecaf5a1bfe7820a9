//! How much data each client holds.

use super::Drawing;
use super::drawing::show_all;
use crate::RunLog;
use crate::plot::bars;
use crate::quantity::count;

/// Clients whose sizes are also written down.
const LISTED: usize = 200;

/// The plot of the clients' sizes.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    show_all(page, &figures(logs));
}

/// The same plot for a file.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let sizes = &logs[0].started.clients;
    let says = format!("Samples of each of {} clients", count(sizes.len() as u64));
    let unknown = if sizes.is_empty() {
        "The log names no clients."
    } else {
        "In a network, nobody but a client knows its data."
    };
    let listed = sizes.iter().enumerate().filter_map(|(client, size)| {
        let size = (*size)?;
        let [train, test] = [size.train, size.test].map(|size| count(size as u64));
        Some(vec![client.to_string(), train, test])
    });
    let headings = ["client", "to train on", "to score on"].map(str::to_owned);
    let drawing = Drawing::new("client-sizes", "Samples per client", bars(&says, sizes), unknown);
    vec![drawing.with_data(headings.into(), listed.take(LISTED).collect())]
}
