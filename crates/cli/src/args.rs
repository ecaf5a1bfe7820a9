//! The command line.

pub(crate) mod adapt;
pub(crate) mod audit;
pub(crate) mod cert;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod predict;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod runs;
pub(crate) mod series;
pub(crate) mod spectra;
pub(crate) mod tune;
pub(crate) mod watch;

use clap::builder::RangedI64ValueParser;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Personalized federated learning: one generic model for everyone, one personal model for each
/// client, trained together.
#[derive(Debug, Parser)]
#[command(name = "formant", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  formant run                               compare five methods on the embedded images
  formant run --method ditto --method scd   only these two
  formant init && formant run experiment.toml
  formant data show --set data.alpha=0.1    look at a partition
  formant run --resume runs/quickstart-…    go on after a crash or Ctrl-C";

/// A TOML file holds seeds as signed numbers.
fn seed() -> RangedI64ValueParser<i64> {
    clap::value_parser!(i64).range(0..)
}

/// The bounds of the key `runtime.threads`.
fn threads() -> RangedI64ValueParser<i64> {
    clap::value_parser!(i64).range(1..=4_096)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train and score the methods of an experiment
    Run(RunArgs),
    /// Try combinations of settings on the validation split and rank them
    Sweep(SweepArgs),
    /// Choose the settings of every method with equal budgets, and say whether the winners are inside
    Tune(tune::TuneArgs),
    /// Write a trained model as safetensors, ONNX or NumPy arrays
    Export(model::ExportArgs),
    /// Use a model: the classes of images, with their probabilities
    Predict(predict::PredictArgs),
    /// Score a model on labelled images
    Evaluate(predict::EvaluateArgs),
    /// Give clients that took no part in a run personal models
    Adapt(adapt::AdaptArgs),
    /// Write report.md and report.html for a run folder and print its table
    Report(report::ReportArgs),
    /// Make the paper's tables and figures
    Reproduce(reproduce::ReproduceArgs),
    /// Make the tables of documents from files of results
    Tables(reproduce::TablesArgs),
    /// Measure what the wait-free schedule saves: time to a target accuracy with and without it
    Speedup(SpeedupArgs),
    /// Measure how fast this machine trains each method, for the virtual clock
    Devices(DevicesArgs),
    /// Put runs side by side: means over seeds, what differs, who is ahead
    Compare(compare::CompareArgs),
    /// Show how far spectra of personal and generic models agree, band by band, beside controls
    Spectra(spectra::SpectraArgs),
    /// List run folders: state, date, best figures
    Runs(runs::RunsArgs),
    /// List the methods, or show one with its hyper-parameters
    Methods(MethodsArgs),
    /// List the networks with their sizes
    Networks(JsonArgs),
    /// Look at datasets and partitions
    Data(DataArgs),
    /// Write a fully commented experiment.toml
    Init(InitArgs),
    /// Make, list, renew and revoke the certificates of a federation over the network
    Cert(cert::CertArgs),
    /// Run an experiment with real clients: listen, ask, aggregate
    Serve(network::ServeArgs),
    /// Take part in an experiment with this machine's own data
    Join(network::JoinArgs),
    /// Show where a running server stands
    Status(network::StatusArgs),
    /// Check and show the log of what a server has taken, refused and aggregated
    Audit(audit::AuditArgs),
    /// Follow a run or a federation in the browser, with the report's figures as they come
    Watch(watch::WatchArgs),
}

