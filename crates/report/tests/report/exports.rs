//! What is taken from a report: files that others read.

use crate::synthetic::{comparison, log, method, started};
use formant_report::{
    ExportFile, Picture, ReportError, RunLog, csv, latex, mlflow, over_seeds, pictures, record,
    rows, seed_csv, tensorboard, write_exports,
};
use formant_runtime::event::{Detailed, Division, Errors, Event, Reliability};
use std::path::Path;

/// The comparison with all that a log may hold besides.
fn rich() -> RunLog {
    let mut events = comparison();
    if let Event::RunStarted(run) = &mut events[0] {
        run.division = Some(Division {
            classes: vec!["ankle boot, \"new\"".into(), "bag".into()],
            counts: Some(vec![vec![60, 40], vec![101, 0], vec![2, 100]]),
            moved: 3,
            divided: 400,
            concentration: 0.7,
            drawn_concentration: Some(0.75),
        });
    }
    let end = events.iter().position(
        |event| matches!(event, Event::MethodFinished { method, .. } if method == "fedavg"),
    );
    let bin = Reliability { samples: 4, right: 3, confidence: 3.2 };
    let errors =
        Errors { confusion: Some(vec![vec![3, 1], vec![0, 4]]), reliability: vec![bin; 2] };
    let detail = Detailed {
        method: "fedavg".into(),
        round: 3,
        gm: Some(errors),
        pm: None,
        gm_on_clients: vec![Some(0.5), None, Some(1.0)],
    };
    events.insert(end.unwrap(), Event::Detailed(detail));
    log(&events)
}

fn other_seed(log: &RunLog) -> RunLog {
    let mut other = log.clone();
    other.started.seed += 1;
    other
}

