//! What has been revealed of clients, as the log says it.

use formant_methods::choice;
use serde::{Deserialize, Serialize};

choice! {
    /// Who clips uploads and adds noise.
    pub enum Place {
        /// The server, to the sum of a round: for whoever sees its models.
        Server = "server",
        /// Each client, to its own upload: for whoever sees that.
        Client = "client",
    }
}

choice! {
    /// Where noise comes from.
    pub enum NoiseSource {
        /// From the seed, for the same bits again: a simulation shows what privacy costs and gives none.
        Keyed = "keyed",
        /// From the operating system: nobody can predict it.
        System = "system",
    }
}

/// Client-level differential privacy, spent up to a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// `ε`, of all rounds together.
    pub epsilon: f64,
    /// `δ`.
    pub delta: f64,
    /// Who clips and adds noise.
    pub place: Place,
    /// `C`.
    pub clip: f64,
    /// `z`.
    pub noise_multiplier: f64,
    /// Where noise comes from.
    pub noise: NoiseSource,
}
