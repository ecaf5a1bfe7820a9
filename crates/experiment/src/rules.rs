//! From `[federation]`, `[devices]` and `[links]` to the rules of a round and the virtual clock.

use crate::experiment::{integer, number, text};
use crate::{Experiment, ExperimentError, units};
use core::time::Duration;
use formant_federation::{Late, Personal, Protocol, Schedule, Until};
use formant_methods::Moment;
use formant_methods::schema::SchemaError;
use formant_runtime::Profile;
use toml::{Table, Value};

impl Experiment {
    /// The rules of the experiment, as if its method had a personal phase.
    pub(crate) fn protocol(&self) -> Result<Protocol, ExperimentError> {
        let rules = &self.rules;
        let schedule = match text(rules, "schedule") {
            "compute-and-wait" => Schedule::ComputeAndWait,
            "buffered" => Schedule::Buffered { size: integer(rules, "buffer") as usize },
            _ => Schedule::WaitFree,
        };
        let exponent = number(rules, "staleness_exponent");
        let weigh = text(rules, "late") == "weigh" || matches!(schedule, Schedule::Buffered { .. });
        Ok(Protocol {
            clients: integer(&self.data, "clients") as usize,
            rounds: self.rounds() as u64,
            schedule,
            personal: Personal {
                exists: true,
                until: match text(rules, "personal_until") {
                    "broadcast" => Until::Broadcast,
                    _ => Until::Epochs,
                },
                everyone: text(rules, "personal") == "everyone",
            },
            participation: number(&self.train, "participation"),
            quorum: number(rules, "quorum"),
            deadline: optional_duration(rules, "federation.deadline")?,
            late: if weigh { Late::Weigh { exponent } } else { Late::Drop },
            seed: self.seed(),
        })
    }

    /// The devices and links of the virtual clock.
    pub(crate) fn profile(&self) -> Result<Profile, ExperimentError> {
        let (devices, links) = (&self.devices, &self.links);
        let seconds = |key| duration(links, key).map(|duration| duration.as_secs_f64());
        let speed = devices.get("samples_per_second").and_then(Value::as_float);
        Ok(Profile {
            samples_per_second: speed.unwrap_or(f64::INFINITY),
            device_spread: number(devices, "spread"),
            up: rate(links, "links.up")?,
            down: rate(links, "links.down")?,
            link_spread: number(links, "spread"),
            latency: seconds("links.latency")?,
            jitter: seconds("links.jitter")?,
            loss: number(links, "loss"),
        })
    }

    /// Refuses rules that cannot work where time is simulated and training takes none.
    pub(crate) fn check_clock(&self) -> Result<(), ExperimentError> {
        let (profile, protocol) = (self.profile()?, self.protocol()?);
        let endless = profile.samples_per_second == f64::INFINITY;
        if endless && protocol.personal.until == Until::Broadcast {
            return Err(ExperimentError::combination(
                "`federation.personal_until = \"broadcast\"` needs devices that take time: they would train for ever until the broadcast comes",
                "set devices.samples_per_second; `formant devices` measures it",
            ));
        }
        Ok(())
    }

    /// Refuses rules that cannot work, and methods that cannot work with them.
    pub(crate) fn check_rules(&self) -> Result<(), ExperimentError> {
        let protocol = self.protocol()?;
        if let Some((fault, remedy)) = protocol.fault() {
            return Err(ExperimentError::combination(format!("[federation]: {fault}"), remedy));
        }
        self.profile()?;
        let at = Moment { round: 1, rounds: self.rounds() };
        for setting in &self.methods {
            let zoo = formant_methods::Zoo::standard();
            let method = zoo.build(&setting.name, &setting.parameters)?.method;
            if !protocol.is_synchronous() && !method.hints(at).stale_uploads {
                return Err(ExperimentError::combination(
                    format!(
                        "`{}` needs synchronous rounds: every upload answers the newest broadcast, and nobody is left behind",
                        setting.label
                    ),
                    "leave out that method, or set federation.late = \"drop\" and another schedule than buffered",
                ));
            }
        }
        Ok(())
    }
}

fn named<'t>(table: &'t Table, path: &str) -> Option<&'t str> {
    let key = path.rsplit('.').next().unwrap_or(path);
    table.get(key).and_then(Value::as_str).filter(|given| !given.is_empty())
}

fn wrong(path: &str, given: &str, expected: &str, help: &str) -> ExperimentError {
    SchemaError::Range {
        path: path.into(),
        value: format!("\"{given}\""),
        expected: expected.into(),
        help: help.into(),
    }
    .into()
}

fn optional_duration(table: &Table, path: &str) -> Result<Option<Duration>, ExperimentError> {
    let Some(given) = named(table, path) else { return Ok(None) };
    match units::duration(given) {
        Some(duration) if !duration.is_zero() => Ok(Some(duration)),
        _ => Err(wrong(path, given, "a time such as \"60s\" or \"5min\"", "leave it out for none")),
    }
}

fn duration(table: &Table, path: &str) -> Result<Duration, ExperimentError> {
    let given = named(table, path).unwrap_or("0s");
    let expected = "a time such as \"50ms\" or \"2s\"";
    units::duration(given).ok_or_else(|| wrong(path, given, expected, "0s for none"))
}

/// Bytes a second; without a limit, infinitely many.
fn rate(table: &Table, path: &str) -> Result<f64, ExperimentError> {
    let Some(given) = named(table, path) else { return Ok(f64::INFINITY) };
    let expected = "bytes or bits a second such as \"1MB\" or \"8Mbit\"";
    units::rate(given).ok_or_else(|| wrong(path, given, expected, "leave it out for no limit"))
}