/// What `run`, `sweep` and `data show` share: an experiment and changes to it.
#[derive(Debug, Args, Clone)]
pub(crate) struct ExperimentArgs {
    /// Experiment file; without one, the built-in quickstart on embedded images
    pub(crate) experiment: Option<PathBuf>,
    /// Change one key, e.g. --set rounds=10 or --set method.lambda_p=3; an empty value unsets it
    /// (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run only this method: a label of the experiment or a name of the zoo (repeatable)
    #[arg(long = "method", value_name = "NAME")]
    pub(crate) methods: Vec<String>,
    /// Take the settings that `formant tune` chose for these methods here; --set goes before them
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) tuned: Option<PathBuf>,
    /// Seed of all randomness
    #[arg(long, allow_negative_numbers = true, value_parser = seed())]
    pub(crate) seed: Option<i64>,
    /// Folder of the datasets, laid out as torchvision does [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant run
  formant run experiment.toml --set data.alpha=0.1 --seed 3
  formant run --method scd --set method.lambda_p=3 --set rounds=20
  formant run --seeds 5                     five seeds, mean ± deviation, who is ahead
  formant run --json --quiet > result.json
  formant run --resume runs/quickstart-20260101-120000
  mpirun -n 16 formant run experiment.toml  one run in many processes (built with --features mpi)
  formant run --resume runs/mine --set rounds=60        a finished run, with more rounds
  formant run --resume runs/mine --add-method ditto     a finished run, with another method")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    #[command(flatten)]
    pub(crate) series: series::SeriesArgs,
    /// Worker threads; the result does not depend on them [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = threads())]
    pub(crate) threads: Option<i64>,
    /// Run folder, new or empty [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with an interrupted run or with several seeds, or extend a finished run by --set rounds=N and
    /// --add-method; the experiment is taken from the folder
    #[arg(long, value_name = "RUN_DIR", conflicts_with_all = ["experiment", "methods", "tuned", "seed", "data_dir", "out"])]
    pub(crate) resume: Option<PathBuf>,
    /// With --resume: run this method of the zoo as well (repeatable)
    #[arg(long, value_name = "NAME", requires = "resume")]
    pub(crate) add_method: Vec<String>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no hints, only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every combination of the --grid values is run with evaluation.split = \"validation\", so that no
test image is seen. Finished combinations are kept: the same command goes on where it stopped.

Examples:
  formant sweep --method ditto --grid method.lambda=0.1,0.3,1,3
  formant sweep --method SCD --grid method.lambda_p=1,10,100 --grid method.tau=0.1,0.3 --seeds 1,2,3")]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// A key and the values to try (repeatable; all combinations are run)
    #[arg(long = "grid", value_name = "KEY=V1,V2,…", required = true)]
    pub(crate) grid: Vec<String>,
    /// Seeds over which every combination is averaged
    #[arg(long, value_delimiter = ',', value_name = "S1,S2,…", conflicts_with = "seed", value_parser = seed())]
    pub(crate) seeds: Vec<i64>,
    /// What to rank by: the GM, the PM, or the mean of the two; a method without one of them is
    /// ranked by the other
    #[arg(long, value_enum, default_value = "both")]
    pub(crate) rank: Rank,
    /// Folder of the sweep
    #[arg(long, value_name = "DIR", default_value = "runs/sweep")]
    pub(crate) out: PathBuf,
    /// Worker threads [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = threads())]
    pub(crate) threads: Option<i64>,
    /// Print the ranking as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, only the ranking
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Every method runs twice for each number of personal epochs, once under each schedule; both train the
same models, and the virtual clock of [devices] and [links] says how long each takes.

Examples:
  formant speedup
  formant speedup --set links.up=250kbit            a slower network
  formant speedup --method ditto --epochs 1,10 --targets 0.9
  formant speedup experiment.toml --out runs/mine")]
pub(crate) struct SpeedupArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Personal epochs to compare
    #[arg(long, value_delimiter = ',', default_value = "3,5", value_name = "E1,E2,…")]
    pub(crate) epochs: Vec<usize>,
    /// PM accuracies to reach, or what comes first in evaluation.metrics
    #[arg(long, value_delimiter = ',', default_value = "0.8,0.95", value_name = "A1,A2,…")]
    pub(crate) targets: Vec<f64>,
    /// Folder of the runs, the table and the timeline
    #[arg(long, value_name = "DIR", default_value = "runs/speedup")]
    pub(crate) out: PathBuf,
    /// Worker threads [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = threads())]
    pub(crate) threads: Option<i64>,
    /// Print the figures as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, only the table
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the sections that tell an experiment's virtual clock what was measured: the speed of the
devices, and what a sample costs each method beside plain SGD.

Examples:
  formant devices
  formant devices experiment.toml --slowdown 20     devices that are 20 times slower than this one
  formant devices --method scd --set network.name=cnn --set train.batch=10")]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// How many times slower the experiment's devices are than a core of this machine
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub(crate) slowdown: f64,
    /// Seconds to measure each method
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub(crate) seconds: f64,
    /// Print the figures as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, only the table
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rank {
    Gm,
    Pm,
    Both,
}

