//! What clients do when, by the virtual clock.

use std::fmt::Write;

use super::Drawing;
use super::drawing::show_all;
use crate::scoreboard::names;
use crate::timeline::name;
use crate::{RunLog, Timeline, plot, rows};

/// Methods that are drawn at most.
const METHODS: usize = 6;
/// Clients of each: the fastest, the slowest, and one between them.
const CLIENTS: usize = 3;
/// The round that is drawn, if there is one: by then everything is under way.
const ROUND: usize = 3;

/// The timelines, if there was a clock.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let drawn = figures(logs);
    if drawn.is_empty() {
        return;
    }
    page.push_str(
        "<p class=\"caption\">A round of each method for the fastest, a middle and the slowest \
         device, by the virtual clock. The upper lane is what the device computes, the lower one \
         what its link carries; grey is idle.",
    );
    if logs[0].methods.len() > METHODS {
        let _ = write!(page, " The first {METHODS} methods are drawn.");
    }
    page.push_str("</p>\n");
    show_all(page, &drawn);
}

/// The timelines as one plot.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let log = &logs[0];
    let named = names(&rows(log)).into_iter().zip(&log.methods);
    let timelines = named.filter_map(|(name, method)| {
        let closed = method.rounds.iter().filter(|(_, round)| round.clock.is_some());
        let round = closed.map(|(&number, _)| number).take(ROUND).last()?;
        Timeline::new(format!("{name}, round {round}"), method, round, CLIENTS)
    });
    let timelines: Vec<Timeline> = timelines.take(METHODS).collect();
    if timelines.is_empty() {
        return Vec::new();
    }
    let says = "What clients compute and send in a round, by the virtual clock";
    let drawn = plot::timeline(says, &timelines);
    let headings = ["method", "client", "activity", "from", "to"].map(str::to_owned);
    let cells = timelines.iter().flat_map(|timeline| {
        timeline.lanes.iter().flat_map(|lane| {
            let within = lane
                .activities
                .iter()
                .filter(|(_, span)| span.end > 0.0 && span.start < timeline.seconds);
            within.map(|(activity, span)| {
                let [from, to] = [span.start, span.end].map(|at| format!("{at:.2} s"));
                let (client, activity) = (lane.client.to_string(), name(*activity).to_owned());
                vec![timeline.title.clone(), client, activity, from, to]
            })
        })
    });
    let title = "What clients do in a round";
    let drawing = Drawing::new("schedule", title, Some(drawn), "");
    vec![drawing.with_data(headings.into(), cells.collect())]
}
