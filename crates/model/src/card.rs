//! What a model file says about itself.

use crate::ModelError;
use formant_data::{Normalisation, Schema, Values, Wanted};
use formant_numerics::{NetworkSpec, Shape, Tape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The newest version of the card: models of real numbers and of tables, which a program that knows only
/// pixels must refuse.
pub const FORMAT: u32 = 2;
/// The version of cards that need no more.
const PIXELS_ALONE: u32 = 1;

/// Everything that is needed to use a model, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The version that it needs, at most [`FORMAT`]; set when it is written.
    pub format: u32,
    /// Version of the program that wrote it.
    pub formant: String,
    /// The network, by name and options.
    pub network: NetworkSpec,
    /// Shape of one sample.
    pub input: Shape,
    /// One for each channel, of pixel values scaled to `[0, 1]` or of real numbers as they are.
    pub normalisation: Vec<Normalisation>,
    /// What samples are made of.
    #[serde(default, skip_serializing_if = "Values::are_bytes")]
    pub values: Values,
    /// How a row of a table becomes a sample, of a model for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// A name for every class, in the order of the logits.
    pub classes: Vec<String>,
    /// The data that it was trained on.
    pub dataset: String,
    /// The experiment's name.
    pub experiment: String,
    /// The method that trained it.
    pub method: MethodName,
    /// Whose model it is.
    #[serde(flatten)]
    pub role: Role,
    /// Rounds that it was trained for.
    pub round: u64,
    /// The experiment's seed.
    pub seed: u64,
}

/// A method in an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodName {
    /// What the experiment calls it.
    pub label: String,
    /// What the zoo calls it.
    pub name: String,
}

/// Whose model it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Role {
    /// One for everyone.
    Generic,
    /// The mean of all personal models, where a method trains no generic one.
    Averaged,
    /// One client's own.
    Personal {
        /// The client's number.
        client: usize,
        /// Its name in a federation over the network.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl Role {
    /// `generic`, `averaged` or `personal-3`: for file names and tables.
    pub fn word(&self) -> String {
        match self {
            Self::Generic => "generic".into(),
            Self::Averaged => "averaged".into(),
            Self::Personal { client, .. } => format!("personal-{client}"),
        }
    }
}

/// A card without content, to be filled in.
impl Default for Card {
    fn default() -> Self {
        Self {
            format: PIXELS_ALONE,
            formant: env!("CARGO_PKG_VERSION").into(),
            network: NetworkSpec::named(""),
            input: Shape::new(0, 0, 0),
            normalisation: Vec::new(),
            values: Values::Bytes,
            schema: None,
            classes: Vec::new(),
            dataset: String::new(),
            experiment: String::new(),
            method: MethodName::default(),
            role: Role::Generic,
            round: 0,
            seed: 0,
        }
    }
}

impl Card {
    /// The card as it is written: with the oldest version that can hold it.
    pub(crate) fn versioned(&self) -> Self {
        let plain = self.values.are_bytes() && self.schema.is_none();
        let least = if plain { PIXELS_ALONE } else { FORMAT };
        Self { format: self.format.max(least), ..self.clone() }
    }

    /// What samples have to be for the model.
    pub fn wanted(&self) -> Wanted {
        Wanted { shape: self.input, values: self.values }
    }

    /// The network that the model belongs to; `origin` is what an error calls the file.
    pub fn build(&self, origin: &str) -> Result<Arc<Tape>, ModelError> {
        let refuse = |found: String| ModelError::Malformed {
            origin: origin.into(),
            found,
            remedy: "take another copy of the file, or export the model again".into(),
        };
        if self.format > FORMAT {
            return Err(ModelError::Newer {
                origin: origin.into(),
                found: self.format,
                known: FORMAT,
                writer: self.formant.clone(),
            });
        }
        let usable = |n: &Normalisation| n.mean.is_finite() && n.std.is_finite() && n.std > 0.0;
        if self.normalisation.len() != self.input.channels || !self.normalisation.iter().all(usable)
        {
            return Err(refuse(format!(
                "its card has no usable normalisation for each of {} channels",
                self.input.channels
            )));
        }
        if let Some(schema) = &self.schema
            && (self.values.are_bytes() || schema.width() != self.input.len())
        {
            return Err(refuse(format!(
                "the columns of its card make {} features, and its input is {}",
                schema.width(),
                self.input
            )));
        }
        if self.classes.is_empty() || self.input.is_empty() {
            return Err(refuse("its card names no classes or no input".into()));
        }
        self.network
            .build(self.input, self.classes.len())
            .map_err(|error| refuse(format!("its network cannot be built: {error}")))
    }
}
