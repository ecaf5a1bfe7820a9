//! Results as one HTML file: tables, sensitivity plots, commands, hashes.

use super::tables::{Layout, Shown, Table, made};
use super::{Form, Results, drawing};
use crate::html::{head, headings, scrolling, sectioned, text};
use crate::quantity::duration;
use std::fmt::Write as _;

/// The page. It needs no network and runs no script.
pub fn page(results: &Results) -> String {
    let (title, scale) = (text(&results.title), text(&results.scale));
    let mut page = head(&title);
    let _ = writeln!(
        page,
        "<a class=\"skip\" href=\"#content\">Skip to the results</a>\n<header>\n<h1>{title}</h1>"
    );
    let place = [&results.of_the_paper, &results.scale].map(|part| text(part));
    let parts: Vec<&str> =
        place.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let lead = match (parts.is_empty(), scale.is_empty()) {
        (true, _) => String::new(),
        (false, true) => parts.join(" · "),
        (false, false) => format!("{} scale", parts.join(" · ")),
    };
    let _ = writeln!(page, "<p class=\"lead-in\">{lead}</p>");
    if !results.missing.is_empty() {
        let (count, all) = (results.missing.len(), results.missing.len() + results.runs.len());
        let _ = writeln!(page, "<p class=\"warning\">{count} of {all} runs are missing.</p>");
    }
    page.push_str("</header>\n");
    let mut tables = String::new();
    for table in made(results, &Layout::default()) {
        write_table(&mut tables, &table);
    }
    list(&mut tables, "notes", results.remarks());
    let mut open = String::new();
    list(&mut open, "notes", results.open.iter().map(super::Open::sentence).collect());
    let curves = if results.form == Form::Values { "Sensitivity" } else { "Curves" };
    let sections = [
        ("results", "Results", tables),
        ("curves", curves, pictures(results)),
        ("open", "What the paper does not give", open),
        ("reproduce", "Reproduce", again(results)),
    ];
    sectioned(&mut page, sections.into_iter());
    page.push_str("<footer>Written by Formant from results.json.</footer>\n</body>\n</html>\n");
    page
}

fn write_table(page: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = writeln!(page, "<h3>{}</h3>", text(&table.title));
    }
    let mut rows = String::from("<table class=\"dense\">\n");
    headings(&mut rows, table.head.iter().map(|head| text(head)));
    for row in &table.rows {
        rows.push_str("<tr>");
        for (column, Shown { text: shown, bold, aside }) in row.iter().enumerate() {
            let shown = text(shown);
            let _ = match (column, bold, aside) {
                (0, ..) => write!(rows, "<th scope=\"row\">{shown}</th>"),
                (_, true, _) => write!(rows, "<td class=\"best\">{shown}</td>"),
                (_, _, true) => write!(rows, "<td class=\"aside\">{shown}</td>"),
                _ => write!(rows, "<td>{shown}</td>"),
            };
        }
        rows.push_str("</tr>\n");
    }
    rows.push_str("</tbody>\n</table>");
    let label = if table.title.is_empty() { "Results" } else { &table.title };
    scrolling(page, "wide", label, &rows);
}

fn list(page: &mut String, class: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<ul class=\"{class}\">");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", text(&line));
    }
    page.push_str("</ul>\n");
}

fn pictures(results: &Results) -> String {
    let drawn = drawing::drawings(results);
    if drawn.is_empty() {
        return String::new();
    }
    let caption = drawing::caption(results.form);
    let mut part = format!("<p class=\"caption\">{caption}</p>\n<div class=\"pair\">\n");
    for drawing in drawn {
        drawing.show(&mut part);
    }
    part + "</div>\n"
}

fn again(results: &Results) -> String {
    let mut part = String::new();
    for command in &results.commands {
        scrolling(&mut part, "wide", "Command", &format!("<pre>{}</pre>", text(command)));
    }
    let mut rows = String::from("<table class=\"dense\">\n");
    headings(&mut rows, ["run", "experiment", "models", "time"].into_iter());
    for run in &results.runs {
        let cell = results.cell_name(&run.cell);
        let place = if cell.is_empty() { String::new() } else { format!(", {cell}") };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}{}, seed {}</th><td><code>{}</code></td><td><code>{}</code></td>\
             <td>{}</td></tr>",
            text(&run.method),
            text(&place),
            run.seed,
            text(&run.hash),
            text(run.fingerprint.as_deref().unwrap_or("–")),
            duration(run.seconds)
        );
    }
    rows.push_str("</tbody>\n</table>");
    part.push_str(
        "<details><summary>Every run: hash of its experiment, fingerprint of its models</summary>\n",
    );
    scrolling(&mut part, "wide", "Every run", &rows);
    part + "</details>\n"
}
