//! One line per client.

use super::{MOST_CLIENTS, left_out, shown, title};
use crate::heterogeneity::concentration;
use crate::{Federation, Split};

/// A table of the clients: the sizes of their splits, the classes they hold, the share of the
/// largest one, and the effective number of classes `1 / sum(share^2)`, which is 1 for a client
/// that sees one class and the number of classes for one that sees all equally often. A summary follows;
/// of more than 40 clients only some are shown, and the quantiles of all. Remarks on the data come last.
pub fn table(federation: &Federation) -> String {
    let rows: Vec<Row> = (0..federation.clients.len()).map(|c| Row::of(federation, c)).collect();
    let width = |label: &str| label.len().max(rows.len().to_string().len());
    let first = width("client").max(if rows.len() > MOST_CLIENTS { "median".len() } else { 0 });
    let mut text = title(federation);
    text.push('\n');
    let names = federation.names.as_deref();
    push_line(
        &mut text,
        first,
        "client",
        &["train", "validation", "test", "classes", "largest", "effective"].map(String::from),
        if names.is_some() { "name" } else { "" },
    );
    for client in shown(rows.len()) {
        match client {
            Some(client) => {
                let name = names.and_then(|names| names.get(client)).map_or("", String::as_str);
                push_line(&mut text, first, &client.to_string(), &rows[client].cells(), name);
            }
            None => text.push_str(&left_out(rows.len(), first)),
        }
    }
    text.push('\n');
    if rows.len() > MOST_CLIENTS {
        for (name, quantile) in [("least", 0), ("25 %", 1), ("median", 2), ("75 %", 3), ("most", 4)]
        {
            push_line(&mut text, first, name, &Row::quantile(&rows, quantile).cells(), "");
        }
        text.push('\n');
    }
    text.push_str(&summary(federation, &rows));
    text.push_str(&newcomers(federation));
    text.extend(federation.dataset.remarks.iter().map(|remark| format!("note: {remark}\n")));
    text
}

/// A line on those who join when training is over; nothing if there are none.
fn newcomers(federation: &Federation) -> String {
    let newcomers = &federation.newcomers.clients;
    let (Some(last), first) = (newcomers.len().checked_sub(1), federation.clients.len()) else {
        return String::new();
    };
    let [train, validation, test] = [Split::Train, Split::Validation, Split::Test]
        .map(|split| newcomers.iter().map(|client| client.size(split)).sum::<usize>());
    let last = first + last;
    let who = if first == last {
        format!("client {first} joins")
    } else {
        format!("clients {first} to {last} join")
    };
    format!(
        "newcomers: {who} when training is over, with {train} train, {validation} validation, {test} test; not counted above\n"
    )
}

/// Characters of a client's name that are shown.
const LONGEST_NAME: usize = 32;

/// What the table says about one client.
struct Row {
    sizes: [usize; 3],
    classes: usize,
    largest_share: f64,
    effective_classes: f64,
}

impl Row {
    fn of(federation: &Federation, client: usize) -> Self {
        let counts = federation.label_counts(client, Split::All);
        let data = &federation.clients[client];
        // A client made by hand may be empty; its shares are then 0.
        let total = data.size(Split::All).max(1) as f64;
        let shares = || counts.iter().map(|&count| count as f64 / total);
        Self {
            sizes: [Split::Train, Split::Validation, Split::Test].map(|split| data.size(split)),
            classes: counts.iter().filter(|&&count| count > 0).count(),
            largest_share: shares().fold(0.0, f64::max),
            effective_classes: concentration(counts.iter().copied()).map_or(0.0, f64::recip),
        }
    }

    /// The row of which every entry is the given quarter of that column.
    fn quantile(rows: &[Self], quarter: usize) -> Self {
        Self {
            sizes: [0, 1, 2].map(|i| quantile(rows, quarter, |row| row.sizes[i])),
            classes: quantile(rows, quarter, |row| row.classes),
            largest_share: quantile(rows, quarter, |row| row.largest_share),
            effective_classes: quantile(rows, quarter, |row| row.effective_classes),
        }
    }

    fn cells(&self) -> [String; 6] {
        let [train, validation, test] = self.sizes.map(|size| size.to_string());
        let share = format!("{:.1} %", 100.0 * self.largest_share);
        let effective = format!("{:.2}", self.effective_classes);
        [train, validation, test, self.classes.to_string(), share, effective]
    }
}

/// The value that a quarter, half, .. of the rows do not exceed, by the nearest rank.
fn quantile<T: PartialOrd + Default + Copy>(
    rows: &[Row],
    quarter: usize,
    value: impl Fn(&Row) -> T,
) -> T {
    let mut values: Vec<T> = rows.iter().map(value).collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (values.len().saturating_sub(1) * quarter + 2) / 4;
    values.get(rank).copied().unwrap_or_default()
}

fn push_line(text: &mut String, first: usize, label: &str, cells: &[String; 6], name: &str) {
    let widths = [7, 12, 7, 9, 9, 11];
    let mut line = format!("{label:>first$}");
    line.extend(cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")));
    if !name.is_empty() {
        // Names come from files: they may be long, and may hold anything.
        let plain = name.chars().map(|c| if c.is_control() { '?' } else { c });
        line.extend([' ', ' '].into_iter().chain(plain.take(LONGEST_NAME)));
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn summary(federation: &Federation, rows: &[Row]) -> String {
    let [train, validation, test] =
        [0, 1, 2].map(|i| rows.iter().map(|row| row.sizes[i]).sum::<usize>());
    let clients = rows.len().max(1) as f64;
    let mean = |value: fn(&Row) -> f64| rows.iter().map(value).sum::<f64>() / clients;
    let sizes = || rows.iter().map(|row| row.sizes.iter().sum::<usize>());
    format!(
        "total: {train} train, {validation} validation, {test} test; global test: {}\n\
         samples a client: {} to {}, median {}, mean {:.1}; classes held: mean {:.1}; effective: mean {:.2}\n",
        federation.dataset.test.len(),
        sizes().min().unwrap_or(0),
        sizes().max().unwrap_or(0),
        quantile(rows, 2, |row| row.sizes.iter().sum::<usize>()),
        sizes().sum::<usize>() as f64 / clients,
        mean(|row| row.classes as f64),
        mean(|row| row.effective_classes),
    )
}
