//! Rows and the table made of them.

use crate::synthetic::{comparison, evaluated, finished, log, method, round, started};
use formant_report::{Row, RunLog, html_of, markdown, over_seeds, rows, seed_table, table};
use formant_runtime::event::{Event, Measures, Metric};
use unicode_width::UnicodeWidthStr;

fn cells(table: &str, method: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(&format!("| {method}"))).unwrap();
    line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
}

fn row(label: &str) -> Row {
    rows(&log(&comparison())).into_iter().find(|row| row.label == label).unwrap()
}

#[test]
fn best_is_over_trained_rounds_and_last_is_the_last_evaluation() {
    let fedavg = row("fedavg");
    assert_eq!(
        (fedavg.gm_best, fedavg.best_round_gm, fedavg.gm_last),
        (Some(0.974), Some(2), Some(0.95))
    );
    // Round 0 scored 0.99, before any training.
    assert_eq!((fedavg.pm_best, fedavg.best_round_pm), (Some(0.931), Some(2)));
    assert_eq!(fedavg.pm_mean_last, Some(0.92 - 0.01));
    assert_eq!(fedavg.worst_decile_best, Some(0.931 - 0.1));
    assert_eq!(fedavg.worst_decile_last, Some(0.92 - 0.1));
    let local = row("local");
    assert_eq!(local.best_round_pm, Some(2), "of equal rounds the first");
}

#[test]
fn costs_come_from_finished_rounds() {
    let fedavg = row("fedavg");
    assert_eq!((fedavg.seconds, fedavg.train_seconds), (12.0, 6.0));
    assert_eq!(fedavg.samples_per_second, Some(150.0), "2 phases x 3 clients x 50 samples in 2 s");
    assert_eq!(fedavg.uploaded_bytes, 9_000);
    let scd = row("scd");
    assert!(!scd.finished);
    assert_eq!((scd.rounds, scd.planned), (2, 3));
    assert_eq!(scd.seconds, 2.0 * 2.0 + 3.0 * 0.5, "two rounds and three evaluations so far");

    let mut events = comparison();
    events.push(round("scd", 3, 3, Some(1.0))[0].clone());
    events.extend(round("scd", 3, 3, Some(1.0)).into_iter().skip(1).take(4));
    let in_flight = rows(&log(&events)).pop().unwrap();
    assert_eq!(in_flight.samples_per_second, scd.samples_per_second);
    assert_eq!(in_flight.rounds, 2);
}

#[test]
fn troubles_are_counted() {
    let ditto = row("ditto");
    assert_eq!((ditto.failed_phases, ditto.diverged_evaluations), (2, 1));
    assert_eq!(ditto.first_failure.unwrap().client, 1);
    assert_eq!(ditto.stopped.as_deref(), Some("every client diverged"));
    assert_eq!((ditto.gm_best, ditto.gm_last), (Some(0.60), None));
}

#[test]
fn rows_serialise_with_null_for_what_is_not_there() {
    let json = serde_json::to_value(rows(&log(&comparison()))).unwrap();
    assert_eq!(json[2]["label"], "ditto");
    assert_eq!(json[2]["gm_last"], serde_json::Value::Null);
    assert_eq!(json[2]["first_failure"]["phase"], "shared");
    assert_eq!(json[0]["gm_best"], 0.974);
}

