//! `formant watch`: a run or a federation in the browser.

use crate::args::watch::WatchArgs;
use crate::output::{note, print};
use crate::service::{block_on, interrupted};
use anyhow::bail;
use formant_runtime::EVENTS_FILE;
use formant_study::Series;
use formant_watch::{Target, Watch};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The port that is tried first.
const PORT: u16 = 7702;

pub(crate) fn watch(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let target = target(args)?;
    let what = match (&target.folder, &target.ops) {
        (Some(folder), _) => folder.display().to_string(),
        (None, ops) => format!("the server at {}", ops.as_deref().unwrap_or_default()),
    };
    let waits = target
        .folder
        .as_ref()
        .is_some_and(|folder| !folder.join(EVENTS_FILE).exists() && !Series::is_one(folder));
    block_on(async {
        let watch = match args.port {
            Some(port) => Watch::start(target, port).await?,
            None => match Watch::start(target.clone(), PORT).await {
                Ok(watch) => watch,
                Err(_) => Watch::start(target, 0).await?,
            },
        };
        print(&format!("watching {what}\nopen     {}   (Ctrl-C ends it)\n", watch.url()))?;
        if waits {
            note!(
                "note: there is no log in {what} yet, and the page waits for one. A run's folder has {EVENTS_FILE}; below a folder of `formant reproduce`, those are in parts/"
            );
        }
        interrupted().await;
        watch.end().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn target(args: &WatchArgs) -> anyhow::Result<Target> {
    let ops = Some(args.ops.clone());
    let Some(given) = &args.target else {
        return Ok(Target { folder: Some(newest(Path::new("runs"))?), ops });
    };
    if given.is_dir() {
        return Ok(Target { folder: Some(given.clone()), ops });
    }
    let text = given.to_string_lossy();
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_some() && !given.exists() {
        // Asked once before a page is promised.
        formant_watch::status::fetch(&text)?;
        return Ok(Target { folder: None, ops: Some(text.into_owned()) });
    }
    bail!(
        "{text} is neither a folder nor an address\nhint: name a run folder, such as runs/quickstart-…, the state folder of a server, or the address of server.ops, such as 127.0.0.1:7701"
    );
}

/// The folder whose log has changed last.
fn newest(parent: &Path) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let changed = |folder: &Path| folder.join(EVENTS_FILE).metadata()?.modified();
    let runs = entries.filter_map(|entry| Some((changed(&entry.path()).ok()?, entry.path())));
    match runs.max() {
        Some((_, folder)) => Ok(folder),
        None => bail!(
            "there is no run below {}\nhint: start one with `formant run`, or name its folder",
            parent.display()
        ),
    }
}
