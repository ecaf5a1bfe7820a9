//! The report as one HTML file: no scripts, nothing from the network, light and dark, printable.

mod cost;
mod curves;
mod federation;

use std::fmt::Write;

use formant_runtime::event::Side;

use crate::plot::{COLOURS, bars, strips};
use crate::quantity::count;
use crate::scoreboard::{FIGURES, FURTHER_READING, Figure, Scoreboard, first_heading, reading};
use crate::setting::Fingerprint;
use crate::{Row, RunLog, plot, rows, setting};

const STYLE: &str = include_str!("html/style.css");

/// The report for `report.html`.
///
/// Whatever comes from the log is escaped, and a policy in the page forbids scripts and requests
/// besides. What the log does not hold yet is named as missing.
pub fn html(log: &RunLog) -> String {
    let rows = rows(log);
    let name = text(&log.started.name);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <title>{name} · Formant</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{name}</h1>\n<p class=\"lead-in\">Personalized federated learning: one generic model \
         (GM) for everyone, one personal model (PM) for each client.</p>\n"
    );
    for warning in setting::warnings(log) {
        let _ = writeln!(page, "<p class=\"warning\">{}</p>", text(&warning));
    }
    facts(&mut page, log);
    results(&mut page, &rows);
    federation::section(&mut page, log);
    learning(&mut page, log, &rows);
    clients(&mut page, log, &rows);
    training(&mut page, log, &rows);
    cost::section(&mut page, log, &rows);
    reproduce(&mut page, log);
    let version = text(&log.started.formant);
    let _ = write!(
        page,
        "<footer>Written from events.jsonl of a run of Formant {version}.</footer>\n</main>\n\
         </body>\n</html>\n"
    );
    page
}

/// A text in which nothing is markup, fit for content and for quoted attributes.
pub(crate) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for letter in raw.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// A short line in a method's colour, which makes every table a legend.
fn swatch(slot: usize) -> String {
    format!("<span class=\"swatch s{}\"></span>", slot % COLOURS)
}

fn facts(page: &mut String, log: &RunLog) {
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in setting::facts(log) {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", text(&value));
    }
    page.push_str("</dl>\n");
}

