//! Who is ahead: over seeds, over clients, and between experiments.

use crate::synthetic::{evaluated, failed, finished, log, method, round, started};
use formant_report::{
    Comparison, ReportError, RunLog, Standing, Which, compare, comparison_csv, comparison_latex,
    comparison_table, covers, html, html_of, over_seeds, rows, seed_table, series_markdown,
    significance, write_series_reports,
};
use formant_runtime::event::Event;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

/// Clients of all made-up runs; each has 20 test samples.
const CLIENTS: usize = 10;

/// A run of FedAvg (no PM), Ditto and SCD. Clients differ by a tenth around each PM, alike for both methods.
fn run(seed: u64, scores: [(f64, f64); 3]) -> RunLog {
    log(&events(seed, scores))
}

fn events(seed: u64, scores: [(f64, f64); 3]) -> Vec<Event> {
    let methods = [("fedavg", "FedAvg", false), ("ditto", "Ditto", true), ("scd", "SCD", true)];
    let infos = methods.map(|(label, title, personal)| method(label, title, true, personal));
    let mut events = vec![started(infos.to_vec(), CLIENTS, 1)];
    if let Event::RunStarted(run) = &mut events[0] {
        run.seed = seed;
        run.config = json!({
            "seed": seed,
            "rounds": 1,
            "data": {"partition": "dirichlet", "alpha": 0.5, "seed": 1},
            "method": [{"name": "fedavg"}, {"name": "ditto", "lambda": 0.5}, {"name": "scd"}],
        });
    }
    for ((label, _, _), (gm, pm)) in methods.into_iter().zip(scores) {
        events.extend(round(label, 1, CLIENTS, Some(1.0)));
        let mut event = evaluated(label, 1, gm, pm, CLIENTS);
        if let Event::Evaluated(scores) = &mut event {
            let clients = scores.pm.as_mut().unwrap().per_client.iter_mut().enumerate();
            for (client, score) in clients {
                *score = score.map(|score| score + if client % 2 == 0 { 0.1 } else { -0.1 });
            }
        }
        events.push(event);
        events.push(finished(label, 1, 1.0, None));
    }
    events.push(Event::RunFinished { seconds: 3.0 });
    events
}

fn five(offset: f64) -> Vec<RunLog> {
    let noise = [0.0, 0.002, -0.002, 0.001, -0.001];
    let seeds = 1..;
    seeds
        .zip(noise)
        .map(|(seed, noise)| {
            run(seed, [(0.9, 0.5), (0.9 + noise, 0.7 + noise), (0.8, 0.7 + offset)])
        })
        .collect()
}

fn standing(logs: &[RunLog], which: Which) -> Vec<Option<Standing>> {
    over_seeds(logs).unwrap().iter().map(|row| row.standing.of(which)).collect()
}

#[test]
fn a_lead_beyond_the_noise_is_bold_and_one_within_is_shared() {
    let clear = five(0.05);
    assert_eq!(standing(&clear, Which::PmLast), [None, None, Some(Standing::Ahead)]);
    let tie = [Some(Standing::Tied), Some(Standing::Tied), None];
    assert_eq!(standing(&clear, Which::GmLast), tie);
    let close = five(0.003);
    let tie = [None, Some(Standing::Tied), Some(Standing::Tied)];
    assert_eq!(standing(&close, Which::PmLast), tie);
    let text = seed_table(&over_seeds(&clear).unwrap());
    assert!(text.contains("**75.0 ± 0.0**") && text.contains("90.0 ± 0.2 ≈"), "{text}");
    assert!(text.contains("(50.0 ± 0.0)") && text.contains("\n- ≈ Level with"), "{text}");
    let widths: Vec<_> = text.lines().take(5).map(UnicodeWidthStr::width).collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]) && widths[0] <= 100, "{text}");
}

#[test]
fn differences_are_to_the_first_that_trains_the_model_or_to_a_named_one() {
    let logs = five(0.05);
    let found = significance(&logs, None).unwrap();
    assert_eq!(found.seeds, [1, 2, 3, 4, 5]);
    assert_eq!(
        found.covers,
        "initial values and batches; one division of the data (data.seed = 1)"
    );
    let [gm, .., pm] = found.contests.as_slice() else { panic!("four columns") };
    assert_eq!((gm.baseline.as_deref(), pm.baseline.as_deref()), (Some("fedavg"), Some("ditto")));
    assert_eq!(pm.leader.as_deref(), Some("scd"));
    let scd = pm.entries[2].to_baseline.unwrap();
    let interval = scd.interval.unwrap();
    assert!((scd.mean - 0.05).abs() < 1e-9 && scd.is_told() && scd.paired);
    // Five differences 0.05 ± 0.0016, so ± 2.776 · 0.0016 / √5, and never less than one sample of 200.
    assert!(interval.low > 0.04 && interval.low <= 0.045 + 1e-9, "{interval:?}");
    assert_eq!(pm.entries[2].to_leader, None);
    assert!((pm.entries[1].to_leader.unwrap().mean + 0.05).abs() < 1e-9);
    let aside = &pm.entries[0];
    assert!(!aside.competes && aside.standing.is_none() && aside.to_baseline.is_some());
    let found = significance(&logs, Some("SCD")).unwrap();
    assert!(found.contests.iter().all(|contest| contest.baseline.as_deref() == Some("scd")));
    let error = significance(&logs, Some("dito")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no method \"dito\" to compare with; the runs have fedavg, ditto, scd"
    );
    assert_eq!(significance(&logs, None).unwrap(), significance(&logs, None).unwrap());
}

