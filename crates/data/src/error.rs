//! What can go wrong with datasets and partitions.

use std::path::PathBuf;

/// An unusable dataset, file or partition plan. Every message names the culprit and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The catalogue has no set of that name.
    #[error(
        "{name:?} is neither a known dataset nor a file or folder that is there\nhint: name one of {known}, or the path of your data as seen from the current folder"
    )]
    UnknownDataset {
        /// The name asked for.
        name: String,
        /// The names of the catalogue.
        known: String,
    },

    /// A file of a dataset is in none of the places where it may be.
    #[error("{dataset}: the file {file} is absent; looked for it in {looked_in}\nhint: {remedy}")]
    Missing {
        /// The set that needs the file.
        dataset: &'static str,
        /// The bare file name.
        file: &'static str,
        /// The folders searched.
        looked_in: String,
        /// What to do about it.
        remedy: String,
    },

    /// Something that is not a regular file stands where a file should.
    #[error("{path} is {found}, expected a regular file\nhint: {remedy}", path = .path.display())]
    NotAFile {
        /// Where it stands.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What to do about it.
        remedy: String,
    },

    /// The operating system refused to read a file.
    #[error("{path} cannot be read: {source}\nhint: {remedy}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
        /// What to do about it.
        remedy: String,
    },

    /// A file does not hold what its format promises.
    #[error("{file} is malformed: found {found}, expected {expected}\nhint: {remedy}")]
    Malformed {
        /// The file.
        file: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: String,
        /// What to do about it.
        remedy: String,
    },

    /// The parts of a dataset made in memory do not fit together.
    #[error("{key} = {value} does not make a dataset; {remedy}")]
    Parts {
        /// The part.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to do about it.
        remedy: String,
    },

    /// A setting of the partition plan is out of range.
    #[error("{key} = {value} does not make a partition; {remedy}")]
    Plan {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to do about it.
        remedy: String,
    },

    /// There are fewer samples than the clients are promised.
    #[error(
        "{clients} clients with min_samples = {min_samples} need {needed} samples, but only \
         {available} are there to divide; lower clients or min_samples{more}",
        needed = .clients.saturating_mul(*.min_samples)
    )]
    TooFewSamples {
        /// Number of clients.
        clients: usize,
        /// Samples promised to each.
        min_samples: usize,
        /// Samples there are.
        available: usize,
        /// A further remedy, when there is one.
        more: &'static str,
    },

    /// More clients own a class than it has samples.
    #[error(
        "class {class} has {available} samples for the {owners} clients that own it, so some of \
         them would not hold classes_per_client = {classes_per_client} classes; lower clients or \
         classes_per_client, or raise samples"
    )]
    ClassTooSmall {
        /// The class.
        class: usize,
        /// Its samples.
        available: usize,
        /// Clients that own it.
        owners: usize,
        /// Classes promised to each client.
        classes_per_client: usize,
    },

    /// No exchange of samples within their classes can lift a client to the minimum.
    #[error(
        "client {client} holds {held} samples of the classes {classes}, and the clients that share \
         these classes have none to spare for min_samples = {min_samples}; lower min_samples, or \
         raise samples or {spread}"
    )]
    Unrepairable {
        /// The client.
        client: usize,
        /// The samples it holds.
        held: usize,
        /// The classes it owns.
        classes: String,
        /// Samples promised to each client.
        min_samples: usize,
        /// The setting by which clients hold more classes.
        spread: &'static str,
    },

    /// Clients that draw again stay below the minimum.
    #[error(
        "data.min_samples = {min_samples} is out of reach for data.repair = \"redraw\": of {available} \
         samples, {short} of {clients} clients still have fewer after {draws} more draws\nhint: lower \
         data.min_samples or data.clients, raise data.samples or data.alpha, or leave data.repair at \
         \"move\""
    )]
    Undrawn {
        /// Samples promised to each client.
        min_samples: usize,
        /// How often the small ones drew again.
        draws: u64,
        /// Clients that are still too small.
        short: usize,
        /// Number of clients.
        clients: usize,
        /// Samples there are.
        available: usize,
    },

    /// A client's own file could not be read or written.
    #[error("cannot {action} {path}: {source}\nhint: {remedy}", path = .path.display())]
    ShareFile {
        /// Read or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
        /// What to do about it.
        remedy: &'static str,
    },

    /// A client's own file does not hold what it should.
    #[error("{file}: {found}\nhint: {remedy}")]
    Share {
        /// The file, or where else the data came from.
        file: String,
        /// The tensor, what it holds and what it should hold.
        found: String,
        /// What to do about it.
        remedy: String,
    },

    /// Something that a user brought does not hold images that can be used.
    #[error("{place}: {found}\nhint: {remedy}")]
    Input {
        /// The file or folder, and where in it.
        place: String,
        /// What was found there.
        found: String,
        /// What to do about it.
        remedy: String,
    },
}
