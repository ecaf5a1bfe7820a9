//! It learns: federating beats training alone where the papers say so.

use formant_experiment::Experiment;
use formant_report::{Row, RunLog, rows};
use formant_runtime::EVENTS_FILE;

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
[[method]]
name = \"local\"
[[method]]
name = \"fedavg\"
[[method]]
name = \"ditto\"
lambda = 0.5
";

#[test]
fn federating_beats_training_alone() {
    let experiment = Experiment::parse(&SETTING.parse().unwrap(), &[]).unwrap();
    let folder = Folder::new();
    folder.run(&experiment.plan().unwrap()).unwrap();
    let rows = rows(&RunLog::read(&folder.file(EVENTS_FILE)).unwrap());
    let [local, fedavg, ditto] = rows.as_slice() else { panic!("three methods") };
    let gm = |row: &Row| row.gm_last.unwrap();
    let pm = |row: &Row| row.pm_last.unwrap();
    assert!(gm(fedavg) > gm(local) + 0.1, "GM {} against {}", gm(fedavg), gm(local));
    assert!(pm(ditto) > pm(local) + 0.02, "PM {} against {}", pm(ditto), pm(local));
    assert_eq!(gm(ditto), gm(fedavg));
    // Each client's model knows its own classes better than the one for everybody does.
    assert!(pm(local) > 0.5 && gm(fedavg) > 0.6);
}
