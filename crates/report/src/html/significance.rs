//! Who is really ahead: every method against the baseline, with intervals.

use std::fmt::Write;

use super::drawing::scrolling;
use super::{Drawing, headings, swatch, text};
use crate::differences::{baseline_name, reading, shown};
use crate::plot::{Whisker, whiskers};
use crate::{Contest, ContestEntry, RunLog, Significance, Standing, significance};

/// The verdicts, the table and the plots, if there are methods to compare. The runs differ in their seeds alone;
/// others have no section.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Some(found) = found(logs) else { return };
    let _ = writeln!(page, "<p class=\"caption\">{}</p>", text(&introduction(&found)));
    verdicts(page, &found);
    table(page, &found.contests);
    page.push_str("<div class=\"pair\">\n");
    for drawing in figures(logs) {
        drawing.show(page);
    }
    page.push_str("</div>\n");
}

/// The plots of the differences.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let Some(found) = found(logs) else { return Vec::new() };
    found.contests.iter().filter_map(plot).collect()
}

/// Every method against the others, if there is something to compare.
fn found(logs: &[RunLog]) -> Option<Significance> {
    let found = significance(logs, None).ok()?;
    let differs = |contest: &Contest| contest.entries.iter().any(|e| e.to_baseline.is_some());
    found.contests.iter().any(differs).then_some(found)
}

/// What the intervals are and what they cover.
fn introduction(found: &Significance) -> String {
    format!(
        "{} Both methods of a difference are drawn with the same seeds and clients ({} draws). The intervals cover \
         {}{}",
        reading(&found.contests).trim_end(),
        found.resamples,
        found.covers,
        if found.seeds.len() > 1 {
            "; and the clients (PM) and test samples (GM) that there happen to be."
        } else {
            "."
        }
    )
}

/// For each column, who is ahead or shares the lead.
fn verdicts(page: &mut String, found: &Significance) {
    page.push_str("<ul class=\"notes\">\n");
    for contest in &found.contests {
        let stands = |standing: Standing| -> Vec<&str> {
            let those = contest.entries.iter().filter(|entry| entry.standing == Some(standing));
            those.map(|entry| entry.name.as_str()).collect()
        };
        let (ahead, tied) = (stands(Standing::Ahead), stands(Standing::Tied));
        let verdict = match (ahead.first(), tied.as_slice()) {
            (Some(name), _) => format!("{name} is ahead of every other method"),
            (None, [others @ .., last]) if !others.is_empty() => {
                format!("{} and {last} cannot be told apart", others.join(", "))
            }
            _ => continue,
        };
        let _ = writeln!(page, "<li>{}: {}.</li>", contest.figure.title(), text(&verdict));
    }
    page.push_str("</ul>\n");
}

fn table(page: &mut String, contests: &[Contest]) {
    let mut content = String::from("<table class=\"dense\">\n");
    let titles: Vec<String> = contests
        .iter()
        .map(|contest| {
            let base = baseline_name(contest).unwrap_or("–");
            format!("{}, to {}", contest.figure.title(), text(base))
        })
        .collect();
    headings(&mut content, ["method"].into_iter().chain(titles.iter().map(String::as_str)));
    for place in 0..contests.first().map_or(0, |contest| contest.entries.len()) {
        let name = text(&contests[0].entries[place].name);
        let _ = write!(content, "<tr><th scope=\"row\">{}{name}</th>", swatch(place));
        for contest in contests {
            cell(&mut content, &contest.entries[place]);
        }
        content.push_str("</tr>\n");
    }
    content.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Differences to the baseline", &content);
}

fn cell(page: &mut String, entry: &ContestEntry) {
    let _ = match &entry.to_baseline {
        None => write!(page, "<td>–</td>"),
        Some(difference) if !entry.competes => {
            write!(page, "<td class=\"aside\">({})</td>", text(&shown(difference)))
        }
        Some(difference) if difference.is_told() => {
            write!(page, "<td class=\"told\">{}</td>", text(&shown(difference)))
        }
        Some(difference) => write!(page, "<td>{}</td>", text(&shown(difference))),
    };
}

fn plot(contest: &Contest) -> Option<Drawing> {
    let base = baseline_name(contest)?;
    let title = contest.figure.title();
    let drawn: Vec<Whisker> = contest
        .entries
        .iter()
        .enumerate()
        .filter_map(|(slot, entry)| {
            let difference = entry.to_baseline.as_ref()?;
            let interval = difference.interval.map(|i| (100.0 * i.low, 100.0 * i.high));
            Some(Whisker {
                name: entry.name.clone(),
                slot,
                aside: !entry.competes,
                mean: 100.0 * difference.mean,
                interval,
                says: format!("{} against {base}: {}", entry.name, shown(difference)),
            })
        })
        .collect();
    let says = format!("{title}: differences to {base} with 95 % intervals, one line per method");
    let svg = whiskers(&says, &format!("points above {base}"), &drawn);
    let name = title.to_lowercase().replace(' ', "-");
    let title = format!("{title}, difference to {base}");
    Some(Drawing::new(format!("ahead-{name}"), title, svg, "Nothing to compare yet."))
}