/// The rows of a file by heading.
fn sheet(files: &[ExportFile], name: &str) -> Vec<std::collections::HashMap<String, String>> {
    let file = files.iter().find(|file| file.path == Path::new(name)).unwrap();
    let mut reader = ::csv::Reader::from_reader(&file.bytes[..]);
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn csv_files_are_read_back_to_the_last_digit() {
    let one = rich();
    let files = csv(&[one.clone(), other_seed(&one)]);
    let table = sheet(&files, "table.csv");
    let rows = rows(&one);
    assert_eq!(table.len(), 2 * rows.len());
    for (cells, row) in table.iter().zip(&rows) {
        assert_eq!(cells["seed"], "7");
        assert_eq!(cells["method"], row.label);
        for (name, figure) in [("gm_best", row.gm_best), ("pm_last", row.pm_last)] {
            assert_eq!(cells[name].parse().ok(), figure, "{name} of {}", row.label);
        }
    }
    assert_eq!(table[rows.len()]["seed"], "8");
    let history = sheet(&files, "history.csv");
    let evaluations: usize = one.methods.iter().map(|method| method.evaluations.len()).sum();
    assert_eq!(history.len(), 2 * evaluations);
    let second = &history[2];
    assert_eq!((&*second["method"], &*second["round"], &*second["gm"]), ("fedavg", "2", "0.974"));
    // Two rounds of two seconds, three evaluations of half a second; three uploads a round.
    assert_eq!((&*second["seconds"], &*second["uploaded_bytes"]), ("5.5", "6000"));
    let diverged = history.iter().find(|cells| cells["diverged"] == "true").unwrap();
    assert_eq!((&*diverged["method"], &*diverged["gm"]), ("ditto", ""));
    let clients = sheet(&files, "clients.csv");
    assert_eq!(clients.len(), 2 * 3 * rows.len());
    assert_eq!((&*clients[2]["pm_best"], &*clients[2]["pm_last"]), ("0.931", "0.92"));
    assert_eq!([0, 1, 2].map(|i| &*clients[i]["gm_accuracy_last"]), ["0.5", "", "1"]);
    assert_eq!((&*clients[2]["train"], &*clients[2]["test"]), ("102", "20"));
    let division = sheet(&files, "division.csv");
    assert_eq!((&*division[2]["name"], &*division[2]["train"]), ("ankle boot, \"new\"", "101"));
    assert_eq!(sheet(&files, "confusion.csv").len(), 2 * 4);
    assert_eq!(sheet(&files, "reliability.csv")[0]["mean_confidence"], "0.8");
    assert_eq!(sheet(&files, "rounds.csv")[0]["shared_loss"], "2");
    assert_eq!(sheet(&files, "cost.csv")[0]["uploaded_bytes"], "9000");
    assert_eq!(sheet(&files, "failures.csv")[0]["error"], "the loss is NaN");
    assert!(
        sheet(&files, "setting.csv")
            .iter()
            .any(|cells| cells["key"] == "data.alpha" && cells["value"] == "0.5")
    );
    for file in &files {
        let text = std::str::from_utf8(&file.bytes).unwrap();
        assert_eq!(
            text.matches('\n').count(),
            text.matches("\r\n").count(),
            "{}",
            file.path.display()
        );
    }
    // No virtual clock, no spectra: no such files.
    assert!(!files.iter().any(|file| file.path == Path::new("timeline.csv")));
}

#[test]
fn means_over_seeds_are_a_file_too() {
    let one = rich();
    let rows = over_seeds(&[one.clone(), other_seed(&one)]).unwrap();
    let table = sheet(&[seed_csv(&rows)], "seeds.csv");
    assert_eq!(table.len(), 4);
    assert_eq!((&*table[0]["gm_best_mean"], &*table[0]["gm_best_deviation"]), ("0.974", "0"));
}

#[test]
fn the_latex_table_has_the_marks_and_notes_of_the_table() {
    let mut one = rich();
    one.started.name = "50% of {α}_x".into();
    let text = latex(std::slice::from_ref(&one)).unwrap();
    assert!(text.starts_with("% Needs \\usepackage{booktabs}"), "{text}");
    assert!(text.contains("\\caption{50\\% of \\{$\\alpha$\\}\\_x: fashion-mnist"), "{text}");
    assert!(text.contains("\\label{tab:50-of"), "{text}");
    let head =
        "method & GM best & GM last & PM best & PM last & worst 10 \\% & worse off & time \\\\";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("FedAvg & "), "{text}");
    // No figure of a method that failed, or that is not of its own model, is bold.
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    assert!(line("Local").contains("(99.0)"), "{text}");
    assert!(!line("Ditto").contains("textbf"), "{text}");
    assert!(text.contains("\\textsuperscript{\\dag} Ditto: "), "{text}");
    for (one, other) in [("\\begin{", "\\end{"), ("\\toprule", "\\bottomrule")] {
        assert_eq!(text.matches(one).count(), text.matches(other).count());
    }
    let both = latex(&[one.clone(), other_seed(&one)]).unwrap();
    assert!(both.contains("97.4 $\\pm$ 0.0"), "{both}");
    assert!(both.contains("over the seeds 7, 8"), "{both}");
    assert!(matches!(latex(&[one.clone(), one]), Err(ReportError::SameSeed { .. })));
}

#[test]
fn the_record_has_every_client() {
    let one = rich();
    let json = serde_json::to_value(record(&one)).unwrap();
    assert_eq!(json["rows"], serde_json::to_value(rows(&one)).unwrap());
    let fedavg = &json["methods"][0];
    assert_eq!(fedavg["pm_best"][2], 0.931);
    assert_eq!(fedavg["pm_last"][2], 0.92);
    assert_eq!(fedavg["gm_on_clients"], serde_json::json!([0.5, null, 1.0]));
    assert_eq!(fedavg["evaluations"][2]["gm"], 0.974);
    assert_eq!(fedavg["detail"]["gm"]["confusion"][0][1], 1);
    assert_eq!(json["division"]["counts"][1][0], 101);
    assert_eq!(json["clients"][1]["train"], 101);
    assert_eq!(json["run"]["seed"], 7);
}

