//! Models as files that are complete in themselves: PyTorch's tensors, and everything that is needed
//! to use them.
//!
//! ```
//! use formant_data::Normalisation;
//! use formant_model::{Card, MethodName, ModelFile, Role};
//! use formant_numerics::{NetworkSpec, Rng, Shape, Stream};
//!
//! let spec = NetworkSpec::named("logistic");
//! let network = spec.build(Shape::new(1, 2, 2), 2)?;
//! let card = Card {
//!     network: spec,
//!     input: network.input(),
//!     normalisation: vec![Normalisation::NONE],
//!     classes: vec!["even".into(), "odd".into()],
//!     dataset: "parity".into(),
//!     experiment: "example".into(),
//!     method: MethodName { label: "ditto".into(), name: "ditto".into() },
//!     role: Role::Personal { client: 3, name: None },
//!     round: 30,
//!     seed: 1,
//!     ..Card::default()
//! };
//! let model = network.init(&mut Rng::new(1, Stream::Init, 0, 0));
//! let bytes = formant_model::encode(network.layout(), &card, &model)?;
//! assert_eq!(ModelFile::from_bytes(&bytes, "memory")?, ModelFile { card, model });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod broadcast;
mod card;
mod error;
mod export;
mod file;
pub mod folder;
mod labels;
mod metrics;
mod npz;
mod onnx;
mod predict;

pub use broadcast::{BROADCAST_BESIDES, read_broadcast, seal_broadcast};
pub use card::{Card, FORMAT, MethodName, Role};
pub use error::ModelError;
pub use export::{Format, export};
pub use file::{ModelFile, encode, encoded_len, read_card};
pub use labels::{known_labels, labels};
pub use metrics::{CALIBRATION_BINS, ClassMetrics, Metrics, Mistake};
pub use predict::{BATCH, Predicted, Predictor, best, ranking};
