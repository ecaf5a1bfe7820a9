//! The values of one column of a Parquet file, some rows at a time.

use super::file::{Shard, broken, guarded};
use crate::DataError;
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::schema::types::ColumnDescriptor;
use std::path::PathBuf;

/// Rows that are read together.
pub(super) const BATCH: usize = 1_024;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Unsigned,
    Truth,
    Text,
}

impl Kind {
    /// The kind of a column, or what it is called if it cannot be used.
    pub(super) fn of(column: &ColumnDescriptor) -> Result<Self, String> {
        use ConvertedType as Old;
        let (physical, old) = (column.physical_type(), column.converted_type());
        if column.max_rep_level() > 0 {
            return Err("a list".into());
        }
        let new = column.logical_type_ref();
        let refused = || match new {
            Some(new) => format!("{new:?}"),
            None if old == Old::NONE => format!("{physical}"),
            None => format!("{old}"),
        };
        match (physical, new) {
            (Type::BOOLEAN, _) => Ok(Self::Truth),
            (Type::FLOAT | Type::DOUBLE, _)
            | (Type::INT32 | Type::INT64, Some(LogicalType::Unknown)) => Ok(Self::Number),
            (Type::INT32 | Type::INT64, Some(LogicalType::Integer(int))) => {
                Ok(if int.is_signed { Self::Number } else { Self::Unsigned })
            }
            (Type::INT32 | Type::INT64, None) => match old {
                Old::NONE | Old::INT_8 | Old::INT_16 | Old::INT_32 | Old::INT_64 => {
                    Ok(Self::Number)
                }
                Old::UINT_8 | Old::UINT_16 | Old::UINT_32 | Old::UINT_64 => Ok(Self::Unsigned),
                _ => Err(refused()),
            },
            (
                Type::BYTE_ARRAY,
                Some(LogicalType::String | LogicalType::Enum | LogicalType::Unknown),
            ) => Ok(Self::Text),
            (Type::BYTE_ARRAY, None) if matches!(old, Old::NONE | Old::UTF8 | Old::ENUM) => {
                Ok(Self::Text)
            }
            _ => Err(refused()),
        }
    }
}

/// A value that is there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Number(f64),
    Bytes(&'v [u8]),
}

/// Some rows of a column.
pub(super) struct Column {
    path: PathBuf,
    name: String,
    reader: ColumnReader,
    kind: Kind,
    /// How deep a value lies that is there; 0 if it always is.
    depth: i16,
    levels: Vec<i16>,
    values: Values,
    /// The next value that is there.
    next: usize,
}

enum Values {
    Truths(Vec<bool>),
    Shorts(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl Column {
    /// Begins to read a column of a group.
    pub(super) fn open(
        shard: &Shard,
        group: usize,
        column: usize,
        kind: Kind,
    ) -> Result<Self, DataError> {
        let reader = shard.column(group, column)?;
        let metadata = shard.metadata().row_group(group).column(column);
        let name = metadata.column_path().string();
        let values = match &reader {
            ColumnReader::BoolColumnReader(_) => Values::Truths(Vec::new()),
            ColumnReader::Int32ColumnReader(_) => Values::Shorts(Vec::new()),
            ColumnReader::Int64ColumnReader(_) => Values::Longs(Vec::new()),
            ColumnReader::FloatColumnReader(_) => Values::Floats(Vec::new()),
            ColumnReader::DoubleColumnReader(_) => Values::Doubles(Vec::new()),
            _ => Values::Bytes(Vec::new()),
        };
        let (path, depth) = (shard.path.clone(), metadata.column_descr().max_def_level());
        Ok(Self { path, name, reader, kind, depth, levels: Vec::new(), values, next: 0 })
    }

    /// Reads the next rows; an error unless there are as many.
    pub(super) fn fill(&mut self, rows: usize) -> Result<(), DataError> {
        let Self { path, reader, depth, levels, values, .. } = self;
        levels.clear();
        self.next = 0;
        let nullable = *depth > 0;
        // The typed readers have nothing in common.
        macro_rules! fill {
            ($reader:expr, $values:expr) => {{
                $values.clear();
                let mut seen = 0;
                while seen < rows {
                    let levels = nullable.then_some(&mut *levels);
                    let (records, _, _) =
                        guarded(path, || $reader.read_records(rows - seen, levels, None, $values))?;
                    if records == 0 {
                        break;
                    }
                    seen += records;
                }
                (seen, $values.len())
            }};
        }
        let (seen, found) = match (reader, values) {
            (ColumnReader::BoolColumnReader(reader), Values::Truths(values)) => {
                fill!(reader, values)
            }
            (ColumnReader::Int32ColumnReader(reader), Values::Shorts(values)) => {
                fill!(reader, values)
            }
            (ColumnReader::Int64ColumnReader(reader), Values::Longs(values)) => {
                fill!(reader, values)
            }
            (ColumnReader::FloatColumnReader(reader), Values::Floats(values)) => {
                fill!(reader, values)
            }
            (ColumnReader::DoubleColumnReader(reader), Values::Doubles(values)) => {
                fill!(reader, values)
            }
            (ColumnReader::ByteArrayColumnReader(reader), Values::Bytes(values)) => {
                fill!(reader, values)
            }
            _ => return Err(self.refused("its type is not read")),
        };
        let there = if nullable {
            self.levels.iter().filter(|level| **level == self.depth).count()
        } else {
            rows
        };
        if seen != rows || there != found || (nullable && self.levels.len() != rows) {
            return Err(self.refused("it has fewer values than rows"));
        }
        Ok(())
    }

    /// The value of a row, which must be asked for in their order; nothing if it is missing.
    pub(super) fn value(&mut self, row: usize) -> Option<Value<'_>> {
        if self.depth > 0 && self.levels.get(row) != Some(&self.depth) {
            return None;
        }
        let place = self.next;
        self.next += 1;
        let unsigned = self.kind == Kind::Unsigned;
        match &self.values {
            Values::Truths(values) => {
                values.get(place).map(|truth| Value::Bytes(if *truth { b"true" } else { b"false" }))
            }
            Values::Shorts(values) => values
                .get(place)
                .map(|&n| Value::Number(if unsigned { f64::from(n as u32) } else { f64::from(n) })),
            Values::Longs(values) => values
                .get(place)
                .map(|&n| Value::Number(if unsigned { n as u64 as f64 } else { n as f64 })),
            Values::Floats(values) => values.get(place).map(|&n| Value::Number(f64::from(n))),
            Values::Doubles(values) => values.get(place).map(|&n| Value::Number(n)),
            Values::Bytes(values) => values.get(place).map(|bytes| Value::Bytes(bytes.data())),
        }
    }

    fn refused(&self, found: &str) -> DataError {
        broken(&self.path, &format!("the column {:?}: {found}", self.name))
    }
}
