//! `formant cert`.

use crate::args::cert::{
    CertArgs, CertAuthorityArgs, CertClientArgs, CertCommand, CertInitArgs, CertListArgs,
    CertRenewArgs, CertRevokeArgs, CertServerArgs, HostArgs,
};
use crate::output::{pasteable, print, print_json};
use crate::program;
use formant_network::identity::{
    Authority, DEFAULT_HOSTS, Entry, IssuedClient, IssuedServer, Kind, Ledger, Standing, Validity,
    file,
};
use jiff::Timestamp;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn cert(args: &CertArgs) -> anyhow::Result<ExitCode> {
    let said = match &args.command {
        CertCommand::Init(args) => init(args),
        CertCommand::Server(args) => server(args),
        CertCommand::Client(args) => client(args),
        CertCommand::Renew(args) => renew(args),
        CertCommand::Authority(args) => authority(args),
        CertCommand::Revoke(args) => revoke(args),
        CertCommand::List(args) => return list(args),
    }?;
    print(&said)?;
    Ok(ExitCode::SUCCESS)
}

fn init(args: &CertInitArgs) -> anyhow::Result<String> {
    let dir = &args.place.dir;
    let validity = Validity::days(args.days)?;
    let hosts = hosts(&args.names);
    let (authority, server) = Authority::create_with_server(dir, validity, args.force, &hosts)?;
    let mut text = String::new();
    writeln!(text, "made an authority, good until {}", day(authority.expires()))?;
    writeln!(text, "  {}", dir.join(file::AUTHORITY).display())?;
    writeln!(text, "  {}  never leaves this machine", dir.join(file::AUTHORITY_KEY).display())?;
    text.push_str(&made_server(&server, dir)?);
    writeln!(text, "\nEvery client gets its own bundle, and nothing else:")?;
    writeln!(text, "  {} cert client NAME{}", program::name(), dir_flag(dir))?;
    writeln!(
        text,
        "Whoever has {} can admit anybody: keep a backup in a safe place.",
        file::AUTHORITY_KEY
    )?;
    if args.force {
        writeln!(text, "Certificates of a former authority in {} are worthless.", dir.display())?;
    }
    Ok(text)
}

fn server(args: &CertServerArgs) -> anyhow::Result<String> {
    let dir = &args.place.dir;
    let validity = Validity::days(args.days)?;
    let issued = Authority::open(dir)?.issue_server(&hosts(&args.names), validity)?;
    let mut text = made_server(&issued, dir)?;
    text.push_str("\nA running server uses it after a restart.\n");
    Ok(text)
}

fn made_server(server: &IssuedServer, dir: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let (hosts, until) = (server.entry.name.replace(' ', ", "), day(server.entry.expires));
    writeln!(text, "made the server's certificate for {hosts}, good until {until}")?;
    writeln!(text, "  {}", server.certificate.display())?;
    writeln!(text, "  {}  goes nowhere but to the server", server.key.display())?;
    let needed = [file::AUTHORITY, file::SERVER, file::SERVER_KEY, file::REVOKED];
    let needed = needed.map(|name| pasteable(&dir.join(name))).join(" ");
    writeln!(text, "\nIf the server is another machine, copy these files to it:\n  {needed}")?;
    Ok(text)
}

fn renew(args: &CertRenewArgs) -> anyhow::Result<String> {
    let dir = &args.place.dir;
    let Some(name) = &args.name else {
        let validity = Validity::days(args.days.unwrap_or(3_650))?;
        let mut text = made_server(&Authority::open(dir)?.renew_server(validity)?, dir)?;
        text.push_str("\nA running server uses it after a restart.\n");
        return Ok(text);
    };
    let validity = Validity::days(args.days.unwrap_or(365))?;
    let (issued, retired) = Authority::open(dir)?.renew_client(name, validity, args.retire)?;
    let mut text = made_client(&issued, dir)?;
    if args.retire {
        for entry in &retired {
            writeln!(text, "revoked the one before, serial {}", entry.serial)?;
        }
        writeln!(text, "Copy {} to the server.", dir.join(file::REVOKED).display())?;
    } else {
        writeln!(text, "The certificate before it stays good until its own end.")?;
    }
    Ok(text)
}

