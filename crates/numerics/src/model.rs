//! A model: one flat vector of trainable parameters, and one of buffers.

use crate::vector;
use serde::{Deserialize, Serialize};

/// Trainable parameters `w` and, apart from them, buffers (batch-norm statistics).
///
/// Buffers are averaged by the server like parameters, but no gradient, penalty or spectrum ever
/// includes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// `w`, flattened in layer order.
    #[serde(with = "floats")]
    pub parameters: Vec<f32>,
    /// Running statistics.
    #[serde(with = "floats")]
    pub buffers: Vec<f32>,
}

impl Model {
    /// Copies another model of the same layout into this one's storage.
    pub fn copy_from(&mut self, other: &Self) {
        self.parameters.clone_from(&other.parameters);
        self.buffers.clone_from(&other.buffers);
    }

    /// Whether every value is a finite number.
    pub fn is_finite(&self) -> bool {
        vector::all_finite(&self.parameters) && vector::all_finite(&self.buffers)
    }
}

/// Floats as one little-endian byte string, so that encoding a model is a copy and not a walk.
pub mod floats {
    use serde::{Deserializer, Serializer, de::Error};
    use std::borrow::Cow;

    /// Writes the values as bytes.
    pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        if cfg!(target_endian = "little") {
            return serializer.serialize_bytes(bytemuck::cast_slice(values));
        }
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        serializer.serialize_bytes(&bytes)
    }

    /// Reads them back.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        // Borrowed where the source is one slice: then this is one copy and one allocation.
        let bytes: Cow<'de, [u8]> = serde_bytes::deserialize(deserializer)?;
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(D::Error::custom(format!(
                "{} bytes are not a whole number of f32 values",
                bytes.len()
            )));
        }
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_that_is_no_finite_number_is_found_anywhere() {
        let finite = [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45];
        let model = |parameters: Vec<f32>, buffers: Vec<f32>| Model { parameters, buffers };
        assert!(model(finite.repeat(2_000), finite.to_vec()).is_finite());
        assert!(Model::default().is_finite());
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in [0, 4_095, 4_096, 9_999] {
                let mut parameters = vec![1.0; 10_000];
                parameters[place] = bad;
                assert!(!model(parameters.clone(), vec![]).is_finite());
                assert!(!model(vec![1.0], parameters).is_finite());
            }
        }
    }
}