#[test]
fn what_a_deviation_covers_depends_on_the_division() {
    let mut logs = five(0.0);
    assert!(covers(&logs[..1]).starts_with("the clients and the test samples of one run"));
    for log in &mut logs {
        log.started.config["data"].as_object_mut().unwrap().remove("seed");
    }
    assert_eq!(covers(&logs), "initial values, batches and the division");
}

#[test]
fn who_diverged_in_any_run_does_not_compete() {
    let mut runs = vec![run(1, [(0.9, 0.5), (0.8, 0.7), (0.5, 0.6)])];
    let mut second = events(2, [(0.9, 0.5), (0.8, 0.7), (0.5, 0.9)]);
    second.insert(second.len() - 2, failed("scd", 1, 0, "the loss is NaN"));
    runs.push(log(&second));
    let found = over_seeds(&runs).unwrap();
    assert_eq!((found[2].failed, found[2].standing.of(Which::PmLast)), (1, None));
    let text = seed_table(&found);
    assert!(text.contains("| SCD †") && text.contains("† SCD: clients of it diverged"), "{text}");
    // Ditto alone is left, and has nobody to be better than.
    assert_eq!(found[1].standing.of(Which::PmLast), None);
}

#[test]
fn missing_figures_are_no_comparison() {
    let logs: Vec<RunLog> = [1, 2]
        .map(|seed| {
            let mut log = run(seed, [(0.9, 0.5), (0.8, 0.7), (0.5, 0.6)]);
            log.started.clients = vec![None; CLIENTS];
            log
        })
        .into();
    let found = significance(&logs, None).unwrap();
    let pm = found.contests[3].entries[2].to_baseline.unwrap();
    assert_eq!(pm.interval, None, "nobody knows the clients' test sizes");
    assert!(found.contests[3].entries.iter().all(|entry| entry.standing.is_none()));
    assert!(found.contests[1].entries[2].to_baseline.unwrap().interval.is_some());
    let empty = significance(&[], None).unwrap();
    assert!(empty.contests.iter().all(|contest| contest.entries.is_empty()));
}

#[test]
fn a_single_client_has_the_noise_of_its_test_samples() {
    let infos = vec![method("a", "A", true, true), method("b", "B", true, true)];
    let mut events = vec![started(infos, 1, 1)];
    events.push(evaluated("a", 1, 0.9, 0.95, 1));
    events.push(evaluated("b", 1, 0.5, 0.80, 1));
    let rows = rows(&log(&events));
    assert_eq!(rows[0].standing.gm_last, Some(Standing::Ahead), "on 10,000 samples");
    assert_eq!(rows[0].standing.pm_last, Some(Standing::Tied), "on 20 samples");
}

