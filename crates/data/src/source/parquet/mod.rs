//! Parquet: tables, and pictures as Hugging Face keeps them; one file, or a folder of shards.

mod column;
mod file;
mod pictures;
mod thrift;

use super::format::{Format, Parts};
use super::sight::Sight;
use super::table::{Cell, Pass, Table, files_of, parts, source};
use super::{Source, SourceOptions, refusal};
use crate::{DataError, Split};
use column::{BATCH, Column, Kind, Value};
use file::Shard;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "Parquet";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    summary: "a .parquet file of rows, or of pictures as Hugging Face keeps them",
    is_it: |sight| sight.kind() == Some(super::Kind::Parquet),
    open: |sight, options| open_parts(std::slice::from_ref(&sight.path), &[], options),
};

pub(crate) const FOLDER_FORMAT: Format = Format {
    name: "Parquet folder",
    summary: "train-*.parquet, and test-*.parquet or validation-*.parquet, there or in its folder data",
    is_it: is_folder,
    open: |sight, options| {
        let (folder, files) = shards(sight);
        let of = |split| joined(&folder, &files_of(&files, split, is_named_so));
        let (train, mut test) = (of(Split::Train), of(Split::Test));
        if test.is_empty() {
            test = of(Split::Validation);
        }
        match (train.is_empty(), test.is_empty()) {
            (false, _) => open_parts(&train, &test, options),
            // Without words for parts, all of them are for training.
            (true, true) => open_parts(&joined(&folder, &files), &[], options),
            (true, false) => Err(refusal(
                folder.display(),
                "it has shards to test on, and none that begins with train".into(),
                "call the shards to train on train-….parquet",
            )),
        }
    },
};

fn is_named_so(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet"))
}

fn joined(folder: &Path, names: &[impl AsRef<str>]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name.as_ref())).collect()
}

/// The shards of a folder, or of the folder `data` in it.
fn shards(sight: &Sight) -> (PathBuf, Vec<String>) {
    let of = |sight: &Sight| {
        let names = sight.entries.iter().filter(|name| is_named_so(name));
        names.cloned().collect::<Vec<_>>()
    };
    let own = of(sight);
    if own.is_empty() && sight.holds("data/") {
        let folder = sight.path.join("data");
        let found = Sight::of(&folder).map(|sight| of(&sight)).unwrap_or_default();
        return (folder, found);
    }
    (sight.path.clone(), own)
}

/// Whether a folder has shards.
pub(crate) fn is_folder(sight: &Sight) -> bool {
    sight.is_folder() && !shards(sight).1.is_empty()
}

/// Opens a file, or the part of a folder that is wanted.
pub(crate) fn open(sight: &Sight, options: &SourceOptions) -> Result<Source, DataError> {
    if !sight.is_folder() {
        return open_files(std::slice::from_ref(&sight.path), options);
    }
    let (folder, files) = shards(sight);
    let known = [Split::Train, Split::Validation, Split::Test];
    let has_parts = known.iter().any(|split| !files_of(&files, *split, is_named_so).is_empty());
    if !has_parts || options.split == Split::All {
        return open_files(&joined(&folder, &files), options);
    }
    let chosen = files_of(&files, options.split, is_named_so);
    if chosen.is_empty() {
        return Err(refusal(
            folder.display(),
            format!("it has no shard of the part {:?}: {}", options.split, files.join(", ")),
            "choose another part with --split, or name a file",
        ));
    }
    open_files(&joined(&folder, &chosen), options)
}

fn open_files(paths: &[PathBuf], options: &SourceOptions) -> Result<Source, DataError> {
    let shards = Shards::open(paths)?;
    match shards.pictures() {
        Some(pictures) => pictures::source(shards, pictures, options),
        None => source(Arc::new(shards), NAME, options),
    }
}

fn open_parts(
    train: &[PathBuf],
    test: &[PathBuf],
    options: &SourceOptions,
) -> Result<Parts, DataError> {
    let first = Shards::open(train)?;
    if let Some(pictures) = first.pictures() {
        let train = pictures::source(first, pictures, options)?;
        let options = SourceOptions { client: None, ..options.clone() };
        let test = (!test.is_empty()).then(|| open_files(test, &options)).transpose()?;
        return Ok(Parts { train, test });
    }
    let test = (!test.is_empty()).then(|| Shards::open(test)).transpose()?;
    parts(Arc::new(first), test.map(|test| Arc::new(test) as Arc<dyn Table>), NAME, options)
}

