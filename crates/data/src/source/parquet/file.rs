//! One Parquet file, checked before the library is asked to read it.

use super::super::refusal;
use super::thrift::walk;
use crate::DataError;
use crate::share::file_error;
use parquet::column::reader::ColumnReader;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What a page may have when it is unpacked. Writers make pages of about a megabyte; one of pictures may be larger.
const MOST_PAGE: i64 = 512 << 20;
/// The end of a file: the length of the footer and a word.
const TAIL: u64 = 8;
/// Rows that every file may claim, and for each of its bytes: equal values take next to nothing.
const MOST_ROWS: u64 = 1 << 20;
const MOST_ROWS_PER_BYTE: u64 = 64;
/// Fields of `FileMetaData` and `SchemaElement`.
const CHILDREN: [i16; 2] = [2, 5];

/// A file and what its footer says.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    reader: SerializedFileReader<File>,
    /// Where the pages end.
    end: u64,
    pub(super) rows: u64,
}

impl Shard {
    /// Reads and checks the footer.
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let io = |source| file_error("read", path, source);
        let fail = |found: String| broken(path, &found);
        let mut file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut tail = [0; TAIL as usize];
        if length < TAIL + 4 {
            return Err(fail(format!("it is truncated: it has {length} bytes")));
        }
        file.seek(SeekFrom::Start(length - TAIL)).map_err(io)?;
        file.read_exact(&mut tail).map_err(io)?;
        let [a, b, c, d, word @ ..] = tail;
        if word == *b"PARE" {
            let found = "it is encrypted".into();
            return Err(refusal(path.display(), found, "write it without encryption"));
        }
        if word != *b"PAR1" {
            return Err(fail("it is truncated: it does not end like a Parquet file".into()));
        }
        let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
        let Some(end) = length.checked_sub(TAIL + footer).filter(|end| *end >= 4) else {
            return Err(fail(format!("its footer claims {footer} of its {length} bytes")));
        };
        file.seek(SeekFrom::Start(end)).map_err(io)?;
        let check = &mut |path: &[i16], number: i64| {
            // A node of the schema cannot have more children than the footer has bytes.
            if *path == CHILDREN && !(0..=footer as i64).contains(&number) {
                return Err(format!("a column claims {number} children"));
            }
            Ok(())
        };
        walk(BufReader::new(&file), footer, check).map_err(&fail)?;
        let reader = guarded(path, || SerializedFileReader::new(file))?;
        let mut shard = Self { path: path.into(), reader, end, rows: 0 };
        shard.rows = shard.counted(length)?;
        Ok(shard)
    }

    /// What the footer says.
    pub(super) fn metadata(&self) -> &ParquetMetaData {
        self.reader.metadata()
    }

    /// Number of rows; an error unless all groups are within the file.
    fn counted(&self, length: u64) -> Result<u64, DataError> {
        let mut rows = 0_u64;
        for (nth, group) in self.metadata().row_groups().iter().enumerate() {
            let own = u64::try_from(group.num_rows()).map_err(|_| {
                broken(&self.path, &format!("row group {nth} claims {} rows", group.num_rows()))
            })?;
            rows = rows.saturating_add(own);
            for column in group.columns() {
                self.range(column)?;
            }
        }
        let most = MOST_ROWS.max(length.saturating_mul(MOST_ROWS_PER_BYTE));
        if rows > most || rows > u64::from(u32::MAX) {
            let found = format!("it claims {rows} rows in {length} bytes");
            return Err(broken(&self.path, &found));
        }
        Ok(rows)
    }

    /// Where a column of a group lies.
    fn range(&self, column: &ColumnChunkMetaData) -> Result<(u64, u64), DataError> {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let length = column.compressed_size();
        let inside = || {
            let (start, length) = (u64::try_from(start).ok()?, u64::try_from(length).ok()?);
            let end = start.checked_add(length)?;
            (start >= 4 && end <= self.end).then_some((start, length))
        };
        inside().ok_or_else(|| {
            let name = column.column_path().string();
            let found =
                format!("the column {name:?} claims {length} bytes from {start}, beyond the file");
            broken(&self.path, &found)
        })
    }

    /// Begins to read a column of a group.
    pub(super) fn column(&self, group: usize, column: usize) -> Result<ColumnReader, DataError> {
        let metadata = self.metadata().row_group(group).column(column);
        self.check_pages(metadata)?;
        guarded(&self.path, || self.reader.get_row_group(group)?.get_column_reader(column))
    }

    /// An error if a page claims more than it can have.
    fn check_pages(&self, column: &ColumnChunkMetaData) -> Result<(), DataError> {
        let io = |source| file_error("read", &self.path, source);
        let (mut place, length) = self.range(column)?;
        let end = place + length;
        let mut file = BufReader::new(File::open(&self.path).map_err(io)?);
        while place < end {
            let fail = |found: String| {
                let name = column.column_path().string();
                broken(
                    &self.path,
                    &format!("a page of the column {name:?} at byte {place}: {found}"),
                )
            };
            file.seek(SeekFrom::Start(place)).map_err(io)?;
            let mut page = Page::default();
            let header = walk(&mut file, end - place, &mut |path, number| {
                match path {
                    [2] => page.unpacked = number,
                    [3] => page.packed = number,
                    // The numbers of values in a page, in a dictionary, and in a page of version 2.
                    [5 | 7 | 8, 1] => page.values = number,
                    _ => {}
                }
                if *path == [7, 1] {
                    page.is_dictionary = true;
                }
                Ok(())
            });
            let header = header.map_err(&fail)?;
            page.check(end - place - header).map_err(&fail)?;
            place += header + page.packed as u64;
        }
        Ok(())
    }
}

/// What the header of a page says.
#[derive(Default)]
struct Page {
    packed: i64,
    unpacked: i64,
    values: i64,
    is_dictionary: bool,
}

impl Page {
    fn check(&self, left: u64) -> Result<(), String> {
        let Self { packed, unpacked, values, is_dictionary } = *self;
        if packed < 0 || packed as u64 > left {
            return Err(format!("it claims {packed} bytes where {left} are left"));
        }
        if !(0..=MOST_PAGE).contains(&unpacked) {
            return Err(format!("it claims {unpacked} bytes when it is unpacked"));
        }
        // A value of a dictionary has a byte at least; others may be repeated.
        if values < 0 || (is_dictionary && values > unpacked) {
            return Err(format!("it claims {values} values in {unpacked} bytes"));
        }
        Ok(())
    }
}

/// Asks the library. What a file says is checked before, but not all that is within its pages can be; the
/// library panics on some of what is left, and a broken file must be an error.
pub(super) fn guarded<T>(
    path: &Path,
    ask: impl FnOnce() -> Result<T, parquet::errors::ParquetError>,
) -> Result<T, DataError> {
    match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(answer) => answer.map_err(|error| broken(path, &format!("it cannot be read ({error})"))),
        Err(_) => Err(broken(path, "it is damaged")),
    }
}

pub(super) fn broken(path: &Path, found: &str) -> DataError {
    let remedy =
        "take another copy of the file, or write it again, in Python table.to_parquet(file)";
    refusal(path.display(), found.into(), remedy)
}
