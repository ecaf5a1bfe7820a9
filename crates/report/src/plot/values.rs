//! A figure over the values of a setting, with a band for its spread.

use std::fmt::Write;

use super::scale::{Scale, round_step};
use super::{colour, label_width, open};
use crate::html::text;
use crate::quantity::{percent, shortened};

const WIDTH: f64 = super::HALF;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Where a value stands on the axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// A number.
    Number(f64),
    /// A word; words stand beside each other.
    Word(String),
}

/// One line with its band.
pub(crate) struct Band {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Its colour.
    pub(crate) slot: usize,
    /// Value, mean and standard deviation.
    pub(crate) points: Vec<(Place, f64, f64)>,
}

/// What is drawn.
pub(crate) struct Values<'v> {
    /// Its spoken description.
    pub(crate) says: &'v str,
    /// The title of the horizontal axis.
    pub(crate) across: &'v str,
    /// The title of the vertical axis.
    pub(crate) up: &'v str,
    /// The lines; figures are fractions.
    pub(crate) bands: &'v [Band],
}

/// The horizontal axis: by number, by order of magnitude where numbers span decades, or word by word.
enum Across {
    Numbers(Scale),
    Words(Vec<String>, Scale),
}

impl Across {
    fn of(bands: &[Band], right: f64) -> Option<Self> {
        let places = || bands.iter().flat_map(|band| band.points.iter().map(|point| &point.0));
        let numbers: Option<Vec<f64>> = places()
            .map(|place| match place {
                Place::Number(x) => Some(*x),
                Place::Word(_) => None,
            })
            .collect();
        let (from, to) = (LEFT + 18.0, right - 18.0);
        if let Some(numbers) = numbers {
            let low = numbers.iter().copied().min_by(f64::total_cmp)?;
            let high = numbers.iter().copied().max_by(f64::total_cmp)?;
            let above_zero = numbers.iter().copied().filter(|number| *number > 0.0);
            let least = above_zero.min_by(f64::total_cmp).unwrap_or(high);
            let decades = high / least >= 20.0;
            let scale = if decades { Scale::logarithmic } else { Scale::linear };
            // Zero has no order of magnitude: beside decades it gets a place like a word.
            if !decades || low > 0.0 {
                return Some(Self::Numbers(scale(low, high, from, to)));
            }
        }
        let mut words: Vec<String> = Vec::new();
        for place in places() {
            let word = written(place);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let last = words.len().saturating_sub(1) as f64;
        Some(Self::Words(words, Scale::linear(0.0, last, from, to)))
    }

    fn place(&self, place: &Place) -> f64 {
        match (self, place) {
            (Self::Numbers(scale), Place::Number(x)) => scale.place(*x),
            (Self::Words(words, scale), place) => {
                let word = written(place);
                let at = words.iter().position(|known| *known == word).unwrap_or(0);
                scale.place(at as f64)
            }
            (Self::Numbers(_), Place::Word(_)) => LEFT,
        }
    }
}

fn written(place: &Place) -> String {
    match place {
        Place::Number(x) => format!("{x}"),
        Place::Word(word) => word.clone(),
    }
}

/// The plot, or nothing without points.
pub(crate) fn values(what: &Values<'_>) -> Option<String> {
    let bands: Vec<&Band> = what.bands.iter().filter(|band| !band.points.is_empty()).collect();
    let margin = bands.iter().map(|b| label_width(&shortened(&b.name, 20))).fold(24.0, f64::max);
    let (right, base) = (WIDTH - margin - 26.0, HEIGHT - BOTTOM);
    let x = Across::of(what.bands, right)?;
    let ends =
        || bands.iter().flat_map(|band| &band.points).map(|(_, mean, d)| (mean - d, mean + d));
    let low = ends().map(|(low, _)| low).min_by(f64::total_cmp)?.clamp(0.0, 1.0);
    let high = ends().map(|(_, high)| high).max_by(f64::total_cmp)?.clamp(0.0, 1.0);
    let step = round_step((high - low).max(0.02) / 5.0);
    let y = Scale::linear(
        ((low / step).floor() * step).max(0.0),
        ((high / step).ceil() * step).min(1.0),
        base,
        TOP,
    );
    let mut svg = open(WIDTH, HEIGHT, what.says);
    axes(&mut svg, what, &x, &y, (right, base));
    let mut label_at = f64::NEG_INFINITY;
    let mut order: Vec<&&Band> = bands.iter().collect();
    let last_of = |band: &Band| band.points.last().map_or(0.0, |point| point.1);
    order.sort_by(|a, b| last_of(b).total_cmp(&last_of(a)));
    for band in order {
        let _ =
            write!(svg, "<g class=\"{}\"><title>{}</title>", colour(band.slot), text(&band.name));
        draw(&mut svg, band, &x, &y);
        let end = y.place(last_of(band));
        label_at = end.max(label_at + 15.0);
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            right + 8.0,
            label_at + 4.0,
            text(&shortened(&band.name, 20))
        );
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn draw(svg: &mut String, band: &Band, x: &Across, y: &Scale) {
    let mut sorted: Vec<(f64, &(Place, f64, f64))> =
        band.points.iter().map(|point| (x.place(&point.0), point)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let upper = sorted.iter().map(|(at, (_, mean, d))| format!("{at:.1} {:.1}", y.place(mean + d)));
    let lower =
        sorted.iter().rev().map(|(at, (_, mean, d))| format!("{at:.1} {:.1}", y.place(mean - d)));
    let outline: Vec<String> = upper.chain(lower).collect();
    let _ = write!(svg, "<path class=\"band\" d=\"M{}z\"/>", outline.join("L"));
    let line: Vec<String> =
        sorted.iter().map(|(at, (_, mean, _))| format!("{at:.1} {:.1}", y.place(*mean))).collect();
    let _ = write!(svg, "<path class=\"line\" d=\"M{}\"/>", line.join("L"));
    for (at, (place, mean, deviation)) in sorted {
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}, {}: {} ± {}</title></circle>",
            y.place(*mean),
            text(&band.name),
            text(&written(place)),
            percent(*mean),
            percent(*deviation)
        );
    }
}

fn axes(svg: &mut String, what: &Values<'_>, x: &Across, y: &Scale, (right, base): (f64, f64)) {
    svg.push_str("<g class=\"axis\">");
    for (value, _) in y.ticks(6) {
        let at = y.place(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right:.1}\"/>\
             <text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            percent(value).trim_end_matches(".0")
        );
    }
    let ticks: Vec<(f64, String)> = match x {
        Across::Numbers(scale) => {
            scale.ticks(6).into_iter().map(|(value, text)| (scale.place(value), text)).collect()
        }
        Across::Words(words, scale) => {
            let each = words.iter().enumerate();
            each.map(|(place, word)| (scale.place(place as f64), shortened(word, 14))).collect()
        }
    };
    for (at, written) in ticks {
        let _ = write!(
            svg,
            "<path d=\"M{at:.1} {base:.1}v5\"/>\
             <text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            base + 19.0,
            text(&written)
        );
    }
    let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, base));
    let _ = write!(
        svg,
        "<path d=\"M{LEFT} {base:.1}H{right:.1}\"/>\
         <text class=\"below title\" x=\"{middle_x:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"below title\" transform=\"translate(14 {middle_y:.1}) rotate(-90)\">{}</text></g>",
        base + 38.0,
        text(what.across),
        text(what.up)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(Place, f64)]) -> String {
        let points = points.iter().map(|(place, mean)| (place.clone(), *mean, 0.01)).collect();
        let bands = [Band { name: "PM".into(), slot: 0, points }];
        values(&Values { says: "s", across: "λ", up: "%", bands: &bands }).unwrap()
    }

    #[test]
    fn decades_get_a_logarithmic_axis_and_words_one_of_their_own() {
        let decades = drawn(&[0.1, 1.0, 10.0].map(|x| (Place::Number(x), 0.5)));
        let at = |svg: &str| -> Vec<f64> {
            let circles = svg.split("cx=\"").skip(1);
            circles.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        let places = at(&decades);
        assert!((places[1] - f64::midpoint(places[0], places[2])).abs() < 0.2, "{places:?}");
        let even = drawn(&[1.0, 2.0, 5.0].map(|x| (Place::Number(x), 0.5)));
        assert!(at(&even)[1] - at(&even)[0] < at(&even)[2] - at(&even)[1]);
        let zero = at(&drawn(&[0.0, 1.0, 100.0].map(|x| (Place::Number(x), 0.5))));
        assert!((zero[1] - f64::midpoint(zero[0], zero[2])).abs() < 0.2, "{zero:?}");
        let words = drawn(&["raw", "complex"].map(|word| (Place::Word(word.into()), 0.5)));
        assert!(words.contains(">raw<") && words.contains(">complex<"));
        assert!(!decades.contains("NaN") && !words.contains("NaN"));
    }

    #[test]
    fn without_points_there_is_no_plot() {
        assert!(values(&Values { says: "", across: "", up: "", bands: &[] }).is_none());
        let single = drawn(&[(Place::Number(0.0), 0.0)]);
        assert!(!single.contains("NaN"), "{single}");
    }
}
