//! Drivers of federated training: the parallel simulator, client stores, checkpoints, recorder.

pub mod event;
