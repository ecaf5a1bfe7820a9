//! Where models err and how their spectra lie.

use formant_runtime::event::{Errors, LayerSpectrum};

use super::super::csv::{Sheet, cell, word};
use super::training::each;
use crate::{MethodLog, RunLog};

/// What the last models of a method answered: the generic one's, then the personal ones'.
fn errors(method: &MethodLog) -> impl Iterator<Item = (&'static str, &Errors)> {
    let detail = method.detail.iter();
    detail.flat_map(|detail| {
        [("gm", &detail.gm), ("pm", &detail.pm)]
            .into_iter()
            .filter_map(|(model, errors)| Some((model, errors.as_ref()?)))
    })
}

/// `confusion.csv`: who is taken for whom.
pub(super) fn confusion(logs: &[RunLog]) -> Sheet {
    let headings =
        ["seed", "method", "model", "class", "answer", "class_name", "answer_name", "samples"];
    let mut sheet = Sheet::new("confusion.csv", &headings);
    for (log, method) in each(logs) {
        let names = log.started.division.as_ref().map_or(&[][..], |division| &division.classes);
        for (model, errors) in errors(method) {
            for (class, answers) in errors.confusion.iter().flatten().enumerate() {
                for (answer, samples) in answers.iter().enumerate() {
                    sheet.push(vec![
                        log.started.seed.to_string(),
                        word(&method.info.label),
                        word(model),
                        class.to_string(),
                        answer.to_string(),
                        cell(names.get(class)),
                        cell(names.get(answer)),
                        samples.to_string(),
                    ]);
                }
            }
        }
    }
    sheet
}

/// `reliability.csv`: how sure answers are, and how right.
pub(super) fn reliability(logs: &[RunLog]) -> Sheet {
    let headings = [
        "seed",
        "method",
        "model",
        "from",
        "to",
        "samples",
        "right",
        "mean_confidence",
        "accuracy",
    ];
    let mut sheet = Sheet::new("reliability.csv", &headings);
    for (log, method) in each(logs) {
        for (model, errors) in errors(method) {
            let bins = errors.reliability.len() as f64;
            for (place, bin) in errors.reliability.iter().enumerate() {
                let share = |sum: f64| (bin.samples > 0).then(|| sum / bin.samples as f64);
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&method.info.label),
                    word(model),
                    (place as f64 / bins).to_string(),
                    ((place + 1) as f64 / bins).to_string(),
                    bin.samples.to_string(),
                    bin.right.to_string(),
                    cell(share(bin.confidence)),
                    cell(share(bin.right as f64)),
                ]);
            }
        }
    }
    sheet
}

/// `spectra.csv`: how personal models' spectra lie to the generic one's, evaluation by evaluation.
pub(super) fn spectra(logs: &[RunLog]) -> Sheet {
    let headings =
        ["seed", "method", "round", "client", "divergence", "low_divergence", "distance"];
    let mut sheet = Sheet::new("spectra.csv", &headings);
    for (log, method) in each(logs) {
        for (round, spectra) in &method.spectra {
            for client in &spectra.clients {
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&method.info.label),
                    round.to_string(),
                    client.client.to_string(),
                    client.divergence.to_string(),
                    client.low_divergence.to_string(),
                    client.distance.to_string(),
                ]);
            }
        }
    }
    sheet
}

/// `bands.csv`: magnitudes by layer and band; `client` is empty for the generic model.
pub(super) fn bands(logs: &[RunLog]) -> Sheet {
    let headings = ["seed", "method", "round", "client", "layer", "band", "magnitude"];
    let mut sheet = Sheet::new("bands.csv", &headings);
    for (log, method) in each(logs) {
        for (round, spectra) in &method.spectra {
            let clients =
                spectra.clients.iter().map(|client| (Some(client.client), client.layers.as_ref()));
            let models: Vec<(Option<usize>, Option<&Vec<LayerSpectrum>>)> =
                std::iter::once((None, spectra.gm.as_ref())).chain(clients).collect();
            for (client, layers) in models {
                for layer in layers.into_iter().flatten() {
                    for (band, magnitude) in layer.bands.iter().enumerate() {
                        sheet.push(vec![
                            log.started.seed.to_string(),
                            word(&method.info.label),
                            round.to_string(),
                            cell(client),
                            word(&layer.layer),
                            band.to_string(),
                            magnitude.to_string(),
                        ]);
                    }
                }
            }
        }
    }
    sheet
}
