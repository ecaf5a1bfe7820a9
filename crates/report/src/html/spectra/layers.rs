//! Spectra layer by layer: where personal models leave the generic one, and the magnitudes themselves.

use std::fmt::Write;

use formant_runtime::event::{LayerSpectrum, Spectra};

use super::super::panels::{Panels, slug};
use super::super::{Drawing, text};
use super::listed;
use crate::plot::{Bands, Heat, Kind, PANEL, Panel, bands, bands_legend};
use crate::quantity::percent;
use crate::scoreboard::names_of;
use crate::spectra::mean;
use crate::{MethodLog, RunLog};

/// Tensors whose spectra are drawn; of more, weights evenly spaced over the depth.
const LAYERS: usize = 11;
/// Personal models that are drawn.
const CLIENTS: usize = 6;

pub(super) fn section(page: &mut String, log: &RunLog) {
    let gap = gap(log);
    if !gap.plots.is_empty() {
        page.push_str(
            "<p class=\"caption\">Where personal models leave the generic one: for every tensor (a row, the \
             input above) and every band of frequencies (low ones at the left), how much the PMs' magnitudes \
             differ from the GM's at the end, in percent, up or down, the mean over the clients. All methods \
             have the same colours, so that a pale map is a method whose PMs share the GM's spectrum. Each \
             tensor has a transform of its own here; short ones have few bands.</p>\n",
        );
        gap.show(page);
    }
    let spectra = spectra(log);
    if spectra.is_empty() {
        return;
    }
    page.push_str(
        "<h3>The spectra themselves</h3>\n<p class=\"caption\">Magnitude by frequency, both on logarithmic \
         axes, tensor by tensor: of the generic model at the first evaluation (before training, if \
         that was scored) and at the end, and of some personal models at the end. Random initial values have a flat spectrum; what training adds is seen as what \
         rises above it, and what a client's data add as the distance between the coloured lines \
         and the dark one.</p>\n",
    );
    let shown = shown(log, &spectra);
    for (slot, panels) in spectra {
        let open = if Some(slot) == shown { " open" } else { "" };
        let _ = writeln!(
            page,
            "<details class=\"method\"{open}><summary>{}</summary>",
            text(&panels.title)
        );
        panels.show(page);
        page.push_str("</details>\n");
    }
}

pub(super) fn figures(log: &RunLog) -> Vec<Drawing> {
    let spectra = spectra(log).into_iter().map(|(_, panels)| panels);
    std::iter::once(gap(log)).chain(spectra).map(Panels::drawing).collect()
}

/// Which method is shown at once: the first SCD, or the first that trains personal models, or any.
fn shown(log: &RunLog, spectra: &[(usize, Panels)]) -> Option<usize> {
    let slots = || spectra.iter().map(|(slot, _)| *slot);
    let first = |test: fn(&MethodLog) -> bool| slots().find(|&slot| test(&log.methods[slot]));
    first(|method| method.info.name == "scd")
        .or_else(|| first(|method| method.info.personal))
        .or_else(|| slots().next())
}

/// The last evaluation of which the tensors are known.
fn at_last(method: &MethodLog) -> Option<(&Spectra, &[LayerSpectrum])> {
    let mut known = method.spectra.values().rev().filter(|spectra| spectra.round > 0);
    known.find_map(|spectra| Some((spectra, spectra.gm.as_deref()?)))
}

/// The generic model's tensors at the first evaluation, and when that was; nothing if it is the last one too.
fn at_first(method: &MethodLog, last: usize) -> Option<(usize, &[LayerSpectrum])> {
    let (&round, first) = method.spectra.first_key_value()?;
    first.gm.as_deref().filter(|_| round < last).map(|gm| (round, gm))
}

/// When something was, in words.
fn moment(round: usize) -> String {
    if round == 0 { "before training".to_owned() } else { format!("after round {round}") }
}

/// How much personal models' bands differ from the generic model's: `|ln|` of the ratio, the mean over clients.
fn differences(method: &MethodLog) -> Option<(Vec<String>, Vec<Vec<f64>>)> {
    let (spectra, gm) = at_last(method)?;
    let own: Vec<&[LayerSpectrum]> =
        spectra.clients.iter().filter_map(|client| client.layers.as_deref()).collect();
    let rows = gm.iter().enumerate().map(|(place, layer)| {
        let bands = layer.bands.iter().enumerate().map(|(band, &generic)| {
            let ratios = own.iter().filter_map(|layers| {
                let personal = *layers.get(place)?.bands.get(band)?;
                Some((f64::from(personal) / f64::from(generic)).ln().abs())
            });
            mean(ratios).unwrap_or(0.0)
        });
        bands.collect::<Vec<f64>>()
    });
    let rows: Vec<Vec<f64>> = rows.collect();
    // Where both are the same model there is nothing to see.
    let differ = rows.iter().flatten().any(|&difference| difference > 0.0);
    differ.then(|| (gm.iter().map(|layer| layer.layer.clone()).collect(), rows))
}

