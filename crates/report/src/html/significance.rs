//! Who is really ahead: every method against the baseline, with intervals.

use std::fmt::Write;

use super::{card, headings, swatch, text};
use crate::differences::{baseline_name, reading, shown};
use crate::plot::{Whisker, whiskers};
use crate::{Contest, ContestEntry, RunLog, Significance, Standing, significance};

/// The section, if there are methods to compare. The runs differ in their seeds alone; others have no section.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Ok(found) = significance(logs, None) else { return };
    let differs = |contest: &Contest| contest.entries.iter().any(|e| e.to_baseline.is_some());
    if !found.contests.iter().any(differs) {
        return;
    }
    page.push_str("<section>\n<h2>Who is ahead</h2>\n");
    let _ = writeln!(page, "<p class=\"caption\">{}</p>", text(&introduction(&found)));
    verdicts(page, &found);
    table(page, &found.contests);
    page.push_str("<div class=\"pair\">\n");
    for contest in &found.contests {
        plot(page, contest);
    }
    page.push_str("</div>\n</section>\n");
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
    page.push_str("<div class=\"wide\"><table class=\"dense\">\n");
    let titles: Vec<String> = contests
        .iter()
        .map(|contest| {
            let base = baseline_name(contest).unwrap_or("–");
            format!("{}, to {}", contest.figure.title(), text(base))
        })
        .collect();
    headings(page, ["method"].into_iter().chain(titles.iter().map(String::as_str)));
    for place in 0..contests.first().map_or(0, |contest| contest.entries.len()) {
        let name = text(&contests[0].entries[place].name);
        let _ = write!(page, "<tr><th scope=\"row\">{}{name}</th>", swatch(place));
        for contest in contests {
            cell(page, &contest.entries[place]);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
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

fn plot(page: &mut String, contest: &Contest) {
    let Some(base) = baseline_name(contest) else { return };
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
    card(page, &text(&format!("{title}, difference to {base}")), svg, "Nothing to compare yet.");
}
