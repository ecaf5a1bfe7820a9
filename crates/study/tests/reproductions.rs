//! The presets: every part of each can be built, and the paper's figures find their places.

use formant_methods::Zoo;
use formant_report::results::{Layout, tables};
use formant_study::{
    Ended, PRESETS, Reproduction, Request, Scale, Shard, Silent, StudyError, write_results,
};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

fn request(name: &str, scale: Scale) -> Request {
    let (set, only, seeds, last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Request { name: name.into(), scale, data_dir: None, set, only, seeds, tuned: None, last }
}

#[test]
fn every_preset_can_be_planned_at_both_scales() {
    let nowhere = tempfile::tempdir().unwrap();
    for preset in PRESETS {
        assert!(preset.text().starts_with("# "), "{}: what is it about?", preset.name);
        for scale in [Scale::Desk, Scale::Paper] {
            let study = Reproduction::new(request(preset.name, scale), &Zoo::standard())
                .unwrap_or_else(|error| panic!("{} {scale}: {error}", preset.name));
            let hashes: HashSet<&str> = study.parts().iter().map(|part| &*part.hash).collect();
            assert_eq!(hashes.len(), study.parts().len(), "a part is there once");
            let results = study.collect(nowhere.path()).unwrap();
            assert!(results.runs.is_empty() && results.missing.len() == study.parts().len());
            assert!(!results.open.is_empty() || preset.name == "ablation", "{}", preset.name);
            for figure in &results.paper {
                let is_there = study.parts().iter().any(|part| {
                    part.name.starts_with(&figure.cell) && part.name.contains(&*figure.method)
                });
                assert!(is_there, "{} {scale}: nothing to compare {figure:?} with", preset.name);
            }
            if scale == Scale::Paper {
                let first = &study.parts()[0].experiment;
                let clients = [("cifar100", 50), ("inat", 20), ("cost", 20)];
                let expected = clients.iter().find(|(name, _)| *name == preset.name);
                assert_eq!(first.data.clients, Some(expected.map_or(100, |(_, clients)| *clients)));
                assert!(first.network.name.starts_with("resnet"), "{}", preset.name);
            }
        }
    }
}

#[test]
fn table_1_has_all_methods_and_seeds() {
    let study = Reproduction::new(request("cifar10", Scale::Desk), &Zoo::standard()).unwrap();
    assert_eq!(study.parts().len(), 12 * 3 * 3);
    assert_eq!(study.parts()[0].name, "α = 1, Local, seed 1");
    let shards: Vec<usize> = (1..=5)
        .map(|place| study.shard(Shard::parse(&format!("{place}/5")).unwrap()).len())
        .collect();
    assert_eq!(shards.iter().sum::<usize>(), study.parts().len());
}

#[test]
fn a_label_is_one_row_and_a_name_all_rows_of_a_method() {
    let rows = |preset: &str, only: &str| {
        let mut some = request(preset, Scale::Desk);
        some.only = vec![only.into()];
        let study = Reproduction::new(some, &Zoo::standard()).unwrap();
        let named = |part: &formant_study::Part| part.experiment.methods[0].label.clone();
        study.parts().iter().map(named).collect::<HashSet<_>>()
    };
    assert_eq!(rows("duel", "SCD"), HashSet::from(["SCD".into()]));
    assert_eq!(rows("duel", "scd").len(), 3);
    assert_eq!(rows("ablation", "scd").len(), 4, "a row without a label has its method's name");
}

/// A preset on a few embedded images.
fn small(name: &str, more: &str) -> Result<Reproduction, StudyError> {
    let mut small = request(name, Scale::Desk);
    let set = "data.source=mnist-small rounds=1 data.samples=120 data.clients=2 data.min_samples=12 network.name=logistic";
    small.set = set.split(' ').chain(more.split_whitespace()).map(str::to_owned).collect();
    small.seeds = vec![1];
    Reproduction::new(small, &Zoo::standard())
}

#[test]
fn what_cannot_be_gone_on_with_is_set_aside_and_begins_anew() {
    let mut study = small("ablation", "").unwrap();
    let (folder, go) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let part = folder.path().join("parts").join(&study.parts()[0].hash);
    let stop = AtomicBool::new(true);
    assert_eq!(study.run(folder.path(), &[0], &Silent, &stop).unwrap(), Ended::Interrupted);
    std::fs::write(part.join("checkpoint.json"), "{\"format\": 1}").unwrap();
    assert_eq!(study.run(folder.path(), &[0], &Silent, &go).unwrap(), Ended::Complete);
    assert!(study.unfinished(folder.path(), &[0]).is_empty());
    let aside = part.with_extension("damaged").join("checkpoint.json");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{\"format\": 1}", "nothing is lost");
}

#[test]
fn figures_of_another_table_go_and_those_of_the_user_stay() {
    let mut study = small("ablation", "").unwrap();
    let (folder, go) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let places: Vec<usize> = (0..study.parts().len()).collect();
    study.run(folder.path(), &places, &Silent, &go).unwrap();
    let all = study.collect(folder.path()).unwrap();
    write_results(&all, folder.path()).unwrap();
    let figure = |name: &str| folder.path().join("figures").join(name);
    std::fs::write(figure("mine.svg"), "<svg/>").unwrap();
    assert!(figure("curves-pm-1.svg").is_file() && figure("curves-pm-0.1.svg").is_file());
    let mut one = all.clone();
    one.runs.retain(|run| run.cell["data.alpha"] == 1.0);
    write_results(&one, folder.path()).unwrap();
    assert!(figure("curves-pm-1.svg").is_file() && !figure("curves-pm-0.1.svg").exists());
    assert!(figure("mine.svg").is_file(), "what Formant did not write it does not remove");
}

#[test]
fn newcomers_are_in_the_results_with_their_sizes() {
    let more = "data.clients=4 data.new_clients=2 evaluation.adapt_epochs=1 network.name=mlp data.samples=240";
    let mut study = small("new-clients", more).unwrap();
    let places: Vec<usize> = (0..study.parts().len()).collect();
    let (folder, go) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    assert_eq!(study.run(folder.path(), &places, &Silent, &go).unwrap(), Ended::Complete);
    let results = study.collect(folder.path()).unwrap();
    for run in &results.runs {
        let joined = &run.newcomers[0];
        assert_eq!((joined.epochs.len(), joined.last.len(), joined.test.len()), (2, 2, 2));
        assert!(joined.test.iter().all(|size| *size > 0));
        let clients = run.scores.as_ref().unwrap().clients.as_ref().unwrap();
        assert_eq!((clients.test.len(), clients.last.len()), (2, 2));
        // The mean is that of the clients, weighted by their sizes.
        let all: usize = joined.test.iter().sum();
        let sum: f64 =
            joined.last.iter().zip(&joined.test).map(|(x, n)| x.unwrap() * *n as f64).sum();
        assert!((sum / all as f64 - joined.epochs[1]).abs() < 1e-4);
    }
    let text = tables(&results, &Layout::default());
    assert!(text.contains("**fine-tuning**") && text.contains("**own rule**"), "{text}");
}

#[test]
fn what_nobody_changes_is_run_once_and_belongs_to_every_key() {
    let mut study = small("sensitivity", "").unwrap();
    let places: Vec<usize> = (0..study.parts().len()).collect();
    // 17 values, of which 4 are what the experiment has anyway.
    assert_eq!(places.len(), 17 - 3);
    let folder = tempfile::tempdir().unwrap();
    let estimate = study.estimate(&places, &Silent).unwrap();
    assert!(estimate.seconds.len() == places.len() && estimate.seconds.iter().all(|s| *s > 0.0));
    let stopped = study.run(folder.path(), &places, &Silent, &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped, Ended::Interrupted);
    let go = AtomicBool::new(false);
    assert_eq!(study.run(folder.path(), &places, &Silent, &go).unwrap(), Ended::Complete);
    assert_eq!(study.unfinished(folder.path(), &places), [0_usize; 0]);
    let results = study.collect(folder.path()).unwrap();
    assert_eq!((results.runs.len(), results.missing.len()), (17, 0));
}
