//! Results of many runs: tables, sheets, pages and documents.

use formant_report::ReportError;
use formant_report::results::{
    Axis, ClientScores, ClockFigures, Form, Joined, Layout, Open, Outcome, Point, Published,
    Results, Scores, StepFigures, csv, figures, latex, page, rewrite, tables,
};
use formant_runtime::event::Approach;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

fn run(cell: &[(&str, Value)], method: &str, seed: u64, gm: f64, pm: f64) -> Outcome {
    Outcome {
        cell: cell.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        label: method.to_lowercase(),
        method: method.into(),
        generic: method != "Local",
        personal: method != "FedAvg",
        seed,
        hash: format!("{seed:032x}"),
        formant: "0.1.0".into(),
        data: None,
        fingerprint: Some(format!("{method}-{seed}")),
        metric: formant_runtime::event::Metric::default(),
        division: Some(1),
        newcomers: Vec::new(),
        scores: Some(Scores {
            gm_best: Some(gm),
            gm_last: Some(gm - 0.01),
            pm_best: Some(pm),
            pm_last: Some(pm - 0.02),
            worst_last: Some(pm - 0.2),
            global_test: 500_000,
            clients: Some(ClientScores {
                test: vec![100; 8],
                best: (0..8).map(|client| Some(pm + f64::from(client - 4) / 100.0)).collect(),
                last: (0..8).map(|client| Some(pm + f64::from(client - 6) / 100.0)).collect(),
            }),
            curve: vec![
                Point {
                    round: 1,
                    gm: Some(gm / 2.0),
                    pm: Some(pm / 2.0),
                    gm_at: None,
                    pm_at: None,
                },
                Point { round: 2, gm: Some(gm), pm: Some(pm), gm_at: None, pm_at: None },
            ],
        }),
        clock: None,
        steps: None,
        seconds: 1.5,
        trouble: None,
    }
}