fn results(page: &mut String, rows: &[Row]) {
    let board = Scoreboard::new(rows);
    page.push_str("<section>\n<h2>Results</h2>\n");
    let reading = reading(board.metric);
    let _ = writeln!(page, "<p class=\"caption\">{reading}</p>\n<div class=\"wide\"><table>");
    let first = first_heading(board.metric);
    headings(page, [first.as_str()].into_iter().chain(FIGURES).chain(["time"]));
    for (slot, entry) in board.entries.iter().enumerate() {
        let _ = write!(page, "<tr><th scope=\"row\">{}{}", swatch(slot), text(&entry.name));
        if let Some(progress) = &entry.progress {
            let _ = write!(page, " <span class=\"progress\">{}</span>", text(progress));
        }
        page.push_str(if entry.noted { " †</th>" } else { "</th>" });
        figures(page, &entry.figures);
        let _ = writeln!(page, "<td>{}</td></tr>", text(&entry.time));
    }
    page.push_str("</tbody>\n</table></div>\n");
    further(page, &board);
    if !board.notes.is_empty() {
        page.push_str("<ul class=\"notes\">\n");
        for note in &board.notes {
            let _ = writeln!(page, "<li>{}</li>", text(note));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

fn headings<'h>(page: &mut String, headings: impl Iterator<Item = &'h str>) {
    page.push_str("<thead><tr>");
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\">{heading}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

fn figures(page: &mut String, figures: &[Figure]) {
    for figure in figures {
        let shown = text(&figure.text);
        let _ = match (figure.aside, figure.best) {
            (true, _) => write!(page, "<td class=\"aside\">({shown})</td>"),
            (false, true) => write!(page, "<td class=\"best\">{shown}</td>"),
            (false, false) => write!(page, "<td>{shown}</td>"),
        };
    }
}

/// The table of the other metrics, if there are any: a group of rows for each.
fn further(page: &mut String, board: &Scoreboard) {
    if board.further.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<h3>Further metrics</h3>\n<p class=\"caption\">{FURTHER_READING}</p>\n\
         <div class=\"wide\"><table>"
    );
    headings(page, ["method"].into_iter().chain(FIGURES));
    for group in board.further.chunk_by(|a, b| a.metric == b.metric) {
        let title = group[0].metric.title();
        let _ = writeln!(
            page,
            "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{title}</th></tr>"
        );
        for entry in group {
            let (swatch, name) = (swatch(entry.slot), text(&entry.name));
            let _ = write!(page, "<tr><th scope=\"row\">{swatch}{name}</th>");
            figures(page, &entry.figures);
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn learning(page: &mut String, log: &RunLog, rows: &[Row]) {
    let metric = log.started.metrics.first().title();
    let _ = write!(
        page,
        "<section>\n<h2>Learning curves</h2>\n<p class=\"caption\">{} by round; round 0 is \
         before training. A ring marks each method's best round, a dashed line a figure that the \
         table puts in parentheses. The first rounds of a long run may lie {} the frame, and \
         each plot has its own scale.</p>\n<div class=\"pair\">\n",
        capital(metric),
        if log.started.metrics.first().less_is_better() { "above" } else { "below" },
    );
    let plots = [
        ("Generic model on the global test set", "GM", curves::gm(log, rows)),
        ("Personal models on the clients' own test sets", "PM", curves::pm(log, rows)),
    ];
    for (title, model, curves) in plots {
        let axis = format!("{model} {metric}, %");
        let says = format!("{title}: {metric} by round, one line per method");
        let drawn = plot::lines(&says, &axis, plot::Measure::Accuracy, &curves);
        card(page, title, drawn, unscored(log));
    }
    page.push_str("</div>\n</section>\n");
}

/// A title at the beginning of a sentence.
fn capital(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Why there is no score to draw.
fn unscored(log: &RunLog) -> &'static str {
    let is_unscored = log.methods.iter().all(|method| method.evaluations.is_empty());
    if is_unscored && log.started.side == Side::Server && log.started.global_test == 0 {
        "This server has no samples to score a model on; personal models are scored by their clients."
    } else if is_unscored {
        "No evaluation yet."
    } else {
        "This log has no score of these models. In a network, personal models and their scores stay \
         with their clients."
    }
}

fn clients(page: &mut String, log: &RunLog, rows: &[Row]) {
    let found = curves::clients(log, rows);
    let metric = log.started.metrics.first().title();
    let _ = write!(
        page,
        "<section>\n<h2>Client by client</h2>\n<p class=\"caption\">PM {metric} of every client at \
         the last evaluation, one dot per client. The bar is the plain mean over clients, the \
         triangle the mean of the worst tenth.",
    );
    if found.iter().any(|strip| strip.clients.len() > plot::DOTS) {
        let _ = write!(
            page,
            " Of more than {0} clients, {0} evenly spaced ranks are drawn.",
            plot::DOTS
        );
    }
    page.push_str("</p>\n");
    let says =
        format!("PM {metric} of every client at the last evaluation, one strip of dots per method");
    let drawn = strips(&says, &format!("PM {metric} of a client, %"), &found);
    card(page, "Personal models at the last evaluation", drawn, unscored(log));
    page.push_str("</section>\n");
}

fn training(page: &mut String, log: &RunLog, rows: &[Row]) {
    let sizes = &log.started.clients;
    page.push_str("<section>\n<h2>Training</h2>\n<div class=\"pair\">\n");
    let says = "Mean training loss of the shared phases by round, one line per method";
    let loss = plot::lines(says, "training loss", plot::Measure::Loss, &curves::loss(log, rows));
    card(page, "Training loss, mean over clients (shared phase)", loss, "No finished phase yet.");
    let says = format!("Samples of each of {} clients", count(sizes.len() as u64));
    let title = "Samples per client <span class=\"key\">to train on</span>\
                 <span class=\"key test\">to score on</span>";
    let unknown = if sizes.is_empty() {
        "The log names no clients."
    } else {
        "In a network, nobody but a client knows its data."
    };
    card(page, title, bars(&says, sizes), unknown);
    page.push_str(
        "</div>\n<p class=\"notes\">A loss is of its method's own objective, penalties included: \
         compare it over rounds rather than between methods.</p>\n</section>\n",
    );
}

fn reproduce(page: &mut String, log: &RunLog) {
    page.push_str("<section>\n<h2>Reproduce</h2>\n");
    for (command, purpose) in setting::commands(&log.started) {
        let _ = writeln!(
            page,
            "<pre>{}</pre>\n<p class=\"caption\">{}</p>",
            text(&command),
            text(&purpose)
        );
    }
    let prints = setting::fingerprints(log);
    if !prints.is_empty() {
        page.push_str(
            "<p>A run that is the same to the last bit ends with the same fingerprints:</p>\n<pre>",
        );
        for Fingerprint { of, print } in prints {
            let _ = writeln!(page, "{}  {}", text(&print), text(&of));
        }
        page.push_str("</pre>\n");
    }
    details(page, "The resolved experiment, every default filled in", &log.started.config);
    for method in &log.methods {
        let title = format!("Hyper-parameters of {} ({})", method.info.label, method.info.name);
        details(page, &title, &method.info.hyper_parameters);
    }
    page.push_str("</section>\n");
}

fn details(page: &mut String, summary: &str, value: &serde_json::Value) {
    let _ = writeln!(
        page,
        "<details><summary>{}</summary><pre>{}</pre></details>",
        text(summary),
        text(&format!("{value:#}"))
    );
}

/// A plot under its title, which is markup of ours, or what to say in its place.
fn card(page: &mut String, title: &str, plot: Option<String>, otherwise: &str) {
    let body = plot.unwrap_or_else(|| format!("<p class=\"missing\">{otherwise}</p>"));
    let _ = writeln!(page, "<div class=\"card\"><h3>{title}</h3>{body}</div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            text("<b title='x'>\"a\" & b</b>\u{1b}[1m"),
            "&lt;b title=&#39;x&#39;&gt;&quot;a&quot; &amp; b&lt;/b&gt;\u{fffd}[1m"
        );
    }
}
