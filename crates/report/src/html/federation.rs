//! What a server knows of its clients: who has answered how often, and what was refused.

use std::collections::BTreeMap;
use std::fmt::Write;

use formant_runtime::event::Side;

use super::drawing::scrolling;
use super::{headings, text};
use crate::quantity::{bytes, count};
use crate::{MethodLog, RunLog};

/// Of more clients, those with troubles come first and the rest is counted.
const SHOWN: usize = 200;

/// What a server has seen of a client.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    uploads: usize,
    bytes: u64,
    last: Option<usize>,
    refused: BTreeMap<String, usize>,
    failed: usize,
}

/// The section, in the log of a server.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let log = &logs[0];
    if log.started.side != Side::Server {
        return;
    }
    let Some(method) = log.methods.first() else { return };
    let seen = seen(log, method);
    let mut order: Vec<usize> = (0..seen.len()).collect();
    // Troubles first, if not all can be shown.
    if seen.len() > SHOWN {
        let troubles = |place: &usize| {
            let seen = &seen[*place];
            seen.refused.values().sum::<usize>() + seen.failed
        };
        order.sort_by_key(|place| (std::cmp::Reverse(troubles(place)), *place));
    }
    page.push_str(
        "<p class=\"caption\">A server sees uploads, and nobody's data, personal model or score of it. The \
         last column says why uploads did not count.</p>\n",
    );
    let mut table = String::from("<table class=\"dense figures\">\n");
    let titles = ["client", "uploads", "last round", "sent", "failed", "refused"];
    headings(&mut table, titles.into_iter());
    for &place in order.iter().take(SHOWN) {
        let one = &seen[place];
        let refused: Vec<String> =
            one.refused.iter().map(|(reason, times)| format!("{times} × {reason}")).collect();
        let cells = [
            count(one.uploads as u64),
            one.last.map_or_else(|| "–".to_owned(), |round| count(round as u64)),
            bytes(one.bytes),
            count(one.failed as u64),
            if refused.is_empty() { "–".to_owned() } else { refused.join(", ") },
        ];
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>", text(&name(log, place)));
        for cell in cells {
            let _ = write!(table, "<td>{}</td>", text(&cell));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Clients", &table);
    if seen.len() > SHOWN {
        let more = count((seen.len() - SHOWN) as u64);
        let _ = writeln!(page, "<p class=\"notes\">And {more} more with fewer troubles.</p>");
    }
}

/// What a client is called.
fn name(log: &RunLog, client: usize) -> String {
    log.started.names.get(client).cloned().unwrap_or_else(|| format!("client {client}"))
}

fn seen(log: &RunLog, method: &MethodLog) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); log.started.clients.len()];
    for (&round, done) in &method.rounds {
        for &(client, bytes) in &done.uploads {
            if let Some(one) = seen.get_mut(client) {
                one.uploads += 1;
                one.bytes = one.bytes.saturating_add(bytes);
                one.last = one.last.max(Some(round));
            }
        }
    }
    for refused in &method.refusals {
        if let Some(one) = seen.get_mut(refused.client) {
            *one.refused.entry(refused.reason.clone()).or_default() += 1;
        }
    }
    for failure in method.failures() {
        if let Some(one) = seen.get_mut(failure.client) {
            one.failed += 1;
        }
    }
    seen
}
