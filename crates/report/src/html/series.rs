//! The report of one experiment with several seeds.

use std::fmt::Write;

use super::{STYLE, facts, figures, headings, significance, swatch, text};
use crate::scoreboard::{FIGURES, first_heading, reading};
use crate::seeds::notes;
use crate::{ReportError, RunLog, covers, over_seeds};

/// The page for `report.html` of a series: means over the seeds and who is ahead.
pub fn series_html(logs: &[RunLog]) -> Result<String, ReportError> {
    let rows = over_seeds(logs)?;
    let Some(first) = logs.first() else { return Ok(String::new()) };
    let (name, metric) = (text(&first.started.name), first.started.metrics.first());
    let seeds: Vec<String> = logs.iter().map(|log| log.started.seed.to_string()).collect();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <title>{name} · Formant</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{name}</h1>\n<p class=\"lead-in\">The seeds {}. Every one has a report of its own in its \
         folder.</p>\n",
        seeds.join(", ")
    );
    facts(&mut page, first);
    let _ = writeln!(
        page,
        "<section>\n<h2>Results</h2>\n<p class=\"caption\">{} Mean ± standard deviation over the seeds: \
         {}.</p>\n<div class=\"wide\"><table>",
        reading(metric),
        text(&covers(logs))
    );
    let heading = first_heading(metric);
    headings(&mut page, [heading.as_str()].into_iter().chain(FIGURES));
    for (slot, row) in rows.iter().enumerate() {
        let failed = if row.failed > 0 { " †" } else { "" };
        let name = text(&row.name);
        let _ = write!(page, "<tr><th scope=\"row\">{}{name}{failed}</th>", swatch(slot));
        let spreads = [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last];
        let cells =
            spreads.iter().enumerate().map(|(place, spread)| row.cell(*spread, place, true));
        figures(&mut page, &cells.collect::<Vec<_>>());
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n<ul class=\"notes\">\n");
    for note in notes(&rows) {
        let _ = writeln!(page, "<li>{}</li>", text(&note));
    }
    page.push_str("</ul>\n</section>\n");
    significance::section(&mut page, logs);
    let version = text(&first.started.formant);
    let _ = write!(
        page,
        "<footer>Written from the logs of {} runs of Formant {version}.</footer>\n</main>\n</body>\n</html>\n",
        logs.len()
    );
    Ok(page)
}
