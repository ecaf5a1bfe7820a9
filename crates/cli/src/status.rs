//! `formant status`.

use crate::args::network::StatusArgs;
use crate::output::{print, print_json};
use anyhow::{Context, bail};
use formant_network::server::Status;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer.
const LONGEST: u64 = 64 << 20;

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let body = fetch(&args.ops).with_context(|| {
        format!(
            "no server answers at {}\nhint: give the address of server.ops with --ops, on the machine of the server",
            args.ops
        )
    })?;
    let status: Status = serde_json::from_str(&body).with_context(|| {
        format!("{} is not a Formant server\nhint: give the address of server.ops", args.ops)
    })?;
    if args.json {
        print_json(&status)?;
    } else {
        print(&table(&status)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One request, in the oldest way there is.
fn fetch(address: &str) -> anyhow::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    write!(socket, "GET /status HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    socket.take(LONGEST).read_to_string(&mut answer)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("no HTTP answer") };
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}

fn table(status: &Status) -> anyhow::Result<String> {
    let mut text = String::new();
    let present = status.clients.iter().filter(|client| client.present).count();
    writeln!(text, "run       {} ({}), {}", status.name, status.method, status.run)?;
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
        let uploaded = if client.uploaded { "uploaded" } else { "" };
        writeln!(text, "          {:20} {presence:8} {uploaded}", client.name)?;
    }
    Ok(text)
}
