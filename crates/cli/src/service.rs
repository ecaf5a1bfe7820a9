//! What `serve` and `join` share: a runtime, a log, and a signal that ends them.

use crate::args::network::LogForm;
use crate::output::colour_on_stderr;
use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Runs to the end on all cores.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Threads for file work, which is short; the default of 512 would be memory for nothing.
    let runtime = runtime.enable_all().max_blocking_threads(32).build();
    runtime.context("cannot start the network threads")?.block_on(work)
}

/// Logs to standard error; `RUST_LOG` chooses what.
pub(crate) fn start_log(form: LogForm) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colour_on_stderr());
    match form {
        LogForm::Text => log.init(),
        LogForm::Json => log.json().flatten_event(true).init(),
    }
}

/// Comes with the first SIGINT or SIGTERM.
pub(crate) async fn interrupted() {
    tokio::select! {
        () = terminated() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping; the state is kept");
}

/// Comes with SIGTERM, where there is such a thing.
async fn terminated() {
    #[cfg(unix)]
    if let Ok(mut signal) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        signal.recv().await;
        return;
    }
    std::future::pending::<()>().await;
}