#[test]
fn reports_of_a_series_are_written_and_say_what_they_cover() {
    let logs = five(0.05);
    let folder = tempfile::tempdir().unwrap();
    let written = write_series_reports(folder.path(), &logs).unwrap();
    assert_eq!(std::fs::read_to_string(&written[0]).unwrap(), series_markdown(&logs).unwrap());
    let page = std::fs::read_to_string(&written[1]).unwrap();
    assert_eq!(page, html(&logs), "equal logs give equal bytes");
    for part in [
        ">Who is ahead</h2>",
        "PM last: SCD is ahead of every other method.",
        "GM last: FedAvg and Ditto cannot be told apart.",
        "class=\"whisker\"",
        "one division of the data (data.seed = 1)",
        "<td class=\"best\">75.0 ± 0.0</td>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let text = series_markdown(&logs).unwrap();
    for part in ["- seeds: 1, 2, 3, 4, 5", "| difference ", "initial values and batches; one"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let page = html_of(&logs[0]);
    assert!(page.contains(">Who is ahead</h2>") && page.contains("clients and the test samples"));
    let alone = [started(vec![method("a", "A", true, true)], 1, 1), evaluated("a", 1, 0.5, 0.5, 1)];
    assert!(!html_of(&log(&alone)).contains("Who is ahead"), "a single method is ahead of nobody");
}

/// Two seeds of each of two λ, on the same clients.
fn two_lambdas() -> Vec<RunLog> {
    let mut logs = Vec::new();
    for (lambda, better) in [(0.5, 0.0), (2.0, 0.06)] {
        for seed in [2, 1] {
            let noise = 0.0001 * seed as f64;
            let mut log = run(seed, [(0.9, 0.5), (0.9, 0.7 + better + noise), (0.8, 0.6)]);
            log.started.config["method"][1]["lambda"] = json!(lambda);
            logs.push(log);
        }
    }
    logs
}

fn compared(logs: Vec<RunLog>, baseline: Option<&str>) -> Comparison {
    compare(logs, baseline).unwrap()
}

#[test]
fn what_differs_between_experiments_is_a_column() {
    let found = compared(two_lambdas(), None);
    assert_eq!(found.keys, ["method.lambda"]);
    assert_eq!(found.groups[0].runs, [1, 0], "by seed");
    assert_eq!(found.groups[1].seeds, [1, 2]);
    let text = comparison_table(&found);
    let line = text.lines().find(|line| line.contains("2.0 ")).unwrap();
    assert!(line.starts_with("| Ditto") && line.contains("**76.0 ± 0.0**"), "{text}");
    let widest = text.lines().filter(|l| l.starts_with('|')).map(UnicodeWidthStr::width).max();
    assert!(widest.unwrap() <= 120, "{text}");
    let ditto = &found.problems[0].contests[3].entries[4];
    assert_eq!(ditto.name, "Ditto (method.lambda=2.0)");
    assert!(ditto.to_baseline.unwrap().paired && ditto.standing == Some(Standing::Ahead));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["groups"][1]["rows"][1]["values"]["method.lambda"], "2.0");
    assert_eq!(json["groups"][1]["rows"][1]["label"], "ditto");
}

#[test]
fn a_comparison_can_be_taken_as_a_sheet_and_for_latex() {
    let found = compared(two_lambdas(), None);
    let sheet = String::from_utf8(comparison_csv(&found)).unwrap();
    let mut lines = sheet.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let at = |name: &str| heading.iter().position(|heading| *heading == name).unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    assert_eq!(rows.len(), 6, "three methods of two groups: {sheet}");
    let ditto = rows.iter().find(|row| row[0] == "B" && row[1] == "ditto").unwrap();
    assert_eq!((ditto[at("method.lambda")], ditto[at("seeds")]), ("2.0", "1 2"));
    assert_eq!(ditto[at("pm_last_standing")], "ahead");
    let number = |name: &str| ditto[at(name)].parse::<f64>().unwrap();
    let expected = found.problems[0].contests[3].entries[4].to_baseline.unwrap();
    assert_eq!(number("pm_last_difference"), expected.mean);
    assert_eq!(number("pm_last_low"), expected.interval.unwrap().low);
    let latex = comparison_latex(&found);
    assert!(
        latex.contains("method.lambda & GM best") && latex.contains("\\textbf{76.0"),
        "{latex}"
    );
    assert_eq!(latex.matches('{').count(), latex.matches('}').count());
}

#[test]
fn other_data_are_another_problem_and_other_seeds_are_not_paired() {
    let mut logs = two_lambdas();
    for log in &mut logs[2..] {
        log.started.config["data"]["alpha"] = json!(0.1);
    }
    let found = compared(logs, None);
    assert_eq!(found.keys, ["data.alpha", "method.lambda"]);
    assert_eq!(found.problems.len(), 2, "nobody competes with those who had other data");
    let mut logs = two_lambdas();
    for log in &mut logs[2..] {
        log.started.seed += 10;
    }
    let found = compared(logs, Some("ditto"));
    let ditto = &found.problems[0].contests[3].entries[4];
    assert!(!ditto.to_baseline.unwrap().paired);
    assert!(comparison_table(&found).contains("] u"));
}

#[test]
fn many_differences_are_told_below_the_table() {
    let mut logs = two_lambdas();
    for log in &mut logs[2..] {
        for (key, value) in [("epochs", 3), ("batch", 64), ("warmup", 2)] {
            log.started.config[key] = json!(value);
        }
    }
    let text = comparison_table(&compared(logs, None));
    assert!(
        text.contains("| group |") && text.contains("- B: batch=64, epochs=3, warmup=2"),
        "{text}"
    );
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    let logs = vec![run(1, [(0.9, 0.5); 3]), run(1, [(0.9, 0.5); 3])];
    assert!(matches!(compare(logs, None), Err(ReportError::SameSeed { seed: 1 })));
    let unknown = compare(two_lambdas(), Some("x")).unwrap_err().to_string();
    assert!(unknown.contains("no method \"x\""), "{unknown}");
    assert!(compare(Vec::new(), None).unwrap().groups.is_empty());
}
