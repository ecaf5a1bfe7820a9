//! What can be wrong with an event log or with the folder that holds it.

use formant_runtime::seal::Broken;
use std::io;
use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no log where one was expected.
    #[error(
        "{}: there is no event log here; name the folder of a run, the one in which \
         `formant run` wrote events.jsonl", file.display()
    )]
    Absent {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// The log exists but could not be read to its end.
    #[error(
        "{}, line {line}: reading failed ({source}); check that it is a file that you may read",
        file.display()
    )]
    Unreadable {
        /// The log.
        file: PathBuf,
        /// The line that was being read.
        line: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The log holds no line at all.
    #[error(
        "{}: the event log is empty, so the run ended before it began; start it again with \
         `formant run`", file.display()
    )]
    Empty {
        /// The log.
        file: PathBuf,
    },
    /// The first line does not open a run.
    #[error(
        "{}, line {line}: a log opens with a `run_started` event, but here is {found}; name an \
         events.jsonl as `formant run` writes it, or run the experiment again", file.display()
    )]
    NotStarted {
        /// The file.
        file: PathBuf,
        /// The first line that is not blank.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// The log speaks a later vocabulary than this program.
    #[error(
        "{}, line {line}: the log has format {found}, this program reads formats up to {known}; \
         use the Formant that wrote it (version {writer}) or a later one", file.display()
    )]
    Newer {
        /// The log.
        file: PathBuf,
        /// The line that states the format.
        line: usize,
        /// The format it states.
        found: u64,
        /// The latest format that is understood here.
        known: u32,
        /// The version that wrote it, as far as it can be read.
        writer: String,
    },
    /// Runs that are to be averaged are not of one experiment.
    #[error(
        "the runs are not repetitions of one experiment: `{key}` is {one} in the first and {another} \
         in another; name runs that differ in their seeds alone"
    )]
    Unlike {
        /// The first key that differs.
        key: String,
        /// Its value in the first run.
        one: String,
        /// Its value in the other.
        another: String,
    },
    /// Runs that are to be averaged are one and the same.
    #[error("two of the runs have the seed {seed}; name runs that differ in their seeds")]
    SameSeed {
        /// The seed.
        seed: u64,
    },
    /// A baseline that no run has.
    #[error("there is no method \"{name}\" to compare with; the runs have {known}")]
    UnknownBaseline {
        /// What was asked for.
        name: String,
        /// The labels that there are.
        known: String,
    },
    /// A line is not as it was written, or not where.
    #[error(
        "{}, line {line}: {broken}; restore the log from a copy, or run the experiment again",
        file.display()
    )]
    Damaged {
        /// The log.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What its check says.
        broken: Broken,
    },
    /// The log has lost its end.
    #[error(
        "{}: {length} bytes, and the run's checkpoint was written after {expected}: its end is missing; \
         restore the log from a copy, or run the experiment again", file.display()
    )]
    Cut {
        /// The log.
        file: PathBuf,
        /// Its length.
        length: u64,
        /// What it was when the checkpoint was written.
        expected: u64,
    },
    /// A line within the log is no event.
    #[error(
        "{}, line {line}: {reason}, in {found}; restore the log from a copy, or run the experiment \
         again", file.display()
    )]
    Malformed {
        /// The log.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// How the line begins.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An event names a method that the run did not announce.
    #[error(
        "{}, line {line}: there is no method \"{label}\" in this run (it has {known}); if \
         the line strayed in from another run's log, restore this one from a copy", file.display()
    )]
    UnknownMethod {
        /// The log.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The label that it names.
        label: String,
        /// The labels that the run announced.
        known: String,
    },
    /// A second, different run follows in the same file.
    #[error(
        "{}, line {line}: another run, \"{found}\", begins here, with other methods, clients or \
         seed; give each run a folder of its own and split the log before this line", file.display()
    )]
    SecondRun {
        /// The log.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The second run's name.
        found: String,
    },
    /// A file of results that cannot be read.
    #[error(
        "{}: these are no results ({reason}); name a results.json as `formant reproduce` or \
         `formant tables add` writes it", file.display()
    )]
    Results {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A table of a document that cannot be made.
    #[error("{}, line {line}: {reason}; {remedy}", file.display())]
    Document {
        /// The document.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A report could not be put into the run's folder.
    #[error(
        "{}: writing failed ({source}); check that the folder exists, that you may write to it \
         and that the disk is not full", file.display()
    )]
    Unwritable {
        /// The report.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something is where an export is to be written.
    #[error("{} exists already; name another place, or replace it with --force", file.display())]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// A folder is where a file is to be written.
    #[error("{} is a folder; name a file", path.display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file is where a folder is to be made.
    #[error("{} is a file; name a folder, new or there already", path.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
    },
    /// A folder for exports could not be made.
    #[error("{why}")]
    Folder {
        /// What the runtime said, path and remedy included.
        why: String,
    },
    /// A log holds nothing that could be drawn.
    #[error(
        "the run \"{name}\" has no figures yet: nothing was trained or scored; let it finish its first round, and \
         ask again"
    )]
    NoFigures {
        /// The run.
        name: String,
    },
    /// A figure could not be turned into a picture.
    #[error("the figure {figure} could not be drawn ({why}); take it with --svg instead")]
    Undrawable {
        /// Its name.
        figure: String,
        /// What the renderer said.
        why: String,
    },
}
