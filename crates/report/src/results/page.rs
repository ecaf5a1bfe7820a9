//! Results as one HTML file: tables, sensitivity plots, commands, hashes.

use super::tables::{Layout, Shown, Table, made};
use super::{Form, Results, drawing};
use crate::html::{head, text};
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
    page.push_str(
        "</header>\n<main id=\"content\" tabindex=\"-1\">\n<section>\n<h2>Results</h2>\n",
    );
    for table in made(results, &Layout::default()) {
        write_table(&mut page, &table);
    }
    list(&mut page, "notes", results.remarks());
    page.push_str("</section>\n");
    pictures(&mut page, results);
    if !results.open.is_empty() {
        page.push_str("<section>\n<h2>What the paper does not give</h2>\n");
        list(&mut page, "notes", results.open.iter().map(super::Open::sentence).collect());
        page.push_str("</section>\n");
    }
    again(&mut page, results);
    page.push_str(
        "</main>\n<footer>Written by Formant from results.json.</footer>\n</body>\n</html>\n",
    );
    page
}

fn write_table(page: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = writeln!(page, "<h3>{}</h3>", text(&table.title));
    }
    page.push_str("<div class=\"wide\"><table class=\"dense\">\n<thead><tr>");
    for head in &table.head {
        let _ = write!(page, "<th scope=\"col\">{}</th>", text(head));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (column, Shown { text: shown, bold, aside }) in row.iter().enumerate() {
            let shown = text(shown);
            let _ = match (column, bold, aside) {
                (0, ..) => write!(page, "<th scope=\"row\">{shown}</th>"),
                (_, true, _) => write!(page, "<td class=\"best\">{shown}</td>"),
                (_, _, true) => write!(page, "<td class=\"aside\">{shown}</td>"),
                _ => write!(page, "<td>{shown}</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
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

fn pictures(page: &mut String, results: &Results) {
    let drawn = drawing::drawings(results);
    if drawn.is_empty() {
        return;
    }
    let title = if results.form == Form::Values { "Sensitivity" } else { "Curves" };
    let caption = drawing::caption(results.form);
    let _ = writeln!(
        page,
        "<section>\n<h2>{title}</h2>\n<p class=\"caption\">{caption}</p>\n<div class=\"pair\">"
    );
    for drawing in drawn {
        drawing.show(page);
    }
    page.push_str("</div>\n</section>\n");
}

fn again(page: &mut String, results: &Results) {
    page.push_str("<section>\n<h2>Reproduce</h2>\n");
    for command in &results.commands {
        let _ = writeln!(page, "<pre>{}</pre>", text(command));
    }
    page.push_str(
        "<details><summary>Every run: hash of its experiment, fingerprint of its models</summary>\n\
         <div class=\"wide\"><table class=\"dense\">\n<thead><tr><th scope=\"col\">run</th>\
         <th scope=\"col\">experiment</th><th scope=\"col\">models</th>\
         <th scope=\"col\">time</th></tr></thead>\n<tbody>\n",
    );
    for run in &results.runs {
        let cell = results.cell_name(&run.cell);
        let place = if cell.is_empty() { String::new() } else { format!(", {cell}") };
        let _ = writeln!(
            page,
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
    page.push_str("</tbody>\n</table></div>\n</details>\n</section>\n");
}
