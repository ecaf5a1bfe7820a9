//! What can be wrong with a study.

use formant_experiment::ExperimentError;
use formant_methods::MethodError;
use formant_model::ModelError;
use formant_report::ReportError;
use formant_runtime::RuntimeError;
use std::path::PathBuf;

/// Why a study cannot be made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An axis of a grid without `=`.
    #[error("`--grid {axis}` has no `=`\nhint: {AXIS}")]
    NoKey {
        /// The axis as it was given.
        axis: String,
    },
    /// An axis of a grid without values.
    #[error("`--grid {axis}` has no values\nhint: {AXIS}")]
    NoValues {
        /// The axis as it was given.
        axis: String,
    },
    /// An axis that has a value twice.
    #[error("`--grid {axis}` names {value} twice\nhint: remove value {place} of it")]
    ValueTwice {
        /// The axis as it was given.
        axis: String,
        /// The value.
        value: String,
        /// Where it stands the second time, counted from 1.
        place: usize,
    },
    /// Two axes with one key.
    #[error(
        "`--grid {axis}`: `{key}` has an axis already\nhint: name all its values in one --grid {key}=V1,V2"
    )]
    KeyTwice {
        /// The second axis as it was given.
        axis: String,
        /// The key.
        key: String,
    },
    /// A combination that makes no experiment.
    #[error("in the combination {setting}: {source}")]
    InCombination {
        /// The combination.
        setting: String,
        /// What is wrong with it.
        source: Box<StudyError>,
    },
    /// A folder that would have to be cleared and holds something else than a run.
    #[error("{path} is in the way: it is not a run of a sweep\nhint: choose another folder with --out", path = path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// A seed twice.
    #[error("`--seeds {text}` names {seed} twice\nhint: name every seed once")]
    SeedTwice {
        /// All of them.
        text: String,
        /// Which.
        seed: i64,
    },
    /// Another seed by `--set`, where there are several.
    #[error(
        "`--set {text}`: a table has seeds of its own\nhint: choose others with --seeds, such as --seeds 1,2,3"
    )]
    SetSeed {
        /// What was given.
        text: String,
    },
    /// A folder that has nothing of a table.
    #[error(
        "no part of this table is in {folder}\nhint: give the same --scale, --set, --only and --seeds as the runs had; without --collect they are run",
        folder = folder.display()
    )]
    NothingCollected {
        /// The folder.
        folder: PathBuf,
    },
    /// Runs that one table cannot show.
    #[error("{one} and {other}: {why}\nhint: {hint}", one = one.display(), other = other.display())]
    NotOneTable {
        /// A run.
        one: PathBuf,
        /// Another one.
        other: PathBuf,
        /// What is wrong with the two.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// A series without a run.
    #[error("{folder}: none of its seeds has begun\nhint: go on with `formant run --resume`", folder = folder.display())]
    NotBegun {
        /// The series.
        folder: PathBuf,
    },
    /// A run that is still under way.
    #[error("{folder} has not finished\nhint: go on with it by `formant run --resume`, or leave it out", folder = folder.display())]
    Unfinished {
        /// The run.
        folder: PathBuf,
    },
    /// Seeds that are none.
    #[error(
        "`--seeds {text}`: {why}\nhint: --seeds 5 runs five from the experiment's own on, --seeds 1,2,7 these"
    )]
    Seeds {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A series' manifest that cannot be read.
    #[error("{path} cannot be read: {found}\nhint: restore it, or name the runs in the folder one by one", path = path.display())]
    BadSeries {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A folder that is not there, or is none.
    #[error("{path} is no folder\nhint: name the folder that holds your run folders; `formant run` puts them into runs", path = path.display())]
    NoFolder {
        /// What was named.
        path: PathBuf,
    },
    /// Targets that no accuracy can reach, or none at all.
    #[error("--targets takes accuracies between 0 and 1\nhint: for example --targets 0.8,0.95")]
    Targets,
    /// An experiment in which nothing takes time.
    #[error(
        "nothing takes time in this experiment, so nothing can be saved\nhint: set devices.samples_per_second and links.up and links.down"
    )]
    Instant,
    /// A method that gains nothing from another schedule.
    #[error(
        "`{method}` has no personal phase that could run while an upload travels\nhint: choose others with --method, such as scd, ditto or fedrod"
    )]
    NoPersonalPhase {
        /// Its label.
        method: String,
    },
    /// A folder with the run of another experiment.
    #[error("{path} holds another run: `{key}` was {before} there and is {now} now\nhint: choose another folder with --out", path = path.display())]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// The first key that differs.
        key: String,
        /// Its value there.
        before: String,
        /// Its value here.
        now: String,
    },
    /// Two schedules that cannot be compared by their times alone.
    #[error(
        "{method}: the two schedules trained different models\nhint: compare them with federation.quorum = 1 and no deadline, where only the clock differs"
    )]
    DifferentModels {
        /// The method's title.
        method: String,
    },
    /// A setting of a measurement that is not above 0.
    #[error("{flag} takes a number above 0, and {value} is none\nhint: for example {flag} 5")]
    NotPositive {
        /// Which setting.
        flag: &'static str,
        /// Its value.
        value: f64,
    },
    /// Nothing to measure training with.
    #[error("the client in the middle has no samples to train on\nhint: raise data.min_samples")]
    NoSamples,
    /// A preset that does not exist.
    #[error("there is no preset `{name}`\nhint: {hint}")]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A preset whose file is wrong.
    #[error(
        "experiments/{name}.toml: {reason}\nhint: the file is part of the program; mend it and build again"
    )]
    Preset {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A share of the work that is none.
    #[error(
        "`--shard {given}` is no share of the work\nhint: write --shard I/N with I from 1 to N, e.g. --shard 2/8"
    )]
    Shard {
        /// As it was given.
        given: String,
    },
    /// Something that a preset does not have.
    #[error("`--only {given}` chooses nothing of {name}\nhint: {hint}")]
    Only {
        /// As it was given.
        given: String,
        /// The preset.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A method that an experiment does not have.
    #[error("unknown method `{name}`\nhint: {hint}")]
    UnknownMethod {
        /// As it was given.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A cell that is none.
    #[error("`--cell {given}` is no cell\nhint: {hint}")]
    Cell {
        /// As it was given.
        given: String,
        /// What to write.
        hint: String,
    },
    /// A space that cannot be searched.
    #[error(
        "{name}: {reason}\nhint: name the keys of each method, e.g. [tune.space.ditto] with lambda = {{ start = 1.0, times = 3.0 }} or lambda = [0.0, 0.1, 1.0]"
    )]
    Tune {
        /// The experiment or preset.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A file of winners that cannot be read.
    #[error("{path} is no file of winners: {reason}\nhint: `formant tune` writes them, as tuned.toml in its folder and with --write", path = path.display())]
    BadTuned {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A change to what a preset varies.
    #[error(
        "`--set {key}`: {name} has a table for each of its values\nhint: choose some of them with --only {key}=VALUE"
    )]
    SetAxis {
        /// The key.
        key: String,
        /// The preset.
        name: String,
    },
    /// Data that are not there.
    #[error("{what} is not in {}\nhint: fetch it with `formant data get {fetched}`, or say where it is with --data-dir", dir.display())]
    NoData {
        /// Which data.
        what: String,
        /// Where they were looked for.
        dir: PathBuf,
        /// What `formant data get` calls them.
        fetched: String,
    },
    /// Not a folder.
    #[error(
        "{folder}: there is no such folder\nhint: name the folder of a run; `formant runs` lists what there is",
        folder = folder.display()
    )]
    NoRun {
        /// What was named.
        folder: PathBuf,
    },
    /// A run without models to compare.
    #[error(
        "{folder} keeps no method with a generic model and several personal ones\nhint: run one that trains both, such as scd or ditto, with runtime.keep = \"all\"",
        folder = folder.display()
    )]
    NoPersonalModels {
        /// The run.
        folder: PathBuf,
    },
    /// A model that cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Results that cannot be written down.
    #[error(
        "cannot write the results as JSON: {0}\nhint: this is a fault of Formant; report it with the command that led here"
    )]
    Encode(#[from] serde_json::Error),
    /// An experiment file that is wrong as it stands.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<ExperimentError>,
    },
    /// An experiment that cannot be run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A method that cannot be built.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// A log that cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A run that failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

const AXIS: &str = "write --grid KEY=V1,V2, e.g. --grid method.lambda=0.1,1";
