//! What clients do when, in one round of each of some methods.

use std::fmt::Write;

use super::scale::Scale;
use super::{FULL, open};
use crate::Activity;
use crate::html::text;
use crate::quantity::shortened;
use crate::timeline::{Lane, Timeline, name};

const LEFT: f64 = 84.0;
const RIGHT: f64 = FULL - 16.0;
const LANE: f64 = 11.0;
const GAP: f64 = 8.0;
/// The activities, in the order of a round, with their places in the legend.
const LEGEND: [(Activity, f64); 4] = [
    (Activity::Download, 0.0),
    (Activity::Shared, 100.0),
    (Activity::Personal, 222.0),
    (Activity::Upload, 354.0),
];
const CLOSES: f64 = 436.0;

/// Timelines below each other on one scale. Each client has two lanes: what it computes, and what its link
/// carries.
pub(crate) fn timeline(says: &str, timelines: &[Timeline]) -> String {
    let longest = timelines.iter().map(|t| t.seconds).fold(f64::MIN_POSITIVE, f64::max);
    let x = Scale::linear(0.0, longest, LEFT, RIGHT);
    let mut body = String::new();
    let mut y = 42.0;
    for timeline in timelines {
        let title = format!("{}: {:.2} s", shortened(&timeline.title, 80), timeline.seconds);
        let _ = write!(
            body,
            "<g><text x=\"{LEFT}\" y=\"{y:.1}\" class=\"strong\">{}</text>",
            text(&title)
        );
        y += 10.0;
        let top = y;
        for lane in &timeline.lanes {
            draw(&mut body, lane, &x, y);
            y += 2.0 * LANE + GAP;
        }
        for at in timeline.closes.iter().filter(|at| **at <= longest * (1.0 + 1e-9)) {
            let _ = write!(
                body,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{top:.1}\" y2=\"{1:.1}\" class=\"close\"/>",
                x.place(*at),
                y - GAP
            );
        }
        body.push_str("</g>");
        y += 22.0;
    }
    y -= 22.0;
    let mut svg = open(FULL, y + 44.0, says);
    legend(&mut svg);
    svg.push_str("<g class=\"axis\">");
    for (value, written) in x.ticks(8) {
        let at = x.place(value);
        let _ = write!(
            svg,
            "<path d=\"M{at:.1} {y:.1}v5\"/><text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{written}\
             </text>",
            y + 18.0
        );
    }
    let _ = write!(
        svg,
        "<path d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"below title\" x=\"{:.1}\" y=\"{:.1}\">\
         seconds since the round opened, by the virtual clock</text></g>{body}</svg>",
        f64::midpoint(LEFT, RIGHT),
        y + 36.0
    );
    svg
}

/// A client's two lanes.
fn draw(body: &mut String, lane: &Lane, x: &Scale, y: f64) {
    let _ = write!(
        body,
        "<text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">client {}</text>\
         <rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"idle\"/>",
        LEFT - 8.0,
        y + LANE + 4.0,
        lane.client,
        RIGHT - LEFT,
        2.0 * LANE
    );
    for (activity, span) in &lane.activities {
        let (from, to) = (x.place(span.start), x.place(span.end));
        if to > from {
            let below = matches!(activity, Activity::Download | Activity::Upload);
            let at = if below { y + LANE } else { y };
            let _ = write!(
                body,
                "<rect x=\"{from:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"{LANE}\" class=\"{}\">\
                 <title>{}: {:.2} s to {:.2} s</title></rect>",
                to - from,
                class(*activity),
                name(*activity),
                span.start,
                span.end
            );
        }
    }
}

fn legend(svg: &mut String) {
    for (activity, place) in LEGEND {
        let at = LEFT + place;
        let _ = write!(
            svg,
            "<rect x=\"{at:.1}\" y=\"7\" width=\"11\" height=\"11\" class=\"{}\"/>\
             <text x=\"{:.1}\" y=\"17\">{}</text>",
            class(activity),
            at + 17.0,
            name(activity)
        );
    }
    let at = LEFT + CLOSES;
    let _ = write!(
        svg,
        "<line x1=\"{at}\" x2=\"{at}\" y1=\"5\" y2=\"20\" class=\"close\"/><text x=\"{:.1}\" \
         y=\"17\">the round closes</text>",
        at + 8.0
    );
}

fn class(activity: Activity) -> &'static str {
    match activity {
        Activity::Download => "down",
        Activity::Shared => "shared",
        Activity::Personal => "personal",
        Activity::Upload => "up",
    }
}
