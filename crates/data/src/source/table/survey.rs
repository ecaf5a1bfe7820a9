//! The first pass over a table: its columns, labels and owners.

use super::super::{Problem, SourceOptions, refusal};
use super::words::{Ordered, Words};
use super::{Cell, Table, listed};
use crate::{Column, DataError, Owners, Schema};
use std::collections::BTreeSet;

/// Names of the column of labels, if nobody names it, in small letters.
const LABELS: [&str; 6] = ["label", "fine_label", "labels", "class", "target", "y"];
/// Different values that a category may have: each becomes a feature.
const MOST_CATEGORIES: usize = 256;
const MOST_CLASSES: usize = u16::MAX as usize + 1;

/// What a table is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Samples made of its columns.
    Features,
    /// Labels and owners; samples come from elsewhere.
    Labels,
}

/// What the first pass has found.
pub(crate) struct Survey {
    pub(crate) schema: Schema,
    pub(crate) len: usize,
    pub(crate) labels: Result<Vec<u16>, Problem>,
    pub(crate) class_names: Option<Vec<String>>,
    pub(crate) owners: Option<Owners>,
}

/// Reads a table once.
pub(crate) fn survey(
    table: &dyn Table,
    options: &SourceOptions,
    wish: Wish,
) -> Result<Survey, DataError> {
    let roles = Roles::of(table, options, wish)?;
    let mut guesses = vec![Guess::default(); roles.features.len()];
    let (mut labels, mut owners) = (Words::default(), Words::default());
    let (features, has_label) = (roles.features.len(), roles.label.is_some());
    let wanted: Vec<usize> =
        roles.features.iter().copied().chain(roles.label).chain(roles.client).collect();
    for &column in &wanted {
        table.check(column)?;
    }
    let names = table.columns();
    let mut pass = table.pass(&wanted)?;
    let mut len = 0_usize;
    loop {
        let mut missing = None;
        let more = pass.next(&mut |nth, cell| {
            if let Some(guess) = guesses.get_mut(nth) {
                guess.add(cell);
            } else if has_label && nth == features {
                if !labels.add(cell) {
                    missing = Some("label");
                }
            } else if !owners.add(cell) {
                missing = Some("client");
            }
        })?;
        if !more {
            break;
        }
        len += 1;
        if let Some(what) = missing {
            let column = if what == "label" { roles.label } else { roles.client };
            let name = column.map_or("", |column| names[column].as_str());
            return Err(refusal(
                pass.place(),
                format!("the column {name:?} has no {what}"),
                "fill it in, or remove the row",
            ));
        }
        if labels.len() > MOST_CLASSES || u32::try_from(len).is_err() {
            return Err(too_many(table, &roles, len));
        }
    }
    if len == 0 {
        return Err(refusal(table.origin(), "it has no rows".into(), "give a table with rows"));
    }
    let label = roles.label_name(table, options);
    let schema = match &options.schema {
        Some(schema) => schema.clone(),
        None => Schema { columns: columns(table, &roles, guesses)?, label: label.clone() },
    };
    let (labels, class_names) = match roles.label {
        None => {
            let found = format!("it has no column {label:?} of labels; it has {}", listed(names));
            let remedy = "add the column, or name another with data.label or --label";
            (Err((found, remedy.to_owned())), None)
        }
        Some(column) => classes(table, column, &labels)?,
    };
    let owners = roles.client.map(|_| {
        let Ordered { names, places } = owners.sorted();
        Owners { names, of: owners.of.iter().map(|&id| places[id as usize]).collect() }
    });
    Ok(Survey { schema, len, labels, class_names, owners })
}

/// What each column is for.
struct Roles {
    label: Option<usize>,
    client: Option<usize>,
    /// Those of which it has to be found out what they are.
    features: Vec<usize>,
}

impl Roles {
    fn of(table: &dyn Table, options: &SourceOptions, wish: Wish) -> Result<Self, DataError> {
        let names = table.columns();
        let place = |name: &str| names.iter().position(|column| column == name);
        let find = |name: &str, key: &str| {
            place(name).ok_or_else(|| missing(table, &format!("no column {name:?}"), key))
        };
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some([name, ..]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(refusal(
                table.origin(),
                format!("two columns are called {name:?}{}", data_for_header(names)),
                "give every column a name of its own",
            ));
        }
        let client = options.client.as_deref().map(|name| find(name, "data.client"));
        let client = client.transpose()?;
        // Where there is a schema, somebody has chosen already.
        let exclude = if options.schema.is_none() { options.exclude.as_slice() } else { &[] };
        let excluded = exclude.iter().map(|name| find(name, "data.exclude"));
        let excluded: Vec<usize> = excluded.collect::<Result<_, _>>()?;
        let label = match (&options.label, &options.schema) {
            (Some(name), None) => Some(find(name, "data.label")?),
            (Some(name), Some(_)) => place(name),
            (None, Some(schema)) => place(&schema.label),
            (None, None) => {
                let usual = |word: &&str| names.iter().position(|n| n.eq_ignore_ascii_case(word));
                let found = LABELS.iter().find_map(usual);
                // Pictures can be predicted without labels.
                if found.is_none() && wish == Wish::Features {
                    let what = "no column that is known to hold labels";
                    return Err(missing(table, what, "data.label"));
                }
                found
            }
        };
        if label.is_some() && label == client {
            return Err(refusal(
                table.origin(),
                format!(
                    "the column {:?} is to be both the label and the client",
                    names[label.unwrap_or(0)]
                ),
                "choose two columns with data.label and data.client",
            ));
        }
        let mut features = Vec::new();
        if wish == Wish::Features && options.schema.is_none() {
            features.extend((0..names.len()).filter(|column| {
                Some(*column) != label && Some(*column) != client && !excluded.contains(column)
            }));
            if features.is_empty() {
                return Err(missing(table, "no column that is a feature", "data.exclude"));
            }
        }
        Ok(Self { label, client, features })
    }

