//! What is known of data without the data: what a network needs in order to be built and used.

use crate::{DataError, Normalisation, Schema};
use formant_numerics::Shape;
use serde::{Deserialize, Serialize};

/// What samples are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Pixels from 0 to 255, scaled to `[0, 1]` before they are normalised.
    #[default]
    Bytes,
    /// Real numbers, normalised as they are.
    Floats,
}

impl Values {
    /// Whether samples are pixels.
    pub fn are_bytes(&self) -> bool {
        *self == Self::Bytes
    }
}

/// Most values of one sample, which is a gibibyte of them.
const MOST_VALUES: usize = 1 << 28;

/// What is known of a dataset without its samples. A client that holds its own data needs no more,
/// and neither does a server that holds none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The shape of one sample.
    pub shape: Shape,
    /// A name for every class.
    #[serde(rename = "classes")]
    pub class_names: Vec<String>,
    /// One normalisation per channel.
    pub normalisation: Vec<Normalisation>,
    /// What samples are made of.
    #[serde(default, skip_serializing_if = "Values::are_bytes")]
    pub values: Values,
    /// How a row of a table becomes a sample, of data that come as a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
}

impl Description {
    /// An error unless the parts fit together.
    pub fn check(&self) -> Result<(), DataError> {
        let refuse = |key, value: String, remedy: &str| {
            Err(DataError::Parts { key, value, remedy: remedy.to_owned() })
        };
        if self.shape.is_empty() {
            return refuse("shape", self.shape.to_string(), "every extent must be at least 1");
        }
        let Shape { channels, height, width } = self.shape;
        let values = channels.checked_mul(height).and_then(|plane| plane.checked_mul(width));
        if values.is_none_or(|values| values > MOST_VALUES) {
            return refuse("shape", self.shape.to_string(), "a sample has at most 2^28 values");
        }
        if self.class_names.is_empty() || self.class_names.len() > usize::from(u16::MAX) + 1 {
            let count = self.class_names.len().to_string();
            return refuse("classes.len()", count, "name between 1 and 65536 classes");
        }
        crate::images::check_normalisation(self.shape, &self.normalisation)?;
        match &self.schema {
            Some(schema) if schema.width() != self.shape.len() => refuse(
                "schema",
                format!("{} features", schema.width()),
                "the columns must make as many features as the shape has channels",
            ),
            _ => Ok(()),
        }
    }
}
