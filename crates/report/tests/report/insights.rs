//! What a report tells besides scores: who holds what, who gains, where models err, how spectra lie.

use crate::pages::{assert_sound_plots, assert_well_formed};
use crate::synthetic::{Size, evaluated, log, method, methods, started, told};
use formant_report::{RunLog, answers, figures, gains, html_of, insight, markdown, rows, table};
use formant_runtime::event::Event;

const SMALL: Size = Size { clients: 20, classes: 10, layers: 10, rounds: 6 };

fn small() -> RunLog {
    log(&told(&methods(0), SMALL))
}

#[test]
fn every_section_and_figure_is_drawn() {
    let log = small();
    let page = html_of(&log);
    assert_well_formed(&page);
    assert_sound_plots(&page);
    for part in [
        "312 of 12,000 divided samples (2.6 %)",
        "less different",
        "Training samples by client and class",
        "over training alone",
        "over the generic model",
        "worse off",
        "ECE: PM",
        "Confusion: SCD",
        "D(P‖Q)",
        "SCD, personal phase",
        "layer0.weight",
        "before training",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let names: Vec<String> = figures(&[log]).into_iter().map(|figure| figure.name).collect();
    for name in [
        "label-heat-map",
        "gains-over-local",
        "gains-over-gm",
        "calibration",
        "confusion-4-scd",
        "spectral-divergence",
        "spectral-divergence-low",
        "model-distance",
        "terms",
        "spectral-differences",
        "spectra-4-scd",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
        assert!(page.contains(&format!("id=\"figure-{name}\"")), "{name} has a place in the page");
    }
}

#[test]
fn gains_are_against_local_and_against_the_generic_model_of_the_same_clients() {
    let log = small();
    let found = gains(&log);
    let [local, fedavg, ditto, _] = &found[..] else { panic!("four methods") };
    assert!(local.over_local.is_none(), "nobody gains over himself");
    assert!(fedavg.over_gm.is_none(), "its clients use the generic model");
    let alone = ditto.over_local.as_ref().unwrap();
    assert_eq!(alone.clients.len(), 20);
    let last = |place: usize| log.methods[place].last().unwrap().1.per_client[7].unwrap();
    assert_eq!((alone.clients[7].pm, alone.clients[7].other), (last(2), last(0)));
    assert_eq!(alone.clients[7].gain, last(2) - last(0));
    let worse = alone.clients.iter().filter(|client| client.gain < 0.0).count();
    assert_eq!((alone.worse, alone.worse_share), (worse, worse as f64 / 20.0));
    let gm = ditto.over_gm.as_ref().unwrap();
    let on_client = log.methods[2].detail.as_ref().unwrap().gm_on_clients[7].unwrap();
    assert_eq!(gm.clients[7].other, on_client);
}

#[test]
fn the_terminal_table_counts_who_is_worse_off_than_alone() {
    let log = small();
    let found = gains(&log);
    let worse = |place: usize| found[place].over_local.as_ref().unwrap().worse;
    let text = table(&rows(&log), true);
    let lines: Vec<&str> = text.lines().collect();
    let place = lines[0].split('|').position(|heading| heading.trim() == "worse off").unwrap();
    let cell = |row: usize| lines[2 + row].split('|').nth(place).unwrap().trim().to_owned();
    assert_eq!(cell(0), "–", "Local itself");
    assert_eq!(cell(1), format!("({}/20)", worse(1)), "a generic model stands in");
    assert_eq!([cell(2), cell(3)], [2, 3].map(|place| format!("{}/20", worse(place))));
    assert!(html_of(&log).contains("<th scope=\"col\">worse off</th>"));
    let without = log_of_one("fedavg");
    assert!(!table(&rows(&without), true).contains("worse off"));
    assert!(!html_of(&without).contains("<th scope=\"col\">worse off</th>"));
}

/// A run of one method that has been scored once.
fn log_of_one(label: &str) -> RunLog {
    log(&[started(vec![method(label, label, true, true)], 3, 1), evaluated(label, 1, 0.5, 0.6, 3)])
}

#[test]
fn without_local_the_page_says_how_to_get_it() {
    let page = html_of(&log_of_one("fedavg"));
    assert_well_formed(&page);
    assert!(page.contains("name = &quot;local&quot;"));
    let alone = html_of(&log_of_one("local"));
    assert!(
        alone.contains("nothing to compare it with") && !alone.contains("name = &quot;local&quot;")
    );
    let nothing = html_of(&log(&[started(vec![method("a", "A", true, true)], 3, 1)]));
    for title in ["Who gains", "Errors and calibration", "Spectra"] {
        assert!(!nothing.contains(title), "{title}: there is nothing to tell yet");
    }
}

#[test]
fn the_markdown_report_has_the_short_tables() {
    let text = markdown(&small());
    for part in [
        "## Division of the samples",
        "## Who gains",
        "## Errors and calibration",
        "## Spectra",
        "| worse off than alone |",
        "| SCD",
        "class 1",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn all_of_it_is_json() {
    let found = serde_json::to_value(insight(&small())).unwrap();
    assert_eq!(found["division"]["moved"], 312);
    assert_eq!(found["gains"][2]["over_local"]["clients"].as_array().unwrap().len(), 20);
    assert!(found["gains"][0].get("over_local").is_none());
    let last = &found["spectra"][3]["rounds"][6];
    assert_eq!(last["round"], 6);
    assert!(last["divergence"].as_f64().unwrap() > 0.0);
    assert_eq!(found["spectra"][3]["terms"][0]["phase"], "shared");
    let error = found["answers"][3]["pm"]["calibration_error"].as_f64().unwrap();
    assert!((0.0..0.2).contains(&error), "{error}");
}

#[test]
fn a_large_run_stays_a_page_that_a_browser_opens() {
    let size = Size { clients: 1_000, classes: 100, layers: 62, rounds: 30 };
    let log = log(&told(&methods(8), size));
    let page = html_of(&log);
    assert_well_formed(&page);
    assert_sound_plots(&page);
    assert!(page.len() < 12_000_000, "{} bytes", page.len());
    assert!(page.contains("more than 50,000 figures"), "100,000 counts are not in the log");
    assert!(page.contains("11 of 62 tensors"));
    assert!(page.contains("neighbours in rank share a bar"));
    let many = Size { clients: 300, classes: 120, layers: 2, rounds: 1 };
    let log = crate::synthetic::log(&told(&methods(0), many));
    let page = html_of(&log);
    assert!(page.contains("100 evenly spaced of 300 clients, 120 classes in 60 rows"));
    assert!(page.contains("With more than 100 classes"));
    assert!(answers(&log)[0].gm.as_ref().unwrap().confusions.is_empty());
}

#[test]
fn names_of_classes_and_layers_are_text() {
    let evil = "</title><script>alert(\"1\")</script>'&amp;";
    let mut events = told(&methods(0), Size { clients: 3, classes: 2, layers: 2, rounds: 1 });
    for event in &mut events {
        match event {
            Event::RunStarted(run) => {
                run.division.as_mut().unwrap().classes.fill(evil.to_owned());
                for info in &mut run.methods {
                    info.title = format!("{evil} {}", info.label);
                }
            }
            Event::Spectra(spectra) => {
                for layer in spectra.gm.iter_mut().flatten() {
                    layer.layer = evil.to_owned();
                }
            }
            _ => {}
        }
    }
    let log = log(&events);
    let page = html_of(&log);
    assert_well_formed(&page);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    for figure in figures(std::slice::from_ref(&log)) {
        assert!(!figure.svg.contains("<script"), "{}", figure.name);
    }
    assert!(!markdown(&log).replace("\\<", "").contains("<script"), "escaped");
}

#[test]
fn figures_that_are_no_numbers_or_do_not_fit_draw_nothing_wrong() {
    let mut events = told(&methods(0), Size { clients: 4, classes: 3, layers: 3, rounds: 2 });
    for event in &mut events {
        match event {
            Event::Spectra(spectra) => {
                // Fewer layers and bands than the generic model, and none at all.
                for (place, client) in spectra.clients.iter_mut().enumerate() {
                    if let Some(layers) = &mut client.layers {
                        layers.truncate(place);
                        for layer in layers {
                            layer.bands.truncate(place);
                        }
                    }
                }
                for layer in spectra.gm.iter_mut().flatten() {
                    layer.bands[0] = 0.0;
                }
            }
            Event::Detailed(detail) => {
                detail.gm_on_clients.truncate(2);
                detail.gm.as_mut().unwrap().reliability.clear();
                detail.pm.as_mut().unwrap().confusion = Some(vec![vec![0; 3], vec![1], vec![]]);
            }
            Event::RunStarted(run) => {
                run.division.as_mut().unwrap().counts = Some(vec![vec![0], vec![], vec![7; 9]]);
            }
            _ => {}
        }
    }
    let page = html_of(&log(&events));
    assert_well_formed(&page);
    assert_sound_plots(&page);
}
