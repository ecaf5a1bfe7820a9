//! `formant join`.

use crate::args::network::JoinArgs;
use crate::output::{pasteable, print, print_error, print_json};
use crate::program;
use crate::service::{block_on, interrupted, start_log, warn_before};
use anyhow::{Context, bail};
use formant_data::{Reading, SourceOptions};
use formant_methods::Zoo;
use formant_network::client::{
    Accept, Identity, JoinOptions, Policy, Proposal, Source, Summary, join as take_part,
};
use formant_network::identity::ClientIdentity;
use formant_network::{NetworkError, is_experiment_hash, parse_bytes};
use formant_runtime::Choice;
use formant_runtime::event::Score;
use jiff::Timestamp;
use std::fmt::Write as _;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn join(args: &JoinArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    start_log(args.log);
    let (server, identity, expires) = identity(args)?;
    let options = JoinOptions {
        server,
        identity,
        source: match &args.data {
            Some(path) => Source::Own { path: path.clone(), reading: Box::new(own(args, path)?) },
            None => Source::Rehearse { dir: args.data_dir.clone() },
        },
        zoo: zoo.clone(),
        state: args.state.clone(),
        rate_limit: rate_limit(args)?,
        policy: policy(args, zoo)?,
        accept: accept(args)?,
        again: args.again,
    };
    block_on(async {
        warn_before(expires, "ask for a new bundle: `formant cert renew NAME`");
        let summary = match take_part(options, interrupted()).await {
            Ok(Some(summary)) => summary,
            Ok(None) => return Ok(ExitCode::from(130)),
            Err(NetworkError::Unapproved { proposal }) => return propose(args, &proposal),
            Err(error) => return Err(error.into()),
        };
        if args.json {
            print_json(&json(&summary))?;
        } else {
            print(&table(&summary))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What the server may have this client do.
fn policy(args: &JoinArgs, zoo: &Zoo) -> anyhow::Result<Policy> {
    let Some(file) = &args.policy else { return Ok(Policy::default()) };
    Policy::read(file, zoo).with_context(|| file.display().to_string())
}

/// What approves an experiment. Without certificates, server and clients are on one machine and are tried
/// out by whoever started both.
fn accept(args: &JoinArgs) -> anyhow::Result<Accept> {
    match &args.accept {
        Some(hash) if is_experiment_hash(hash) => Ok(Accept::Hash(hash.clone())),
        Some(other) => bail!(
            "--accept {other} is not the hash of an experiment\nhint: join without --accept, which shows it: sha256: and 64 digits"
        ),
        None if args.insecure => Ok(Accept::Anything),
        None => Ok(Accept::Nothing),
    }
}

/// Shows what would run here, and the command that approves it.
fn propose(args: &JoinArgs, proposal: &Proposal) -> anyhow::Result<ExitCode> {
    if args.json {
        print_json(proposal)?;
    } else {
        print(&format!("{}\n{}", proposal.table(), proposal.experiment))?;
    }
    print_error(&anyhow::anyhow!(
        "nobody here has approved this experiment yet; nothing was trained and nothing sent\nhint: compare the hash with the one that the server's operator sees (`{program} status`), then run\n  {program} {} --accept {}",
        typed(args),
        proposal.hash,
        program = program::name()
    ));
    Ok(ExitCode::from(UNAPPROVED))
}

/// The command as it was typed, as far as it matters for taking part.
fn typed(args: &JoinArgs) -> String {
    let mut words = format!("join --server {}", args.server);
    let paths = [
        ("--identity", &args.identity),
        ("--data", &args.data),
        ("--data-dir", &args.data_dir),
        ("--policy", &args.policy),
    ];
    let paths = paths.map(|(option, path)| (option, path.as_deref().map(pasteable)));
    let texts = [
        ("--server-name", &args.server_name),
        ("--label", &args.label),
        ("--features", &args.features),
        ("--rate-limit", &args.rate_limit),
        ("--name", &args.name),
    ];
    let texts =
        texts.map(|(option, text)| (option, text.as_ref().map(|text| pasteable(Path::new(text)))));
    for (option, value) in paths.into_iter().chain(texts) {
        if let Some(value) = value {
            let _ = write!(words, " {option} {value}");
        }
    }
    let flags = [
        ("--insecure", args.insecure),
        ("--rehearse", args.rehearse),
        ("--skip-bad", args.skip_bad),
        ("--again", args.again),
        ("--json", args.json),
    ];
    for (flag, _) in flags.into_iter().filter(|(_, given)| *given) {
        let _ = write!(words, " {flag}");
    }
    let _ = write!(words, " --state {}", pasteable(&args.state));
    words
}

/// The exit code of a join that waits for somebody's approval: a service need not try again.
const UNAPPROVED: u8 = 3;

/// How the client's own data are read. What is not there is noticed before the server is asked.
fn own(args: &JoinArgs, path: &Path) -> anyhow::Result<Reading> {
    std::fs::metadata(path).with_context(|| {
        format!("cannot read --data {}\nhint: name a file or a folder of yours", path.display())
    })?;
    let options = SourceOptions {
        label: args.label.clone(),
        images_key: args.features.clone(),
        skip_bad: args.skip_bad,
        ..SourceOptions::default()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = formant_runtime::available();
    Ok(Reading { options, threads, memory, ..Reading::default() })
}

/// Where to connect, and as whom.
fn identity(args: &JoinArgs) -> anyhow::Result<(String, Identity, Option<Timestamp>)> {
    let host = args.server.rsplit_once(':').map_or(args.server.as_str(), |(host, _)| host);
    if let Some(bundle) = &args.identity {
        let name = args.server_name.as_deref().unwrap_or(host).trim_matches(['[', ']']);
        let own = ClientIdentity::read(bundle)?;
        return Ok((args.server.clone(), Identity::of(&own, name)?, own.expires()));
    }
    let absent = || format!("cannot find --server {}\nhint: give a host and a port", args.server);
    let addresses: Vec<_> = args.server.to_socket_addrs().with_context(absent)?.collect();
    if addresses.iter().any(|address| !address.ip().is_loopback()) {
        bail!(
            "--insecure with --server {}, which is not this machine\nhint: use a certificate with --identity",
            args.server
        );
    }
    // The address that was checked, since the name may mean another one when it is looked up again.
    // Servers without TLS are mostly on 127.0.0.1, and `localhost` often means ::1 first.
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let address = address.with_context(absent)?.to_string();
    Ok((address, Identity::Name(args.name.clone().unwrap_or_default()), None))
}

fn rate_limit(args: &JoinArgs) -> anyhow::Result<Option<u64>> {
    let Some(given) = &args.rate_limit else { return Ok(None) };
    match parse_bytes(given) {
        Some(rate) if rate > 0 => Ok(Some(rate)),
        _ => bail!("--rate-limit {given} is not a rate\nhint: give bytes per second, such as 2MB"),
    }
}

fn json(summary: &Summary) -> serde_json::Value {
    let mut found = serde_json::json!({
        "rounds": summary.rounds,
        "samples": summary.samples,
        "personal": summary.personal,
        "generic": summary.generic,
        "fingerprint": summary.fingerprint,
        "model": summary.model,
    });
    if let Some(privacy) = &summary.privacy {
        found["privacy"] = serde_json::json!(privacy);
    }
    if let Some(choice) = &summary.choice {
        found["personal_share"] = choice.shares.clone().into();
    }
    found
}

fn table(summary: &Summary) -> String {
    let figures = |score: &Option<Score>| match score {
        Some(score) => {
            let mut text = format!("{:.2} %", 100.0 * score.accuracy);
            for (metric, figure) in &score.further {
                let _ = write!(text, ", {} {:.2} %", metric.title(), 100.0 * figure);
            }
            text
        }
        None => "-".to_owned(),
    };
    let model = summary.model.as_deref().map_or(String::new(), |model| {
        let model = pasteable(model);
        format!("model        {model}\n\nuse it       {} predict {model} FILE…\n", program::name())
    });
    let served = summary
        .choice
        .as_ref()
        .map_or(String::new(), |choice| format!("serves       {}\n", served(choice)));
    let revealed = summary.privacy.as_ref().map_or(String::new(), |privacy| {
        format!("privacy      {}\n", formant_report::spent(privacy))
    });
    format!(
        "rounds       {}\ntest samples {}\npersonal     {}\ngeneric      {}\n{revealed}fingerprint  {}\n{served}{model}",
        summary.rounds,
        summary.samples,
        figures(&summary.personal),
        figures(&summary.generic),
        summary.fingerprint
    )
}

/// What the guard has chosen.
fn served(choice: &Choice) -> String {
    let share = |share: f32| format!("{:.0} %", 100.0 * share);
    match &*choice.shares {
        _ if choice.is_personal() => "the personal model as it was trained".into(),
        _ if choice.is_generic() => "the generic model, which is better here".into(),
        [one] => format!("{} personal, the rest generic", share(*one)),
        [bands @ .., head] => {
            let bands: Vec<String> = bands.iter().map(|band| share(*band)).collect();
            let bands = bands.join(", ");
            format!("{bands} personal from low to high frequencies, the head {}", share(*head))
        }
        [] => "-".into(),
    }
}
