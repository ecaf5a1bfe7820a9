//! `formant status`.

use crate::args::network::StatusArgs;
use crate::output::{print, print_json};
use formant_network::server::{ClientStatus, Status};
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let status = formant_watch::status::fetch(&args.ops)?;
    if args.json {
        print_json(&status)?;
    } else {
        print(&table(&status)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(status: &Status) -> anyhow::Result<String> {
    let mut text = String::new();
    let present = status.clients.iter().filter(|client| client.present).count();
    writeln!(text, "run       {} ({}), {}", status.name, status.method, status.run)?;
    if !status.experiment.is_empty() {
        writeln!(text, "approve   {}", status.experiment)?;
    }
    match &status.end {
        None => writeln!(
            text,
            "round     {} of {}, open for {:.1} s, {} uploads kept",
            status.round, status.rounds, status.round_seconds, status.kept
        )?,
        Some(end) => writeln!(
            text,
            "over      after {} rounds{}, fingerprint {}",
            end.rounds,
            end.stopped.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
            end.fingerprint
        )?,
    }
    if let Some(privacy) = &status.privacy {
        writeln!(text, "privacy   {}", formant_report::spent(privacy))?;
    }
    if let Some(why) = &status.trouble {
        writeln!(text, "trouble   {why}")?;
    }
    if status.generation > 0 {
        writeln!(text, "back      taken back {} times", status.generation)?;
    }
    writeln!(text, "time      {:.1} s", status.seconds)?;
    writeln!(
        text,
        "traffic   {:.1} MB received, {:.1} MB sent",
        status.received_bytes as f64 / 1e6,
        status.sent_bytes as f64 / 1e6
    )?;
    for (reason, count) in &status.refused {
        writeln!(text, "refused   {count} uploads: {reason}")?;
    }
    writeln!(text, "clients   {present} of {} present", status.clients.len())?;
    for client in &status.clients {
        let presence = if client.present { "present" } else { "away" };
        let uploaded = match client {
            ClientStatus { excluded: true, .. } => "excluded",
            ClientStatus { uploaded: true, .. } => "uploaded",
            _ => "",
        };
        writeln!(text, "          {:20} {presence:8} {uploaded}", client.name)?;
    }
    Ok(text)
}
