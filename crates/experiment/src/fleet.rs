//! `[devices]` and `[links]`: the clients' equipment, for the virtual clock.

use crate::section::{Section, key};
use crate::units::{MAYBE_RATE, Rate, Span, TIME};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_runtime::Profile;
use serde::{Deserialize, Serialize};

pub(crate) const DEVICES: Section =
    Section::new("devices", "The clients' devices, for the virtual clock.", DEVICE_KEYS);

pub(crate) const LINKS: Section =
    Section::new("links", "The clients' links, for the virtual clock.", LINK_KEYS);

const DEVICE_KEYS: &[Key] = &[
    key(
        "samples_per_second",
        Kind::Above { min: 0.0, max: 1e12 },
        Preset::Unset,
        "samples that the median device trains on in a second; unset: training takes no time",
    ),
    key(
        "spread",
        Kind::Number { min: 0.0, max: 5.0 },
        Preset::Number(0.0),
        "standard deviation of the logarithm of the devices' speeds; 0: all alike",
    ),
];

const LINK_KEYS: &[Key] = &[
    key(
        "up",
        Kind::Form(&MAYBE_RATE),
        Preset::Unset,
        "rate from the median client; unset: no limit",
    ),
    key(
        "down",
        Kind::Form(&MAYBE_RATE),
        Preset::Unset,
        "rate to the median client; unset: no limit",
    ),
    key(
        "spread",
        Kind::Number { min: 0.0, max: 5.0 },
        Preset::Number(0.0),
        "standard deviation of the logarithm of the links' rates; 0: all alike",
    ),
    key("latency", Kind::Form(&TIME), Preset::Text("0ms"), "until the first byte arrives"),
    key(
        "jitter",
        Kind::Form(&TIME),
        Preset::Text("0ms"),
        "most that is added to the latency at random",
    ),
    key(
        "loss",
        Kind::Number { min: 0.0, max: 0.99 },
        Preset::Number(0.0),
        "share of the packets that have to be sent again",
    ),
];

/// The clients' devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Devices {
    /// Samples that the median device trains on in a second; without it, training takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_second: Option<f64>,
    /// Standard deviation of the logarithm of the devices' speeds.
    pub spread: f64,
}

/// The clients' links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// From the median client; without it, there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<Rate>,
    /// To the median client; without it, there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Rate>,
    /// Standard deviation of the logarithm of the links' rates.
    pub spread: f64,
    /// Until the first byte arrives.
    #[serde(default)]
    pub latency: Span,
    /// Most that is added to the latency at random.
    #[serde(default)]
    pub jitter: Span,
    /// Share of the packets that have to be sent again.
    pub loss: f64,
}

impl Default for Devices {
    fn default() -> Self {
        DEVICES.defaults()
    }
}

impl Default for Links {
    fn default() -> Self {
        LINKS.defaults()
    }
}

/// The devices and links of the virtual clock.
pub(crate) fn profile(devices: &Devices, links: &Links) -> Profile {
    let rate = |limit: Option<Rate>| limit.map_or(f64::INFINITY, |Rate(rate)| rate);
    Profile {
        samples_per_second: devices.samples_per_second.unwrap_or(f64::INFINITY),
        device_spread: devices.spread,
        up: rate(links.up),
        down: rate(links.down),
        link_spread: links.spread,
        latency: links.latency.0.as_secs_f64(),
        jitter: links.jitter.0.as_secs_f64(),
        loss: links.loss,
    }
}
