//! Clients by classes, the share of each class as a shade.

use super::{left_out, shown, title};
use crate::{Federation, Split};

/// A map of label shares: a row for each client, a column for each class, denser or, with `colour`
/// (24-bit escape codes), brighter for a larger share of that client's labels. The last row is all
/// clients together. Of more than 40 clients only some are shown; of more than 100 classes,
/// neighbours share a column.
pub fn heat_map(federation: &Federation, colour: bool) -> String {
    let clients = federation.clients.len();
    let columns = Columns::of(federation.dataset.classes);
    let mut overall = vec![0; federation.dataset.classes];
    let mut rows = Vec::new();
    for client in 0..clients {
        let counts = federation.label_counts(client, Split::All);
        overall.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        rows.push(columns.shares(&counts));
    }
    let label_width = "client".len().max(clients.to_string().len());
    let row = |label: &str, shares: &[f64]| {
        let cells = columns.cells(shares, colour);
        format!("{}\n", format!("{label:>label_width$} {cells}").trim_end())
    };
    let mut lines = vec![title(federation), "\n".into()];
    lines.push(format!("{:>label_width$} {}\n", "client", columns.header()));
    lines.extend(shown(clients).into_iter().map(|client| match client {
        Some(client) => row(&client.to_string(), &rows[client]),
        None => left_out(clients, label_width),
    }));
    lines.push(row("all", &columns.shares(&overall)));
    lines.push("\n".into());
    lines.push(if colour { colour_legend() } else { shade_legend() });
    lines.push(class_legend(&federation.dataset.class_names, columns.classes_each));
    lines.concat()
}

/// How classes are laid out over the width of a terminal.
struct Columns {
    count: usize,
    classes_each: usize,
    /// Characters a column takes.
    width: usize,
}

impl Columns {
    fn of(classes: usize) -> Self {
        let classes_each = classes.div_ceil(100).max(1);
        let count = classes.div_ceil(classes_each);
        let width = match count {
            0..=10 => 2,
            11..=33 => 3,
            _ => 1,
        };
        Self { count, classes_each, width }
    }

    fn shares(&self, counts: &[usize]) -> Vec<f64> {
        let total = counts.iter().sum::<usize>().max(1) as f64;
        counts.chunks(self.classes_each).map(|c| c.iter().sum::<usize>() as f64 / total).collect()
    }

    /// A cell for every share, as shades or as painted blanks.
    fn cells(&self, shares: &[f64], colour: bool) -> String {
        if colour && !shares.is_empty() {
            let painted = shares.iter().map(|&share| painted(share, self.width));
            return painted.chain(["\u{1b}[0m".into()]).collect::<Vec<_>>().concat();
        }
        shares.iter().flat_map(|&share| std::iter::repeat_n(shade(share), self.width)).collect()
    }

    /// The number of the first class of every column, or of every tenth where there is no room.
    fn header(&self) -> String {
        let number = |column: usize| (column * self.classes_each).to_string();
        if self.width > 1 {
            let numbers = (0..self.count).map(|c| format!("{:>1$}", number(c), self.width));
            return numbers.collect::<Vec<_>>().concat();
        }
        let marks = (0..self.count).step_by(10).map(|c| format!("{:<10}", number(c)));
        marks.collect::<Vec<_>>().concat().trim_end().to_string()
    }
}

/// Shades, each with the share from which on it is used.
const SHADES: [(f64, char); 5] = [(0.75, '█'), (0.5, '▓'), (0.25, '▒'), (0.05, '░'), (0.0, '·')];

fn shade(share: f64) -> char {
    match SHADES.iter().find(|(from, _)| share >= *from) {
        Some((_, shade)) if share > 0.0 => *shade,
        _ => ' ',
    }
}

/// Blanks on the colour of a share.
fn painted(share: f64, width: usize) -> String {
    let [red, green, blue] = paint(share);
    format!("\u{1b}[48;2;{red};{green};{blue}m{:width$}", "")
}

/// From near black over blue, magenta and orange to pale yellow. By the square root of the share,
/// because a class of a few per cent must stay visible.
fn paint(share: f64) -> [u8; 3] {
    const STOPS: [[f64; 3]; 5] = [
        [16.0, 16.0, 24.0],
        [52.0, 40.0, 130.0],
        [170.0, 45.0, 125.0],
        [240.0, 130.0, 50.0],
        [255.0, 245.0, 170.0],
    ];
    let place = share.clamp(0.0, 1.0).sqrt() * (STOPS.len() - 1) as f64;
    let left = (place as usize).min(STOPS.len() - 2);
    let blend = place - left as f64;
    [0, 1, 2].map(|i| (STOPS[left][i] * (1.0 - blend) + STOPS[left + 1][i] * blend).round() as u8)
}

fn shade_legend() -> String {
    let steps = SHADES.iter().rev().map(|(from, shade)| match *from {
        0.0 => format!("{shade} above 0 %"),
        from => format!("{shade} from {} %", 100.0 * from),
    });
    format!("share of the client's labels: blank none, {}\n", steps.collect::<Vec<_>>().join(", "))
}

fn colour_legend() -> String {
    let steps = [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0];
    let swatches = steps.map(|share| format!("{}\u{1b}[0m {} %", painted(share, 2), 100.0 * share));
    format!("share of the client's labels: {}\n", swatches.join("  "))
}

/// The names of the classes where the numbers do not say it all and the list stays short.
fn class_legend(names: &[String], classes_each: usize) -> String {
    if classes_each > 1 {
        return format!("each column is {classes_each} neighbouring classes\n");
    }
    let numbers = names.iter().enumerate().all(|(i, name)| *name == i.to_string());
    if numbers || names.len() > 20 {
        return String::new();
    }
    let list: Vec<String> =
        names.iter().enumerate().map(|(i, name)| format!("{i} {name}")).collect();
    format!("classes: {}\n", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_grow_with_the_share() {
        let shades: String =
            [0.0, 0.001, 0.05, 0.24, 0.25, 0.5, 0.75, 1.0].into_iter().map(shade).collect();
        assert_eq!(shades, " ·░░▒▓██");
    }

    #[test]
    fn paint_spans_the_scale() {
        assert_eq!(paint(0.0), [16, 16, 24]);
        assert_eq!(paint(1.0), [255, 245, 170]);
        assert_eq!(paint(0.25), [170, 45, 125]);
    }

    #[test]
    fn many_classes_stay_within_the_width() {
        for classes in [1, 10, 11, 33, 34, 100, 101, 1_000, 65_536] {
            let columns = Columns::of(classes);
            assert!(columns.count * columns.width <= 100, "{classes}");
            assert_eq!(columns.shares(&vec![1; classes]).len(), columns.count);
            assert!(columns.header().len() <= 100);
        }
    }
}
