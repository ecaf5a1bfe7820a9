//! Reads the fixtures and compares tensors with their digests.
//!
//! A tensor agrees if `‖got − want‖ ≤ 1e-4 ‖want‖` over its stored entries, up to an absolute
//! `1e-7` per entry for tensors that are zero by symmetry; if its norm does; and if its products
//! with two vectors of the recipe do. An error vector that obeys the bound and points nowhere in
//! particular moves such a product by about its norm times the vector's root mean square (0.58),
//! so four times that is allowed: one wrong entry among the many that are not stored shows there.

use super::recipe::{sampled, values};
use crate::vector;
use safetensors::SafeTensors;
use std::collections::BTreeMap;

/// The largest relative error of a tensor.
pub(super) const RELATIVE: f64 = 1e-4;
/// Per entry, for tensors that are zero by symmetry.
const ABSOLUTE: f64 = 1e-7;

/// One file of reference values.
pub(super) struct Fixture {
    bytes: Vec<u8>,
    described: BTreeMap<String, String>,
}

impl Fixture {
    pub(super) fn open(name: &str) -> Self {
        let path = format!("{}/tests/fixtures/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let lines = &metadata.metadata().as_ref().unwrap()["lines"];
        let described = lines
            .lines()
            .map(|line| line.split_once(" = ").unwrap())
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        Self { bytes, described }
    }

    /// A line of the metadata.
    pub(super) fn line(&self, key: &str) -> &str {
        &self.described[key]
    }

    /// The names of all cases: the lines that are not about another line.
    pub(super) fn cases(&self) -> Vec<&str> {
        self.described.keys().filter(|k| !k.contains('.')).map(String::as_str).collect()
    }

    fn floats(&self, key: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(key).unwrap_or_else(|e| panic!("{key}: {e}"));
        let (words, rest) = tensor.data().as_chunks::<4>();
        assert!(rest.is_empty());
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    /// Compares a group of tensors with its digest; returns the largest relative error.
    pub(super) fn compare(&self, group: &str, members: &[Member], samples: usize) -> f64 {
        let count = self.floats(&format!("{group}.norm")).len();
        assert_eq!(count, members.len(), "{group}: number of tensors");
        self.compare_first(group, members, samples)
    }

    /// Compares the first tensors of a group.
    pub(super) fn compare_first(&self, group: &str, members: &[Member], samples: usize) -> f64 {
        let stored = self.floats(&format!("{group}.sample"));
        let norms = self.floats(&format!("{group}.norm"));
        let dots = self.floats(&format!("{group}.dots"));
        let (mut from, mut worst) = (0, 0.0f64);
        for (i, member) in members.iter().enumerate() {
            let Member { name, values: got, floor } = member;
            let picked: Vec<f32> = sampled(got.len(), samples).map(|at| got[at]).collect();
            let want = &stored[from..from + picked.len()];
            from += picked.len();
            let norm = f64::from(norms[i]);
            let absolute = |entries: usize| (ABSOLUTE + floor) * (entries as f64).sqrt();
            let check = |what: &str, error: f64, scale: f64, entries: usize| {
                let bound = RELATIVE * scale + absolute(entries);
                assert!(
                    error <= bound,
                    "{group}: {what} of {name} is off by {error:e} > {bound:e}"
                );
                if scale > 100.0 * absolute(entries) { error / scale } else { 0.0 }
            };
            let scale = vector::norm(want);
            let error = vector::distance_squared(&picked, want).sqrt();
            worst = worst.max(check("the sample", error, scale, want.len()));
            let error = (vector::norm(got) - norm).abs();
            worst = worst.max(check("the norm", error, norm, got.len()));
            for k in 0..2 {
                let along = vector::dot(got, &values(&format!("{name}.dot{k}"), got.len()));
                let error = (along - f64::from(dots[2 * i + k])).abs() / (4.0 * 0.58);
                check("a product", error, norm, got.len());
            }
        }
        if norms.len() == members.len() {
            assert_eq!(from, stored.len(), "{group}: number of entries");
        }
        worst
    }
}

/// One tensor to compare.
pub(super) struct Member {
    name: String,
    values: Vec<f32>,
    /// What rounding may do to an entry in addition to the relative bound.
    floor: f64,
}

impl Member {
    pub(super) fn new(name: &str, values: &[f32]) -> Self {
        Self { name: name.into(), values: values.to_vec(), floor: 0.0 }
    }

    /// The change of a value: it carries the rounding of the value, however small it is itself.
    pub(super) fn change(name: &str, before: &[f32], after: &[f32]) -> Self {
        let peak = before.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
        Self {
            name: name.into(),
            values: after.iter().zip(before).map(|(a, b)| a - b).collect(),
            floor: f64::from(peak * f32::EPSILON),
        }
    }
}
