//! Plots of the report: drawn once, shown in the page and given away as files.

use std::fmt::Write;

use super::text;
use crate::plot;

/// A plot of the report as a file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// What to call its file, without an ending: small letters, digits and hyphens, unique in the
    /// report.
    pub name: String,
    /// Its title, as plain text.
    pub title: String,
    /// The whole SVG file: sizes in pixels, style and white ground included.
    pub svg: String,
}

/// A plot of a section. The section shows it with [`Drawing::show`] and gives the same one away in
/// its `figures`.
pub(crate) struct Drawing {
    /// See [`Figure::name`].
    pub(crate) name: String,
    /// Its title, as plain text.
    pub(crate) title: String,
    /// The plot as [`plot::open`] begins it, or why there is none, in a sentence.
    pub(crate) plot: Result<String, String>,
    /// The figures behind it, for those who cannot see it or want to read them.
    pub(crate) data: Option<Data>,
}

/// The figures behind a plot.
pub(crate) struct Data {
    /// What stands above the columns; the first one names the rows.
    pub(crate) headings: Vec<String>,
    /// One cell for each heading.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Drawing {
    /// A plot, or what to say in its place.
    pub(crate) fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        plot: Option<String>,
        otherwise: impl Into<String>,
    ) -> Self {
        let plot = plot.ok_or_else(|| otherwise.into());
        Self { name: name.into(), title: title.into(), plot, data: None }
    }

    /// The same with the figures behind it.
    #[must_use]
    pub(crate) fn with_data(self, headings: Vec<String>, rows: Vec<Vec<String>>) -> Self {
        let data = (!rows.is_empty()).then_some(Data { headings, rows });
        Self { data, ..self }
    }

    /// Writes it as a card of the page.
    pub(crate) fn show(&self, page: &mut String) {
        let title = text(&self.title);
        match &self.plot {
            Ok(plot) => {
                let _ = write!(
                    page,
                    "<figure class=\"card\" id=\"figure-{}\"><h3>{title}</h3>",
                    self.name
                );
                if plot::is_wide(plot) {
                    scrolling(page, "plot wide-plot", &self.title, plot);
                } else {
                    let _ = write!(page, "<div class=\"plot\">{plot}</div>");
                }
                if let Some(data) = &self.data {
                    page.push_str("<details><summary>The figures behind it</summary>");
                    data.show(page, &self.title);
                    page.push_str("</details>");
                }
                page.push_str("</figure>\n");
            }
            Err(why) => {
                let _ = writeln!(
                    page,
                    "<div class=\"card\"><h3>{title}</h3><p class=\"missing\">{}</p></div>",
                    text(why)
                );
            }
        }
    }

    /// The plot as a file of its own, if there is one.
    pub(crate) fn figure(self) -> Option<Figure> {
        let svg = plot::standalone(&self.plot.ok()?);
        Some(Figure { name: self.name, title: self.title, svg })
    }
}

/// Writes plots as cards of the page.
pub(super) fn show_all(page: &mut String, drawings: &[Drawing]) {
    for drawing in drawings {
        drawing.show(page);
    }
}

impl Data {
    fn show(&self, page: &mut String, title: &str) {
        let mut table = String::from("<table class=\"dense figures\">");
        super::headings(&mut table, self.headings.iter().map(|heading| text(heading)));
        for row in &self.rows {
            table.push_str("<tr>");
            for (place, cell) in row.iter().enumerate() {
                let _ = match place {
                    0 => write!(table, "<th scope=\"row\">{}</th>", text(cell)),
                    _ => write!(table, "<td>{}</td>", text(cell)),
                };
            }
            table.push_str("</tr>\n");
        }
        table.push_str("</tbody></table>");
        scrolling(page, "rows", &format!("{title}: figures"), &table);
    }
}

/// What may be wider than a small screen scrolls within its place, also by keyboard.
pub(crate) fn scrolling(page: &mut String, class: &str, label: &str, content: &str) {
    let _ = writeln!(
        page,
        "<div class=\"{class}\" role=\"group\" tabindex=\"0\" aria-label=\"{}\">{content}</div>",
        text(label)
    );
}