/// A map of layers and frequencies for every method.
fn gap(log: &RunLog) -> Panels {
    let names = names_of(log);
    let found = log.methods.iter().zip(names).enumerate();
    let found: Vec<_> = found
        .filter_map(|(slot, (method, name))| Some((slot, name, differences(method)?)))
        .collect();
    let mut all: Vec<f64> =
        found.iter().flat_map(|(_, _, (_, rows))| rows.iter().flatten()).copied().collect();
    all.sort_by(f64::total_cmp);
    // A few bands of short tensors differ wildly; they must not make everything else pale.
    let most = all.get(all.len() * 97 / 100).copied().unwrap_or(0.0);
    let written = |value: f64| format!("{:.0} %", (value.exp() - 1.0) * 100.0);
    let legend = |value: f64| {
        let bound = if value >= most { "≥ " } else { "" };
        format!("{bound}{}", written(value))
    };
    let panels = found.iter().filter_map(|(slot, name, (layers, cells))| {
        let overall = mean(cells.iter().flatten().copied()).unwrap_or(0.0);
        let figures = format!("mean difference {} %", percent(overall.exp() - 1.0));
        let tip = |row: usize, column: usize| {
            let (cells, layer) = (&cells[row], &layers[row]);
            format!("{layer}, band {} of {}: {}", column + 1, cells.len(), written(cells[column]))
        };
        let heat = Heat {
            title: (name.clone(), figures.clone()),
            slot: Some(*slot),
            says: format!("{name}: how much PM and GM differ by layer and frequency; {figures}"),
            size: (PANEL, (layers.len() as f64 * 14.0 + 124.0).clamp(180.0, 480.0)),
            rows: layers.clone(),
            columns: Vec::new(),
            axes: ("", "frequency, low to high"),
            cells: cells.clone(),
            most,
            tip: &tip,
            written: None,
            legend: Some(&legend),
        };
        heat.panel()
    });
    Panels {
        name: "spectral-differences".to_owned(),
        title: "Where personal models' spectra leave the generic model's, by layer and frequency"
            .to_owned(),
        plots: panels.collect(),
        large: false,
    }
}

/// The spectra of every method that has some, with its place in the run.
fn spectra(log: &RunLog) -> Vec<(usize, Panels)> {
    let mut found = Vec::new();
    for (slot, (method, name)) in log.methods.iter().zip(names_of(log)).enumerate() {
        let Some((last, gm)) = at_last(method) else { continue };
        let before = at_first(method, last.round);
        let places = chosen(gm);
        let panels = places.iter().filter_map(|&place| panel(slot, place, gm, before, last));
        let mut panels: Vec<Panel> = panels.collect();
        if panels.is_empty() {
            continue;
        }
        let clients: Vec<usize> =
            last.clients.iter().take(CLIENTS).map(|client| client.client).collect();
        let first = before.map(|(round, _)| moment(round));
        panels.push(bands_legend(slot, first.as_deref(), &format!("({})", listed(&clients))));
        let some = if places.len() < gm.len() {
            format!(", {} of {} tensors", places.len(), gm.len())
        } else {
            String::new()
        };
        let first = first.map_or_else(String::new, |first| format!("{first} and "));
        let title = format!("Spectra of {name} {first}after round {}{some}", last.round);
        let name = format!("spectra-{}", slug(slot, &method.info.label));
        found.push((slot, Panels { name, title, plots: panels, large: false }));
    }
    found
}

/// The tensors that are drawn, in the network's order.
fn chosen(layers: &[LayerSpectrum]) -> Vec<usize> {
    let all: Vec<usize> = (0..layers.len()).collect();
    if all.len() <= LAYERS {
        return all;
    }
    let weights: Vec<usize> =
        all.iter().copied().filter(|&place| layers[place].layer.ends_with("weight")).collect();
    let from = if weights.len() >= LAYERS { weights } else { all };
    (0..LAYERS).map(|place| from[place * (from.len() - 1) / (LAYERS - 1)]).collect()
}

fn panel(
    slot: usize,
    place: usize,
    gm: &[LayerSpectrum],
    before: Option<(usize, &[LayerSpectrum])>,
    last: &Spectra,
) -> Option<Panel> {
    let layer = gm.get(place)?;
    let mut lines = Vec::new();
    if let Some((round, first)) = before.and_then(|(at, layers)| Some((at, layers.get(place)?))) {
        let who = format!("generic model {}", moment(round));
        lines.push(Bands { who, kind: Kind::Before, magnitudes: &first.bands });
    }
    for client in last.clients.iter().take(CLIENTS) {
        if let Some(own) = client.layers.as_ref().and_then(|layers| layers.get(place)) {
            let who = format!("client {}", client.client);
            lines.push(Bands { who, kind: Kind::Personal, magnitudes: &own.bands });
        }
    }
    let who = "generic model".to_owned();
    lines.push(Bands { who, kind: Kind::Generic, magnitudes: &layer.bands });
    bands(&layer.layer, slot, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tensors_weights_from_first_to_last_are_drawn() {
        let layers: Vec<LayerSpectrum> = (0..62)
            .map(|place| LayerSpectrum {
                layer: format!("layer{}.{}", place / 2, ["weight", "bias"][place % 2]),
                bands: vec![1.0],
            })
            .collect();
        let places = chosen(&layers);
        assert_eq!((places.len(), places[0], places[LAYERS - 1]), (LAYERS, 0, 60));
        assert!(places.iter().all(|place| place % 2 == 0), "{places:?}");
        assert_eq!(chosen(&layers[..4]), [0, 1, 2, 3]);
    }
}