/// Files with the same columns, one after the other.
struct Shards {
    files: Vec<Arc<Shard>>,
    names: Vec<String>,
}

impl Shards {
    fn open(paths: &[PathBuf]) -> Result<Self, DataError> {
        let files = paths.iter().map(|path| Shard::open(path).map(Arc::new));
        let files: Vec<Arc<Shard>> = files.collect::<Result<_, _>>()?;
        let names = files.first().map_or_else(Vec::new, |shard| {
            let fields = shard.metadata().file_metadata().schema().get_fields();
            fields.iter().map(|field| field.name().to_owned()).collect()
        });
        let rows = files.iter().fold(0_u64, |rows, shard| rows.saturating_add(shard.rows));
        let shards = Self { files, names };
        if u32::try_from(rows).is_err() {
            let found = format!("it has {rows} rows");
            return Err(refusal(shards.origin(), found, "give at most 4294967295 rows"));
        }
        Ok(shards)
    }

    /// Where a column is in a file, and what it is.
    fn leaf(shard: &Shard, name: &str) -> Result<(usize, Kind), DataError> {
        let schema = shard.metadata().file_metadata().schema_descr();
        let leaves = || schema.columns().iter().enumerate();
        let own = leaves().find(|(_, leaf)| leaf.path().parts() == [name]);
        let kind = match own {
            Some((_, leaf)) => Kind::of(leaf),
            None if leaves()
                .any(|(_, leaf)| leaf.path().parts().first().is_some_and(|p| p == name)) =>
            {
                Err("a structure".into())
            }
            None => {
                return Err(refusal(
                    shard.path.display(),
                    format!("it has no column {name:?}, which other files have"),
                    "give all files the same columns",
                ));
            }
        };
        match (own, kind) {
            (Some((place, _)), Ok(kind)) => Ok((place, kind)),
            (_, kind) => Err(refusal(
                shard.path.display(),
                format!(
                    "the column {name:?} is {}, which is not read",
                    kind.err().unwrap_or_default()
                ),
                &format!(
                    "leave it out (data.exclude = [{name:?}]), or store it as numbers or text"
                ),
            )),
        }
    }

    /// The column of pictures, if there is one: a structure with the bytes of a file.
    fn pictures(&self) -> Option<&'static str> {
        let schema = self.files.first()?.metadata().file_metadata().schema_descr();
        ["image", "img"].into_iter().find(|name| {
            schema
                .columns()
                .iter()
                .any(|leaf| leaf.path().parts() == [*name, "bytes"] && leaf.max_rep_level() == 0)
        })
    }

    /// What Hugging Face's library writes about a column.
    fn feature(&self, name: &str) -> Option<Json> {
        let entries = self.files.first()?.metadata().file_metadata().key_value_metadata()?;
        let entry = entries.iter().find(|entry| entry.key == "huggingface")?;
        let json: Json = serde_json::from_str(entry.value.as_deref()?).ok()?;
        json.get("info")?.get("features")?.get(name).cloned()
    }
}

impl Table for Shards {
    fn origin(&self) -> String {
        match self.files.as_slice() {
            [only] => only.path.display().to_string(),
            files => {
                let folder = files.first().and_then(|shard| shard.path.parent());
                folder.map_or(String::new(), |folder| folder.display().to_string())
            }
        }
    }

    fn columns(&self) -> &[String] {
        &self.names
    }

    fn check(&self, column: usize) -> Result<(), DataError> {
        self.files.iter().try_for_each(|shard| Self::leaf(shard, &self.names[column]).map(|_| ()))
    }

    fn class_names(&self, column: usize) -> Option<Vec<String>> {
        let feature = self.feature(&self.names[column])?;
        let text = |name: &Json| name.as_str().map(ToOwned::to_owned);
        match feature.get("names")? {
            Json::Array(names) => names.iter().map(text).collect(),
            // In YAML, classes are numbered with keys.
            Json::Object(names) => {
                (0..names.len()).map(|class| names.get(&class.to_string()).and_then(text)).collect()
            }
            _ => None,
        }
        .filter(|names: &Vec<String>| !names.is_empty())
    }

