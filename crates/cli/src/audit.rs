//! `formant audit`.

use crate::args::audit::{AuditArgs, AuditCommand, AuditShowArgs, AuditVerifyArgs};
use crate::output::{print, print_json};
use anyhow::bail;
use formant_network::audit::{FILE, Record, Verified, records, verify as check};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn audit(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        AuditCommand::Verify(args) => verify(args),
        AuditCommand::Show(args) => show(args),
    }
}

fn verify(args: &AuditVerifyArgs) -> anyhow::Result<ExitCode> {
    there(&args.state)?;
    let Verified { head, problems } = check(&args.state, args.head.as_deref())?;
    if args.json {
        print_json(&serde_json::json!({ "head": head, "problems": problems }))?;
    } else {
        let mut text = format!("lines  {}\nchain  {}\n", head.lines, head.chain);
        for problem in &problems {
            writeln!(text, "wrong  {problem}")?;
        }
        if problems.is_empty() {
            text.push_str("whole  every line is as it was written, and none is missing\n");
        }
        print(&text)?;
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(args: &AuditShowArgs) -> anyhow::Result<ExitCode> {
    there(&args.state)?;
    let about =
        |record: &Record| args.client.as_deref().is_none_or(|name| record.entry.concerns(name));
    let shown: Vec<Record> = records(&args.state)?.into_iter().filter(about).collect();
    if args.json {
        print_json(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for record in &shown {
        let said = serde_json::to_value(&record.entry)?;
        let Some(said) = said.as_object() else { continue };
        let event = said.get("event").and_then(|event| event.as_str()).unwrap_or_default();
        write!(text, "{:6}  {}  {event:11}", record.line, record.at.strftime("%Y-%m-%d %H:%M:%S"))?;
        for (key, value) in said.iter().filter(|(key, _)| *key != "event") {
            match value.as_str() {
                Some(value) => write!(text, "  {key} {value}")?,
                None => write!(text, "  {key} {value}")?,
            }
        }
        text.push('\n');
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn there(state: &Path) -> anyhow::Result<()> {
    let log = state.join(FILE);
    if !log.is_file() {
        bail!(
            "there is no audit log {}\nhint: name the folder of a server: server.state in its file, or --state",
            log.display()
        );
    }
    Ok(())
}
