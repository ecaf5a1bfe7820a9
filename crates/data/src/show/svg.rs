//! Clients by classes as a drawing, with all clients.

use crate::{Federation, Split};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the map takes at most, unless its cells would be too small to see.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 1_000.0;
/// Shares are drawn in so many colours.
const SHADES: usize = 48;
/// Letters of a name.
const MOST_LETTERS: usize = 18;
/// Height of a letter.
const LETTER: f64 = 11.0;

/// A map of label shares as SVG: a row for each client and a column for each class, darker for a larger share of that
/// client's labels, and the client's number of samples as a bar.
pub fn svg(federation: &Federation) -> String {
    let (clients, classes) = (federation.clients.len(), federation.dataset.classes);
    let sizes: Vec<usize> = federation.clients.iter().map(|own| own.size(Split::All)).collect();
    let grid = Grid::of(clients, classes, &federation.dataset.class_names);
    let mut cells: BTreeMap<usize, String> = BTreeMap::new();
    let mut bars = String::new();
    let most = sizes.iter().copied().max().unwrap_or(0).max(1) as f64;
    for (client, &size) in sizes.iter().enumerate() {
        let counts = federation.label_counts(client, Split::All);
        for (class, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let share = count as f64 / size.max(1) as f64;
            let shade = (share.sqrt() * SHADES as f64).ceil() as usize;
            grid.cell(cells.entry(shade).or_default(), client, class);
        }
        let length = (80.0 * size as f64 / most).max(0.5);
        let (x, y) = (grid.right() + 12.0, grid.y(client));
        let _ = write!(bars, "M{x:.1} {y:.2}h{length:.1}v{0:.2}h-{length:.1}z", grid.bar());
    }
    let mut body = String::new();
    let (left, top, wide, high) =
        (grid.left, grid.top, grid.right() - grid.left, grid.bottom() - grid.top);
    let _ = writeln!(
        body,
        r#"<rect x="{left:.1}" y="{top:.1}" width="{wide:.1}" height="{high:.1}" fill="{}"/>"#,
        colour(0.0)
    );
    for (shade, path) in &cells {
        let fill = colour(*shade as f64 / SHADES as f64);
        let _ = writeln!(body, r#"<path fill="{fill}" d="{path}"/>"#);
    }
    let _ = writeln!(body, r##"<path fill="#9aa3b2" d="{bars}"/>"##);
    grid.label(&mut body, federation, &sizes);
    legend(&mut body, &grid);
    let held: usize = sizes.iter().sum();
    let title = format!(
        "{}: {held} samples of {classes} classes over {clients} clients",
        escaped(&federation.dataset.name)
    );
    let (width, height) = ((grid.right() + 150.0).max(grid.left + 610.0), grid.bottom() + 60.0);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" font-family="system-ui, sans-serif" font-size="{LETTER}" fill="#2b2f38">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="24" font-size="15" font-weight="600">{title}</text>
{body}</svg>
"##
    )
}

/// Where cells lie.
struct Grid {
    left: f64,
    top: f64,
    /// From one cell to the next.
    step: (f64, f64),
    rows: usize,
    columns: usize,
    upright: bool,
}

impl Grid {
    fn of(rows: usize, columns: usize, names: &[String]) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let longest = longest.min(MOST_LETTERS) as f64 * LETTER * 0.6;
        let step = (
            (WIDTH / columns.max(1) as f64).clamp(3.0, 34.0),
            (HEIGHT / rows.max(1) as f64).clamp(2.0, 20.0),
        );
        // Names that are longer than their column stand on end.
        let upright = longest > step.0 - 4.0;
        let head = if upright { longest + 12.0 } else { LETTER + 10.0 };
        Self { left: 76.0, top: 40.0 + head, step, rows, columns, upright }
    }

    fn x(&self, class: usize) -> f64 {
        self.left + class as f64 * self.step.0
    }

    fn y(&self, client: usize) -> f64 {
        self.top + client as f64 * self.step.1
    }

    fn right(&self) -> f64 {
        self.x(self.columns)
    }

    fn bottom(&self) -> f64 {
        self.y(self.rows)
    }

    /// Height of a cell or bar: with a gap, where there is room for one.
    fn bar(&self) -> f64 {
        if self.step.1 >= 6.0 { self.step.1 - 1.0 } else { self.step.1 }
    }

    fn cell(&self, path: &mut String, client: usize, class: usize) {
        let width = if self.step.0 >= 6.0 { self.step.0 - 1.0 } else { self.step.0 };
        let (x, y, height) = (self.x(class), self.y(client), self.bar());
        let _ = write!(path, "M{x:.2} {y:.2}h{width:.2}v{height:.2}h-{width:.2}z");
    }

    /// Every how many rows or columns there is room for a name.
    fn every(step: f64) -> usize {
        let needed = ((LETTER + 2.0) / step).ceil() as usize;
        [1, 2, 5, 10, 20, 50, 100, 200, 500].into_iter().find(|n| *n >= needed).unwrap_or(1_000)
    }

    fn label(&self, body: &mut String, federation: &Federation, sizes: &[usize]) {
        let left = self.left - 8.0;
        for client in (0..self.rows).step_by(Self::every(self.step.1)) {
            let y = self.y(client) + self.step.1 / 2.0 + LETTER * 0.35;
            let _ = writeln!(
                body,
                r#"<text x="{left:.1}" y="{y:.1}" text-anchor="end">{client}</text>"#
            );
            let (x, size) = (self.right() + 98.0, sizes[client]);
            let _ = writeln!(body, r##"<text x="{x:.1}" y="{y:.1}" fill="#6b7280">{size}</text>"##);
        }
        let over = self.top - 8.0;
        let _ = writeln!(
            body,
            r##"<text x="{left:.1}" y="{over:.1}" text-anchor="end" fill="#6b7280">client</text>"##
        );
        let x = self.right() + 12.0;
        let _ = writeln!(body, r##"<text x="{x:.1}" y="{over:.1}" fill="#6b7280">samples</text>"##);
        let every = if self.upright { Self::every(self.step.0) } else { 1 };
        for (class, name) in federation.dataset.class_names.iter().enumerate().step_by(every) {
            let short: String = name.chars().take(MOST_LETTERS).collect();
            let (x, name) = (self.x(class) + self.step.0 / 2.0, escaped(&short));
            let _ = if self.upright {
                let x = x + LETTER * 0.35;
                writeln!(
                    body,
                    r#"<text transform="translate({x:.1} {over:.1}) rotate(-90)">{name}</text>"#
                )
            } else {
                writeln!(
                    body,
                    r#"<text x="{x:.1}" y="{over:.1}" text-anchor="middle">{name}</text>"#
                )
            };
        }
    }
}

/// The colours of some shares.
fn legend(body: &mut String, grid: &Grid) {
    let (mut x, y) = (grid.left, grid.bottom() + 22.0);
    let base = y + 10.0;
    let _ = writeln!(body, r#"<text x="{x:.1}" y="{base:.1}">share of the client's labels</text>"#);
    x += 160.0;
    for share in [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0] {
        let (fill, at, percent) = (colour(f64::sqrt(share)), x + 18.0, 100.0 * share);
        let _ = writeln!(
            body,
            r##"<rect x="{x:.1}" y="{y:.1}" width="14" height="12" fill="{fill}" stroke="#d5d9e0"/><text x="{at:.1}" y="{base:.1}">{percent} %</text>"##
        );
        x += 62.0;
    }
}

/// From almost white over green and blue to dark violet.
fn colour(place: f64) -> String {
    const STOPS: [[f64; 3]; 5] = [
        [244.0, 246.0, 248.0],
        [173.0, 221.0, 203.0],
        [65.0, 166.0, 182.0],
        [49.0, 89.0, 158.0],
        [48.0, 16.0, 84.0],
    ];
    let place = place.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let left = (place as usize).min(STOPS.len() - 2);
    let blend = place - left as f64;
    let [red, green, blue] = [0, 1, 2]
        .map(|i| (STOPS[left][i] * (1.0 - blend) + STOPS[left + 1][i] * blend).round() as u8);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A text as XML has it; characters that it may not have at all become question marks.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            letter if letter.is_control() => safe.push('?'),
            letter => safe.push(letter),
        }
    }
    safe
}
