//! Any bytes as a .parquet file: an error or samples, never a panic.

#![no_main]

use formant_data::{Dataset, Reading};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(dir) = tempfile::tempdir() else { return };
    let path = dir.path().join("rows.parquet");
    if std::fs::write(&path, bytes).is_ok() {
        let _ = Dataset::read(&path, &Reading::default(), &mut |_, _| {});
    }
});
