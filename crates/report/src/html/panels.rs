//! Small plots beside each other: a grid in the page, one figure as a file.

use std::fmt::Write;

use super::{Drawing, text};
use crate::plot::{Panel, mosaic};

/// Small plots in a row of a figure that stands alone.
const COLUMNS: usize = 4;

/// Plots of one kind.
pub(super) struct Panels {
    /// What to call the figure's file, and the place in the page.
    pub(super) name: String,
    /// Their title, as plain text.
    pub(super) title: String,
    /// The plots.
    pub(super) panels: Vec<Panel>,
    /// Whether they are half as wide as the page, instead of a quarter.
    pub(super) large: bool,
}

impl Panels {
    /// Writes them as a card; without plots, nothing.
    pub(super) fn show(&self, page: &mut String) {
        if self.panels.is_empty() {
            return;
        }
        let class = if self.large { "panels large" } else { "panels" };
        let _ = write!(
            page,
            "<figure class=\"card\" id=\"figure-{}\"><h3>{}</h3><div class=\"{class}\">",
            self.name,
            text(&self.title)
        );
        for panel in &self.panels {
            let _ = writeln!(page, "<div class=\"plot\">{}</div>", panel.svg());
        }
        page.push_str("</div></figure>\n");
    }

    /// All of them as one figure.
    pub(super) fn drawing(self) -> Drawing {
        let columns = if self.large { COLUMNS / 2 } else { COLUMNS };
        let plot = mosaic(&self.title, &self.panels, columns);
        Drawing::new(self.name, self.title, plot, "")
    }
}

/// What a file may be called after a method: its place in the run and its label, as far as that has plain
/// letters and digits.
pub(super) fn slug(slot: usize, label: &str) -> String {
    let mut slug = format!("{}", slot + 1);
    for word in label.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        if !word.is_empty() && slug.len() + word.len() < 40 {
            slug.push('-');
            slug.push_str(&word.to_ascii_lowercase());
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_becomes_a_file_name() {
        assert_eq!(slug(2, "SCD complex, λ=0.1"), "3-scd-complex-0-1");
        assert_eq!(slug(0, "../<b>"), "1-b");
        assert_eq!(slug(9, "λ"), "10");
    }
}
