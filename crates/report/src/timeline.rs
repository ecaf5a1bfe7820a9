//! What clients do when: a timeline of one round, for a terminal and as SVG.
//!
//! Every client has two lanes: what its device computes, and what its link carries. With
//! compute-and-wait one of them is always empty; wait-free fills both at once.

use crate::{Activity, MethodLog, plot};
use formant_runtime::event::Span;
use std::fmt::Write as _;

/// The round of a method, by the virtual clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What it is called.
    pub title: String,
    /// Seconds that the round takes.
    pub seconds: f64,
    /// Some clients, from the fastest to the slowest device.
    pub(crate) lanes: Vec<Lane>,
    /// When rounds close, in seconds since the round opened.
    pub(crate) closes: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lane {
    pub(crate) client: usize,
    /// In seconds since the round opened.
    pub(crate) activities: Vec<(Activity, Span)>,
}

const LEGEND: [(Activity, &str, char, &str); 4] = [
    (Activity::Download, "download", '▽', "\u{1b}[34m"),
    (Activity::Shared, "shared phase", '█', "\u{1b}[32m"),
    (Activity::Personal, "personal phase", '▓', "\u{1b}[33m"),
    (Activity::Upload, "upload", '△', "\u{1b}[35m"),
];

impl Timeline {
    /// The timeline of a round for some of its clients; `None` without a clock.
    pub fn new(
        title: impl Into<String>,
        log: &MethodLog,
        round: usize,
        clients: usize,
    ) -> Option<Self> {
        let opened = match round {
            1 => 0.0,
            _ => log.rounds.get(&(round - 1))?.clock?,
        };
        let own = log.rounds.get(&round)?;
        let mut work: Vec<(usize, f64)> = Vec::new();
        for (client, activity, span) in &own.activities {
            if *activity == Activity::Shared {
                work.push((*client, span.end - span.start));
            }
        }
        work.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let count = clients.clamp(1, work.len().max(1));
        let chosen = (0..count).filter_map(|i| {
            // Evenly from the fastest to the slowest.
            let place = if count == 1 { 0 } else { i * (work.len().max(1) - 1) / (count - 1) };
            work.get(place).map(|(client, _)| *client)
        });
        let near = log.rounds.range(round.saturating_sub(2)..=round + 2);
        let near: Vec<_> = near.flat_map(|(_, round)| &round.activities).collect();
        let lanes = chosen.map(|client| {
            let activities = near.iter().filter(|(of, _, _)| *of == client);
            let since = |span: &Span| Span { start: span.start - opened, end: span.end - opened };
            Lane { client, activities: activities.map(|(_, a, span)| (*a, since(span))).collect() }
        });
        let closes = log.rounds.values().filter_map(|round| round.clock).map(|at| at - opened);
        Some(Self {
            title: title.into(),
            seconds: own.clock? - opened,
            lanes: lanes.collect(),
            closes: closes.filter(|at| *at > 0.0).collect(),
        })
    }
}

/// Timelines below each other on one scale, for a terminal of some columns.
pub fn timeline_text(timelines: &[Timeline], columns: usize, colour: bool) -> String {
    let longest = timelines.iter().map(|t| t.seconds).fold(0.0, f64::max);
    let width = columns.saturating_sub(22).clamp(20, 200);
    let mut text = String::new();
    for timeline in timelines {
        let _ = writeln!(text, "{}: a round takes {:.2} s", timeline.title, timeline.seconds);
        for lane in &timeline.lanes {
            let computes = [Activity::Shared, Activity::Personal];
            let carries = [Activity::Download, Activity::Upload];
            for (name, kinds) in [("computes", computes), ("link", carries)] {
                let who = if name == "computes" {
                    format!("client {}", lane.client)
                } else {
                    String::new()
                };
                let line = lane.line(&kinds, (width, longest), &timeline.closes, colour);
                let _ = writeln!(text, "  {who:>10} {name:<8} {line}");
            }
        }
        text.push('\n');
    }
    let legend = LEGEND.map(|(_, name, sign, paint)| {
        if colour { format!("{paint}{sign}\u{1b}[0m {name}") } else { format!("{sign} {name}") }
    });
    let _ = writeln!(
        text,
        "{}   │ the round closes   one column is {:.2} s",
        legend.join("   "),
        longest / width as f64
    );
    text
}

impl Lane {
    fn line(
        &self,
        kinds: &[Activity],
        (width, longest): (usize, f64),
        closes: &[f64],
        colour: bool,
    ) -> String {
        let mut line = String::new();
        for column in 0..width {
            let (from, to) = (
                column as f64 / width as f64 * longest,
                (column + 1) as f64 / width as f64 * longest,
            );
            let middle = f64::midpoint(from, to);
            let sign = self.activities.iter().find(|(kind, span)| {
                kinds.contains(kind) && span.start <= middle && middle < span.end
            });
            let sign = sign.and_then(|(kind, _)| LEGEND.iter().find(|(other, ..)| other == kind));
            let closes = closes.iter().any(|at| from <= *at && *at < to);
            match sign {
                Some((_, _, sign, paint)) if colour => {
                    let _ = write!(line, "{paint}{sign}\u{1b}[0m");
                }
                Some((_, _, sign, _)) => line.push(*sign),
                None => line.push(if closes { '│' } else { '·' }),
            }
        }
        line
    }
}

/// The same as an SVG that stands alone.
pub fn timeline_svg(timelines: &[Timeline]) -> String {
    plot::standalone(&plot::timeline("What clients compute and send in a round", timelines))
}

/// What an activity is called.
pub(crate) fn name(activity: Activity) -> &'static str {
    LEGEND.iter().find(|(other, ..)| *other == activity).map_or("", |(_, name, ..)| name)
}
