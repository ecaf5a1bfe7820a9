//! What is said between the driver and a client's process.

use formant_numerics::{Confusion, Model, Tally};
use formant_runtime::executor::{Adaptation, Figures, JobRecord, Step};
use formant_runtime::{Choice, Stored};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

/// To a client. Each is answered once, in order.
#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// Who it is, and the text of the experiment. Comes first.
    Hello { client: usize, experiment: String },
    /// A method begins, with what a checkpoint has.
    Begin { method: usize, folder: PathBuf, state: Option<Stored>, sent: Option<Stored> },
    /// A job, and the encoded broadcasts that it needs.
    Work { steps: Vec<Step>, broadcasts: BTreeMap<u64, Vec<u8>> },
    /// Score the personal model, and write it or send it if that is wanted.
    Look { round: usize, broadcast: Vec<u8>, send: bool, folder: Option<PathBuf>, answers: bool },
    /// Score a model on the own samples, with or without its answers.
    ScoreOwn(Model, bool),
    /// Score a model on a part of the global set, with or without its answers.
    ScorePart(usize, Model, bool),
    /// Be the newcomer at a place, with a method's model and the encoded broadcast.
    Adapt { method: usize, place: usize, model: Model, broadcast: Option<Vec<u8>>, epochs: usize },
    /// Show the encoded state.
    State,
    /// Make the state durable.
    Persist,
}

/// From a client.
#[derive(Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one at a time is on its way")]
pub(crate) enum Reply {
    Ready,
    Worked { record: JobRecord, upload: Option<Vec<u8>> },
    Looked { own: Own, model: Option<Model>, written: Option<u64>, choice: Option<Choice> },
    Own(Own),
    Part(Tally),
    Adapted(Adaptation),
    State(Vec<u8>),
    Held { state: Option<Stored>, sent: Option<Stored> },
    Failed(String),
}

/// What a model is worth on a client's own samples, and what it answers there.
#[derive(Serialize, Deserialize)]
pub(crate) struct Own {
    pub(crate) figures: Figures,
    pub(crate) answers: Option<Confusion>,
}

/// Writes a message with its length before it.
pub(crate) fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a message; none at the end of the pipe.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let mut bytes = Vec::new();
    from.take(u64::from_le_bytes(length)).read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}
