//! `formant join`.

use crate::args::network::JoinArgs;
use crate::output::{print, print_json};
use crate::service::{block_on, interrupted, start_log};
use anyhow::{Context, bail};
use formant_data::Share;
use formant_network::client::{Identity, JoinOptions, Source, Summary, join as take_part};
use formant_network::identity::ClientIdentity;
use formant_network::parse_bytes;
use formant_runtime::event::Score;
use std::net::ToSocketAddrs;
use std::process::ExitCode;

pub(crate) fn join(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    start_log(args.log);
    let options = JoinOptions {
        server: args.server.clone(),
        identity: identity(args)?,
        source: match &args.data {
            Some(file) => Source::Share(Box::new(Share::read(file)?)),
            None => Source::Rehearse { dir: args.data_dir.clone() },
        },
        state: args.state.clone(),
        rate_limit: rate_limit(args)?,
    };
    block_on(async {
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

fn identity(args: &JoinArgs) -> anyhow::Result<Identity> {
    let host = args.server.rsplit_once(':').map_or(args.server.as_str(), |(host, _)| host);
    if let Some(bundle) = &args.identity {
        let name = args.server_name.as_deref().unwrap_or(host).trim_matches(['[', ']']);
        return Ok(Identity::of(&ClientIdentity::read(bundle)?, name)?);
    }
    let addresses = args.server.to_socket_addrs().with_context(|| {
        format!("cannot find --server {}\nhint: give a host and a port", args.server)
    })?;
    if addresses.into_iter().any(|address| !address.ip().is_loopback()) {
        bail!(
            "--insecure with --server {}, which is not this machine\nhint: use a certificate with --identity",
            args.server
        );
    }
    Ok(Identity::Name(args.name.clone().unwrap_or_default()))
}

fn rate_limit(args: &JoinArgs) -> anyhow::Result<Option<u64>> {
    let Some(given) = &args.rate_limit else { return Ok(None) };
    match parse_bytes(given) {
        Some(rate) if rate > 0 => Ok(Some(rate)),
        _ => bail!("--rate-limit {given} is no rate\nhint: give bytes per second, such as 2MB"),
    }
}

fn json(summary: &Summary) -> serde_json::Value {
    serde_json::json!({
        "rounds": summary.rounds,
        "samples": summary.samples,
        "personal": summary.personal,
        "generic": summary.generic,
        "fingerprint": summary.fingerprint,
    })
}

fn table(summary: &Summary) -> String {
    let accuracy = |score: Option<Score>| match score {
        Some(score) => format!("{:.2} %", 100.0 * score.accuracy),
        None => "-".to_owned(),
    };
    format!(
        "rounds       {}\ntest samples {}\npersonal     {}\ngeneric      {}\nfingerprint  {}\n",
        summary.rounds,
        summary.samples,
        accuracy(summary.personal),
        accuracy(summary.generic),
        summary.fingerprint
    )
}
