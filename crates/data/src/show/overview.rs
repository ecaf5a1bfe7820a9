//! A dataset as text: what it holds, before anybody divides it.

use crate::{Column, Dataset, Samples, Values};
use std::fmt::Write as _;

/// Of more classes or columns than this, only the first are shown.
const MOST_LINES: usize = 40;
/// Class names that are listed on a line.
const MOST_NAMES: usize = 20;

/// What a dataset consists of: counts, shape, values, classes and clients that exist already. Of a table, its
/// columns follow. What was decided that its files do not say stands under the table of its clients.
pub fn overview(dataset: &Dataset) -> String {
    let mut lines = vec![
        (
            "samples",
            format!("{} to train, {} global test", dataset.train.len(), dataset.test.len()),
        ),
        ("shape", format!("{} (channels x height x width)", dataset.shape)),
        ("values", values(dataset)),
        ("classes", classes(dataset)),
    ];
    if let Some(owners) = &dataset.owners {
        lines.push(("clients", format!("{} exist: {}", owners.names.len(), listed(&owners.names))));
    }
    let mut text = format!("{}\n", dataset.name);
    for (word, line) in lines {
        let _ = writeln!(text, "{word:8} {line}");
    }
    if let Some(columns) = columns(dataset) {
        text.push('\n');
        text.push_str(&table(&columns));
    }
    text
}

fn values(dataset: &Dataset) -> String {
    let kind = match dataset.values {
        Values::Bytes => "pixels from 0 to 255",
        Values::Floats => "real numbers",
    };
    if dataset.schema.is_some() {
        return format!("{kind}, a column each, standardised");
    }
    let normalisation = dataset.train.normalisation().iter().take(4);
    let shown: Vec<String> = normalisation.map(|n| format!("{} ± {}", n.mean, n.std)).collect();
    let more = if dataset.shape.channels > 4 { ", …" } else { "" };
    format!("{kind}, mean ± deviation of a channel: {}{more}", shown.join(", "))
}

fn classes(dataset: &Dataset) -> String {
    let counts = class_counts(dataset);
    let of_train = counts.iter().map(|[train, _]| *train);
    let (least, most) = (of_train.clone().min().unwrap_or(0), of_train.max().unwrap_or(0));
    let numbers = dataset.class_names.iter().enumerate().all(|(i, name)| *name == i.to_string());
    let names = if numbers { String::new() } else { format!(": {}", listed(&dataset.class_names)) };
    format!("{} with {least} to {most} training samples{names}", dataset.classes)
}

/// The first names of a list.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        ..=MOST_NAMES => shown,
        more => format!("{shown} and {} more", more - MOST_NAMES),
    }
}

/// Training and test samples of each class.
pub fn class_counts(dataset: &Dataset) -> Vec<[usize; 2]> {
    let mut counts = vec![[0; 2]; dataset.classes];
    for (set, samples) in [&dataset.train, &dataset.test].into_iter().enumerate() {
        for i in 0..samples.len() {
            counts[samples.label(i)][set] += 1;
        }
    }
    counts
}

/// What the training samples have in a column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// The values of a category and how often each occurs; none for a column of numbers.
    pub categories: Option<Vec<(String, usize)>>,
    /// Mean and standard deviation of numbers.
    pub mean: Option<(f64, f64)>,
    /// The share of the rows in which it is missing.
    pub missing: f64,
}

/// The columns of a table; nothing of other data.
pub fn columns(dataset: &Dataset) -> Option<Vec<ColumnSummary>> {
    let schema = dataset.schema.as_ref()?;
    let mut sums = vec![Sum::default(); schema.width()];
    // Rows in which a category has no value.
    let mut without = vec![0_usize; schema.columns.len()];
    let samples: &dyn Samples = &*dataset.train;
    for i in 0..samples.len() {
        let row = samples.floats(i)?;
        let mut features = row.iter().zip(&mut sums);
        for (column, without) in schema.columns.iter().zip(&mut without) {
            let mut seen = false;
            for (value, sum) in features.by_ref().take(column.width()) {
                sum.add(*value);
                seen |= *value != 0.0;
            }
            *without += usize::from(column.categories.is_some() && !seen);
        }
    }
    let rows = samples.len().max(1) as f64;
    let mut sums = sums.into_iter();
    let summary = |(column, without): (&Column, usize)| {
        let own: Vec<Sum> = sums.by_ref().take(column.width()).collect();
        let categories = column.categories.as_ref().map(|names| {
            let count = |sum: &Sum| sum.total as usize;
            names.iter().cloned().zip(own.iter().map(count)).collect()
        });
        let number = own.first().filter(|_| categories.is_none());
        ColumnSummary {
            name: column.name.clone(),
            missing: number.map_or(without as f64, |sum| rows - sum.count) / rows,
            mean: number.map(Sum::mean),
            categories,
        }
    };
    Some(schema.columns.iter().zip(without).map(summary).collect())
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: f64,
    total: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, value: f32) {
        if !value.is_nan() {
            let value = f64::from(value);
            self.count += 1.0;
            self.total += value;
            self.squares += value * value;
        }
    }

    fn mean(&self) -> (f64, f64) {
        let count = self.count.max(1.0);
        let mean = self.total / count;
        (mean, (self.squares / count - mean * mean).max(0.0).sqrt())
    }
}

fn table(columns: &[ColumnSummary]) -> String {
    let longest = columns.iter().take(MOST_LINES).map(|c| c.name.chars().count()).max();
    let width = longest.unwrap_or(0).clamp("column".len(), 30);
    let mut text = format!("{:width$}  {:9} {:>8}  values\n", "column", "kind", "missing");
    for column in columns.iter().take(MOST_LINES) {
        let missing = format!("{:.1} %", 100.0 * column.missing);
        let (kind, shown) = match (&column.categories, column.mean) {
            (Some(categories), _) => {
                let mut sorted: Vec<&(String, usize)> = categories.iter().collect();
                sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                let shown = sorted.iter().take(4).map(|(name, count)| format!("{name} {count}"));
                let more = if sorted.len() > 4 { ", …" } else { "" };
                let shown = shown.collect::<Vec<_>>().join(", ");
                ("category", format!("{} of them: {shown}{more}", categories.len()))
            }
            (None, mean) => {
                let (mean, deviation) = mean.unwrap_or_default();
                ("number", format!("{mean:.4} ± {deviation:.4}"))
            }
        };
        let _ = writeln!(text, "{:width$}  {kind:9} {missing:>8}  {shown}", column.name);
    }
    if columns.len() > MOST_LINES {
        let _ = writeln!(text, "… and {} more columns", columns.len() - MOST_LINES);
    }
    text
}
