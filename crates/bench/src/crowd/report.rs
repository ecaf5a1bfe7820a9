//! What was measured, as figures and as tables.

use super::clients::Notes;
use super::draw::{VARIANTS, shift};
use super::experiment::Plan;
use super::process::Usage;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where the server stood after so many rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) rounds: u64,
    pub(crate) usage: Usage,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// A distribution of seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) max: f64,
}

impl Spread {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * seconds.len() as f64).ceil() as usize;
            seconds.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { count: seconds.len(), p50: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) seconds: f64,
    /// Bytes that the server received and sent.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Its memory at the end of the round, and at most during it.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    /// Its processor time.
    pub(crate) user: f64,
    pub(crate) system: f64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) clients: u32,
    pub(crate) processes: u32,
    pub(crate) model: String,
    pub(crate) churn: f64,
    pub(crate) participation: f64,
    /// Until all clients had joined, in seconds, and how many joined in one.
    pub(crate) joining: f64,
    pub(crate) joins_per_second: f64,
    /// The server's memory before the first client and with all of them, and of it what one takes.
    pub(crate) empty: u64,
    pub(crate) idle: u64,
    pub(crate) per_connection: f64,
    pub(crate) rounds: Vec<Round>,
    pub(crate) seconds_per_round: f64,
    pub(crate) rounds_per_second: f64,
    pub(crate) peak: u64,
    /// Processor seconds of the server in a round.
    pub(crate) processor_per_round: f64,
    pub(crate) latencies: BTreeMap<&'static str, Spread>,
    /// Connections that were cut on purpose, and what else went wrong.
    pub(crate) cuts: u64,
    pub(crate) troubles: BTreeMap<String, u64>,
    /// How far the mean parameter was moved, and how far it was to be.
    pub(crate) moved: f64,
    pub(crate) to_move: f64,
    /// The server's last state.
    pub(crate) fingerprint: String,
    pub(crate) end: String,
    /// What the server has counted itself.
    pub(crate) counters: BTreeMap<String, f64>,
    wanted: u64,
}

impl Report {
    #[expect(clippy::too_many_arguments, reason = "the parts of a measurement, once")]
    pub(crate) fn new(
        plan: &Plan,
        [empty, idle]: [Usage; 2],
        joining: f64,
        moments: &[Moment],
        notes: Vec<Notes>,
        fingerprint: String,
        stopped: Option<String>,
        counters: BTreeMap<String, f64>,
    ) -> Self {
        let rounds: Vec<Round> = moments.windows(2).map(|pair| round(&pair[0], &pair[1])).collect();
        let done = moments.last().map_or(0, |last| last.rounds);
        let span = |of: fn(&Usage) -> f64| match (moments.first(), moments.last()) {
            (Some(first), Some(last)) => of(&last.usage) - of(&first.usage),
            _ => 0.0,
        };
        let (seconds, processor) =
            (span(|usage| usage.at), span(|usage| usage.user + usage.system));
        let mut all = Notes::default();
        for more in notes {
            all.take(more);
        }
        let first = all.means.first_key_value().map_or(0.0, |(_, mean)| *mean);
        let last = all.means.last_key_value().map_or(0.0, |(_, mean)| *mean);
        let a_round =
            (0..plan.clients).map(|client| f64::from(shift(client % VARIANTS))).sum::<f64>()
                / f64::from(plan.clients);
        let latencies = BTreeMap::from([
            ("handshake", Spread::of(all.handshakes)),
            ("join", Spread::of(all.joins)),
            ("return", Spread::of(all.returns)),
            ("download", Spread::of(all.downloads)),
            ("offer", Spread::of(all.offers)),
            ("upload", Spread::of(all.uploads)),
        ]);
        let kept = rounds.iter().map(|round| round.peak).max().unwrap_or_default();
        Self {
            clients: plan.clients,
            processes: plan.processes,
            model: plan.model.clone(),
            churn: plan.churn,
            participation: plan.participation,
            joining,
            joins_per_second: f64::from(plan.clients) / joining,
            empty: empty.resident,
            idle: idle.resident,
            per_connection: idle.resident.saturating_sub(empty.resident) as f64
                / f64::from(plan.clients),
            seconds_per_round: seconds / done as f64,
            rounds_per_second: done as f64 / seconds,
            peak: kept.max(idle.peak),
            processor_per_round: processor / done as f64,
            rounds,
            latencies,
            cuts: all.cuts,
            troubles: all.troubles,
            moved: last - first,
            to_move: f64::from(plan.rounds) * a_round,
            fingerprint,
            end: stopped.unwrap_or_else(|| format!("{done} of {} rounds", plan.rounds)),
            counters,
            wanted: u64::from(plan.rounds),
        }
    }

