//! `formant runs`: what run folders there are.

use crate::args::runs::RunsArgs;
use crate::output::{colour_on_stdout, markdown_table, print, print_json};
use formant_study::{Best, Kind, Listed, State, inventory};
use std::process::ExitCode;

/// Characters of a cell that may be long.
const LONG: usize = 40;

pub(crate) fn runs(args: &RunsArgs) -> anyhow::Result<ExitCode> {
    let found = inventory(&args.dir)?;
    if args.json {
        let list = found.iter().map(|listed| {
            let mut value = serde_json::to_value(listed)?;
            value["date"] = date(listed, "%Y-%m-%dT%H:%M:%SZ").into();
            Ok(value)
        });
        print_json(&list.collect::<anyhow::Result<Vec<_>>>()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        print(&format!("no runs in {}\n", args.dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = ["run", "state", "last written", "data", "methods", "best GM", "best PM"];
    let mut cells = vec![headings.map(str::to_owned).to_vec()];
    cells.extend(found.iter().map(line));
    print(&markdown_table(&cells))?;
    Ok(ExitCode::SUCCESS)
}

fn line(listed: &Listed) -> Vec<String> {
    let best = |best: &Option<Best>| {
        let text = |best: &Best| format!("{:.1} {}", 100.0 * best.figure, best.method);
        best.as_ref().map_or_else(|| "–".to_owned(), text)
    };
    vec![
        listed.name.clone(),
        // A terminal wraps what a file may hold whole.
        if colour_on_stdout() { shortened(&state(listed)) } else { state(listed) },
        date(listed, "%Y-%m-%d %H:%M").unwrap_or_else(|| "–".to_owned()),
        listed.dataset.clone().unwrap_or_else(|| "–".to_owned()),
        methods(listed),
        best(&listed.gm),
        best(&listed.pm),
    ]
}

fn methods(listed: &Listed) -> String {
    match listed.methods.as_slice() {
        [] => "–".to_owned(),
        few if few.len() <= 2 => few.join(", "),
        many => format!("{}, … ({})", many[0], many.len()),
    }
}

fn state(listed: &Listed) -> String {
    let of_kind = match (listed.kind, listed.seeds.len()) {
        (Kind::Series, seeds) => format!(", {seeds} seeds"),
        (Kind::Sweep, _) => ", sweep".to_owned(),
        (Kind::Run, _) => String::new(),
    };
    match &listed.state {
        State::Finished => format!("finished{of_kind}"),
        State::Running { at } => format!("running: {at}"),
        State::Interrupted { at } => format!("interrupted: {at}"),
        State::NotStarted => "not started".to_owned(),
        State::Damaged { why } => format!("damaged: {}", why.replace('|', "/")),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LONG {
        return text.to_owned();
    }
    text.chars().take(LONG - 1).chain(['…']).collect()
}

fn date(listed: &Listed, format: &str) -> Option<String> {
    let time = jiff::Timestamp::try_from(listed.modified?).ok()?;
    Some(time.strftime(format).to_string())
}
