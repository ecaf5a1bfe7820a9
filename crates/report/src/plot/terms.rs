//! What a method's terms are of its objective, one small plot per method and phase.

use std::fmt::Write;

use super::colour;
use super::panel::{Frame, PANEL, Panel, heading};
use super::scale::{Scale, round_step};
use crate::TermShare;
use crate::quantity::percent;

/// Points at most; rounds in between are left out.
const POINTS: usize = 200;

const HEIGHT: f64 = 206.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 42.0;
const BASE: f64 = 160.0;

/// The objective as a line by round, and the terms' part of it as an area below; nothing without a round.
/// `name` is the method and the phase.
pub(crate) fn terms(name: &str, slot: usize, rounds: &[TermShare]) -> Option<Panel> {
    let sound: Vec<&TermShare> =
        rounds.iter().filter(|round| round.term.is_finite() && round.loss.is_finite()).collect();
    let (first, last) = (sound.first()?, sound.last()?);
    let every = sound.len().div_ceil(POINTS).max(1);
    let mut drawn: Vec<&TermShare> = sound.iter().copied().step_by(every).collect();
    if drawn.last().is_some_and(|shown| shown.round != last.round) {
        drawn.push(last);
    }
    let figures = || sound.iter().flat_map(|round| [round.term, round.loss]);
    let (low, high) = (figures().fold(0.0, f64::min), figures().fold(0.0, f64::max));
    let step = round_step((high - low).max(1e-12) / 4.0);
    let right = PANEL - 12.0;
    let frame = Frame {
        x: Scale::linear(first.round as f64, last.round as f64, LEFT, right),
        y: Scale::linear((low / step).floor() * step, (high / step).ceil() * step, BASE, TOP),
        left: LEFT,
        right,
        base: BASE,
    };
    let share = |round: &TermShare| {
        round.share().map_or_else(|| "–".to_owned(), |share| format!("{} %", percent(share)))
    };
    let told = format!("term: {} of the loss, at last {}", share(first), share(last));

    let mut body = String::new();
    heading(&mut body, name, Some(slot), &told);
    frame.rows(&mut body, &frame.y.ticks(4));
    let whole = |(value, _): &(f64, String)| value.fract() == 0.0;
    let ticks = frame.x.ticks(4).into_iter().filter(whole);
    let ticks: Vec<_> =
        ticks.map(|(value, text)| (value, text.trim_end_matches(".0").to_owned())).collect();
    frame.columns(&mut body, &ticks);
    let places = || drawn.iter().map(|round| round.round as f64);
    let above = drawn.iter().map(|round| (round.round as f64, round.term));
    let back = places().rev().map(|round| (round, 0.0));
    let area = frame.path(above.chain(back));
    let line = frame.path(drawn.iter().map(|round| (round.round as f64, round.loss)));
    let _ = write!(
        body,
        "<g class=\"{}\"><path class=\"part\" d=\"{area}z\"/><path class=\"line\" d=\"{line}\"/>",
        colour(slot)
    );
    for round in &drawn {
        let _ = write!(
            body,
            "<circle class=\"tip\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>round {}: loss {:.4}, of it the \
             term {:.4} ({})</title></circle>",
            frame.x.place(round.round as f64),
            frame.y.place(round.loss),
            round.round,
            round.loss,
            round.term,
            share(round)
        );
    }
    body.push_str("</g>");
    frame.caption(&mut body, 34.0, "round");
    let says = format!("{name}: the objective by round, and the term's part of it. {told}");
    Some(Panel::new(PANEL, HEIGHT, says, body))
}
