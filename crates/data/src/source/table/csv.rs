//! Comma-separated values: a header and rows, plain or compressed with gzip.

use super::super::array::opened;
use super::super::format::Format;
use super::super::sight::Sight;
use super::super::{Source, SourceOptions, refusal};
use super::{Cell, Pass, Table, files_of, parts, source};
use crate::{DataError, Split};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::io::{Error, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest row: a quote that is never closed would take in the rest of the file.
const MOST_ROW: usize = 16 << 20;
/// What separates the fields of a row.
const DELIMITERS: [u8; 4] = *b",;\t|";
const NAME: &str = "CSV";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    summary: "rows with a header, separated by commas, semicolons or tabs: .csv or .tsv, plain or .gz",
    is_it: |sight| sight.kind() == Some(super::super::Kind::Csv),
    open: |sight, options| parts(table(&sight.path)?, None, NAME, options),
};

pub(crate) const FOLDER_FORMAT: Format = Format {
    name: "CSV folder",
    summary: "train.csv, and test.csv or val.csv for the test set",
    is_it: is_folder,
    open: |sight, options| {
        let part = |split| only(sight, split).map(|path| path.map(|path| table(&path)).transpose());
        let train = part(Split::Train)??;
        let test = match part(Split::Test)?? {
            Some(test) => Some(test),
            None => part(Split::Validation)??,
        };
        match train {
            Some(train) => parts(train, test, NAME, options),
            None => Err(sight.unknown()),
        }
    },
};

/// Whether a folder has a file of rows to train on.
pub(crate) fn is_folder(sight: &Sight) -> bool {
    sight.is_folder() && !files_of(&sight.entries, Split::Train, is_named_so).is_empty()
}

fn is_named_so(name: &str) -> bool {
    let name = Path::new(name.strip_suffix(".gz").unwrap_or(name));
    let is = |end: &str| name.extension().is_some_and(|own| own.eq_ignore_ascii_case(end));
    is("csv") || is("tsv")
}

/// The file of a part.
fn only(sight: &Sight, split: Split) -> Result<Option<PathBuf>, DataError> {
    match files_of(&sight.entries, split, is_named_so)[..] {
        [] => Ok(None),
        [name] => Ok(Some(sight.path.join(name))),
        [first, second, ..] => Err(refusal(
            sight.path.display(),
            format!("{first} and {second} are the same part"),
            "put the rows of each part into one file",
        )),
    }
}

/// Opens one file, or the part of a folder that is wanted.
pub(crate) fn open(sight: &Sight, options: &SourceOptions) -> Result<Source, DataError> {
    if !sight.is_folder() {
        return source(table(&sight.path)?, NAME, options);
    }
    match only(sight, options.split)? {
        Some(path) => source(table(&path)?, NAME, options),
        None => Err(refusal(
            sight.path.display(),
            format!("it has no file of the part {:?}", options.split),
            "choose another part with --split, or name the file",
        )),
    }
}

fn table(path: &Path) -> Result<Arc<dyn Table>, DataError> {
    Ok(Arc::new(Csv::open(path)?))
}

/// A file of rows.
struct Csv {
    path: PathBuf,
    delimiter: u8,
    /// The columns that have a name.
    names: Vec<String>,
    /// Where they are in a row.
    places: Vec<usize>,
    /// Fields of a row.
    fields: usize,
}

impl Csv {
    /// Reads the header.
    fn open(path: &Path) -> Result<Self, DataError> {
        let delimiter = delimiter(path)?;
        let mut lines = Lines {
            reader: reader(path, delimiter)?,
            record: ByteRecord::new(),
            path: path.into(),
            fields: None,
            wanted: Vec::new(),
        };
        if !lines.read()? {
            return Err(refusal(
                path.display(),
                "it has no header".into(),
                "give a table with rows",
            ));
        }
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (place, name) in lines.record.iter().enumerate() {
            let name = lines.text(name, "header")?.trim();
            // pandas writes the numbers of rows into a column without a name.
            if !name.is_empty() {
                names.push(name.to_owned());
                places.push(place);
            }
        }
        if names.is_empty() {
            let found = "its first line names no column".into();
            return Err(refusal(path.display(), found, "begin it with the names of the columns"));
        }
        let fields = lines.record.len();
        Ok(Self { path: path.into(), delimiter, names, places, fields })
    }
}

