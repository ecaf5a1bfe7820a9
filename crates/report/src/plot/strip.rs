//! How an accuracy is spread over clients, one strip of dots per method.

use std::fmt::Write;

use super::scale::{Scale, round_step};
use super::{FULL as WIDTH, colour, label_width, open};
use crate::html::text;
use crate::quantity::{percent, shortened};

/// Dots per strip; of more clients, evenly spaced ranks are drawn.
pub(crate) const DOTS: usize = 300;

const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;
const STRIP: f64 = 54.0;
const RADIUS: f64 = 4.2;
/// How far dots may pile up on either side of a strip's middle.
const PILE: f64 = 19.0;
/// Room for the two figures at the right.
const FIGURES: f64 = 140.0;

/// One method's clients.
pub(crate) struct Strip {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour is its own in all plots.
    pub(crate) slot: usize,
    /// Whether its figures are in parentheses in the table.
    pub(crate) aside: bool,
    /// Accuracy per client, in id order.
    pub(crate) clients: Vec<Option<f64>>,
    /// Plain mean over clients.
    pub(crate) mean: Option<f64>,
    /// Mean of the worst tenth.
    pub(crate) worst_decile: Option<f64>,
}

/// The plot, or nothing if no client was scored.
pub(crate) fn strips(says: &str, axis: &str, strips: &[Strip]) -> Option<String> {
    let strips: Vec<&Strip> =
        strips.iter().filter(|strip| strip.clients.iter().any(Option::is_some)).collect();
    let (low, high) = range(&strips)?;
    let labels: Vec<String> = strips.iter().map(|strip| label(strip)).collect();
    let left = labels.iter().map(|label| label_width(label)).fold(40.0, f64::max) + 22.0;
    let (right, base) = (WIDTH - FIGURES, TOP + STRIP * strips.len() as f64);
    let x = Scale::linear(low, high, left, right);

    let mut svg = open(WIDTH, base + BOTTOM, says);
    svg.push_str("<g class=\"axis\">");
    for (value, _) in x.ticks(8) {
        let at = x.place(value);
        let written = percent(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{base:.1}\"/>\
             <text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            base + 18.0,
            written.trim_end_matches(".0")
        );
    }
    let (middle, mean_x, worst_x) = (f64::midpoint(left, right), right + 52.0, right + 136.0);
    let _ = write!(
        svg,
        "<text class=\"below title\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"left title\" x=\"{mean_x:.1}\" y=\"16\">mean</text>\
         <text class=\"left title\" x=\"{worst_x:.1}\" y=\"16\">worst 10 %</text></g>",
        base + 38.0,
        text(axis)
    );
    for (place, (strip, label)) in strips.iter().zip(&labels).enumerate() {
        let y = TOP + STRIP * (place as f64 + 0.5);
        let _ = write!(
            svg,
            "<g class=\"{}\"><title>{}</title><path class=\"rail\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
             <text class=\"name left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            colour(strip.slot),
            text(&strip.name),
            left - 12.0,
            y + 4.0,
            text(label)
        );
        dots(&mut svg, strip, &x, y);
        marks(&mut svg, strip, &x, y);
        for (at, figure) in [(mean_x, strip.mean), (worst_x, strip.worst_decile)] {
            let written = figure.map_or_else(|| "–".to_owned(), percent);
            let _ = write!(
                svg,
                "<text class=\"name left\" x=\"{at:.1}\" y=\"{:.1}\">{written}</text>",
                y + 4.0
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn label(strip: &Strip) -> String {
    let name = shortened(&strip.name, 24);
    if strip.aside { format!("({name})") } else { name }
}

fn range(strips: &[&Strip]) -> Option<(f64, f64)> {
    let scores = || strips.iter().flat_map(|strip| strip.clients.iter().flatten());
    let low = scores().copied().min_by(f64::total_cmp)?.clamp(0.0, 1.0);
    let high = scores().copied().max_by(f64::total_cmp)?.clamp(0.0, 1.0);
    let step = round_step((high - low).max(0.02) / 8.0);
    Some((((low / step).floor() * step).max(0.0), ((high / step).ceil() * step).min(1.0)))
}

/// Dots that would cover each other are piled up around the strip's middle.
fn dots(svg: &mut String, strip: &Strip, x: &Scale, y: f64) {
    let clients = drawn(&strip.clients);
    let column = |accuracy: f64| (x.place(accuracy) / (2.0 * RADIUS)).round() as usize;
    let mut piles = std::collections::BTreeMap::<usize, usize>::new();
    for &(_, accuracy) in &clients {
        *piles.entry(column(accuracy)).or_default() += 1;
    }
    let tallest = piles.values().copied().max().unwrap_or(1);
    let spacing = (2.0 * PILE / tallest as f64).min(2.0 * RADIUS);
    let mut seen = std::collections::BTreeMap::<usize, usize>::new();
    for (client, accuracy) in clients {
        let column = column(accuracy);
        let height = seen.entry(column).or_default();
        let pile = piles.get(&column).copied().unwrap_or(1);
        let offset = (*height as f64 - (pile - 1) as f64 / 2.0) * spacing;
        *height += 1;
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{RADIUS}\">\
             <title>client {client}: {} %</title></circle>",
            x.place(accuracy),
            y + offset,
            percent(accuracy)
        );
    }
}

/// A tall bar at the mean, a triangle from below at the worst decile.
fn marks(svg: &mut String, strip: &Strip, x: &Scale, y: f64) {
    if let Some(mean) = strip.mean {
        let at = x.place(mean);
        let _ = write!(
            svg,
            "<path class=\"mean\" d=\"M{at:.1} {:.1}V{:.1}\"><title>mean {} %</title></path>",
            y - 22.0,
            y + 22.0,
            percent(mean)
        );
    }
    if let Some(worst) = strip.worst_decile {
        let at = x.place(worst);
        let _ = write!(
            svg,
            "<path class=\"worst\" d=\"M{at:.1} {:.1}l6 10h-12z\"><title>worst 10 %: {} %</title>\
             </path>",
            y + 12.0,
            percent(worst)
        );
    }
}

/// Client and accuracy by ascending accuracy: all of them, or evenly spaced ranks of them.
fn drawn(clients: &[Option<f64>]) -> Vec<(usize, f64)> {
    let mut scored: Vec<(usize, f64)> =
        clients.iter().enumerate().filter_map(|(id, score)| Some((id, (*score)?))).collect();
    scored.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    if scored.len() <= DOTS {
        return scored;
    }
    (0..DOTS).map(|dot| scored[dot * (scored.len() - 1) / (DOTS - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_clients_the_extremes_and_the_shape_are_drawn() {
        let clients: Vec<_> = (0..10_000).map(|id| Some(f64::from(id) / 10_000.0)).collect();
        let dots = drawn(&clients);
        assert_eq!(dots.len(), DOTS);
        assert_eq!((dots[0].0, dots[DOTS - 1].0), (0, 9_999));
        let below_half = dots.iter().filter(|dot| dot.1 < 0.5).count();
        assert_eq!(below_half, DOTS / 2);
    }

    #[test]
    fn equal_clients_pile_up_within_their_strip() {
        let strip = Strip {
            name: "Local".to_owned(),
            slot: 0,
            aside: false,
            clients: vec![Some(0.5); 200],
            mean: Some(0.5),
            worst_decile: Some(0.5),
        };
        let svg = strips("x", "x", &[strip]).unwrap();
        let heights: Vec<f64> = svg
            .split("cy=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(heights.len(), 200);
        assert!(heights.iter().all(|y| (TOP..=TOP + STRIP).contains(y)));
    }

    #[test]
    fn unscored_clients_are_no_plot() {
        let strip = Strip {
            name: "x".to_owned(),
            slot: 0,
            aside: false,
            clients: vec![None, None],
            mean: None,
            worst_decile: None,
        };
        assert!(strips("x", "x", &[strip]).is_none());
        assert!(strips("x", "x", &[]).is_none());
    }
}