#[test]
fn the_whole_table_of_a_comparison() {
    // Ditto's 80.0 is the highest PM, but clients of it diverged: it wins nothing.
    let text = table(&rows(&log(&comparison())), false);
    let expected = "\
| method             |  GM best |  GM last | PM best | PM last | worst 10 % | worse off |   time |
| ------------------ | -------: | -------: | ------: | ------: | ---------: | --------: | -----: |
| FedAvg             | **97.4** | **95.0** | (93.1)  | (92.0)  |     (82.0) |     (0/3) | 12.0 s |
| Local              |  (99.0)  |  (32.0)  |  75.0 ≈ |  75.0 ≈ |      65.0  |        –  | 12.0 s |
| Ditto, round 2/3 † |   60.0   |      –   |  80.0   |  20.0   |      10.0  |      3/3  | 1m 01s |
| SCD, round 2/3     |   71.0   |   71.0   |  75.0 ≈ |  74.0 ≈ |      64.0  |      3/3  |  5.5 s |

- ≈ Level with the best of the column: the 95 % interval of the difference includes 0. Bold is ahead of every \
other. Of one run, the interval covers clients (PM) and test samples (GM) alone; --seeds 5 would add other initial \
values and batches.
- (GM) The method trains no generic model: in parentheses, its personal models averaged, on the \
global test set. Not ranked.
- (PM) The method trains no personal models: in parentheses, its generic model on the clients' own \
test sets. Not ranked.
- † Ditto: 2 client phases diverged or failed and counted for nothing; first in round 2, client 1, \
shared phase: the loss is NaN; 1 evaluation met a diverged model, whose figures are not numbers; \
stopped after round 2 of 3: every client diverged.
";
    assert_eq!(text, expected);
}

#[test]
fn colour_replaces_the_asterisks_and_nothing_else_moves() {
    let text = table(&rows(&log(&comparison())), true);
    assert!(!text.contains('*'));
    assert_eq!(text.matches("\u{1b}[1m").count(), 2);
    assert_eq!(text.matches("\u{1b}[0m").count(), 2);
    let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    let widths: Vec<_> = plain.lines().take(6).map(UnicodeWidthStr::width).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{widths:?}\n{plain}");
}

#[test]
fn columns_line_up_by_width_on_the_screen_whatever_the_names() {
    let mut events = vec![started(
        vec![
            method("a", "联邦平均", true, true),
            method("b", "naïve | *bold* <script>", true, true),
            method("c", "🙂 e\u{301}", true, true),
            method("d", "\u{1b}[31mred\n", true, true),
        ],
        1,
        1,
    )];
    for label in ["a", "b", "c", "d"] {
        events.push(evaluated(label, 1, 0.5, 1.0, 1));
        events.push(finished(label, 1, 7_200.0, None));
    }
    for colour in [false, true] {
        let text = table(&rows(&log(&events)), colour);
        let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let widths: Vec<_> = plain.lines().map(UnicodeWidthStr::width).collect();
        let widths = &widths[..6];
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{widths:?}\n{plain}");
        assert!(!plain.contains('\u{1b}'), "a name must not steer the terminal");
    }
    let text = table(&rows(&log(&events)), false);
    assert!(text.contains(r"naïve \| \*bold\* \<script\>"));
}

#[test]
fn figures_within_the_noise_share_the_mark_and_asides_never_get_it() {
    let mut events = vec![started(
        vec![
            method("a", "A", true, true),
            method("b", "B", true, true),
            method("c", "C", false, false),
        ],
        1,
        1,
    )];
    for (label, gm) in [("a", 0.81204), ("b", 0.807), ("c", 0.99)] {
        events.push(evaluated(label, 1, gm, gm, 1));
    }
    let text = table(&rows(&log(&events)), false);
    assert_eq!(cells(&text, "A")[1], "81.2 ≈");
    assert_eq!(cells(&text, "B")[1], "80.7 ≈");
    assert_eq!(cells(&text, "C")[1], "(99.0)");
}

#[test]
fn a_single_method_is_not_best_of_anything() {
    let events =
        [started(vec![method("a", "A", true, true)], 1, 1), evaluated("a", 1, 0.5, 0.5, 1)];
    assert!(!table(&rows(&log(&events)), false).contains("**"));
}

#[test]
fn methods_that_share_a_title_go_by_their_labels() {
    let methods = vec![
        method("ditto-0.1", "Ditto", true, true),
        method("ditto-1", "Ditto", true, true),
        method("scd", "SCD", true, true),
    ];
    let text = table(&rows(&log(&[started(methods, 1, 5)])), false);
    for name in ["ditto-0.1, not started", "ditto-1, not started", "SCD, not started"] {
        assert_eq!(cells(&text, name)[1..], ["–"; 6]);
    }
}

