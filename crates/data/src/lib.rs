//! Datasets, and their division among the clients of a federation.
//!
//! [`Dataset::load`] reads a set of the [`CATALOGUE`] by name; `mnist-small` is part of the library
//! and needs no files. [`Federation::new`] divides its training images among clients as a
//! [`PartitionPlan`] says and splits every client's share into train, validation and test. The
//! dataset's own test images never reach a client: they are the global test set.
//!
//! ```
//! use formant_data::{Dataset, Federation, Partition, PartitionPlan, Repair, Split, show};
//! use std::sync::Arc;
//!
//! let dataset = Arc::new(Dataset::load("mnist-small", None)?);
//! let plan = PartitionPlan {
//!     clients: Some(8),
//!     partition: Partition::Dirichlet { alpha: 0.3 },
//!     part: None,
//!     samples: Some(1_000),
//!     min_samples: 20,
//!     repair: Repair::Move,
//!     train_fraction: 0.6,
//!     validation_fraction: 0.2,
//!     seed: 1,
//! };
//! let federation = Federation::new(dataset, &plan)?;
//! let held: usize = (0..8).map(|c| federation.clients[c].size(Split::All)).sum();
//! assert_eq!(held, 1_000);
//! println!("{}", show::table(&federation));
//! # Ok::<(), formant_data::DataError>(())
//! ```
//!
//! Everything is a pure function of the files and the seed: the same plan gives the same clients on
//! every machine.

mod apportionment;
mod archive;
mod catalogue;
mod cifar;
mod dataset;
mod description;
mod division_file;
mod embedded;
mod error;
mod feature_skew;
mod federation;
mod floats;
mod folder;
mod glance;
mod heterogeneity;
mod holding;
mod idx;
mod images;
mod label_skew;
mod lent;
mod mapped;
mod natural;
mod own;
mod partition;
mod pickle;
mod reading;
mod redraw;
mod repair;
mod sample_part;
mod schema;
mod share;
pub mod show;
mod size_skew;
mod source;
mod split;
mod statistics;
mod store;

pub use catalogue::{CATALOGUE, CatalogueEntry, description};
pub use dataset::{Dataset, Owners};
pub use description::{Description, Values};
pub use division_file::division_hash;
pub use error::DataError;
pub use feature_skew::Skew;
pub use federation::{ClientData, Federation, Newcomers, Split};
pub use floats::Floats;
pub use folder::data_dir;
pub use formant_numerics::{Normalisation, Samples};
pub use glance::Glance;
pub use images::{Images, Unlabelled};
pub use lent::{Lent, LentDataset, LentSamples};
pub use mapped::{EXTENSION, Imported, check, import};
pub use own::OwnSplit;
pub use partition::{Partition, PartitionPlan, Repair};
pub use reading::{Progress, Reading, TEST_FRACTION};
pub use repair::Repaired;
pub use sample_part::SamplePart;
pub use schema::{Column, Schema};
pub use share::{Portion, Share};
pub use source::{Chunk, FORMATS, Fitting, Format, Parts, Source, SourceOptions, Stream, Wanted};