impl From<Rank> for formant_study::Rank {
    fn from(rank: Rank) -> Self {
        match rank {
            Rank::Gm => Self::Gm,
            Rank::Pm => Self::Pm,
            Rank::Both => Self::Both,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct MethodsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<MethodsCommand>,
    /// Machine-readable list
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Everything about every method, as a page of Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MethodsCommand {
    /// Show one method: citation, formulas, models, hyper-parameters with defaults and ranges
    Show {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Machine-readable list
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    pub(crate) command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// List the datasets and whether they are there
    List {
        /// Folder of the datasets [env: FORMANT_DATA]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Show data and how they are divided: counts, classes, clients, and pictures of them
    #[command(after_help = "\
Examples:
  formant data show
  formant data show --set data.alpha=0.1 --set data.clients=50
  formant data show photos/ --png sheet.png        pictures of every class
  formant data show photos.formant --svg map.svg   who holds what, with all clients
  formant data show --set data.partition=pathological --set data.classes_per_client=2
  formant data show --set data.partition=shards --set data.skew=rotation")]
    Show(data::ShowArgs),
    /// Write every client's data to a file of its own, as a real client holds it
    #[command(after_help = "\
Examples:
  formant data export --out shares
  formant data export experiment.toml --out shares --set data.clients=5")]
    Export(DataExportArgs),
    /// Write who holds which samples as JSON, to be replayed by data.partition = "file"
    #[command(after_help = "\
Examples:
  formant data split --out split.json
  formant run --set data.partition=file --set data.partition_file=split.json

The file is a list of clients, each with the samples of its train, validation and test sets as
numbers from 0 in the order of the training set. docs/DATA.md says what else is read.")]
    Split(DataSplitArgs),
    /// Write data as one file that need not fit into memory and opens at once
    #[command(after_help = "\
The file is mapped, not read: training takes from it what it needs when it needs it. It gives the
same results as the data themselves, bit for bit. docs/DATA.md describes it.

Examples:
  formant data import photos/ photos.formant --size 64x64
  formant data import visits.csv visits.formant --label outcome --client hospital
  formant run --set data.source=photos.formant")]
    Import(data::ImportArgs),
    /// Compare all of an imported file with its checksums
    #[command(after_help = "\
Files of up to 1 GiB are compared whenever they are opened; this does it for all.

Example:
  formant data check photos.formant")]
    Check(data::CheckArgs),
    /// Fetch a published dataset, and compare it with its published checksums
    #[command(after_help = "\
A download that breaks off goes on where it ended, also with the next command. What is there and
right is kept. Without a network, the command says which files to put where.

Examples:
  formant data get cifar10
  formant data get fashion-mnist --data-dir datasets
  formant data get mnist --mirror https://mirror.example.org/mnist")]
    Get(data::GetArgs),
    /// Print what is known of data without the data, for a server that has none
    #[command(after_help = "\
Paste what it prints into the server's experiment, in place of data.source being there. Clients then
bring their own data into this shape: pictures are resized, classes matched by their names, rows of a
table encoded by these columns.

Example:
  formant data describe photos/ >> server.toml")]
    Describe(DataDescribeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DataDescribeArgs {
    /// A known dataset, or files of yours
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) origin: OriginArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DataSplitArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// What cannot be seen from files themselves.
#[derive(Debug, Args, Clone)]
pub(crate) struct OriginArgs {
    /// Folder of the known datasets [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Column of a table, or array of an .npz file, that holds the labels
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
    /// Array of an .npz file that holds the samples
    #[arg(long, value_name = "NAME")]
    pub(crate) features: Option<String>,
    /// Column of a table that is no feature, such as an id
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,
    /// Column that says whose a row is, or `folder` for images in CLIENT/CLASS/IMAGE
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
    /// Width and height to which pictures are brought, such as 64x64
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub(crate) size: Option<String>,
    /// Normalise pixels as this known dataset is published, such as cifar10 [default: by the data]
    #[arg(long, value_name = "DATASET")]
    pub(crate) normalisation: Option<String>,
    /// Share of each class that becomes the global test set, of data that have none [default: 0.2]
    #[arg(long, value_name = "SHARE")]
    pub(crate) test_fraction: Option<f64>,
    /// Leave out pictures that cannot be read
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DataExportArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Folder of the files, new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant init                                         every key with its default and its meaning
  formant init --data photos/                          an experiment that suits a folder of images
  formant init --data visits.csv --label outcome --client hospital visits.toml")]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(default_value = "experiment.toml")]
    pub(crate) file: PathBuf,
    /// Look at these data, a known dataset or files of yours, and write an experiment that suits them
    #[arg(long, value_name = "SOURCE")]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) origin: OriginArgs,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}