fn authority(args: &CertAuthorityArgs) -> anyhow::Result<String> {
    let dir = &args.place.dir;
    let mut authority = Authority::open(dir)?;
    let mut text = String::new();
    let trusted = dir.join(file::AUTHORITY);
    if args.beside {
        authority.succeed(Validity::days(args.days)?)?;
        writeln!(text, "made a new authority, good until {}", day(authority.expires()))?;
        writeln!(text, "  {}  holds both: certificates of either are trusted", trusted.display())?;
        writeln!(text, "\nNow, in this order:")?;
        writeln!(
            text,
            "  copy {} and {} to the server, and start it again",
            file::AUTHORITY,
            file::REVOKED
        )?;
        writeln!(text, "  {} cert renew NAME{}  for every client", program::name(), dir_flag(dir))?;
        writeln!(text, "  {} cert renew --server{}", program::name(), dir_flag(dir))?;
        writeln!(text, "  {} cert authority --retire{}", program::name(), dir_flag(dir))?;
    } else {
        match authority.retire_former()? {
            0 => writeln!(text, "there is only one authority")?,
            former => writeln!(text, "{former} former authorities are trusted no longer")?,
        }
        writeln!(text, "  {}  copy it to the server, and start that again", trusted.display())?;
    }
    Ok(text)
}

fn client(args: &CertClientArgs) -> anyhow::Result<String> {
    let validity = Validity::days(args.days)?;
    let dir = &args.place.dir;
    let issued = Authority::open(dir)?.issue_client(&args.name, validity)?;
    made_client(&issued, dir)
}

fn made_client(issued: &IssuedClient, dir: &Path) -> anyhow::Result<String> {
    let (files, until) = (&issued.files, day(issued.entry.expires));
    let name = &issued.entry.name;
    let mut text = String::new();
    writeln!(text, "made a certificate for {name}, good until {until}")?;
    writeln!(text, "  {}  all that this client needs", files.bundle.display())?;
    writeln!(text, "  {}", files.certificate.display())?;
    writeln!(text, "  {}", files.key.display())?;
    writeln!(text, "\nHand the bundle to the client in a safe way, such as scp: whoever has it")?;
    writeln!(text, "can take part as {name}. If it gets lost:")?;
    writeln!(text, "  formant cert revoke {name}{}", dir_flag(dir))?;
    Ok(text)
}

fn revoke(args: &CertRevokeArgs) -> anyhow::Result<String> {
    let dir = &args.place.dir;
    let revoked = Authority::open(dir)?.revoke(&args.name)?;
    let mut text = String::new();
    if revoked.is_empty() {
        writeln!(text, "{} was revoked already; the list is signed anew", args.name)?;
    }
    for entry in &revoked {
        writeln!(text, "revoked the certificate of {}, serial {}", entry.name, entry.serial)?;
    }
    let list = dir.join(file::REVOKED);
    writeln!(text, "  {}", list.display())?;
    writeln!(text, "\nA server that reads this file refuses it from now on, without a restart.")?;
    writeln!(text, "If the server is another machine, copy the file to it.")?;
    Ok(text)
}

fn list(args: &CertListArgs) -> anyhow::Result<ExitCode> {
    let ledger = Ledger::read(&args.place.dir)?;
    let now = Timestamp::now();
    if args.json {
        let rows: Vec<_> = ledger.entries().iter().map(|entry| row(entry, now)).collect();
        print_json(&rows)?;
    } else {
        print(&table(ledger.entries(), now)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &Entry, now: Timestamp) -> serde_json::Value {
    json!({
        "kind": entry.kind, "name": entry.name, "serial": entry.serial,
        "expires": entry.expires, "revoked": entry.revoked, "standing": entry.standing(now),
    })
}

fn table(entries: &[Entry], now: Timestamp) -> anyhow::Result<String> {
    let mut text = String::new();
    let width = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(text, "{:6}  {:width$}  {:8}  {:10}  serial", "", "name", "", "until")?;
    for entry in entries {
        let kind = match entry.kind {
            Kind::Server => "server",
            Kind::Client => "client",
        };
        let standing = match entry.standing(now) {
            Standing::Valid => "valid",
            Standing::Expired => "expired",
            Standing::Revoked => "revoked",
        };
        let (name, until, serial) = (&entry.name, day(entry.expires), &entry.serial);
        writeln!(text, "{kind}  {name:width$}  {standing:8}  {until}  {serial}")?;
    }
    Ok(text)
}

fn hosts(args: &HostArgs) -> Vec<&str> {
    if args.hosts.is_empty() {
        return DEFAULT_HOSTS.to_vec();
    }
    args.hosts.iter().map(String::as_str).collect()
}

fn day(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d").to_string()
}

/// `--dir` for a command that follows, where it is needed.
fn dir_flag(dir: &Path) -> String {
    if dir == Path::new("certs") { String::new() } else { format!(" --dir {}", pasteable(dir)) }
}