/// What separates the fields, by the first line.
fn delimiter(path: &Path) -> Result<u8, DataError> {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut quoted = false;
    let sight = Sight::of(path)?;
    for byte in sight.start {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted && counts != [0; DELIMITERS.len()] => break,
            byte if !quoted => {
                if let Some(place) = DELIMITERS.iter().position(|delimiter| *delimiter == byte) {
                    counts[place] += 1;
                }
            }
            _ => {}
        }
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    // Of equals the first.
    let place = counts.iter().position(|count| *count == most).unwrap_or(0);
    Ok(DELIMITERS[place])
}

fn reader(path: &Path, delimiter: u8) -> Result<Reader<Bounded>, DataError> {
    let stream = Bounded { stream: opened(path)?, left: MOST_ROW };
    let mut builder = ReaderBuilder::new();
    // Rows of the wrong length are told by what this file says of them.
    Ok(builder.delimiter(delimiter).has_headers(false).flexible(true).from_reader(stream))
}

/// A stream that gives no more than a row may have.
struct Bounded {
    stream: Box<dyn Read + Send>,
    left: usize,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(Error::other("a row has more than 16 MiB: is a quote never closed?"));
        }
        let most = out.len().min(self.left);
        let count = self.stream.read(&mut out[..most])?;
        self.left -= count;
        Ok(count)
    }
}

impl Table for Csv {
    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    fn columns(&self) -> &[String] {
        &self.names
    }

    fn pass(&self, wanted: &[usize]) -> Result<Box<dyn Pass>, DataError> {
        let wanted = wanted.iter().map(|&c| (self.places[c], self.names[c].clone())).collect();
        let mut lines = Lines {
            reader: reader(&self.path, self.delimiter)?,
            record: ByteRecord::new(),
            path: self.path.clone(),
            fields: Some(self.fields),
            wanted,
        };
        lines.read()?;
        Ok(Box::new(lines))
    }
}

/// Reads a file line by line.
struct Lines {
    reader: Reader<Bounded>,
    record: ByteRecord,
    path: PathBuf,
    /// Fields of every row, if that is known.
    fields: Option<usize>,
    /// Places in a row, and the names of the columns.
    wanted: Vec<(usize, String)>,
}

impl Lines {
    /// Reads the next row; false at the end.
    fn read(&mut self) -> Result<bool, DataError> {
        self.reader.get_mut().left = MOST_ROW;
        let line = self.reader.position().line();
        let read = self.reader.read_byte_record(&mut self.record);
        let more = read.map_err(|error| {
            refusal(
                format!("{}:{line}", self.path.display()),
                format!("it cannot be read on ({error})"),
                "take another copy of the file, or look for a quote that is not closed",
            )
        })?;
        let (has, wants) = (self.record.len(), self.fields.unwrap_or(self.record.len()));
        if more && has != wants {
            return Err(refusal(
                self.place(),
                format!("the row has {has} fields, and the header has {wants}"),
                "give every row as many fields, and put those with a separator in them in quotes",
            ));
        }
        Ok(more)
    }

    fn text<'r>(&self, field: &'r [u8], column: &str) -> Result<&'r str, DataError> {
        std::str::from_utf8(field).map_err(|_| {
            let found = format!("the column {column:?} is not UTF-8 text");
            refusal(self.place(), found, "save the file as UTF-8")
        })
    }
}

impl Pass for Lines {
    fn next(&mut self, take: &mut dyn FnMut(usize, Cell<'_>)) -> Result<bool, DataError> {
        if !self.read()? {
            return Ok(false);
        }
        for (nth, (place, name)) in self.wanted.iter().enumerate() {
            let field = self.record.get(*place).unwrap_or_default();
            let text = self.text(field, name)?;
            take(nth, Cell::of(text));
        }
        Ok(true)
    }

    fn place(&self) -> String {
        let line = self.record.position().map_or(0, csv::Position::line);
        format!("{}:{line}", self.path.display())
    }
}
