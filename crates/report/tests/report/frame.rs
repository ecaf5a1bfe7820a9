//! The frame of the HTML report: sections and their order, curves over time and traffic, several seeds,
//! and plots that stand alone.

use std::collections::BTreeSet;

use crate::synthetic::{comparison, evaluated, finished, log, method, round, started};
use formant_report::{RunLog, figures, html, html_of};
use formant_runtime::event::{Event, Phase, Ready, Runtime, Span};
use serde_json::json;

/// A run of two methods over four rounds; accuracies depend on the seed.
fn seeded(seed: u64) -> RunLog {
    let methods = vec![method("a", "Alpha", true, true), method("local", "Local", false, true)];
    let Event::RunStarted(mut run) = started(methods, 2, 4) else { unreachable!("a RunStarted") };
    run.seed = seed;
    run.config = json!({"seed": seed, "name": "x", "rounds": 4, "data": {"partition": "iid"}});
    let mut events = vec![Event::RunStarted(run)];
    for label in ["a", "local"] {
        for done in 0..=4 {
            if done > 0 {
                events.extend(round(label, done, 2, Some(1.0)));
            }
            let accuracy = 0.5 + 0.1 * done as f64 - 0.02 * seed as f64;
            events.push(evaluated(label, done, accuracy, accuracy, 2));
        }
        events.push(finished(label, 4, 9.0, None));
    }
    events.push(Event::RunFinished { seconds: 18.0 });
    log(&events)
}

/// A run of one method with a virtual clock: rounds close every 3 s.
fn clocked() -> RunLog {
    let mut events = vec![started(vec![method("a", "Alpha", true, true)], 2, 2)];
    for number in 1..=2 {
        let opened = 3.0 * (number - 1) as f64;
        for mut event in round("a", number, 2, Some(1.0)) {
            match &mut event {
                Event::PhaseDone { phase, clock, .. } => {
                    let start = opened + if *phase == Phase::Shared { 1.0 } else { 2.0 };
                    *clock = Some(Span { start, end: start + 1.0 });
                }
                Event::Uploaded { clock, .. } => {
                    *clock = Some(Span { start: opened + 2.0, end: opened + 3.0 });
                }
                Event::RoundFinished { clock, .. } => *clock = Some(opened + 3.0),
                _ => {}
            }
            events.push(event);
        }
        let mut scored = evaluated("a", number, 0.5, 0.6, 2);
        if let Event::Evaluated(scored) = &mut scored {
            scored.clock = Some(Ready { gm: opened + 3.0, pm: opened + 3.5 });
        }
        events.push(scored);
    }
    let mut end = finished("a", 2, 9.0, None);
    if let Event::MethodFinished { clock, .. } = &mut end {
        *clock = Some(Runtime { closed: 6.0, seconds: 6.5, idle: vec![1.3, 1.3] });
    }
    events.push(end);
    log(&events)
}

/// What stands in a page between two texts.
fn between<'p>(page: &'p str, from: &str, to: &str) -> &'p str {
    let after = page.split_once(from).unwrap_or_else(|| panic!("{from}")).1;
    after.split_once(to).unwrap_or_else(|| panic!("{to}")).0
}

