//! What curves are drawn over, and where a round stands on it.

use std::collections::BTreeMap;

use crate::{MethodLog, RoundLog, RunLog};

/// A horizontal axis.
pub(super) struct Axis {
    kind: Kind,
    /// For names of files and links: `round`, `seconds` or `bytes`.
    pub(super) id: &'static str,
    /// What its tab is called.
    pub(super) tab: &'static str,
    /// For titles: by what the plot shows figures.
    pub(super) by: &'static str,
    /// What stands below it, with the unit.
    pub(super) title: String,
    /// What a reader should know about it.
    pub(super) says: Option<&'static str>,
    /// How many seconds or bytes a unit of the axis is.
    unit: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rounds,
    Virtual,
    Wall,
    Bytes,
}

/// Which moment of a round is meant.
#[derive(Clone, Copy)]
pub(super) enum Moment {
    /// When the generic model was there.
    Gm,
    /// When the personal models were.
    Pm,
    /// When the round closed.
    Closed,
}

/// The axes for which the logs have figures: rounds always.
pub(super) fn all(logs: &[RunLog]) -> Vec<Axis> {
    let methods = || logs.iter().flat_map(|log| &log.methods);
    let timed = methods().flat_map(|method| method.rounds.values()).any(|r| r.clock.is_some());
    let seconds = if timed { Kind::Virtual } else { Kind::Wall };
    let kinds = [Kind::Rounds, seconds, Kind::Bytes];
    kinds.into_iter().filter_map(|kind| axis(kind, logs)).collect()
}

fn axis(kind: Kind, logs: &[RunLog]) -> Option<Axis> {
    let methods = || logs.iter().flat_map(|log| &log.methods);
    let longest = methods().map(|method| total(kind, method)).fold(0.0, f64::max);
    let rounds = Axis {
        kind,
        id: "round",
        tab: "rounds",
        by: "round",
        title: "round".to_owned(),
        says: None,
        unit: 1.0,
    };
    if kind == Kind::Rounds {
        return Some(rounds);
    }
    if longest <= 0.0 {
        return None;
    }
    let (title, unit) = match kind {
        Kind::Bytes => {
            let (name, unit) = size(longest);
            (format!("{name} sent up and down"), unit)
        }
        Kind::Virtual | Kind::Wall | Kind::Rounds => {
            let (name, unit) = time(longest);
            let clock = if kind == Kind::Virtual { "by the virtual clock" } else { "of training" };
            (format!("{name} {clock}"), unit)
        }
    };
    Some(match kind {
        Kind::Virtual => Axis {
            id: "seconds",
            tab: "seconds",
            by: "time",
            title,
            says: Some(
                "Seconds are those of the virtual clock, which knows the devices and links of the \
                 experiment: when the model was there. Evaluation takes none.",
            ),
            unit,
            ..rounds
        },
        Kind::Wall => Axis {
            id: "seconds",
            tab: "seconds",
            by: "time",
            title,
            says: Some(
                "Seconds are wall time of training alone, without evaluation, on the machine of this \
                 run: there was no virtual clock.",
            ),
            unit,
            ..rounds
        },
        Kind::Bytes | Kind::Rounds => Axis {
            id: "bytes",
            tab: "bytes",
            by: "bytes sent",
            title,
            says: Some(
                "Bytes are all uploads, also refused ones as far as their size is known, and all \
                 broadcasts, of all clients together. A method that sends nothing is a single mark at \
                 its last figure.",
            ),
            unit,
            ..rounds
        },
    })
}

impl Axis {
    /// Whether it counts rounds.
    pub(super) fn is_rounds(&self) -> bool {
        self.kind == Kind::Rounds
    }

    /// A place on it, as people read it: `12.3 MB`.
    pub(super) fn written(&self, place: f64) -> String {
        let unit = self.title.split(' ').next().unwrap_or_default();
        format!("{place:.1} {unit}")
    }

    /// Where a method's rounds stand on it, for any round that the method has.
    pub(super) fn places(&self, method: &MethodLog) -> Places {
        let running = running(self.kind, method);
        Places { kind: self.kind, unit: self.unit, running }
    }
}

/// Where the rounds of one method stand.
pub(super) struct Places {
    kind: Kind,
    unit: f64,
    /// What had been spent at the end of a round.
    running: BTreeMap<usize, f64>,
}

impl Places {
    /// The place of a round.
    pub(super) fn of(&self, method: &MethodLog, round: usize, moment: Moment) -> f64 {
        let ready = method.evaluations.get(&round).and_then(|evaluation| evaluation.clock);
        let spent = || self.running.range(..=round).next_back().map_or(0.0, |(_, spent)| *spent);
        let place = match (self.kind, moment, ready) {
            (Kind::Rounds, _, _) => round as f64,
            (Kind::Virtual, Moment::Gm, Some(ready)) => ready.gm,
            (Kind::Virtual, Moment::Pm, Some(ready)) => ready.pm,
            _ => spent(),
        };
        place / self.unit
    }
}

/// What rounds have cost by their ends.
fn running(kind: Kind, method: &MethodLog) -> BTreeMap<usize, f64> {
    let mut refused: BTreeMap<usize, u64> = BTreeMap::new();
    for upload in &method.refusals {
        let sum = refused.entry(upload.round).or_default();
        *sum = sum.saturating_add(upload.bytes.unwrap_or(0));
    }
    let mut spent = 0.0;
    let rounds = method.rounds.iter().map(|(&number, round)| {
        match kind {
            Kind::Rounds => spent = number as f64,
            Kind::Virtual => spent = round.clock.unwrap_or(spent),
            Kind::Wall => spent += round.seconds.unwrap_or(0.0),
            Kind::Bytes => {
                let refused = refused.get(&number).copied().unwrap_or(0);
                let up = round.uploaded_bytes.saturating_add(refused);
                spent += up.saturating_add(downloaded(round)) as f64;
            }
        }
        (number, spent)
    });
    rounds.collect()
}

/// What the broadcasts of a round weigh together; without a clock, everybody was sent one.
pub(crate) fn downloaded(round: &RoundLog) -> u64 {
    match round.downloaded_bytes {
        0 => (round.participants as u64).saturating_mul(round.broadcast_bytes.unwrap_or(0)),
        known => known,
    }
}

fn total(kind: Kind, method: &MethodLog) -> f64 {
    let ready = method.evaluations.values().filter_map(|evaluation| evaluation.clock);
    let latest = ready.map(|ready| ready.pm).fold(0.0, f64::max);
    let spent = running(kind, method).into_values().fold(0.0, f64::max);
    if kind == Kind::Virtual { spent.max(latest) } else { spent }
}

/// A unit of time in which a stretch has some digits before the point.
fn time(seconds: f64) -> (&'static str, f64) {
    match seconds {
        0.0..300.0 => ("seconds", 1.0),
        300.0..18_000.0 => ("minutes", 60.0),
        _ => ("hours", 3600.0),
    }
}

/// The same for sizes.
fn size(bytes: f64) -> (&'static str, f64) {
    match bytes {
        0.0..2e3 => ("B", 1.0),
        2e3..2e6 => ("kB", 1e3),
        2e6..2e9 => ("MB", 1e6),
        2e9..2e12 => ("GB", 1e9),
        _ => ("TB", 1e12),
    }
}
