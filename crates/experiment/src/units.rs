//! Sizes, rates and times as people write them.

use core::time::Duration;
use formant_methods::schema::Form;
use serde::{Deserialize, Serialize};

/// Bytes, written with a unit.
///
/// ```
/// use formant_experiment::units::Size;
/// assert_eq!(String::from(Size(512 << 20)), "512MiB");
/// assert_eq!(Size::try_from("2GB".to_owned()), Ok(Size(2_000_000_000)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(pub f64);

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl From<Size> for String {
    fn from(Size(bytes): Size) -> Self {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = units.into_iter().find(|(_, bits)| bytes > 0 && bytes % (1 << bits) == 0);
        whole.map_or(bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
    }
}

impl From<Rate> for String {
    fn from(Rate(rate): Rate) -> Self {
        format!("{rate}B")
    }
}

impl From<Span> for String {
    fn from(Span(time): Span) -> Self {
        format!("{}s", time.as_secs_f64())
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        bytes(&text).map(|bytes| Self(bytes as u64)).ok_or_else(|| unlike(&text, &SIZE))
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        rate(&text).map(Self).ok_or_else(|| unlike(&text, &MAYBE_RATE))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        duration(&text).map(Self).ok_or_else(|| unlike(&text, &TIME))
    }
}

/// Width and height in pixels.
///
/// ```
/// use formant_experiment::units::Pixels;
/// let wide = Pixels::try_from("64x48".to_owned()).unwrap();
/// assert_eq!((wide.0.width, wide.0.height, String::from(wide)), (64, 48, "64x48".to_owned()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pixels(pub formant_numerics::Size);

impl From<Pixels> for String {
    fn from(Pixels(size): Pixels) -> Self {
        format!("{}x{}", size.width, size.height)
    }
}

impl TryFrom<String> for Pixels {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        pixels(&text).map(Self).ok_or_else(|| unlike(&text, &PIXELS))
    }
}

/// The largest side of a picture.
const MOST_PIXELS: usize = 4_096;

fn pixels(text: &str) -> Option<formant_numerics::Size> {
    let (width, height) = text.split_once('x')?;
    let side =
        |side: &str| side.trim().parse().ok().filter(|side| (1..=MOST_PIXELS).contains(side));
    Some(formant_numerics::Size { width: side(width)?, height: side(height)? })
}

/// Width and height.
pub const PIXELS: Form = Form {
    description: "width and height in pixels such as \"64x64\"",
    accepts: |text| pixels(text).is_some(),
};

fn unlike(text: &str, form: &Form) -> String {
    format!("\"{text}\" is not {}", form.description)
}

/// A size.
pub const SIZE: Form = Form {
    description: "a size such as \"1GiB\", \"512MiB\" or \"2GB\"",
    accepts: |text| bytes(text).is_some(),
};

/// A rate, or nothing for no limit.
pub const MAYBE_RATE: Form = Form {
    description: "bytes or bits a second such as \"1MB\" or \"8Mbit\"",
    accepts: |text| text.is_empty() || rate(text).is_some(),
};

/// A time, which may be none.
pub const TIME: Form = Form {
    description: "a time such as \"50ms\" or \"2s\"",
    accepts: |text| text.is_empty() || duration(text).is_some(),
};

/// A time that passes, or nothing for never.
pub const MAYBE_TIME: Form = Form {
    description: "a time such as \"60s\" or \"5min\"",
    accepts: |text| text.is_empty() || duration(text).is_some_and(|time| !time.is_zero()),
};

/// Splits "512 MiB" into a number and a unit in lower case.
fn parts(given: &str) -> Option<(f64, String)> {
    let given = given.trim();
    let digits = given.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(given.len());
    let amount: f64 = given[..digits].parse().ok()?;
    amount.is_finite().then(|| (amount, given[digits..].trim().to_ascii_lowercase()))
}

/// Reads "1GiB", "512 MiB", "2GB" or plain bytes; bits too, as in "8Mbit".
pub fn bytes(given: &str) -> Option<f64> {
    let (amount, unit) = parts(given)?;
    let bits = unit.strip_suffix("bit");
    let scale = match bits.unwrap_or(unit.strip_suffix('b').unwrap_or(&unit)) {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        "ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(amount * scale / if bits.is_some() { 8.0 } else { 1.0 })
}

/// Reads bytes a second: "1MB", "1MB/s", "8Mbit/s" or "8Mbps".
pub fn rate(given: &str) -> Option<f64> {
    let given = given.trim();
    let given = given.strip_suffix("/s").unwrap_or(given);
    let (amount, bits) = match (given.strip_suffix("bps"), given.strip_suffix("Bps")) {
        (Some(amount), _) => (amount, format!("{amount}bit")),
        (_, Some(amount)) => (amount, format!("{amount}B")),
        _ => (given, given.to_owned()),
    };
    // "1Mb" is a megabit to some and a megabyte to others.
    let ambiguous = amount.ends_with('b');
    bytes(&bits).filter(|rate| *rate > 0.0 && !ambiguous)
}

/// Reads "250ms", "60s", "5min", "1h" or plain seconds.
pub fn duration(given: &str) -> Option<Duration> {
    let (amount, unit) = parts(given)?;
    let scale = match unit.as_str() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(amount * scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rates_and_times_are_read_as_people_write_them() {
        for (given, expected) in [
            ("1GiB", 1_073_741_824.0),
            ("512 MiB", 536_870_912.0),
            ("2GB", 2e9),
            ("7", 7.0),
            ("8Mbit", 1e6),
        ] {
            assert_eq!(bytes(given), Some(expected), "{given}");
        }
        for given in ["1MB", "1MB/s", "1MBps", "8Mbit/s", "8Mbps", "8 mbit"] {
            assert_eq!(rate(given), Some(1e6), "{given}");
        }
        for (given, seconds) in
            [("250ms", 0.25), ("60s", 60.0), ("5min", 300.0), ("1.5", 1.5), ("1h", 3600.0)]
        {
            assert_eq!(duration(given).map(|d| d.as_secs_f64()), Some(seconds), "{given}");
        }
        for given in ["", "x", "1x", "-1s", "ms", "1e3 s", "inf", "..s"] {
            assert_eq!((bytes(given), duration(given)), (None, None), "{given}");
        }
        for given in ["0", "1Mb", "1Mb/s", "1mb", "fast"] {
            assert_eq!(rate(given), None, "{given}");
        }
    }
}