#[test]
fn sections_stand_in_reading_order_and_are_linked() {
    let page = html_of(&clocked());
    let nav = between(&page, "<nav aria-label=\"Sections\">", "</nav>");
    let linked: Vec<&str> =
        nav.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let order =
        ["results", "curves", "gains", "clients", "data", "schedule", "cost", "setup", "reproduce"];
    assert_eq!(linked, order);
    let sections: Vec<&str> =
        page.split("<section id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(sections, order);
    for landmark in ["<header>", "<main id=\"content\"", "<footer>", "href=\"#content\""] {
        assert_eq!(page.matches(landmark).count(), 1, "{landmark}");
    }
    // Without a clock there is no schedule to show.
    assert!(!html_of(&log(&comparison())).contains("id=\"schedule\""));
}

#[test]
fn ids_are_unique() {
    let page = html_of(&clocked());
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

#[test]
fn curves_go_over_the_virtual_clock_if_there_is_one() {
    let page = html_of(&clocked());
    assert!(page.contains("seconds by the virtual clock"));
    let behind = between(&page, "id=\"figure-pm-by-seconds\"", "</figure>");
    assert!(behind.contains("60.0 at 6.5 seconds"), "the PM was ready after the round: {behind}");
    let page = html_of(&seeded(1));
    assert!(page.contains("seconds of training") && !page.contains("virtual clock</text>"));
    let behind = between(&page, "id=\"figure-gm-by-seconds\"", "</figure>");
    assert!(behind.contains("88.0 at 8.0 seconds"), "four rounds of 2 s: {behind}");
}

#[test]
fn bytes_are_those_of_both_directions() {
    let page = html_of(&seeded(1));
    let behind = between(&page, "id=\"figure-gm-by-bytes\"", "</figure>");
    // Two clients, 1,000 bytes up and 900 down each, four rounds.
    assert!(behind.contains("88.0 at 15.2 kB"), "{behind}");
}

#[test]
fn seeds_have_means_and_bands() {
    let logs = [seeded(1), seeded(2), seeded(3)];
    let page = html(&logs);
    assert!(page.contains("86.0 ± 2.0"), "the table");
    assert!(page.contains("<dt>seed</dt><dd>1, 2, 3</dd>"));
    let plot = between(&page, "id=\"figure-gm-by-round\"", "</figure>");
    assert_eq!(plot.matches("class=\"band\"").count(), 2, "one for each method");
    assert!(plot.contains("86.0 (84.0–88.0)"), "{plot}");
    assert!(!html_of(&logs[0]).contains("class=\"band\""));
}

#[test]
fn runs_that_are_no_repetitions_are_not_averaged() {
    let mut other = seeded(2);
    other.started.config["rounds"] = json!(5);
    for logs in [[seeded(1), other], [seeded(1), seeded(1)]] {
        let page = html(&logs);
        assert!(page.contains("Only the first of the runs is shown"));
        assert!(!page.contains("class=\"band\"") && page.contains("88.0"));
        assert_eq!(figures(&logs), figures(&logs[..1]));
    }
    assert!(html(&[]).contains("There is no run to report."));
    assert!(figures(&[]).is_empty());
}

#[test]
fn every_plot_of_the_page_is_a_file_that_stands_alone() {
    let log = clocked();
    let drawn = figures(std::slice::from_ref(&log));
    let page = html_of(&log);
    assert_eq!(page.matches("role=\"img\"").count(), drawn.len());
    let names: BTreeSet<&str> = drawn.iter().map(|figure| &*figure.name).collect();
    assert_eq!(names.len(), drawn.len());
    for name in ["gm-by-round", "pm-by-seconds", "loss-by-bytes", "clients", "schedule"] {
        assert!(names.contains(name), "{name}");
    }
    for figure in &drawn {
        let safe =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        assert!(figure.name.chars().all(safe) && !figure.title.is_empty(), "{}", figure.name);
        assert!(figure.svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""));
        assert!(figure.svg.trim_end().ends_with("</svg>") && !figure.svg.contains("var("));
        assert!(page.contains(&format!("id=\"figure-{}\"", figure.name)), "{}", figure.name);
    }
}

#[test]
fn sixteen_methods_differ_in_colour_or_dash_and_have_markers() {
    let methods: Vec<_> =
        (0..16).map(|id| method(&format!("m{id}"), &format!("Method {id}"), true, true)).collect();
    let mut events = vec![started(methods, 2, 9)];
    for id in 0..16 {
        for done in 0..10 {
            let accuracy = 0.5 + 0.01 * f64::from(id) + 0.001 * f64::from(done);
            events.push(evaluated(&format!("m{id}"), done as usize, accuracy, accuracy, 2));
        }
    }
    let page = html_of(&log(&events));
    let plot = between(&page, "id=\"figure-gm-by-round\"", "</figure>");
    let classes: BTreeSet<&str> =
        plot.split("<g class=\"s").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(classes.len(), 16, "{classes:?}");
    assert_eq!(plot.matches("class=\"mark\"").count(), 2 * 16, "on every line and at every label");
}

#[test]
fn what_was_run_is_told_in_words() {
    let Event::RunStarted(mut run) = started(vec![method("a", "Alpha", true, true)], 2, 4) else {
        unreachable!("a RunStarted")
    };
    run.config = json!({
        "data": {"partition": "dirichlet", "alpha": 0.1, "train_fraction": 0.75, "augment": {"flip": 0.5}},
        "train": {"participation": 0.2, "batch": 10, "schedule": "step", "decay": 0.1, "step_every": 5},
        "federation": {"schedule": "wait-free", "quorum": 0.8, "deadline": "30s"},
        "method": [{"name": "a", "label": "a", "train": {"batch": 32}}],
    });
    let page = html_of(&log(&[Event::RunStarted(run)]));
    let told = between(&page, "<section id=\"setup\"", "</section>");
    for part in [
        "dirichlet, alpha 0.1",
        "75\u{a0}% to train on, 0\u{a0}% to choose on, 25\u{a0}% to test on",
        "<dd>flip 0.5</dd>",
        "<dt>clients that take part in a round</dt><dd>20\u{a0}%</dd>",
        "times 0.1 every 5 rounds",
        "<dt>deadline of a round</dt><dd>30s</dd>",
        "<th scope=\"col\">batch</th>",
        "<td>32</td>",
        "learning_rate = 0.1",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
}