fn alpha(value: f64) -> [(&'static str, Value); 1] {
    [("data.alpha", json!(value))]
}

/// Three methods at one alpha, three seeds: SCD's PMs are ahead in every seed, Ditto's just behind.
fn methods() -> Results {
    let axes = vec![Axis { key: "data.alpha".into(), symbol: "α".into() }];
    let mut all = Results { name: "tiny".into(), title: "Tiny".into(), ..Results::empty(axes) };
    for (method, gm, pm) in
        [("Local", 0.3, 0.5), ("FedAvg", 0.4, 0.42), ("Ditto", 0.4, 0.6), ("SCD", 0.41, 0.63)]
    {
        for seed in 1..=3 {
            let noise = seed as f64 / 1000.0;
            all.runs.push(run(&alpha(0.5), method, seed, gm + noise, pm + noise));
        }
    }
    let figure = |measure: &str, mean, aside| Published {
        method: "FedAvg".into(),
        cell: "α = 0.5".into(),
        measure: measure.into(),
        mean,
        deviation: Some(0.13),
        aside,
    };
    all.paper = vec![figure("gm", 80.76, false), figure("pm", 74.51, true)];
    all.open = vec![Open { setting: "rate".into(), chosen: "0.1".into(), why: "a guess".into() }];
    all
}

#[test]
fn the_papers_figures_stand_beside_ours_with_the_difference() {
    let text = tables(&methods(), &Layout::default());
    let fedavg = text.lines().find(|line| line.starts_with("| FedAvg")).unwrap();
    let cells: Vec<&str> = fedavg.split('|').map(str::trim).collect();
    assert_eq!(cells[2..6], ["40.2 ± 0.1", "39.2 ± 0.1", "80.76 ± 0.13", "-40.6"], "{fedavg}");
    assert_eq!(cells[6..10], ["(42.2 ± 0.1)", "(40.2 ± 0.1)", "(74.51 ± 0.13)", "-32.3"]);
    assert!(text.contains("**α = 0.5**") && text.contains("| SCD"), "{text}");
    assert!(text.contains("rate: 0.1 (a guess)"), "{text}");
    let bare = tables(&methods(), &Layout { bare: true, ..Layout::default() });
    assert!(!bare.contains("a guess") && !bare.contains("Mean ±"), "{bare}");
}

#[test]
fn bold_is_ahead_by_more_than_the_noise_and_ties_are_shown_as_ties() {
    let ahead = tables(&methods(), &Layout { overview: true, ..Layout::default() });
    assert!(ahead.contains("**63.2 ± 0.1**"), "{ahead}");
    let mut level = methods();
    for run in level.runs.iter_mut().filter(|run| run.method == "Ditto") {
        // As good on average, better with one seed and worse with another.
        let pm = 0.63 + [0.02, -0.01, 0.0][run.seed as usize - 1];
        run.scores.as_mut().unwrap().pm_best = Some(pm);
    }
    let text = tables(&level, &Layout { overview: true, ..Layout::default() });
    assert_eq!(text.matches(" ≈ |").count(), 2, "{text}");
    assert!(!text.contains("**63"), "{text}");
    // One seed has the noise of its clients, all of which agree here.
    level.runs.retain(|run| run.seed == 1);
    let text = tables(&level, &Layout::default());
    assert!(text.contains("Seed 1 alone") && text.contains("**65.0**"), "{text}");
    // Without the clients' figures nobody knows the noise of a PM.
    for run in &mut level.runs {
        run.scores.as_mut().unwrap().clients = None;
    }
    let text = tables(&level, &Layout::default());
    assert!(!text.contains("**65.0**"), "{text}");
}

#[test]
fn a_method_whose_parts_are_missing_is_compared_by_the_seeds_that_are_there() {
    let mut some = methods();
    some.runs.retain(|run| run.method != "Ditto" || run.seed == 2);
    let text = tables(&some, &Layout { overview: true, ..Layout::default() });
    assert!(text.contains("**63.2 ± 0.1**"), "{text}");
}

#[test]
fn methods_without_a_common_seed_are_shown_and_not_compared() {
    let mut unfinished = methods();
    unfinished.runs.retain(|run| (run.seed == 1) == (run.method == "SCD"));
    let text = tables(&unfinished, &Layout::default());
    let scd = text.lines().find(|line| line.starts_with("| SCD")).unwrap();
    assert!(scd.contains("63.1") && !scd.contains('≈') && !scd.contains("**"), "{scd}");
}

fn newcomers() -> Results {
    let mut all = Results { form: Form::Newcomers, ..methods() };
    for run in &mut all.runs {
        let (own, scores) = (run.method != "FedAvg", run.scores.as_ref().unwrap());
        let joined = |approach, pm: f64| Joined {
            approach,
            epochs: vec![pm - 0.2, pm - 0.1, pm],
            worst_last: Some(pm - 0.3),
            test: vec![50, 150],
            last: vec![Some(pm), Some(pm)],
            failed: 0,
        };
        run.newcomers.push(joined(Approach::FineTuning, scores.gm_best.unwrap()));
        if own {
            run.newcomers.push(joined(Approach::Own, scores.pm_best.unwrap()));
        }
    }
    all
}

#[test]
fn newcomers_have_a_table_for_each_way_and_a_curve_over_epochs() {
    let text = tables(&newcomers(), &Layout::default());
    assert!(text.contains("**α = 0.5, fine-tuning**") && text.contains("**α = 0.5, own rule**"));
    let (tuned, own) = text.split_once("own rule").unwrap();
    assert!(tuned.contains("| FedAvg") && !own.contains("| FedAvg"), "{text}");
    let local = tuned.lines().find(|line| line.starts_with("| Local")).unwrap();
    assert!(local.contains('(') && !local.contains('≈'), "no generic model: {local}");
    assert!(own.contains("**63.2 ± 0.1**"), "{text}");
    let drawn = figures(&newcomers());
    let names: Vec<&str> = drawn.iter().map(|figure| &*figure.name).collect();
    assert_eq!(names, ["newcomers-fine-tuning-0.5", "newcomers-own-rule-0.5"]);
    assert!(csv(&newcomers()).contains(",FedAvg,newcomers_fine_tuning_2,40.2,0.1,3,"));
}

#[test]
fn everything_can_be_taken_into_a_paper() {
    let text = latex(&methods());
    assert_eq!(text.matches("\\begin{table}").count(), 2, "an overview and the cell: {text}");
    assert!(text.contains("\\textbf{63.2 $\\pm$ 0.1}") && text.contains("\\toprule"), "{text}");
    assert_eq!(text.matches('{').count(), text.matches('}').count());
    let drawn = figures(&methods());
    let names: Vec<&str> = drawn.iter().map(|figure| &*figure.name).collect();
    assert_eq!(names, ["curves-gm-0.5", "curves-pm-0.5"]);
    assert!(drawn.iter().all(|figure| figure.svg.starts_with("<svg xmlns=")));
    assert!(page(&methods()).contains("id=\"figure-curves-pm-0.5\""));
}

#[test]
fn what_is_missing_or_went_wrong_is_named() {
    let mut results = methods();
    results.missing = vec!["α = 0.1, SCD, seed 3".into()];
    results.runs[0].trouble = Some("2 client phases diverged or failed".into());
    let text = tables(&results, &Layout::default());
    assert!(text.contains("Missing (1): α = 0.1, SCD, seed 3."), "{text}");
    assert!(text.contains("Local, α = 0.5, seed 1: 2 client phases diverged"), "{text}");
    assert!(page(&results).contains("1 of 13 runs are missing"));
}

#[test]
fn a_file_survives_and_a_wrong_one_is_refused() {
    let results = methods();
    let text = results.text().unwrap();
    assert_eq!(Results::parse("a.json".as_ref(), &text).unwrap(), results);
    assert_eq!(text.lines().filter(|line| line.contains("\"fingerprint\"")).count(), 12);
    for wrong in [
        "",
        "{}",
        &text.replace("\"format\": 1", "\"format\": 9"),
        &text.replace("\"seed\"", "\"sead\""),
    ] {
        let error = Results::parse("a.json".as_ref(), wrong).unwrap_err().to_string();
        assert!(error.starts_with("a.json: these are no results"), "{error}");
    }
}

#[test]
fn a_sheet_has_a_line_for_every_figure() {
    let mut results = methods();
    results.runs.iter_mut().for_each(|run| run.method = run.method.replace("SCD", "SCD, \"x\""));
    let text = csv(&results);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4 * 6);
    assert!(text.contains("tiny,,α = 0.5,FedAvg,gm_best,40.2,0.1,3,80.76,0.13,-40.56"), "{text}");
    assert!(text.contains("\"SCD, \"\"x\"\"\",pm_best"), "{text}");
}

