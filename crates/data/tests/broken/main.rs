//! Every format with broken input: an error that names the file and a remedy, and never a panic, a wait
//! without end or memory that a file merely claims.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]
#![expect(unsafe_code, reason = "a global allocator that counts is an unsafe trait")]

mod bombs;
mod examples;
mod memory;
mod mutations;
mod tales;

use examples::{Example, examples, scratch};
use formant_data::{Dataset, FORMATS, Format, Reading};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// What reading a small file may take, whatever it claims. A picture may take 512 MiB, other samples 256.
const MOST_MEMORY: usize = 600 << 20;

/// Reads data; what goes wrong must be an error that names a file below `folder` and a remedy.
fn attempt(folder: &Path, path: &Path, case: &str) -> Result<Dataset, String> {
    // So that nothing valid is refused, and nothing that is merely claimed is taken.
    let reading = Reading { memory: Some(64 << 20), ..Reading::default() };
    let work = || Dataset::read(path, &reading, &mut |_, _| {});
    let (read, most) = memory::most_during(|| catch_unwind(AssertUnwindSafe(work)));
    assert!(most < MOST_MEMORY, "{case} took {} MiB", most >> 20);
    let read = read.unwrap_or_else(|_| panic!("{case} panicked"));
    read.map_err(|error| {
        let message = error.to_string();
        assert!(message.contains("hint: "), "{case}: {message}");
        assert!(message.contains(&folder.display().to_string()), "{case}: {message}");
        message
    })
}

#[test]
fn there_is_an_example_of_every_format_and_it_is_read() {
    let examples = examples();
    for example in &examples {
        let folder = scratch();
        let path = example.write(folder.path());
        assert_eq!(Format::at(&path).unwrap().name, example.format, "{}", example.name);
        let read = attempt(folder.path(), &path, example.name).unwrap();
        assert!(!read.train.is_empty() && !read.test.is_empty(), "{}", example.name);
    }
    for format in FORMATS {
        assert!(examples.iter().any(|example| example.format == format.name), "{}", format.name);
    }
}

/// An example on disk, of which one file at a time is broken.
struct Bench<'e> {
    example: &'e Example,
    folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl<'e> Bench<'e> {
    fn new(example: &'e Example) -> Self {
        let folder = scratch();
        let path = example.write(folder.path());
        Self { example, folder, path }
    }

    /// Reads the example with one file changed.
    fn with(&self, file: &str, bytes: &[u8], case: &str) -> Result<Dataset, String> {
        examples::put(self.folder.path(), file, bytes);
        let case = format!("{}, {file}, {case}", self.example.name);
        attempt(self.folder.path(), &self.path, &case)
    }

    fn restore(&self, file: &str) {
        let (_, bytes) = self.example.files.iter().find(|(name, _)| name == file).unwrap();
        examples::put(self.folder.path(), file, bytes);
    }
}
