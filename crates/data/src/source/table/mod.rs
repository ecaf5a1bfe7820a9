//! Tables: rows of named columns, whatever file they come from.
//!
//! A table is read twice, row by row: first to learn its columns, labels and owners ([`survey`]), then to
//! turn rows into samples ([`encoder`]). Neither pass keeps rows.

pub(crate) mod csv;
mod encoder;
pub(crate) mod survey;
mod words;

use super::format::Parts;
use super::{Names, Source, SourceOptions};
use crate::{DataError, Split, Values};
use encoder::Encoded;
use formant_numerics::Shape;
use std::sync::Arc;
use survey::{Survey, Wish};

/// What stands in a cell for a value that is not there, in small letters.
const MISSING: [&str; 6] = ["", "na", "nan", "null", "?", "n/a"];

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'c> {
    Missing,
    /// Finite.
    Number(f64),
    /// Without blanks around it, and not one of the words for what is missing.
    Text(&'c str),
}

impl<'c> Cell<'c> {
    /// What a text means.
    pub(crate) fn of(text: &'c str) -> Self {
        let text = text.trim();
        let missing = text.len() <= 4 && MISSING.iter().any(|word| text.eq_ignore_ascii_case(word));
        if missing { Self::Missing } else { Self::Text(text) }
    }

    /// Its number, if it is one.
    pub(crate) fn number(self) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::Number(number) => Some(number),
            Self::Text(text) => number(text),
        }
    }
}

/// A finite number that is written out.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Rows of named columns.
pub(crate) trait Table: Send + Sync {
    /// What a message calls it.
    fn origin(&self) -> String;

    /// The names of its columns. What has no name is not a column.
    fn columns(&self) -> &[String];

    /// Begins to read the cells of some columns, given by their places.
    fn pass(&self, wanted: &[usize]) -> Result<Box<dyn Pass>, DataError>;

    /// An error if a column cannot be a feature, a label or an owner.
    fn check(&self, _column: usize) -> Result<(), DataError> {
        Ok(())
    }

    /// What the classes are called that a column counts from 0, where the table says so.
    fn class_names(&self, _column: usize) -> Option<Vec<String>> {
        None
    }
}

/// One way through a table.
pub(crate) trait Pass: Send {
    /// Goes to the next row and hands over its cells in the wanted order, each with its place there.
    /// Gives whether there was a row.
    fn next(&mut self, take: &mut dyn FnMut(usize, Cell<'_>)) -> Result<bool, DataError>;

    /// Where the present row is.
    fn place(&self) -> String;
}

/// A source of a table's rows.
pub(crate) fn source(
    table: Arc<dyn Table>,
    format: &'static str,
    options: &SourceOptions,
) -> Result<Source, DataError> {
    let Survey { schema, len, labels, class_names, owners } =
        survey::survey(&*table, options, Wish::Features)?;
    let width = schema.width();
    let origin = table.origin();
    let content = Encoded::new(table, &schema)?;
    Ok(Source {
        shape: Some(Shape::new(width, 1, 1)),
        class_names,
        names: Names::Rows,
        values: Values::Floats,
        owners,
        schema: Some(schema),
        ..Source::new(origin, format, len, labels, content)
    })
}

/// Both parts of a table to train on: the training part says how rows become samples.
pub(crate) fn parts(
    train: Arc<dyn Table>,
    test: Option<Arc<dyn Table>>,
    format: &'static str,
    options: &SourceOptions,
) -> Result<Parts, DataError> {
    let train = source(train, format, options)?;
    let Some(test) = test else { return Ok(Parts { train, test: None }) };
    // Nobody owns test samples.
    let schema = train.schema.clone();
    let options = SourceOptions { schema, client: None, ..options.clone() };
    Ok(Parts { train, test: Some(source(test, format, &options)?) })
}

/// The files of a part in a folder, by the words that their names begin with.
pub(crate) fn files_of(entries: &[String], split: Split, is_it: fn(&str) -> bool) -> Vec<&str> {
    let words = super::image_folder::words(split);
    let of_part = |name: &&str| {
        let name = name.to_lowercase();
        let follows = |rest: &str| rest.starts_with(['-', '_', '.']);
        is_it(&name) && words.iter().any(|word| name.strip_prefix(word).is_some_and(follows))
    };
    entries.iter().map(String::as_str).filter(of_part).collect()
}

/// Names in quotes, of many only the first.
pub(crate) fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<_> = names.iter().take(MOST).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MOST);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", shown.join(", "))
}
