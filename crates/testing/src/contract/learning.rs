//! It learns: federating beats training alone where the papers say so.

use crate::problem::parse;
use crate::{Case, Folder, Subject};
use formant_data::Federation;
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_report::{Row, RunLog, rows};
use formant_runtime::EVENTS_FILE;
use std::sync::LazyLock;

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
[train]
batch = 10
epochs = 2
personal_epochs = 2
learning_rate = 0.05
[evaluation]
every = 12
";

const NETWORK: &str = "name = \"mlp\"\nhidden = [32]";

fn experiment(case: &Case) -> Experiment {
    let (method, network) = (case.method(), case.network());
    parse(case.zoo(), &format!("{SETTING}[network]\n{network}\n[[method]]\n{method}\n"))
}

/// The last scores of a case.
fn learn(case: &Case) -> Row {
    static FEDERATION: LazyLock<Federation> = LazyLock::new(|| alone().federation().unwrap());
    let folder = Folder::new();
    folder.run(&experiment(case).plan_on(FEDERATION.clone()).unwrap()).unwrap();
    rows(&RunLog::read(&folder.file(EVENTS_FILE)).unwrap()).remove(0)
}

fn alone_case() -> Case {
    Case::new(&Zoo::standard(), "name = \"local\"", NETWORK)
}

fn alone() -> Experiment {
    experiment(&alone_case())
}

/// After twelve rounds the models that a method says it trains are better than those of clients who train
/// alone: the generic one by a tenth, the personal ones by 2 %. A method that sends nothing has nothing to gain,
/// and must be no worse.
pub fn federating_beats_training_alone(subject: &Subject) {
    static ALONE: LazyLock<Row> = LazyLock::new(|| learn(&alone_case()));
    assert!(ALONE.pm_last.unwrap() > 0.5, "each client's model knows its own classes");
    let case = subject.learning(NETWORK);
    let row = learn(&case);
    let (gm, pm) = (row.gm_last.unwrap(), row.pm_last.unwrap());
    let sends = row.uploaded_bytes > 0;
    let better = |gain: f64, alone: Option<f64>| alone.unwrap() + if sends { gain } else { 0.0 };
    if row.generic {
        assert!(gm >= better(0.1, ALONE.gm_last), "{case:?}: GM {gm}");
    }
    if row.personal {
        assert!(pm >= better(0.02, ALONE.pm_last), "{case:?}: PM {pm}");
    }
}
