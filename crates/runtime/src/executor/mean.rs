//! The mean of personal models.

use formant_numerics::Model;
use formant_numerics::vector::WeightedMean;

/// A running mean of models, buffers included. Its bits depend on the order in which models are added.
pub struct MeanModel {
    parameters: WeightedMean,
    buffers: WeightedMean,
}

impl MeanModel {
    /// The mean of no model yet, all of them to be of the shape of this one.
    pub fn of(model: &Model) -> Self {
        Self {
            parameters: WeightedMean::new(model.parameters.len()),
            buffers: WeightedMean::new(model.buffers.len()),
        }
    }

    /// Adds a model.
    pub fn add(&mut self, weight: f64, model: &Model) {
        self.parameters.add(weight, &model.parameters);
        self.buffers.add(weight, &model.buffers);
    }

    /// The mean; empty if no model was added.
    pub fn finish(self) -> Model {
        Model {
            parameters: self.parameters.finish().unwrap_or_default(),
            buffers: self.buffers.finish().unwrap_or_default(),
        }
    }
}
