//! The report as one HTML file: no scripts, nothing from the network, light and dark, printable.
//!
//! The page is a list of sections ([`SECTIONS`]), each made of parts. A part lives in a module of its own
//! and has two functions: `section` writes the content below the section's heading (nothing at all if it
//! has nothing to show), and `figures` gives its plots away. Both take them from the same drawing code:
//! a [`Drawing`] is shown in the page by [`Drawing::show`] and is a file of its own in [`figures`].

mod clients;
mod cost;
mod curves;
mod division;
mod drawing;
pub(crate) mod errors;
mod federation;
pub(crate) mod gains;
mod newcomers;
mod panels;
pub(crate) mod ranks;
mod reproduce;
mod results;
mod schedule;
mod setup;
mod significance;
mod sizes;
pub(crate) mod spectra;

use std::collections::BTreeSet;
use std::fmt::Write;

pub use drawing::Figure;
pub(crate) use drawing::{Drawing, scrolling};

use formant_runtime::event::Side;

use crate::plot::{self, DARK, LIGHT, declarations};
use crate::quantity::duration;
use crate::{RunLog, over_seeds, setting};

const STYLE: &str = include_str!("html/style.css");

/// A section of the page.
struct Section {
    /// What links to it name.
    id: &'static str,
    title: &'static str,
    /// What it consists of. If none of them writes anything, the section is left out.
    parts: &'static [Part],
}

/// A part of a section. The first log is the run, others are the same experiment with other seeds; there
/// is one at least.
struct Part {
    /// Writes it: markup below the section's heading, with headings from `<h3>` on.
    section: fn(&mut String, &[RunLog]),
    /// The plots in it.
    figures: fn(&[RunLog]) -> Vec<Drawing>,
}

/// All sections, in reading order.
const SECTIONS: &[Section] = &[
    Section {
        id: "results",
        title: "Results",
        parts: &[Part { section: results::section, figures: none }],
    },
    Section {
        id: "federation",
        title: "The clients, as the server knows them",
        parts: &[Part { section: federation::section, figures: none }],
    },
    Section {
        id: "significance",
        title: "Who is ahead",
        parts: &[Part { section: significance::section, figures: significance::figures }],
    },
    Section {
        id: "curves",
        title: "Learning curves",
        parts: &[Part { section: curves::section, figures: curves::figures }],
    },
    Section {
        id: "gains",
        title: "Who gains",
        parts: &[Part { section: gains::section, figures: gains::figures }],
    },
    Section {
        id: "clients",
        title: "Client by client",
        parts: &[Part { section: clients::section, figures: clients::figures }],
    },
    Section {
        id: "newcomers",
        title: "Newcomers",
        parts: &[Part { section: newcomers::section, figures: newcomers::figures }],
    },
    Section {
        id: "errors",
        title: "Errors and calibration",
        parts: &[Part { section: errors::section, figures: errors::figures }],
    },
    Section {
        id: "spectra",
        title: "Spectra",
        parts: &[Part { section: spectra::section, figures: spectra::figures }],
    },
    Section {
        id: "data",
        title: "Data",
        parts: &[
            Part { section: division::section, figures: division::figures },
            Part { section: sizes::section, figures: sizes::figures },
        ],
    },
    Section {
        id: "schedule",
        title: "Schedule",
        parts: &[Part { section: schedule::section, figures: schedule::figures }],
    },
    Section {
        id: "cost",
        title: "Cost",
        parts: &[
            Part { section: cost::section, figures: none },
            Part { section: ranks::section, figures: none },
        ],
    },
    Section {
        id: "setup",
        title: "What was run",
        parts: &[Part { section: setup::section, figures: none }],
    },
    Section {
        id: "reproduce",
        title: "Reproduce",
        parts: &[Part { section: reproduce::section, figures: none }],
    },
];

fn none(_: &[RunLog]) -> Vec<Drawing> {
    Vec::new()
}

/// The report for `report.html`: of a run, and of others that differ from it in their seeds alone.
///
/// Whatever comes from the logs is escaped, and a policy in the page forbids scripts and requests
/// besides. What the logs do not hold yet is named as missing.
pub fn html(logs: &[RunLog]) -> String {
    let name = logs.first().map(|log| text(&log.started.name)).unwrap_or_default();
    let mut page = head(&name);
    let _ = write!(
        page,
        "<a class=\"skip\" href=\"#content\">Skip to the results</a>\n\
         <header>\n<h1>{name}</h1>\n<p class=\"lead-in\">Personalized federated learning: one \
         generic model (GM) for everyone, one personal model (PM) for each client.</p>\n"
    );
    let Some(log) = logs.first() else {
        page.push_str("<p>There is no run to report.</p>\n</header>\n</body>\n</html>\n");
        return page;
    };
    let refused = over_seeds(logs).err();
    // Runs that are no repetitions cannot be averaged: the first one is shown alone.
    let logs = if refused.is_some() { &logs[..1] } else { logs };
    let alone = refused.map(|why| format!("Only the first of the runs is shown: {why}."));
    for warning in logs.iter().flat_map(setting::warnings).chain(alone) {
        let _ = writeln!(page, "<p class=\"warning\">{}</p>", text(&warning));
    }
    facts(&mut page, logs);
    page.push_str("</header>\n");
    let sections = SECTIONS.iter().map(|Section { id, title, parts }| {
        let mut body = String::new();
        for part in *parts {
            (part.section)(&mut body, logs);
        }
        (*id, *title, body)
    });
    sectioned(&mut page, sections);
    let version = text(&log.started.formant);
    let _ = write!(
        page,
        "<footer>Written from events.jsonl of a run of Formant {version}.</footer>\n\
         </body>\n</html>\n"
    );
    page
}