    fn label_name(&self, table: &dyn Table, options: &SourceOptions) -> String {
        let given =
            options.label.clone().or_else(|| options.schema.as_ref().map(|s| s.label.clone()));
        match self.label {
            Some(column) => table.columns()[column].clone(),
            None => given.unwrap_or_else(|| LABELS[0].to_owned()),
        }
    }
}

/// The error that a column is not there.
pub(super) fn missing(table: &dyn Table, what: &str, key: &str) -> DataError {
    let names = table.columns();
    let remedy = match key {
        "data.label" => {
            "name the column of the classes: data.label = \"…\" (or --label)".to_owned()
        }
        "" => "give a table with the columns that the model was trained on".to_owned(),
        key => format!("name columns of the table with {key}"),
    };
    refusal(
        table.origin(),
        format!("it has {what}; its columns are {}{}", listed(names), data_for_header(names)),
        &remedy,
    )
}

/// A remark if the names of the columns look like the first row of data.
fn data_for_header(names: &[String]) -> &'static str {
    let is_number = |name: &&String| super::number(name).is_some();
    let numbers = names.iter().filter(is_number).count();
    let fractions = names.iter().any(|name| super::number(name).is_some_and(|n| n.fract() != 0.0));
    if fractions || (numbers > 0 && 3 * numbers >= names.len()) {
        " (the first line looks like data: a line with the names of the columns is needed above it)"
    } else {
        ""
    }
}

fn too_many(table: &dyn Table, roles: &Roles, len: usize) -> DataError {
    if u32::try_from(len).is_err() {
        let found = format!("it has more than {} rows", u32::MAX);
        return refusal(table.origin(), found, "divide it into several tables");
    }
    let name = roles.label.map_or("", |column| table.columns()[column].as_str());
    refusal(
        table.origin(),
        format!("the label column {name:?} has more than {MOST_CLASSES} different values"),
        "name the column of the classes: data.label = \"…\" (or --label)",
    )
}

/// What is known of a feature's column.
#[derive(Debug, Clone, Default)]
struct Guess {
    /// A text that is not a number.
    word: Option<String>,
    /// Its texts, up to one more than there may be.
    seen: BTreeSet<String>,
}

impl Guess {
    fn add(&mut self, cell: Cell<'_>) {
        let Cell::Text(text) = cell else { return };
        if self.seen.len() <= MOST_CATEGORIES && !self.seen.contains(text) {
            self.seen.insert(text.to_owned());
        }
        if self.word.is_none() && super::number(text).is_none() {
            self.word = Some(text.to_owned());
        }
    }
}

fn columns(
    table: &dyn Table,
    roles: &Roles,
    guesses: Vec<Guess>,
) -> Result<Vec<Column>, DataError> {
    let names = table.columns();
    let column = |(&place, guess): (&usize, Guess)| {
        let name = names[place].clone();
        match guess.word {
            None => Ok(Column { name, categories: None }),
            Some(word) if guess.seen.len() > MOST_CATEGORIES => Err(refusal(
                table.origin(),
                format!(
                    "the column {name:?} has texts, such as {word:?}, and more than {MOST_CATEGORIES} different ones"
                ),
                &format!("leave it out (data.exclude = [{name:?}]), or encode it as numbers"),
            )),
            Some(_) => Ok(Column { name, categories: Some(guess.seen.into_iter().collect()) }),
        }
    };
    roles.features.iter().zip(guesses).map(column).collect()
}

type Classes = (Result<Vec<u16>, Problem>, Option<Vec<String>>);

fn classes(table: &dyn Table, column: usize, labels: &Words) -> Result<Classes, DataError> {
    let name = &table.columns()[column];
    if let Some(fraction) = labels.fraction() {
        return Err(refusal(
            table.origin(),
            format!("the label column {name:?} has real numbers, such as {fraction}"),
            "name a column of classes with data.label = \"…\", or divide the numbers into classes",
        ));
    }
    let Ordered { names, places } = labels.classes();
    let of = |id: &u32| places[*id as usize];
    let Some(known) = table.class_names(column) else {
        return Ok((Ok(labels.of.iter().map(|id| of(id) as u16).collect()), Some(names)));
    };
    // The table counts its classes and names them.
    let numbers: Vec<Option<u16>> = names
        .iter()
        .map(|name| name.parse().ok().filter(|class: &u16| usize::from(*class) < known.len()))
        .collect();
    if let Some(stranger) = numbers.iter().position(Option::is_none) {
        return Err(refusal(
            table.origin(),
            format!(
                "the label column {name:?} has {:?}, and the file names the classes 0 to {}",
                names[stranger],
                known.len().saturating_sub(1)
            ),
            "correct the label, or remove the rows",
        ));
    }
    let labels = labels.of.iter().filter_map(|id| numbers[of(id) as usize]).collect();
    Ok((Ok(labels), Some(known)))
}