    /// Whether all rounds were made.
    pub(crate) fn is_complete(&self) -> bool {
        self.rounds.len() as u64 <= self.wanted
            && self.end == format!("{0} of {0} rounds", self.wanted)
    }

    /// As tables.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let _ = writeln!(
            text,
            "{} clients in {} processes, model of {}, churn {}",
            self.clients, self.processes, self.model, self.churn
        );
        let _ = writeln!(
            text,
            "all had joined after {:.2} s: {:.0} a second; server {:.1} MB before, {:.1} MB with them: {:.1} kB a connection",
            self.joining,
            self.joins_per_second,
            mb(self.empty),
            mb(self.idle),
            self.per_connection / 1e3
        );
        let _ = writeln!(
            text,
            "{:.3} s a round ({:.3} rounds a second), {:.2} s of it processor time of the server; at most {:.0} MB\n",
            self.seconds_per_round,
            self.rounds_per_second,
            self.processor_per_round,
            mb(self.peak)
        );
        let _ = writeln!(
            text,
            "| round | seconds | received MB | sent MB | resident MB | peak MB | user s | system s |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        );
        for round in &self.rounds {
            let _ = writeln!(
                text,
                "| {} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.2} | {:.2} |",
                round.number,
                round.seconds,
                mb(round.received),
                mb(round.sent),
                mb(round.resident),
                mb(round.peak),
                round.user,
                round.system
            );
        }
        let _ = writeln!(
            text,
            "\n| milliseconds | count | p50 | p95 | max |\n| --- | ---: | ---: | ---: | ---: |"
        );
        for (what, spread) in self.latencies.iter().filter(|(_, spread)| spread.count > 0) {
            let Spread { count, p50, p95, max } = spread;
            let _ = writeln!(
                text,
                "| {what} | {count} | {:.1} | {:.1} | {:.1} |",
                1e3 * p50,
                1e3 * p95,
                1e3 * max
            );
        }
        let _ = writeln!(text, "\n{} connections cut on purpose", self.cuts);
        for (what, count) in &self.troubles {
            let _ = writeln!(text, "{count} times: {what}");
        }
        let _ = writeln!(
            text,
            "the mean parameter moved by {:.7}, and {:.7} was to be\nfingerprint {}",
            self.moved, self.to_move, self.fingerprint
        );
        for (name, value) in &self.counters {
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

/// What lies between two moments.
fn round(before: &Moment, after: &Moment) -> Round {
    Round {
        number: after.rounds,
        seconds: after.usage.at - before.usage.at,
        received: after.received - before.received,
        sent: after.sent - before.sent,
        resident: after.usage.resident,
        peak: after.usage.peak,
        user: after.usage.user - before.usage.user,
        system: after.usage.system - before.usage.system,
    }
}

impl Notes {
    /// What another process has noted.
    fn take(&mut self, more: Self) {
        self.handshakes.extend(more.handshakes);
        self.joins.extend(more.joins);
        self.returns.extend(more.returns);
        self.downloads.extend(more.downloads);
        self.offers.extend(more.offers);
        self.uploads.extend(more.uploads);
        self.cuts += more.cuts;
        for (what, count) in more.troubles {
            *self.troubles.entry(what).or_default() += count;
        }
        self.means.extend(more.means);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_made_of_what_was_measured() {
        let spread = Spread::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(spread, Spread { count: 100, p50: 50.0, p95: 95.0, max: 100.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
        assert_eq!(Spread::of(vec![2.0]).p95, 2.0);
    }
}
