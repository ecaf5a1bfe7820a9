//! The HTML report, and the files in a run's folder.

use std::collections::BTreeSet;

use crate::synthetic::{
    comparison, evaluated, failed, finished, lines, log, method, parsed, round, started,
};
use formant_report::{ReportError, html_of, write_reports};
use formant_runtime::event::Event;

/// Every tag is closed in order, every attribute quoted, every `&` an entity: enough to know that a
/// browser sees the page that was meant.
pub(crate) fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        assert_entities(&rest[..start]);
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "near {}", &rest[..rest.len().min(80)]);
        } else if !(tag.ends_with('/') || tag.starts_with('!') || name == "meta") {
            open.push(name);
        }
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style>").expect("the style ends")..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

fn assert_entities(text: &str) {
    for after in text.split('&').skip(1) {
        let entity = after.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "&{entity}");
    }
}

/// No coordinate is NaN or infinite, and no plot leaves its frame by far.
pub(crate) fn assert_sound_plots(page: &str) {
    for bad in ["NaN", "inf ", "inf\"", "infL"] {
        let plots = page.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap());
        assert!(plots.into_iter().all(|plot| !plot.contains(bad)), "{bad} in a plot");
    }
}

#[test]
fn a_comparison_is_shown_whole() {
    let page = html_of(&log(&comparison()));
    assert_well_formed(&page);
    assert_sound_plots(&page);
    for part in [
        "<td class=\"best\">97.4</td>",
        "<td class=\"aside\">(93.1)</td>",
        "round 2/3",
        "2 client phases diverged or failed",
        "This run has not finished",
        "GM accuracy, %",
        "PM accuracy of a client, %",
        "training loss",
        "Samples per client",
        "3.0 kB",
        "&quot;alpha&quot;: 0.5",
        "formant run experiment.toml",
        "print-of-ditto",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Curves over three axes, clients, their sizes, who gains over Local, and the differences of each column.
    let plots = 3 * 3 + 2 + 3 + 4;
    assert_eq!(page.matches("role=\"img\"").count(), plots, "one plot of each kind");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = html_of(&log(&comparison()));
    for foreign in ["<script", "http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn whatever_the_log_says_is_text() {
    let evil = "</title><script>alert(\"1\")</script>'&amp;";
    let Event::RunStarted(mut run) = started(vec![method(evil, evil, true, true)], 2, 1) else {
        unreachable!("`started` makes a RunStarted");
    };
    for field in
        [&mut run.name, &mut run.network, &mut run.dataset, &mut run.split, &mut run.formant]
    {
        evil.clone_into(field);
    }
    run.config = serde_json::json!({ evil: evil, "partition": { evil: evil } });
    run.methods[0].hyper_parameters = serde_json::json!([evil]);
    let mut events = vec![Event::RunStarted(run)];
    events.extend(round(evil, 1, 2, Some(1.0)));
    events.push(failed(evil, 1, 0, evil));
    events.push(evaluated(evil, 1, 0.5, 0.5, 2));
    events.push(finished(evil, 1, 1.0, Some(evil)));
    let page = html_of(&log(&events));
    assert_well_formed(&page);
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn equal_logs_give_equal_bytes() {
    let text = lines(&comparison());
    let [one, two] = [&text, &text].map(|text| html_of(&parsed(text).unwrap()));
    assert_eq!(one, two);
}

#[test]
fn a_run_that_has_only_begun_says_what_is_missing() {
    let page = html_of(&log(&comparison()[..1]));
    assert_well_formed(&page);
    assert_eq!(page.matches("No evaluation yet.").count(), 3);
    assert!(page.contains("No finished phase yet."));
    assert!(page.contains("not started"));
    let nobody = html_of(&log(&[started(vec![], 0, 0)]));
    assert_well_formed(&nobody);
    assert!(nobody.contains("The log names no clients."));
}

#[test]
fn degenerate_runs_still_have_sound_plots() {
    let one = |gm: f64, loss: Option<f64>| {
        let mut events = vec![started(vec![method("a", "A", true, true)], 1, 1)];
        events.extend(round("a", 1, 1, loss));
        events.push(evaluated("a", 1, gm, gm, 1));
        html_of(&log(&events))
    };
    let pages = [
        one(0.5, Some(1.0)),
        one(0.0, Some(0.0)),
        one(1.0, Some(-3.0)),
        one(f64::NAN, None),
        one(0.5, Some(1e300)),
        one(1e9, Some(1e-300)),
    ];
    for page in pages {
        assert_well_formed(&page);
        assert_sound_plots(&page);
    }
}

#[test]
fn a_loss_that_explodes_does_not_flatten_the_others() {
    let mut events = vec![started(vec![method("a", "A", true, true)], 1, 4)];
    for (done, loss) in [(1, 2.0), (2, 0.5), (3, 4e6)] {
        events.extend(round("a", done, 1, Some(loss)));
    }
    let page = html_of(&log(&events));
    assert_sound_plots(&page);
    assert!(page.contains(">1e6</text>"), "the axis is logarithmic");
}

#[test]
fn thousands_of_clients_and_rounds_stay_a_small_page() {
    let methods: Vec<_> =
        (0..12).map(|id| method(&format!("m{id}"), &format!("Method {id}"), true, true)).collect();
    let mut events = vec![started(methods, 4_000, 3_000)];
    for id in 0..12 {
        for done in 0..3_000 {
            // The scores of clients are only drawn for the last evaluation.
            let clients = if done == 2_999 { 4_000 } else { 0 };
            let accuracy = f64::from(done) / 3_000.0;
            events.push(evaluated(&format!("m{id}"), done as usize, accuracy, accuracy, clients));
        }
    }
    let page = html_of(&log(&events));
    assert_well_formed(&page);
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(page.contains("evenly spaced ranks"));
}

#[test]
fn long_labels_are_cut_in_plots_and_whole_in_tables() {
    let long = "spectral co-distillation with a very long list of hyper-parameters in its title";
    let events =
        [started(vec![method("a", long, true, true)], 2, 1), evaluated("a", 1, 0.5, 0.5, 2)];
    let page = html_of(&log(&events));
    assert!(page.contains(&format!("</svg>{long}")), "the table");
    assert!(page.contains(&format!("<title>{long}</title>")), "under the pointer");
    assert!(page.contains(">spectral co-distill…</text>"), "beside the curve");
}

#[test]
fn reports_replace_earlier_ones_and_leave_nothing_else_behind() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.jsonl"), lines(&comparison())).unwrap();
    std::fs::write(folder.path().join("report.md"), "an earlier report").unwrap();
    let written = write_reports(folder.path()).unwrap();
    let expected = ["report.md", "report.html"].map(|name| folder.path().join(name));
    assert_eq!(written, expected);
    let log = log(&comparison());
    assert_eq!(std::fs::read_to_string(&written[0]).unwrap(), formant_report::markdown(&log));
    assert_eq!(std::fs::read_to_string(&written[1]).unwrap(), html_of(&log));
    let names: BTreeSet<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["events.jsonl", "report.html", "report.md"].map(str::to_owned).into());
}

#[test]
fn a_report_that_cannot_be_written_is_named_and_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.jsonl"), lines(&comparison())).unwrap();
    // A folder in the report's place cannot be renamed over.
    std::fs::create_dir_all(folder.path().join("report.md").join("x")).unwrap();
    let error = write_reports(folder.path()).unwrap_err();
    assert!(matches!(error, ReportError::Unwritable { .. }));
    assert!(error.to_string().contains("report.md"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file");
}

#[test]
fn a_folder_without_a_log_gets_no_report() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(write_reports(folder.path()), Err(ReportError::Absent { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
