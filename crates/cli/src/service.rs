//! What `serve` and `join` share: a runtime, a log, and a signal that ends them.

use crate::args::network::LogForm;
use crate::output::colour_on_stderr;
use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Runs to the end on all cores.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Threads for file work, which is short; the default of 512 would be memory for nothing.
    let runtime = runtime.enable_all().max_blocking_threads(32).build();
    runtime.context("cannot start the network threads")?.block_on(work)
}

/// Logs to standard error; `RUST_LOG` chooses what: a level, or targets with theirs, such as
/// `info,formant_network=debug`.
pub(crate) fn start_log(form: LogForm) {
    let chosen = std::env::var("RUST_LOG").ok().and_then(|text| filter(&text));
    let filter = chosen.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colour_on_stderr());
    let all = tracing_subscriber::registry().with(filter);
    match form {
        LogForm::Text => all.with(log).init(),
        LogForm::Json => all.with(log.json().flatten_event(true)).init(),
    }
}

/// What a value of `RUST_LOG` lets through; none when it cannot be understood. (`EnvFilter` can also
/// choose by the fields of spans, of which there are none here, and brings a regex engine for it.)
fn filter(text: &str) -> Option<Targets> {
    let parts: Vec<&str> = text.split(',').filter(|part| !part.is_empty()).collect();
    parts.join(",").parse().ok()
}

/// From how long before its end a certificate is spoken of, and how often.
const NOTICE: SignedDuration = SignedDuration::from_hours(30 * 24);
const REMINDER: Duration = Duration::from_secs(24 * 3_600);

/// Warns of a certificate that ends soon, now and every day from then on.
pub(crate) fn warn_before(expires: Option<Timestamp>, remedy: &'static str) {
    let Some(expires) = expires else { return };
    tokio::spawn(async move {
        loop {
            if let Some(days) = ends_soon(expires, Timestamp::now()) {
                let until = expires.strftime("%Y-%m-%d").to_string();
                tracing::warn!(until, days, remedy, "the certificate ends soon");
            }
            tokio::time::sleep(REMINDER).await;
        }
    });
}

/// How many whole days are left, if they are few.
fn ends_soon(expires: Timestamp, now: Timestamp) -> Option<i64> {
    let left = expires.duration_since(now);
    (left <= NOTICE).then(|| (left.as_hours() / 24).max(0))
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

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_certificate_is_spoken_of_in_its_last_month() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let left = |hours| ends_soon(now + SignedDuration::from_hours(hours), now);
        assert_eq!(
            [left(31 * 24), left(30 * 24), left(47), left(-5)],
            [None, Some(30), Some(1), Some(0)]
        );
    }

    #[test]
    fn a_filter_names_levels_and_targets() {
        let shown =
            |text: &str, target: &str, level| filter(text).unwrap().would_enable(target, &level);
        assert!(shown("debug", "formant_network", Level::DEBUG));
        assert!(!shown("debug", "formant_network", Level::TRACE));
        assert!(!shown("", "formant_network", Level::WARN));
        let some = "warn,formant_network=debug,";
        assert!(shown(some, "formant_network::server", Level::DEBUG));
        assert!(!shown(some, "h2", Level::INFO));
        assert!(shown(some, "h2", Level::WARN));
        assert!(filter("a=b=c").is_none());
    }
}
