//! What clients do when: a timeline of one round, for a terminal and as SVG.
//!
//! Every client has two lanes: what its device computes, and what its link carries. With
//! compute-and-wait one of them is always empty; wait-free fills both at once.

use crate::html::text as escaped;
use crate::{Activity, MethodLog};
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
    lanes: Vec<Lane>,
    /// When rounds close, in seconds since the round opened.
    closes: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Lane {
    client: usize,
    /// In seconds since the round opened.
    activities: Vec<(Activity, Span)>,
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
    const LEFT: f64 = 90.0;
    const WIDTH: f64 = 720.0;
    const LANE: f64 = 11.0;
    const GAP: f64 = 8.0;
    let longest = timelines.iter().map(|t| t.seconds).fold(f64::MIN_POSITIVE, f64::max);
    let x = |seconds: f64| LEFT + (seconds / longest).clamp(0.0, 1.0) * WIDTH;
    let mut body = String::new();
    let mut y = 34.0;
    for timeline in timelines {
        let title = format!("{}: a round takes {:.2} s", timeline.title, timeline.seconds);
        let _ = writeln!(
            body,
            "<text x=\"{LEFT}\" y=\"{:.1}\" class=\"title\">{}</text>",
            y + 4.0,
            escaped(&title)
        );
        y += 14.0;
        let top = y;
        for lane in &timeline.lanes {
            let middle = y + LANE + 4.0;
            let _ = writeln!(
                body,
                "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">client {}</text>",
                LEFT - 8.0,
                lane.client
            );
            let _ = writeln!(
                body,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{:.1}\" class=\"idle\"/>",
                2.0 * LANE
            );
            for (activity, span) in &lane.activities {
                let (from, to) = (x(span.start), x(span.end));
                if to > from {
                    let below = matches!(activity, Activity::Download | Activity::Upload);
                    let at = if below { y + LANE } else { y };
                    let _ = writeln!(
                        body,
                        "<rect x=\"{from:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"{LANE}\" class=\"{}\"><title>{}: {:.2} s to {:.2} s</title></rect>",
                        to - from,
                        class(*activity),
                        name(*activity),
                        span.start,
                        span.end
                    );
                }
            }
            y += 2.0 * LANE + GAP;
        }
        for at in timeline.closes.iter().filter(|at| **at <= longest) {
            let _ = writeln!(
                body,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{top:.1}\" y2=\"{1:.1}\" class=\"close\"/>",
                x(*at),
                y - GAP
            );
        }
        y += 22.0;
    }
    let mut legend = String::new();
    for (place, (activity, name, ..)) in LEGEND.iter().enumerate() {
        let at = LEFT + place as f64 * 150.0;
        let _ = writeln!(
            legend,
            "<rect x=\"{at:.1}\" y=\"8\" width=\"12\" height=\"12\" class=\"{}\"/><text x=\"{:.1}\" y=\"18\">{name}</text>",
            class(*activity),
            at + 17.0
        );
    }
    let (width, height) = (LEFT + WIDTH + 20.0, y);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"Timeline of a round\">\n<style>\ntext{{font:12px system-ui,sans-serif;fill:#24292f}} .title{{font-weight:600}} .page{{fill:#fff}} .idle{{fill:#eef0f2}} .down{{fill:#4c8dd6}} .shared{{fill:#2f9e63}} .personal{{fill:#e0a526}} .up{{fill:#a05fc0}} .close{{stroke:#c0392b;stroke-dasharray:3 2}}\n</style>\n<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n{legend}{body}</svg>\n"
    )
}

fn class(activity: Activity) -> &'static str {
    match activity {
        Activity::Download => "down",
        Activity::Shared => "shared",
        Activity::Personal => "personal",
        Activity::Upload => "up",
    }
}

fn name(activity: Activity) -> &'static str {
    LEGEND.iter().find(|(other, ..)| *other == activity).map_or("", |(_, name, ..)| name)
}