#[test]
fn sensitivity_is_a_table_and_a_plot_for_each_key() {
    let keys = ["method.lambda_p", "method.form"];
    let axes = keys.map(|key| Axis { key: key.into(), symbol: key.replace("method.", "") });
    let mut results = Results { form: Form::Values, ..Results::empty(axes.to_vec()) };
    for seed in 1..=2 {
        for value in [1.0, 10.0, 100.0] {
            results.runs.push(run(&[(keys[0], json!(value))], "SCD", seed, 0.3, 0.5 + value / 1e4));
        }
        for form in ["raw", "complex"] {
            results.runs.push(run(&[(keys[1], json!(form))], "SCD", seed, 0.3, 0.6));
        }
    }
    let text = tables(&results, &Layout::default());
    assert!(text.contains("**lambda_p**") && text.contains("| 100 ") && text.contains("| complex"));
    let page = page(&results);
    assert_eq!(page.matches("<svg").count(), 4, "one for each key and model");
    let names: Vec<String> = figures(&results).into_iter().map(|figure| figure.name).collect();
    assert_eq!(names[..2], ["sensitivity-1-gm", "sensitivity-1-pm"]);
    assert!(page.contains("class=\"band\"") && !page.contains("NaN"));
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
}

#[test]
fn a_speedup_is_of_two_runs_with_the_same_models() {
    let axes = [("train.personal_epochs", "E_p"), ("federation.schedule", "schedule")]
        .map(|(key, symbol)| Axis { key: key.into(), symbol: symbol.into() });
    let mut results =
        Results { form: Form::Speedup, targets: vec![0.5, 0.9], ..Results::empty(axes.to_vec()) };
    for (schedule, seconds) in [("compute-and-wait", 12.0), ("wait-free", 8.0)] {
        let cell = [("train.personal_epochs", json!(3)), ("federation.schedule", json!(schedule))];
        let mut outcome = run(&cell, "Ditto", 1, 0.4, 0.6);
        outcome.scores.as_mut().unwrap().curve[1].pm_at = Some(seconds);
        outcome.clock = Some(ClockFigures {
            closed: seconds,
            idle: Some(0.2),
            shared: 1.0,
            personal: 2.0,
            network: 3.0,
        });
        results.runs.push(outcome);
    }
    results.paper = vec![Published {
        method: "Ditto".into(),
        cell: "E_p = 3".into(),
        measure: "first".into(),
        mean: 1.97,
        deviation: None,
        aside: false,
    }];
    let text = tables(&results, &Layout::default());
    for part in ["1.50×", "1.97×", "-0.47", "12.0 s", "1.00 : 2.00 : 3.00 s", " 90 % |"] {
        assert!(text.replace("  ", " ").contains(part), "{part}: {text}");
    }
    results.runs[1].fingerprint = Some("other".into());
    assert!(!tables(&results, &Layout::default()).contains("1.50×"), "nothing to compare");
    let clock = Results { form: Form::Clock, ..results };
    assert!(tables(&clock, &Layout::default()).contains("time to PM 50 %"));
}

