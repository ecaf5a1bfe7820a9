//! What can go wrong with a request to this crate.

use crate::Shape;

/// An impossible network or term.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NumericsError {
    /// Not in the catalogue.
    #[error("unknown network `{name}`; `formant networks` lists what exists")]
    UnknownNetwork {
        /// What was asked for.
        name: String,
    },
    /// The image shrinks to nothing.
    #[error(
        "an input of {input} is too small for {layer}, which sees only {reached}; choose a smaller network (lenet5, mlp, logistic) or larger images"
    )]
    InputTooSmall {
        /// Shape of one sample.
        input: Shape,
        /// The layer that does not fit.
        layer: String,
        /// What reaches it.
        reached: Shape,
    },
    /// A network of convolutions, for what has neither height nor width.
    #[error(
        "network `{network}` looks for patterns in pictures, and samples of {input} (channels x height x width) are rows of {features} features; choose mlp or logistic for them",
        features = .input.channels
    )]
    NotPictures {
        /// The network.
        network: String,
        /// Shape of one sample.
        input: Shape,
    },
    /// An option that this network would ignore.
    #[error(
        "network `{network}` has no option `{option}`; remove it or choose a network that has it"
    )]
    IdleOption {
        /// The network.
        network: String,
        /// The option.
        option: &'static str,
    },
    /// A width of zero.
    #[error("network `{network}` was given a layer of width 0; widths start at 1")]
    EmptyLayer {
        /// The network.
        network: String,
    },
    /// A network that no machine can hold.
    #[error(
        "network `{network}` would have {parameters:.1e} parameters, which no machine can hold; choose smaller layers (`network.hidden`, `network.width`)"
    )]
    TooLarge {
        /// The network.
        network: String,
        /// Its parameters.
        parameters: f64,
    },
    /// A truncation ratio outside `(0, 1]`.
    #[error("truncation ratio tau = {tau} is not in (0, 1]")]
    Truncation {
        /// What was asked for.
        tau: f64,
    },
    /// A band that a narrow plan does not have.
    #[error(
        "these transforms were planned for the lowest {lowest} of the frequencies alone; plan others for other bands"
    )]
    NotPlanned {
        /// What there is.
        lowest: f64,
    },
    /// A form that needs a phase, for what has none.
    #[error(
        "form = \"complex\" compares phases, and singular values have none; choose another form (normalized, generalized, raw) or another scope (two-d, kernel, per-layer, flat)"
    )]
    NoPhase,
    /// Edges of bands that are no shares, or do not rise.
    #[error(
        "bands of frequencies end at {edges:?}, and these are not rising shares between 0 and 1; e.g. [0.1, 0.3] makes three bands"
    )]
    Edges {
        /// What was asked for.
        edges: Vec<f64>,
    },
    /// A network that this program cannot compute by itself.
    #[error(
        "network `module` is a PyTorch module ({module}), which exists in Python only; use formant.run(network=…), formant.resume(…) or Model.to_module(…) there"
    )]
    Foreign {
        /// What it is.
        module: String,
    },
    /// An engine of somebody else's has failed.
    #[error("{0}")]
    Engine(String),
    /// Training reached values that are not finite.
    #[error(
        "diverged at step {step}: {what} is not a finite number; lower the learning rate or the weight of the term"
    )]
    Diverged {
        /// Step within the phase, from 1.
        step: u64,
        /// Loss, gradient or parameters.
        what: &'static str,
    },
}
