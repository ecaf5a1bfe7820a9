//! The second pass over a table: from rows to samples.

use super::super::{Chunk, Content, Reader, Wanted, refusal};
use super::survey::missing;
use super::{Cell, Pass, Table};
use crate::{DataError, Schema, Values};
use std::collections::HashMap;
use std::sync::Arc;

/// A table and how its rows become samples.
pub(crate) struct Encoded {
    table: Arc<dyn Table>,
    encoder: Arc<Encoder>,
    /// The features' columns in the table.
    columns: Vec<usize>,
}

/// How rows become samples.
struct Encoder {
    features: Vec<Feature>,
    width: usize,
}

struct Feature {
    name: String,
    /// Where its features begin.
    start: usize,
    /// The values of a category.
    categories: Option<HashMap<String, usize>>,
}

impl Encoded {
    /// Finds the columns by their names.
    pub(crate) fn new(table: Arc<dyn Table>, schema: &Schema) -> Result<Self, DataError> {
        let (mut features, mut columns, mut start) = (Vec::new(), Vec::new(), 0);
        for column in &schema.columns {
            let place = table.columns().iter().position(|name| *name == column.name);
            let place = place
                .ok_or_else(|| missing(&*table, &format!("no column {:?}", column.name), ""))?;
            table.check(place)?;
            columns.push(place);
            let categories = column.categories.as_ref().map(|values| {
                values.iter().enumerate().map(|(nth, value)| (value.clone(), nth)).collect()
            });
            features.push(Feature { name: column.name.clone(), start, categories });
            start += column.width();
        }
        let encoder = Arc::new(Encoder { features, width: start });
        Ok(Self { table, encoder, columns })
    }
}

impl Content for Encoded {
    fn reader(&self, wanted: Wanted, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let width = self.encoder.width;
        let fits = (wanted.shape.channels, wanted.shape.plane()) == (width, 1);
        if wanted.values != Values::Floats || !fits {
            return Err(refusal(
                self.table.origin(),
                format!(
                    "its rows have {width} features where samples of {} are wanted",
                    wanted.shape
                ),
                "give data like those that the model was trained on",
            ));
        }
        let pass = self.table.pass(&self.columns)?;
        Ok(Box::new(Rows { pass, encoder: self.encoder.clone(), next: 0 }))
    }
}

struct Rows {
    pass: Box<dyn Pass>,
    encoder: Arc<Encoder>,
    next: usize,
}

impl Reader for Rows {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        for _ in 0..most {
            let start = chunk.floats.len();
            chunk.floats.resize(start + self.encoder.width, 0.0);
            let (encoder, sample) = (&self.encoder, &mut chunk.floats[start..]);
            let mut fault = None;
            let more = self.pass.next(&mut |nth, cell| {
                if let Err(why) = encoder.features[nth].put(cell, sample) {
                    fault = Some(why);
                }
            })?;
            if let Some(found) = fault {
                return Err(refusal(
                    self.pass.place(),
                    found,
                    "correct the value, or leave it empty if it is not known",
                ));
            }
            if !more {
                return Err(refusal(
                    self.pass.place(),
                    "it has fewer rows than it had when it was opened".into(),
                    "leave the file alone while it is read",
                ));
            }
            chunk.indices.push(self.next);
            self.next += 1;
        }
        Ok(())
    }
}

impl Feature {
    /// Writes the features of a cell into a sample of zeros.
    fn put(&self, cell: Cell<'_>, sample: &mut [f32]) -> Result<(), String> {
        let Some(categories) = &self.categories else {
            sample[self.start] = match (cell, cell.number()) {
                (Cell::Missing, _) => f32::NAN,
                (_, Some(number)) if (number as f32).is_finite() => number as f32,
                (Cell::Number(number), _) => {
                    return Err(format!("{number} in the column {:?} is too large", self.name));
                }
                (Cell::Text(text), _) => {
                    return Err(format!(
                        "{text:?} in the column {:?} is not a number that can be used",
                        self.name
                    ));
                }
            };
            return Ok(());
        };
        let place = match cell {
            Cell::Missing => None,
            Cell::Text(text) => categories.get(text),
            Cell::Number(number) => categories.get(&number.to_string()),
        };
        if let Some(place) = place {
            sample[self.start + place] = 1.0;
        }
        Ok(())
    }
}