#[test]
fn runs_for_mlflow_are_named_by_what_they_are() {
    let one = rich();
    let files = mlflow(&[one.clone(), other_seed(&one)], Path::new("/data/ml runs"));
    let metas: Vec<_> = files.iter().filter(|file| file.path.ends_with("meta.yaml")).collect();
    // One experiment, four methods with two seeds.
    assert_eq!(metas.len(), 1 + 8);
    assert_eq!(files, mlflow(&[one.clone(), other_seed(&one)], Path::new("/data/ml runs")));
    let text = |ending: &str| {
        let found =
            files.iter().find(|file| file.path.to_str().unwrap().ends_with(ending)).unwrap();
        String::from_utf8(found.bytes.clone()).unwrap()
    };
    let experiment = metas.iter().find(|file| file.path.components().count() == 2).unwrap();
    let meta = std::str::from_utf8(&experiment.bytes).unwrap();
    assert!(meta.contains("name: \"a small comparison\"\n"), "{meta}");
    assert!(meta.contains("artifact_location: \"file:///data/ml%20runs/"), "{meta}");
    assert_eq!(text("params/data.alpha"), "0.5");
    assert_eq!(text("params/method.learning_rate"), "0.1");
    let fedavg = files.iter().filter(|file| {
        file.path.ends_with("metrics/GM/accuracy")
            && file.bytes.starts_with(b"500 0.1 0\n3000 0.7 1\n5500 0.974 2\n")
    });
    assert_eq!(fedavg.count(), 2, "one for each seed");
}

#[test]
fn figures_are_drawn_or_refused() {
    let one = [rich()];
    let (svg, png) = (pictures(&one, Picture::Svg).unwrap(), pictures(&one, Picture::Png).unwrap());
    assert!(svg.len() > 3);
    assert_eq!(svg.len(), png.len());
    for (svg, png) in svg.iter().zip(&png) {
        assert_eq!(svg.path.with_extension("png"), png.path);
        assert!(svg.bytes.starts_with(b"<svg xmlns") && png.bytes.starts_with(b"\x89PNG"));
        assert!(!String::from_utf8_lossy(&svg.bytes).contains("var("), "it has to stand alone");
    }
    assert_eq!(png, pictures(&one, Picture::Png).unwrap(), "equal logs give equal bytes");
    // A server that has not begun knows neither data nor scores.
    let mut idle = log(&[started(vec![method("fedavg", "FedAvg", true, false)], 1, 3)]);
    idle.started.clients = vec![None];
    let refused = pictures(&[idle.clone()], Picture::Svg).unwrap_err().to_string();
    assert!(
        refused.contains("has no figures yet") && refused.contains("; let it finish"),
        "{refused}"
    );
    assert!(!csv(&[idle.clone()]).is_empty() && !tensorboard(&[idle]).is_empty());
}

#[test]
fn nothing_is_replaced_unasked_and_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let files = |bytes: &str| {
        ["a/one.csv", "a/b/two.csv"].map(|path| ExportFile::new(path, bytes).below(folder.path()))
    };
    let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
    write_exports(&files("1"), false).unwrap();
    std::fs::write(folder.path().join("a/mine.txt"), "mine").unwrap();
    // The same content again is no conflict.
    write_exports(&files("1"), false).unwrap();
    std::fs::remove_file(folder.path().join("a/one.csv")).unwrap();
    let refused = write_exports(&files("2"), false).unwrap_err();
    assert!(
        matches!(&refused, ReportError::Exists { file } if file.ends_with("two.csv")),
        "{refused}"
    );
    assert!(!folder.path().join("a/one.csv").exists(), "nothing was written");
    write_exports(&files("2"), true).unwrap();
    assert_eq!((read("a/one.csv"), read("a/mine.txt")), ("2".into(), "mine".into()));
    let within = ExportFile::new("x.csv", "3").below(&folder.path().join("a/mine.txt"));
    assert!(matches!(write_exports(&[within], true), Err(ReportError::NoFolder { .. })));
    let on_top = ExportFile::new(folder.path().join("a"), "3");
    assert!(matches!(write_exports(&[on_top], true), Err(ReportError::IsFolder { .. })));
}
