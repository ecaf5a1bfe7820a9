//! Parameter vectors, their algebra and spectra; networks with hand-written gradients; SGD.
//!
//! No I/O, no clock, no threads: everything here is a pure function of its arguments.

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "clippy.toml is about the library; its tests may read files and print"
    )
)]

mod adam;
mod augment;
#[doc(hidden)]
pub mod bench;
mod confusion;
mod cpu;
mod engine;
mod error;
mod gemm;
mod head;
mod layer;
mod layout;
mod loss;
pub mod metric;
mod model;
mod network;
mod objective;
mod optimiser;
mod pulse;
mod rng;
mod samples;
mod shape;
mod spectral;
mod tally;
mod term;
pub mod vector;

pub use adam::Adam;
pub use augment::{Augmentation, Augmenter, Draw, Misfit, Selection};
pub use confusion::Confusion;
pub use cpu::{Cpu, CpuWorker};
pub use engine::{
    BatchPlan, Batches, Descent, EVALUATION_BATCH, Engine, Engines, Meter, Patience, Phase, Worker,
};
pub use error::NumericsError;
pub use head::Head;
pub use layout::{Layout, Part, Tensor};
pub use loss::{accuracy_and_loss, cross_entropy, softmax};
pub use metric::{Measures, Metric};
pub use model::{Model, floats};
#[doc(hidden)]
pub use network::LayerTime;
pub use network::{
    Batch, CATALOGUE, Convolution, Family, Graph, GraphNode, GraphOp, MODULE, Network, NetworkSpec,
    Norm, Output, OutputGradient, Pass, Stem, Tape, UnitGroup, UnitOrder, Units, Workspace,
};
pub use objective::{Criterion, Loss, Objective, Spectral, Term, Weight, Weighted};
pub use optimiser::{Memory, Moments, Optimiser, Rule};
pub use pulse::Pulse;
pub use rng::{Rng, Stream};
pub use samples::{Normalisation, Raw, Samples};
pub use shape::{Shape, Size};
pub use spectral::{
    Agreement, AgreementLens, BANDS, Band, Bands, Form, Length, Scope, SpectralBands,
    SpectralBlend, SpectralComparison, SpectralDivergence, SpectralPair, SpectralPlans,
    SpectralTerm, Spectrum, SpectrumKind,
};
pub use tally::{Detail, Tally, probabilities};
pub use term::{Differentiable, Linear, Proximal};
