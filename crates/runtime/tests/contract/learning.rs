//! It learns: federating beats training alone where the papers say so.

use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_report::{Row, RunLog, rows};
use formant_runtime::EVENTS_FILE;
use std::fmt::Write as _;

use crate::problem::Folder;

/// Ten clients with few images of few classes each.
const SETTING: &str = "
seed = 1
rounds = 12
[data]
clients = 10
samples = 1600
alpha = 0.3
min_samples = 30
train_fraction = 0.25
[network]
name = \"mlp\"
hidden = [32]
[train]
batch = 10
epochs = 2
personal_epochs = 2
learning_rate = 0.05
[evaluation]
every = 12
";

/// Strengths that suit few steps; what is not named has its default.
const SETTINGS: [(&str, &str); 5] = [
    ("fedgen", "a = 1\nb = 1"),
    ("fedavgm", "beta = 0.5"),
    ("pfedme", "eta = 0.03\neta_p = 0.05"),
    ("ditto", "lambda = 0.5"),
    ("scd", "warm_up = 0.5"),
];

#[test]
fn federating_beats_training_alone() {
    let mut text = SETTING.to_owned();
    for entry in Zoo::standard().entries() {
        let own = SETTINGS.iter().find(|(name, _)| *name == entry.name).map_or("", |(_, own)| own);
        writeln!(text, "[[method]]\nname = \"{}\"\n{own}", entry.name).unwrap();
    }
    let experiment = Experiment::parse(&text.parse().unwrap(), &[], &Zoo::standard()).unwrap();
    let folder = Folder::new();
    folder.run(&experiment.plan().unwrap()).unwrap();
    let rows = rows(&RunLog::read(&folder.file(EVENTS_FILE)).unwrap());
    let of = |name: &str| rows.iter().find(|row| row.label == name).unwrap();
    let (gm, pm) = (|row: &Row| row.gm_last.unwrap(), |row: &Row| row.pm_last.unwrap());
    let (local, fedavg) = (of("local"), of("fedavg"));
    // Each client's model knows its own classes better than the one for everybody does.
    assert!(pm(local) > 0.5 && gm(fedavg) > 0.6);
    for row in &rows {
        let (label, gm, pm) = (&row.label, gm(row), pm(row));
        if row.generic {
            assert!(gm > local.gm_last.unwrap() + 0.1, "{label}: GM {gm}");
        }
        if row.personal && label != "local" {
            assert!(pm > local.pm_last.unwrap() + 0.02, "{label}: PM {pm}");
        }
    }
    assert_eq!(gm(of("ditto")), gm(fedavg));
}
