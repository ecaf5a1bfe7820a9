//! Pictures in a column of a Parquet file, each as the bytes of a PNG or JPEG file.

use super::super::fit::{Suitable, suitable};
use super::super::image_file::{check_picture, decode_bytes, extents_of, fitted, in_parallel};
use super::super::table::survey::{Survey, Wish, survey};
use super::super::{Chunk, Content, Names, Reader, Source, SourceOptions, Wanted, refusal};
use super::column::{Kind, Value};
use super::file::Shard;
use super::{Groups, Shards, Table};
use crate::DataError;
use formant_numerics::{Shape, Size};
use std::sync::Arc;

/// Pictures that are looked at to find a size that suits them.
const LOOKED_AT: usize = 256;
/// Pictures that are held in memory as they are in the file, at most.
const HELD: usize = 256;

/// A source of the pictures in a column.
pub(super) fn source(
    shards: Shards,
    column: &'static str,
    options: &SourceOptions,
) -> Result<Source, DataError> {
    let Survey { len, labels, class_names, owners, .. } = survey(&shards, options, Wish::Labels)?;
    let origin = shards.origin();
    let pictures = Pictures { files: shards.files, column, skip_bad: options.skip_bad };
    let source = Source::new(origin, "Parquet of pictures", len, labels, pictures);
    Ok(Source { class_names, owners, names: Names::Rows, ..source })
}

struct Pictures {
    files: Vec<Arc<Shard>>,
    column: &'static str,
    skip_bad: bool,
}

impl Pictures {
    fn groups(&self) -> Result<Groups, DataError> {
        let mut files = Vec::new();
        for shard in &self.files {
            let schema = shard.metadata().file_metadata().schema_descr();
            let wanted = [self.column, "bytes"];
            let place = schema.columns().iter().position(|leaf| leaf.path().parts() == wanted);
            let place = place.ok_or_else(|| {
                refusal(
                    shard.path.display(),
                    format!(
                        "it has no pictures in a column {:?}, which other files have",
                        self.column
                    ),
                    "give all files the same columns",
                )
            })?;
            files.push((shard.clone(), vec![(place, Kind::Text)]));
        }
        Ok(Groups::new(files))
    }
}

impl Content for Pictures {
    fn reader(&self, wanted: Wanted, threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let place = self.files.first().map_or(String::new(), |f| f.path.display().to_string());
        check_picture(wanted, &place)?;
        let (groups, skip_bad) = (self.groups()?, self.skip_bad);
        Ok(Box::new(Decoder { groups, skip_bad, shape: wanted.shape, threads, next: 0 }))
    }

    fn suitable(&self, size: Option<Size>) -> Result<Option<Suitable>, DataError> {
        let (mut groups, mut seen) = (self.groups()?, Vec::new());
        while let Some(picture) = groups.picture()? {
            match picture.and_then(|(place, bytes)| extents_of(&bytes, &place)) {
                Ok(found) => seen.push(found),
                Err(_) if self.skip_bad => {}
                Err(error) => return Err(error),
            }
            if seen.len() == LOOKED_AT {
                break;
            }
        }
        Ok(suitable(&seen, size))
    }
}

type Picture = Result<(String, Vec<u8>), DataError>;

impl Groups {
    /// The next picture's place and bytes; nothing after the last row.
    fn picture(&mut self) -> Result<Option<Picture>, DataError> {
        let Some(row) = self.step()? else { return Ok(None) };
        let place = self.place();
        Ok(Some(match self.columns.first_mut().and_then(|column| column.value(row)) {
            Some(Value::Bytes(bytes)) => Ok((place, bytes.to_vec())),
            _ => Err(refusal(
                place,
                "the row has no picture, or one that is in another file".into(),
                "store the pictures in the file, in Python dataset.cast_column(\"image\", Image()).to_parquet(file)",
            )),
        }))
    }
}

struct Decoder {
    groups: Groups,
    skip_bad: bool,
    shape: Shape,
    threads: usize,
    next: usize,
}

impl Reader for Decoder {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let mut left = most;
        while left > 0 {
            let mut held = Vec::new();
            while held.len() < left.min(HELD) {
                let Some(picture) = self.groups.picture()? else {
                    return Err(refusal(
                        self.groups.place(),
                        "it has fewer rows than it had when it was opened".into(),
                        "leave the file alone while it is read",
                    ));
                };
                held.push(picture);
            }
            left -= held.len();
            let shape = self.shape;
            let decoded = in_parallel(&held, self.threads, &|picture: &Picture| match picture {
                Ok((place, bytes)) => Ok(fitted(decode_bytes(bytes, place)?, shape)),
                // Said below, where it can be moved.
                Err(_) => Ok((Vec::new(), super::super::Fitting::default())),
            });
            for (picture, decoded) in held.into_iter().zip(decoded) {
                match picture.and(decoded) {
                    Ok((pixels, fitting)) => {
                        chunk.pixels.extend_from_slice(&pixels);
                        chunk.indices.push(self.next);
                        chunk.fitting.add(&fitting);
                    }
                    Err(error) if self.skip_bad => chunk.skipped.push(error),
                    Err(error) => return Err(error),
                }
                self.next += 1;
            }
        }
        Ok(())
    }
}