#[test]
fn the_terms_share_is_what_goes_beyond_plain_training() {
    let mut results = Results { form: Form::Cost, ..Results::empty(Vec::new()) };
    let mut outcome = run(&[], "SCD", 1, 0.0, 0.0);
    outcome.scores = None;
    outcome.steps = Some(StepFigures {
        network: "lenet5".into(),
        parameters: 62_006,
        batch: 10,
        plain: 0.001,
        shared: Some(0.002),
        personal: Some(0.0005),
    });
    results.runs.push(outcome);
    let text = tables(&results, &Layout::default());
    let row = text.lines().find(|line| line.starts_with("| lenet5")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[2..10], ["62,006", "SCD", "10", "1,000", "2.00×", "50 %", "0.50×", "–"]);
    assert!(csv(&results).contains("shared_seconds_per_sample"));
}

const DOCUMENT: &str =
    "# A\n\n<!-- table: results/a.json layout=overview notes=none -->\n<!-- /table -->\nend\n";

fn made(text: &str) -> Result<(String, usize), ReportError> {
    let mut load = |source: &str| {
        assert_eq!(source, "results/a.json");
        Ok(methods())
    };
    rewrite(Path::new("a.md"), text, &mut load).map(|(text, drifts)| (text, drifts.len()))
}

#[test]
fn documents_are_made_anew_and_what_differs_is_noticed() {
    let (first, drifts) = made(DOCUMENT).unwrap();
    assert_eq!(drifts, 1, "the table was not there");
    assert!(first.contains("| SCD") && first.ends_with("<!-- /table -->\nend\n"), "{first}");
    assert_eq!(made(&first).unwrap(), (first.clone(), 0), "a second time nothing changes");
    let other = first.replacen("63.2", "64.2", 1);
    assert_eq!(made(&other).unwrap(), (first.clone(), 1));
    let cell = DOCUMENT.replace("layout=overview", "cell=\"α = 0.1\"");
    let error = made(&cell).unwrap_err().to_string();
    assert!(error.contains("has no cell \"α = 0.1\"; name one of: α = 0.5"), "{error}");
    let here = DOCUMENT.replace("layout=overview", "cell=\"α = 0.5\"");
    assert!(made(&here).unwrap().0.contains("| SCD"));
    let both = DOCUMENT.replace("layout=overview", "layout=overview cell=\"α = 0.5\"");
    assert!(made(&both).unwrap_err().to_string().contains("an overview is of all cells"));
}

