//! What every client gains, sorted, one small plot per method.

use std::fmt::Write;

use super::colour;
use super::panel::{Frame, PANEL, Panel, heading};
use super::scale::Scale;
use crate::html::text;
use crate::quantity::{counted, percent, signed};
use crate::{ClientGain, Gained};

/// Bars at most; of more clients, neighbours in rank share one.
pub(crate) const BARS: usize = 100;

const HEIGHT: f64 = 196.0;
const LEFT: f64 = 38.0;
const TOP: f64 = 42.0;
const BASE: f64 = 166.0;

/// One method's gains.
pub(crate) struct Ranked<'a> {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour is its own in all plots.
    pub(crate) slot: usize,
    /// Who gains what.
    pub(crate) found: &'a Gained,
}

/// A small plot of each, all with one vertical axis so that methods can be compared. `other` is what personal
/// models are compared with.
pub(crate) fn ranked(methods: &[Ranked<'_>], other: &str) -> Vec<Panel> {
    let gains = || methods.iter().flat_map(|method| method.found.clients.iter().map(|c| c.gain));
    let low = gains().fold(0.0, f64::min).max(-1.0);
    let high = gains().fold(0.0, f64::max).min(1.0);
    let room = (high - low).max(0.02) * 0.04;
    let y = Scale::linear(low - room, high + room, BASE, TOP);
    methods.iter().map(|method| panel(method, other, y)).collect()
}

fn panel(method: &Ranked<'_>, other: &str, y: Scale) -> Panel {
    let found = method.found;
    let clients = found.clients.len();
    let right = PANEL - 4.0;
    let x = Scale::linear(0.0, clients as f64, LEFT, right);
    let frame = Frame { x, y, left: LEFT, right, base: BASE };
    let worse = format!("{} of {clients} worse off", found.worse);
    let figures = format!("mean {}, {worse}", signed(found.mean));

    let mut body = String::new();
    heading(&mut body, &method.name, Some(method.slot), &figures);
    let ticks: Vec<_> =
        y.ticks(4).into_iter().map(|(value, _)| (value, signed(value).replace(".0", ""))).collect();
    frame.rows(&mut body, &ticks);
    let ranked = found.ranked();
    let zero = y.place(0.0);
    let _ = write!(body, "<g class=\"{}\">", colour(method.slot));
    let mut from = 0;
    for group in ranked.chunks(clients.div_ceil(BARS)) {
        bar(&mut body, &frame, (from, group), other);
        from += group.len();
    }
    let _ = write!(body, "</g><path class=\"base\" d=\"M{LEFT} {zero:.1}H{right}\"/>");
    let caption = format!("{}, by what they gain", counted(clients, "client"));
    frame.caption(&mut body, 18.0, &caption);
    let says = format!(
        "{}: {} points on average against {other}; {worse}; the tenth that gains least {} points",
        method.name,
        signed(found.mean),
        signed(found.worst_decile)
    );
    Panel::new(PANEL, HEIGHT, says, body)
}

/// One bar from zero, for one client or for neighbours in rank.
fn bar(body: &mut String, frame: &Frame, (from, group): (usize, &[ClientGain]), other: &str) {
    let gain = group.iter().map(|client| client.gain).sum::<f64>() / group.len() as f64;
    let (left, right) = (frame.x.place(from as f64), frame.x.place((from + group.len()) as f64));
    let space = if right - left > 3.0 { (right - left) * 0.18 } else { 0.0 };
    let (zero, end) = (frame.y.place(0.0), frame.y.place(gain));
    // A client that neither gains nor loses still leaves a trace.
    let end = if (end - zero).abs() < 0.8 { zero - 0.8 } else { end };
    let worse = if gain < -1e-9 { " loses" } else { "" };
    let tip = match group {
        [one] => format!(
            "client {}: {} % against {} % {other}, {}",
            one.client,
            percent(one.pm),
            percent(one.other),
            signed(one.gain)
        ),
        several => format!("mean of {} clients: {}", several.len(), signed(gain)),
    };
    let _ = write!(
        body,
        "<path class=\"gain{worse}\" d=\"M{left:.1} {zero:.1}V{end:.1}H{:.1}V{zero:.1}z\">\
         <title>{}</title></path>",
        right - space,
        text(&tip)
    );
}
