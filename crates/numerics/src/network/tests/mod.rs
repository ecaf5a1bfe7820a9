//! Whole networks and single layers against PyTorch, against finite differences, and at the start.

mod differences;
mod digest;
mod initial;
mod layers;
mod networks;
mod recipe;
mod training;
