//! `formant serve`.

use crate::args::network::ServeArgs;
use crate::output::{pasteable, print};
use crate::program;
use crate::service::{block_on, interrupted, start_log, warn_before};
use anyhow::Context;
use formant_methods::Zoo;
use formant_network::identity::ServerIdentity;
use formant_network::server::{RunningServer, Trust};
use formant_network::{Rollback, ServerSettings};
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn serve(args: &ServeArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    start_log(args.log);
    let (experiment, mut settings) =
        ServerSettings::read(&args.file, zoo).with_context(|| args.file.display().to_string())?;
    if let Some(state) = &args.state {
        settings.state.clone_from(state);
    }
    if let Some(round) = args.rollback {
        settings.rollback = Some(Rollback { round, exclude: args.exclude.clone() });
    }
    let (trust, expires) = if args.insecure {
        (Trust::Names, None)
    } else {
        let identity = ServerIdentity::read(&settings.certs)?;
        (Trust::of(&identity)?, identity.expires())
    };
    block_on(async {
        warn_before(
            expires,
            "renew it with `formant cert renew --server`, and start the server again",
        );
        let folder = settings.state.clone();
        let server = RunningServer::start(&experiment, settings, trust).await?;
        tracing::info!(
            address = %server.address(),
            ops = server.ops().map(tracing::field::display),
            state = %folder.display(),
            experiment = server.experiment_hash(),
            "listening; clients approve the experiment by its hash"
        );
        let Some(end) = server.finish(interrupted()).await? else {
            return Ok(ExitCode::from(130));
        };
        let mut text = format!("rounds       {}\nfingerprint  {}\n", end.rounds, end.fingerprint);
        if let Some(why) = &end.stopped {
            writeln!(text, "stopped      {why}")?;
        }
        writeln!(text, "state        {}", folder.display())?;
        let model = folder.join(formant_model::folder::GENERIC);
        if model.is_file() {
            let model = pasteable(&model);
            writeln!(text, "model        {model}\n")?;
            writeln!(text, "use it       {} predict {model} FILE…", program::name())?;
        }
        print(&text)?;
        Ok(if end.stopped.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}