#[test]
fn a_method_stands_over_the_others_by_pairs_of_runs() {
    let over = |method: &str| DOCUMENT.replace("layout=overview", &format!("over={method}"));
    let mut results = methods();
    // Above Ditto's GM by 0.9, 1.9 and 0.2 points: 1.0 ± 4.303 · 0.854 / √3.
    let shifts = [-0.001, 0.009, -0.008];
    for (run, shift) in results.runs.iter_mut().filter(|run| run.method == "SCD").zip(shifts) {
        let scores = run.scores.as_mut().unwrap();
        scores.gm_best = scores.gm_best.map(|gm| gm + shift);
    }
    let text = tables(&results, &Layout { over: Some("SCD".into()), ..Layout::default() });
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.contains(&format!("| {name} ")));
        line.unwrap_or_default().split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(
        row("Ditto")[1..5],
        ["Ditto", "α = 0.5", "+1.0 (−1.1 to +3.1)", "**+1.0 (+1.0 to +1.0)**"],
        "{text}"
    );
    assert_eq!(row("FedAvg")[5..7], ["–", "–"], "it trains no personal models: {text}");
    assert_eq!(row("Local")[3..5], ["–", "–"], "it trains no generic model: {text}");
    assert!(
        text.matches("| SCD ").count() == 1 && text.contains("| SCD over"),
        "only the head: {text}"
    );
    assert!(text.contains("Student's") && !text.contains("a guess"), "{text}");
    // A run that diverged is left out of its pair, and one pair alone has no interval.
    for run in results.runs.iter_mut().filter(|run| run.method == "SCD" && run.seed > 1) {
        run.trouble = Some("1 client phases diverged or failed".into());
    }
    let text = tables(&results, &Layout { over: Some("SCD".into()), ..Layout::default() });
    assert!(text.contains("+0.9 ") && !text.contains(" to "), "{text}");
    let (made, _) = made(&over("SCD")).map_err(|error| error.to_string()).unwrap();
    assert!(made.contains("SCD over"), "{made}");
    for (wrong, expected) in [
        (over("Dito"), "no method is called \"Dito\"; name one of: Ditto; FedAvg; Local; SCD"),
        (over("SCD layout=overview"), "an overview is of all methods alike"),
    ] {
        let mut load = |_: &str| Ok(methods());
        let error = rewrite(Path::new("a.md"), &wrong, &mut load).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn comments_that_cannot_be_meant_are_refused_with_their_line() {
    for (text, expected) in [
        (
            "<!-- table: results/a.json colour=red -->\n<!-- /table -->",
            "line 1: `colour=red` is no option",
        ),
        ("\n<!-- table: -->\n<!-- /table -->", "line 2: the comment names no file"),
        ("<!-- table: results/a.json -->\n", "line 1: the table does not end"),
        ("<!-- /table -->\n", "line 1: a table ends that has not begun"),
        ("<!-- table: results/a.json\n", "line 1: the comment does not end on its line"),
        ("<!-- table: results/a.json cell=\"a -->\n", "line 1: a quotation mark"),
    ] {
        let error = made(text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("; "), "{error}");
    }
    let twice = "<!-- table: results/a.json -->\n<!-- table: results/a.json -->\n<!-- /table -->";
    assert!(made(twice).unwrap_err().to_string().contains("within the table of line 1"));
}

#[test]
fn cells_have_names_by_their_symbols() {
    let cell: BTreeMap<String, Value> = [("data.alpha".to_owned(), json!(1.0))].into();
    assert_eq!(methods().cell_name(&cell), "α = 1");
    assert_eq!(methods().cell_name(&BTreeMap::new()), "");
}
