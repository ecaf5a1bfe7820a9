//! `formant join`.

use crate::args::network::JoinArgs;
use crate::output::{pasteable, print, print_json};
use crate::program;
use crate::service::{block_on, interrupted, start_log, warn_before};
use anyhow::{Context, bail};
use formant_data::{Reading, SourceOptions};
use formant_methods::Zoo;
use formant_network::client::{Identity, JoinOptions, Source, Summary, join as take_part};
use formant_network::identity::ClientIdentity;
use formant_network::parse_bytes;
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
        again: args.again,
    };
    block_on(async {
        warn_before(expires, "ask for a new bundle: `formant cert renew NAME`");
        let Some(summary) = take_part(options, interrupted()).await? else {
            return Ok(ExitCode::from(130));
        };
        if args.json {
            print_json(&json(&summary))?;
        } else {
            print(&table(&summary))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

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
    format!(
        "rounds       {}\ntest samples {}\npersonal     {}\ngeneric      {}\nfingerprint  {}\n{served}{model}",
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
