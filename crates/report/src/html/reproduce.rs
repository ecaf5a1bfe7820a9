//! How to get the same again, and everything that the run was given.

use std::fmt::Write;

use super::text;
use crate::setting::Fingerprint;
use crate::{RunLog, setting};

/// Commands, fingerprints, and the experiment as it was resolved.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let log = &logs[0];
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
}

fn details(page: &mut String, summary: &str, value: &serde_json::Value) {
    let _ = writeln!(
        page,
        "<details><summary>{}</summary><pre>{}</pre></details>",
        text(summary),
        text(&format!("{value:#}"))
    );
}