    fn pass(&self, wanted: &[usize]) -> Result<Box<dyn Pass>, DataError> {
        let mut files = Vec::new();
        for shard in &self.files {
            let leaves = wanted.iter().map(|&column| Self::leaf(shard, &self.names[column]));
            files.push((shard.clone(), leaves.collect::<Result<Vec<_>, _>>()?));
        }
        let names = wanted.iter().map(|&column| self.names[column].clone()).collect();
        Ok(Box::new(Rows { groups: Groups::new(files), names }))
    }
}

/// A file, and which of its columns are wanted.
type Wanted = (Arc<Shard>, Vec<(usize, Kind)>);

/// A place in several files: all rows of all groups, batch by batch.
struct Groups {
    files: Vec<Wanted>,
    file: usize,
    group: usize,
    columns: Vec<Column>,
    /// Rows of the group that no batch has had, and of the batch that are left.
    unread: usize,
    batch: usize,
    /// The next row in the batch, and the rows of the file that were given out.
    row: usize,
    done: u64,
}

impl Groups {
    fn new(files: Vec<Wanted>) -> Self {
        Self { files, file: 0, group: 0, columns: Vec::new(), unread: 0, batch: 0, row: 0, done: 0 }
    }

    /// Goes to the next row; gives its place in the batch.
    fn step(&mut self) -> Result<Option<usize>, DataError> {
        while self.row == self.batch {
            if self.unread > 0 {
                self.batch = self.unread.min(BATCH);
                self.unread -= self.batch;
                self.row = 0;
                for column in &mut self.columns {
                    column.fill(self.batch)?;
                }
                continue;
            }
            let Some((shard, wanted)) = self.files.get(self.file) else { return Ok(None) };
            let Some(group) = shard.metadata().row_groups().get(self.group) else {
                if self.file + 1 == self.files.len() {
                    return Ok(None);
                }
                (self.file, self.group, self.done) = (self.file + 1, 0, 0);
                continue;
            };
            self.unread = usize::try_from(group.num_rows()).unwrap_or(0);
            let open =
                |&(column, kind): &(usize, Kind)| Column::open(shard, self.group, column, kind);
            self.columns = wanted.iter().map(open).collect::<Result<_, _>>()?;
            self.group += 1;
        }
        self.row += 1;
        self.done += 1;
        Ok(Some(self.row - 1))
    }

    fn place(&self) -> String {
        let path = self.files.get(self.file).map(|(shard, _)| shard.path.display().to_string());
        format!("{}:{}", path.unwrap_or_default(), self.done)
    }
}

/// The cells of rows.
struct Rows {
    groups: Groups,
    names: Vec<String>,
}

impl Pass for Rows {
    fn next(&mut self, take: &mut dyn FnMut(usize, Cell<'_>)) -> Result<bool, DataError> {
        let Some(row) = self.groups.step()? else { return Ok(false) };
        let place = self.groups.place();
        for (nth, (column, name)) in self.groups.columns.iter_mut().zip(&self.names).enumerate() {
            let cell = match column.value(row) {
                None => Cell::Missing,
                Some(Value::Number(number)) if number.is_nan() => Cell::Missing,
                Some(Value::Number(number)) if number.is_finite() => Cell::Number(number),
                Some(Value::Number(number)) => {
                    return Err(refusal(
                        place,
                        format!("{number} in the column {name:?} is not a number that can be used"),
                        "correct the value, or leave it empty if it is not known",
                    ));
                }
                Some(Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(text) => Cell::of(text),
                    Err(_) => {
                        return Err(refusal(
                            place,
                            format!("the column {name:?} is not UTF-8 text"),
                            &format!(
                                "leave it out (data.exclude = [{name:?}]), or store it as text"
                            ),
                        ));
                    }
                },
            };
            take(nth, cell);
        }
        Ok(true)
    }

    fn place(&self) -> String {
        self.groups.place()
    }
}
