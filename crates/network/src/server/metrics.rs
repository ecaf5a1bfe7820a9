//! Counters, and how Prometheus reads them.

use crate::stream::Traffic;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Upper bounds of the histograms' buckets, in seconds.
const BOUNDS: [f64; 12] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3];

/// What the server counts while it runs.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) round: AtomicU64,
    pub(crate) aggregations: AtomicU64,
    pub(crate) present: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) traffic: Arc<Traffic>,
    refused: Mutex<BTreeMap<String, u64>>,
    /// Of every client's last upload.
    uploads: Mutex<BTreeMap<String, Figures>>,
    round_seconds: Mutex<Histogram>,
    aggregation_seconds: Mutex<Histogram>,
}

/// What is known of an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// How far it is from the broadcast that it answers.
    pub(crate) norm: f64,
    /// The samples that its client claims.
    pub(crate) samples: u64,
    /// The mean loss of the phase that has made it, if its client says it.
    pub(crate) loss: Option<f64>,
}

#[derive(Default, Clone)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Counts an upload that was refused, or sent back to be sent again.
    pub(crate) fn refuse(&self, reason: &str) {
        *lock(&self.refused).entry(reason.to_owned()).or_default() += 1;
    }

    /// Refusals so far, by reason.
    pub(crate) fn refused(&self) -> BTreeMap<String, u64> {
        lock(&self.refused).clone()
    }

    /// Notes what a client has sent.
    pub(crate) fn upload(&self, client: &str, figures: Figures) {
        lock(&self.uploads).insert(client.to_owned(), figures);
    }

    pub(crate) fn round_took(&self, seconds: f64) {
        lock(&self.round_seconds).observe(seconds);
    }

    pub(crate) fn aggregation_took(&self, seconds: f64) {
        lock(&self.aggregation_seconds).observe(seconds);
    }

    /// The text format of Prometheus.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        for (name, kind, help, value) in [
            ("round", "gauge", "The round that is open, from 1.", read(&self.round)),
            ("clients_present", "gauge", "Clients that are connected.", read(&self.present)),
            (
                "aggregations_total",
                "counter",
                "Rounds that this process has aggregated.",
                read(&self.aggregations),
            ),
            ("uploads_accepted_total", "counter", "Uploads that were kept.", read(&self.accepted)),
            (
                "uploads_resumed_total",
                "counter",
                "Uploads that went on in the middle.",
                read(&self.resumed),
            ),
            (
                "client_failures_total",
                "counter",
                "Rounds that a client could not answer.",
                read(&self.failures),
            ),
            (
                "connections_refused_total",
                "counter",
                "Connections that were not let in.",
                read(&self.connections_refused),
            ),
            (
                "received_bytes_total",
                "counter",
                "Bytes that came over all connections.",
                read(&self.traffic.received),
            ),
            (
                "sent_bytes_total",
                "counter",
                "Bytes that went over all connections.",
                read(&self.traffic.sent),
            ),
        ] {
            describe(&mut text, name, kind, help);
            let _ = writeln!(text, "formant_{name} {value}");
        }
        describe(&mut text, "uploads_refused_total", "counter", "Uploads that were not kept.");
        for (reason, count) in self.refused() {
            let _ = writeln!(text, "formant_uploads_refused_total{{reason=\"{reason}\"}} {count}");
        }
        let uploads = lock(&self.uploads).clone();
        describe(
            &mut text,
            "upload_norm",
            "gauge",
            "Distance of a client's last upload from its broadcast.",
        );
        for (client, Figures { norm, .. }) in &uploads {
            let _ = writeln!(text, "formant_upload_norm{{client=\"{client}\"}} {norm}");
        }
        describe(&mut text, "upload_samples", "gauge", "Samples that a client claims: its weight.");
        for (client, Figures { samples, .. }) in &uploads {
            let _ = writeln!(text, "formant_upload_samples{{client=\"{client}\"}} {samples}");
        }
        describe(
            &mut text,
            "upload_loss",
            "gauge",
            "Mean loss of the phase that has made it, of clients that say it.",
        );
        for (client, Figures { loss, .. }) in &uploads {
            if let Some(loss) = loss {
                let _ = writeln!(text, "formant_upload_loss{{client=\"{client}\"}} {loss}");
            }
        }
        for (name, help, histogram) in [
            ("round_seconds", "From one broadcast to the next.", &self.round_seconds),
            ("aggregation_seconds", "Of it, the aggregation.", &self.aggregation_seconds),
        ] {
            describe(&mut text, name, "histogram", help);
            render_histogram(&mut text, name, &lock(histogram));
        }
        text
    }
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP formant_{name} {help}\n# TYPE formant_{name} {kind}");
}

fn render_histogram(text: &mut String, name: &str, histogram: &Histogram) {
    for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
        let _ = writeln!(text, "formant_{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let Histogram { count, sum, .. } = histogram;
    let _ = writeln!(text, "formant_{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "formant_{name}_sum {sum}\nformant_{name}_count {count}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_can_read_it() {
        let metrics = Metrics::default();
        metrics.refuse("not-finite");
        metrics.refuse("not-finite");
        metrics.upload("alice", Figures { norm: 0.5, samples: 120, loss: Some(1.25) });
        metrics.upload("bob", Figures { norm: 0.25, samples: 7, loss: None });
        metrics.round_took(0.2);
        metrics.round_took(1e9);
        let text = metrics.render();
        for line in [
            "formant_uploads_refused_total{reason=\"not-finite\"} 2",
            "formant_upload_norm{client=\"alice\"} 0.5",
            "formant_upload_loss{client=\"alice\"} 1.25",
            "formant_upload_norm{client=\"bob\"} 0.25",
            "formant_upload_samples{client=\"alice\"} 120",
            "formant_round_seconds_bucket{le=\"0.1\"} 0",
            "formant_round_seconds_bucket{le=\"0.3\"} 1",
            "formant_round_seconds_bucket{le=\"+Inf\"} 2",
            "formant_round_seconds_count 2",
            "# TYPE formant_round gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("formant_upload_loss{client=\"bob\"}"), "{text}");
    }
}
