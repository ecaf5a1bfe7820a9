//! What all targets have in common. For data, one file of a valid example is replaced by the fuzzer's bytes, and the
//! example is read as a user would; everything else is a function of bytes. Nothing may panic, and an error names a
//! remedy.

#[path = "../../crates/data/tests/broken/examples.rs"]
#[allow(dead_code, reason = "some of it is for the tests alone")]
mod examples;

use formant_data::{Dataset, Reading};
use formant_network::fuzzing;
use formant_report::RunLog;
use std::cell::OnceCell;
use std::path::PathBuf;
use tempfile::TempDir;

/// The targets: the example, and the file of it that is replaced.
pub const TARGETS: [(&str, &str, &str); 15] = [
    ("pickle", "CIFAR-10, Python", "data_batch_1"),
    ("pickle_names", "CIFAR-10, Python", "batches.meta"),
    ("cifar_binary", "CIFAR-10, binary", "test_batch.bin"),
    ("tar", "CIFAR-100, archive without gzip", "cifar-100.tar"),
    ("tar_gz", "CIFAR-10, archive", "cifar-10-python.tar.gz"),
    ("idx", "IDX", "a-images-idx3-ubyte"),
    ("idx_labels", "IDX", "a-labels-idx1-ubyte"),
    ("npy", "NumPy array", "x.npy"),
    ("npz", "NumPy archive, stored", "a.npz"),
    ("share", "share", "a.safetensors"),
    ("png", "image folder", "cats/0.png"),
    ("jpeg", "image folder", "cats/1.jpg"),
    ("webp", "image folder", "dogs/0.webp"),
    ("inaturalist", "iNaturalist", "train2017.json"),
    ("leaf", "LEAF", "train/b.json"),
];

struct Bench {
    folder: TempDir,
    path: PathBuf,
    file: &'static str,
}

thread_local! {
    static BENCH: OnceCell<Bench> = const { OnceCell::new() };
}

/// Reads a target's example with its file replaced.
pub fn feed(target: &str, bytes: &[u8]) {
    BENCH.with(|bench| {
        let bench = bench.get_or_init(|| {
            let (_, name, file) = *TARGETS.iter().find(|(name, ..)| *name == target).unwrap();
            let folder = examples::scratch();
            let all = examples::examples();
            let path = all.iter().find(|e| e.name == name).unwrap().write(folder.path());
            Bench { folder, path, file }
        });
        examples::put(bench.folder.path(), bench.file, bytes);
        let reading = Reading { memory: Some(64 << 20), ..Reading::default() };
        if let Err(error) = Dataset::read(&bench.path, &reading, &mut |_, _| {}) {
            assert!(error.to_string().contains("hint: "), "{error}");
        }
    });
}

/// The file of a target as it is when nothing is wrong with it: what a fuzzer begins with.
pub fn seed(target: &str) -> Vec<u8> {
    let (_, name, file) = *TARGETS.iter().find(|(name, ..)| *name == target).unwrap();
    let example = examples::examples().into_iter().find(|e| e.name == name).unwrap();
    example.files.into_iter().find(|(name, _)| name == file).unwrap().1
}

/// The decoders that are functions of bytes.
pub fn decoders() -> impl Iterator<Item = &'static str> {
    fuzzing::TARGETS.iter().map(|target| target.name).chain(["event_log"])
}

/// Decodes bytes.
pub fn decode(decoder: &str, bytes: &[u8]) {
    match fuzzing::TARGETS.iter().find(|target| target.name == decoder) {
        Some(target) => (target.feed)(bytes),
        None => drop(RunLog::from_reader("events.jsonl".as_ref(), bytes)),
    }
}

/// Some bytes that a decoder accepts, beside those in `seeds/`.
pub fn accepted(decoder: &str) -> Vec<Vec<u8>> {
    let target = fuzzing::TARGETS.iter().find(|target| target.name == decoder);
    target.map_or_else(Vec::new, |target| (target.seeds)())
}