#[test]
fn a_run_without_methods_is_a_table_without_rows() {
    let text = table(&rows(&log(&[started(vec![], 0, 0)])), false);
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn the_markdown_report_holds_setting_table_and_commands() {
    let mut events = comparison();
    let open = markdown(&log(&events));
    assert!(open.contains("> This run has not finished: 3 of 4 methods ended."));
    events.push(Event::RunFinished { seconds: 3_700.0 });
    let log = log(&events);
    let text = markdown(&log);
    assert!(text.starts_with("# a small comparison\n"));
    for part in [
        "- network: lenet5, 44,426 parameters",
        "- clients: 3, with 100 to 102 training and 20 test samples",
        "- partition: dirichlet, alpha 0.5",
        "- seed: 7",
        "- wall time: 1h 02m",
        "`formant run experiment.toml`",
        "- ditto: print-of-ditto",
    ] {
        assert!(text.contains(part), "{part}\nin\n{text}");
    }
    assert!(text.contains(&table(&rows(&log), false)));
    assert!(!text.contains("has not finished"));
}

/// Two methods by calibration error first, then by macro-F1 and accuracy. Ditto's patience was over.
fn by_metrics(seed: u64) -> RunLog {
    let methods =
        vec![method("fedavg", "FedAvg", true, false), method("ditto", "Ditto", true, true)];
    let mut events = vec![started(methods, 2, 9)];
    if let Event::RunStarted(run) = &mut events[0] {
        run.seed = seed;
        run.metrics =
            Measures::new(vec![Metric::CalibrationError, Metric::MacroF1, Metric::Accuracy])
                .unwrap();
    }
    for label in ["fedavg", "ditto"] {
        for (at, error, f1) in [(1, 0.30, 0.40), (2, 0.10, 0.50), (3, 0.20, 0.60)] {
            events.extend(round(label, at, 2, Some(1.0)));
            let ditto = f64::from(u8::from(label == "ditto"));
            let mut event = evaluated(label, at, 0.7, 0.8, 2);
            if let Event::Evaluated(scores) = &mut event {
                let (gm, pm) = (scores.gm.as_mut().unwrap(), scores.pm.as_mut().unwrap());
                let error = error - 0.05 * ditto;
                let f1 = f1 + 0.01 * ditto + 0.001 * seed as f64;
                gm.further = [(Metric::CalibrationError, error), (Metric::MacroF1, f1)].into();
                let own = |figure: f64| {
                    let mut own = pm.clone();
                    (own.weighted, own.worst_decile) = (figure, figure / 2.0);
                    own
                };
                let further = [
                    (Metric::CalibrationError, own(error / 2.0)),
                    (Metric::MacroF1, own(f1 / 2.0)),
                ];
                pm.further = further.into();
            }
            events.push(event);
        }
        let mut end = finished(label, 3, 12.0, Some("1 evaluation no better than that of round 2"));
        if let Event::MethodFinished { best_round, rounds, stopped, .. } = &mut end {
            if label == "ditto" {
                *best_round = Some(2);
            } else {
                (*rounds, *stopped) = (9, None);
            }
        }
        events.push(end);
    }
    events.push(Event::RunFinished { seconds: 24.0 });
    log(&events)
}

#[test]
fn tables_go_by_the_first_metric_and_show_the_others() {
    let log = by_metrics(1);
    let text = table(&rows(&log), false);
    let expected = "\
| method, by calibration error | GM best | GM last | PM best | PM last | worst 10 % |   time |
| ---------------------------- | ------: | ------: | ------: | ------: | ---------: | -----: |
| FedAvg                       |    10.0 |    20.0 |   (5.0) |  (10.0) |      (5.0) | 12.0 s |
| Ditto, stopped after round 3 |     5.0 |    15.0 |    2.5  |    7.5  |       3.8  | 12.0 s |

| further metric | method | GM best | GM last | PM best | PM last | worst 10 % |
| -------------- | ------ | ------: | ------: | ------: | ------: | ---------: |
| macro-F1       | FedAvg |    50.1 |    60.1 |  (25.1) |  (30.0) |     (15.0) |
| macro-F1       | Ditto  |    51.1 |    61.1 |   25.6  |   30.6  |      15.3  |
| accuracy       | FedAvg |    70.0 |    70.0 |  (80.0) |  (80.0) |     (70.0) |
| accuracy       | Ditto  |    70.0 |    70.0 |   80.0  |   80.0  |      70.0  |

- (PM) The method trains no personal models: in parentheses, its generic model on the clients' own test sets. Not ranked.
- Ditto: stopped after round 3, 1 evaluation no better than that of round 2; the models of round 2 are kept.
- Early stopping looked at the test set that these figures are of, which flatters them; evaluation.split = \"validation\" would not.
";
    assert_eq!(text, expected);
    let rows = rows(&log);
    assert_eq!((rows[1].gm_best, rows[1].best_round_gm), (Some(0.05), Some(2)), "less is better");
    assert!(!rows[1].gave_up() && rows[1].kept_round == Some(2));
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!(json[1]["metric"], "calibration_error");
    assert_eq!(json[1]["further"][0]["metric"], "macro_f1");
    assert_eq!(json[1]["further"][1]["gm_best"], 0.7);
    assert_eq!((&json[1]["kept_round"], &json[1]["kept_by_test"]), (&2.into(), &true.into()));
    let text = markdown(&log);
    for part in
        ["Calibration errors, of which less is better, are in percent", "by the other metrics"]
    {
        assert!(text.contains(part), "{text}");
    }
    let page = html_of(&log);
    for part in [
        "<h3>Further metrics</h3>",
        ">macro-F1</th></tr>",
        "GM calibration error, %",
        "Calibration error and training loss by round",
        "<dt>metrics</dt><dd>calibration error, macro-F1, accuracy</dd>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Nothing of this is in a table of accuracies alone.
    let plain = serde_json::to_string(&row("fedavg")).unwrap();
    for key in ["metric", "further", "kept"] {
        assert!(!plain.contains(key), "{plain}");
    }
}

#[test]
fn seeds_are_averaged_by_every_metric() {
    let found = over_seeds(&[by_metrics(1), by_metrics(3)]).unwrap();
    let expected = "\
| method, by calibration error |    GM best |    GM last |     PM best |      PM last |  worst 10 % |
| ---------------------------- | ---------: | ---------: | ----------: | -----------: | ----------: |
| FedAvg                       | 10.0 ± 0.0 | 20.0 ± 0.0 | (5.0 ± 0.0) | (10.0 ± 0.0) | (5.0 ± 0.0) |
| Ditto                        |  5.0 ± 0.0 | 15.0 ± 0.0 |  2.5 ± 0.0  |   7.5 ± 0.0  |  3.8 ± 0.0  |

| further metric | method |    GM best |    GM last |      PM best |      PM last |   worst 10 % |
| -------------- | ------ | ---------: | ---------: | -----------: | -----------: | -----------: |
| macro-F1       | FedAvg | 50.2 ± 0.1 | 60.2 ± 0.1 | (25.1 ± 0.1) | (30.1 ± 0.1) | (15.0 ± 0.0) |
| macro-F1       | Ditto  | 51.2 ± 0.1 | 61.2 ± 0.1 |  25.6 ± 0.1  |  30.6 ± 0.1  |  15.3 ± 0.0  |
| accuracy       | FedAvg | 70.0 ± 0.0 | 70.0 ± 0.0 | (80.0 ± 0.0) | (80.0 ± 0.0) | (70.0 ± 0.0) |
| accuracy       | Ditto  | 70.0 ± 0.0 | 70.0 ± 0.0 |  80.0 ± 0.0  |  80.0 ± 0.0  |  70.0 ± 0.0  |

- (PM) The method trains no personal models: in parentheses, its generic model on the clients' own test sets. Not ranked.
";
    assert_eq!(seed_table(&found), expected);
    assert_eq!(found[0].metric, Metric::CalibrationError);
    let f1 = found[0].further[0].gm_best;
    assert!((f1.mean.unwrap() - 0.502).abs() < 1e-12 && f1.deviation.unwrap() > 0.001);
}
