//! What the sensitivity plots show: accuracy over the values of a key.

use super::groups::{Pick, written};
use super::{Axis, Results};
use crate::html::Drawing;
use crate::plot::{Band, Place, Values, values};

/// One plot for each key, GM and PM over its values, with a band of one standard deviation over seeds.
pub(super) fn sensitivity(results: &Results) -> Vec<Drawing> {
    let drawn = results.axes.iter().enumerate().map(|(place, axis)| {
        let name = format!("sensitivity-{}", place + 1);
        Drawing::new(name, &axis.symbol, plot(results, axis), "No finished run yet.")
    });
    drawn.collect()
}

fn plot(results: &Results, axis: &Axis) -> Option<String> {
    let cells = results.grouped(|run| run.cell.get(&axis.key).map_or(String::new(), written));
    let mut bands = Vec::new();
    let picks: [(&str, Pick); 2] = [("GM", |s| s.gm_best), ("PM", |s| s.pm_best)];
    let methods: Vec<&str> = {
        let mut all: Vec<&str> = Vec::new();
        for line in cells.iter().flat_map(|cell| &cell.lines) {
            if !all.contains(&line.method) {
                all.push(line.method);
            }
        }
        all
    };
    for method in &methods {
        for (model, pick) in picks {
            let points = cells.iter().filter(|cell| !cell.name.is_empty()).filter_map(|cell| {
                let line = cell.lines.iter().find(|line| line.method == *method)?;
                let spread = line.spread(pick);
                let value = line.runs.first().and_then(|run| run.cell.get(&axis.key))?;
                let place =
                    value.as_f64().map_or_else(|| Place::Word(written(value)), Place::Number);
                Some((place, spread.mean?, spread.deviation.unwrap_or(0.0)))
            });
            let name =
                if methods.len() > 1 { format!("{method} {model}") } else { model.to_owned() };
            bands.push(Band { name, slot: bands.len(), points: points.collect() });
        }
    }
    let says = format!("Best accuracy over {}, GM and PM", axis.symbol);
    values(&Values { says: &says, across: &axis.symbol, up: "best accuracy, %", bands: &bands })
}
