//! How much data each client holds.

use std::fmt::Write;

use formant_runtime::event::ClientSize;

use super::scale::{Scale, round_step};
use super::{HALF as WIDTH, open};
use crate::quantity::count;

/// Bars at most; more clients are grouped, neighbours in size sharing one bar.
const BARS: usize = 120;

const HEIGHT: f64 = 310.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// One bar: its clients, as words, and their mean sizes.
struct Bar {
    who: String,
    train: f64,
    test: f64,
}

/// Training samples with the test samples on top, or nothing without clients whose data is known.
///
/// Up to [`BARS`] clients stand in id order, more are sorted by size.
pub(crate) fn bars(says: &str, clients: &[Option<ClientSize>]) -> Option<String> {
    let known = clients.iter().enumerate().filter_map(|(id, size)| Some((id, (*size)?)));
    let clients: Vec<(usize, ClientSize)> = known.collect();
    let bars = grouped(&clients);
    let tallest = bars.iter().map(|bar| bar.train + bar.test).max_by(f64::total_cmp)?;
    let step = round_step(tallest.max(1.0) / 5.0);
    let (right, base) = (WIDTH - 12.0, HEIGHT - BOTTOM);
    let y = Scale::linear(0.0, (tallest.max(1.0) / step).ceil() * step, base, TOP);

    let mut svg = open(WIDTH, HEIGHT, says);
    svg.push_str("<g class=\"axis\">");
    for (value, _) in y.ticks(5).into_iter().filter(|(value, _)| value.fract() == 0.0) {
        let at = y.place(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            count(value as u64)
        );
    }
    let slot = (right - LEFT) / bars.len() as f64;
    let sorted = clients.len() > BARS;
    if !sorted {
        let every = round_step((bars.len() as f64 / 12.0).max(1.0)) as usize;
        for (place, (client, _)) in clients.iter().enumerate().step_by(every.max(1)) {
            let at = LEFT + (place as f64 + 0.5) * slot;
            let _ = write!(
                svg,
                "<text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{client}</text>",
                base + 18.0
            );
        }
    }
    let title = if sorted { "clients, from small to large" } else { "client" };
    let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, base));
    let _ = write!(
        svg,
        "<text class=\"below title\" x=\"{middle_x:.1}\" y=\"{:.1}\">{title}</text>\
         <text class=\"below title\" transform=\"translate(12 {middle_y:.1}) rotate(-90)\">samples\
         </text></g>",
        base + 38.0
    );
    for (at, class, words) in
        [(LEFT, "train", "to train on"), (LEFT + 110.0, "test", "to score on")]
    {
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{at} 6h11v11h-11z\"/><text x=\"{}\" y=\"16\">{words}</text>",
            at + 17.0
        );
    }
    let width = (slot * 0.78).clamp(0.5, 56.0);
    for (place, bar) in bars.iter().enumerate() {
        let x = LEFT + (place as f64 + 0.5) * slot - width / 2.0;
        let (train, top) = (y.place(bar.train), y.place(bar.train + bar.test));
        let _ = write!(
            svg,
            "<g><title>{}: {:.0} to train on, {:.0} to score on</title>\
             <path class=\"train\" d=\"M{x:.1} {base:.1}V{train:.1}h{width:.1}V{base:.1}z\"/>\
             <path class=\"test\" d=\"M{x:.1} {train:.1}V{top:.1}h{width:.1}V{train:.1}z\"/></g>",
            bar.who, bar.train, bar.test
        );
    }
    let _ = write!(svg, "<path class=\"base\" d=\"M{LEFT} {base:.1}H{right}\"/></svg>");
    Some(svg)
}

fn grouped(clients: &[(usize, ClientSize)]) -> Vec<Bar> {
    if clients.len() <= BARS {
        let bar = |(id, size): &(usize, ClientSize)| Bar {
            who: format!("client {id}"),
            train: size.train as f64,
            test: size.test as f64,
        };
        return clients.iter().map(bar).collect();
    }
    let mut sorted: Vec<ClientSize> = clients.iter().map(|(_, size)| *size).collect();
    sorted.sort_by_key(|size| (size.train, size.test));
    let groups = sorted.chunks(sorted.len().div_ceil(BARS));
    let mean = |group: &[ClientSize], size: fn(&ClientSize) -> usize| {
        group.iter().map(|client| size(client) as f64).sum::<f64>() / group.len() as f64
    };
    let bar = |group: &[ClientSize]| Bar {
        who: format!("mean of {} clients", group.len()),
        train: mean(group, |client| client.train),
        test: mean(group, |client| client.test),
    };
    groups.map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_clients_share_a_bounded_number_of_bars() {
        let clients: Vec<_> =
            (0..5_000).rev().map(|id| (id, ClientSize { train: id, test: 10 })).collect();
        let bars = grouped(&clients);
        assert!(bars.len() <= BARS, "{}", bars.len());
        assert!(bars.windows(2).all(|pair| pair[0].train < pair[1].train), "sorted by size");
        assert_eq!(bars[0].train, 20.5, "the mean of the 42 smallest, 0 to 41");
    }

    #[test]
    fn clients_without_samples_still_give_a_plot() {
        assert!(bars("x", &[Some(ClientSize { train: 0, test: 0 })]).is_some());
        assert!(bars("x", &[]).is_none());
    }

    #[test]
    fn a_client_whose_data_is_not_known_has_no_bar() {
        let own = Some(ClientSize { train: 3, test: 1 });
        let drawn = bars("x", &[None, own]).unwrap();
        assert!(
            drawn.contains("client 1: 3 to train on") && !drawn.contains("client 0"),
            "{drawn}"
        );
        assert!(bars("x", &[None, None]).is_none());
    }
}
