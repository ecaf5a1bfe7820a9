//! What can go wrong inside a method.

use crate::schema::SchemaError;
use formant_numerics::NumericsError;

/// A method could not be built, trained or restored.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// Not in the zoo.
    #[error("unknown method `{name}`\nhint: {hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest known name, or the list.
        hint: String,
    },
    /// A wrong hyper-parameter.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A setting that makes the method another one.
    #[error(
        "{setting} turns {title} into {becomes}\nhint: if that is what you want, say so with `allow_degenerate = true` beside it; else choose another value"
    )]
    Degenerate {
        /// The method's title.
        title: &'static str,
        /// The keys and their values.
        setting: String,
        /// What it is then.
        becomes: &'static str,
    },
    /// Training left the finite numbers, or a term could not be built.
    #[error(transparent)]
    Numerics(#[from] NumericsError),
    /// Bytes that do not hold a state or message of this method.
    #[error("cannot decode the {what} of method `{method}`: {reason}")]
    Decode {
        /// The method.
        method: &'static str,
        /// Server state, client state, broadcast or upload.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// A state or message that serde cannot express, such as a sequence of unknown length.
    #[error("cannot encode a state or message: {0}")]
    Encode(String),
    /// An upload that is not what the method needs.
    #[error("client {client} sent {sent} where {expected} is expected")]
    ForeignUpload {
        /// Who sent it.
        client: usize,
        /// What it was.
        sent: String,
        /// What it should have been.
        expected: String,
    },
    /// An upload with a variance that is none: every model it went into would compute nothing but NaN.
    #[error(
        "client {client} sent {value} as a variance in {tensor}, and no variance is below zero"
    )]
    Variance {
        /// Who sent it.
        client: usize,
        /// The buffer that it stands in.
        tensor: String,
        /// What it was.
        value: f32,
    },
    /// A value of another method, or of another role, was handed over: a bug in a driver.
    #[error("a value of method `{method}` is not the {what} that was expected")]
    WrongValue {
        /// The method.
        method: &'static str,
        /// Server state, client state, broadcast or upload.
        what: &'static str,
    },
    /// A round without a single usable upload.
    #[error("no upload to aggregate")]
    NoUploads,
    /// No randomness to be had from where it was to come from.
    #[error(
        "the operating system gives no random numbers: {0}\nhint: noise that anybody could predict protects nobody, so none is made up; see to the system's generator and start again"
    )]
    Randomness(String),
    /// A method of somebody else's has failed.
    #[error("{0}")]
    Foreign(String),
    /// Somebody has stopped a phase in the middle; nothing of it counts.
    #[error("stopped on request")]
    Stopped,
    /// Uploads that a rule needs all at once found no place.
    #[error(
        "cannot keep a round's uploads in {folder}: {reason}\nhint: set TMPDIR to a folder with room, or raise runtime.memory"
    )]
    Scratch {
        /// Where temporary files go.
        folder: String,
        /// Why not.
        reason: String,
    },
    /// Reading a stored upload failed.
    #[error("cannot read a stored upload: {0}")]
    Storage(String),
}