/// Sections that have something to say, by their names for links and for people, and the list of them.
pub(crate) fn sectioned<'s>(
    page: &mut String,
    sections: impl Iterator<Item = (&'s str, &'s str, String)>,
) {
    let mut content = String::new();
    page.push_str("<nav aria-label=\"Sections\">\n<ol>\n");
    for (id, title, body) in sections.filter(|(_, _, body)| !body.is_empty()) {
        let _ = writeln!(page, "<li><a href=\"#{id}\">{title}</a></li>");
        let _ = write!(
            content,
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n\
             <h2 id=\"{id}-title\">{title}</h2>\n{body}</section>\n"
        );
    }
    let _ =
        write!(page, "</ol>\n</nav>\n<main id=\"content\" tabindex=\"-1\">\n{content}</main>\n");
}

/// How every page begins, up to its body; the title is markup.
pub(crate) fn head(title: &str) -> String {
    let (light, dark) = (declarations(LIGHT), declarations(DARK));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>{title} · Formant</title>\n<style>\n\
         :root {{ color-scheme: light dark; {light}}}\n\
         @media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{}{STYLE}</style>\n\
         </head>\n<body>\n",
        plot::STYLE
    )
}

/// The report of a single run.
pub fn html_of(log: &RunLog) -> String {
    html(std::slice::from_ref(log))
}

/// All plots of the report, each as an SVG file of its own, in the order of the page.
///
/// ```
/// use formant_report::{RunLog, figures};
///
/// # let lines = r#"{"event":"run_started","format":1,"formant":"0.1.0","name":"tiny","seed":7,"rounds":1,"config":{},"network":"lenet5","parameters":44426,"dataset":"mnist","split":"test","global_test":100,"clients":[{"train":80,"test":20}],"methods":[]}
/// # "#;
/// let log = RunLog::from_reader("events.jsonl".as_ref(), lines.as_bytes())?;
/// let drawn = figures(&[log]);
/// assert_eq!(drawn[0].name, "client-sizes");
/// assert!(drawn[0].svg.starts_with("<svg xmlns="));
/// # Ok::<(), formant_report::ReportError>(())
/// ```
pub fn figures(logs: &[RunLog]) -> Vec<Figure> {
    if logs.is_empty() {
        return Vec::new();
    }
    let logs = if over_seeds(logs).is_err() { &logs[..1] } else { logs };
    let parts = SECTIONS.iter().flat_map(|section| section.parts);
    let drawings = parts.flat_map(|part| (part.figures)(logs));
    let mut names = BTreeSet::new();
    // Two plots of one name would overwrite each other's files.
    drawings
        .filter_map(Drawing::figure)
        .filter(|figure| names.insert(figure.name.clone()))
        .collect()
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

/// A short line with a method's colour, dash and marker, which makes every table a legend.
fn swatch(slot: usize) -> String {
    format!(
        "<svg class=\"swatch {}\" viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path class=\"line\" \
         d=\"M1 5H21\"/><path class=\"mark\" d=\"{}\"/></svg>",
        plot::colour(slot),
        plot::marker(slot, (11.0, 5.0), 3.2)
    )
}

fn facts(page: &mut String, logs: &[RunLog]) {
    page.push_str("<dl class=\"facts\">\n");
    for (name, mut value) in setting::facts(&logs[0]) {
        match name {
            _ if logs.len() == 1 => {}
            "seed" => {
                let seeds: Vec<_> = logs.iter().map(|log| log.started.seed.to_string()).collect();
                value = seeds.join(", ");
            }
            "wall time" => {
                let all: Option<f64> = logs.iter().map(|log| log.seconds).sum();
                value = all.map_or(value, |all| format!("{} in all runs", duration(all)));
            }
            "models" => value = format!("each run: {value}"),
            _ => {}
        }
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", text(&value));
    }
    page.push_str("</dl>\n");
}

/// The head of a table, from markup, up to where its rows begin.
pub(crate) fn headings(page: &mut String, headings: impl Iterator<Item = impl AsRef<str>>) {
    page.push_str("<thead><tr>");
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\">{}</th>", heading.as_ref());
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// A title at the beginning of a sentence.
fn capital(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Why there is no score to draw.
fn unscored(log: &RunLog) -> &'static str {
    if log.methods.iter().all(|method| method.evaluations.is_empty()) {
        if log.started.side == Side::Server && log.started.global_test == 0 {
            return "This server has no samples to score a model on; personal models are scored by their clients.";
        }
        if log.seconds.is_some() {
            return "This log has no scores: whoever wrote it had nothing to score models on.";
        }
        "No evaluation yet."
    } else {
        "This log has no score of these models. In a network, personal models and their scores stay \
         with their clients."
    }
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
