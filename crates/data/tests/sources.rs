//! Images that users bring, in files of the real formats.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

#[path = "sources/arrays.rs"]
mod arrays;
#[path = "sources/parquet.rs"]
mod parquet;
#[path = "sources/pictures.rs"]
mod pictures;
#[path = "sources/tables.rs"]
mod tables;

use formant_data::{Chunk, DataError, Source, SourceOptions, Wanted};
use formant_numerics::Shape;
use std::path::Path;

fn open(path: &Path) -> Result<Source, DataError> {
    Source::open(path, &SourceOptions::default())
}

/// All pixels of a source in a shape.
fn read(source: &Source, shape: Shape) -> Result<Chunk, DataError> {
    let mut all = Chunk::default();
    let mut stream = source.stream(Wanted::pixels(shape), 3)?;
    // Small chunks, so that there are several.
    while let Some(chunk) = stream.next(2) {
        let chunk = chunk?;
        all.indices.extend(chunk.indices);
        all.pixels.extend(chunk.pixels);
        all.fitting.add(&chunk.fitting);
        all.skipped.extend(chunk.skipped);
    }
    Ok(all)
}

/// What opening and reading a file says; it must fail, with a remedy.
fn refused(path: &Path, shape: Shape) -> String {
    refused_with(path, shape, &SourceOptions::default())
}

fn refused_with(path: &Path, shape: Shape, options: &SourceOptions) -> String {
    let outcome = Source::open(path, options).and_then(|source| read(&source, shape));
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("\nhint: "), "{message}");
    message
}
