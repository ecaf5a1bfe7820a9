//! Checks that travel inside JSON objects, so that a changed digit is noticed before it is believed.
//!
//! A sealed object ends with one more member, `"check":"<16 hexadecimal digits>"`: the XXH3 of every
//! byte before it. To other readers it is an ordinary member of an ordinary object. Objects in a row,
//! such as the lines of a log, are chained: the check of each is seeded with the one before, so that
//! a line that is missing, repeated or moved is noticed as well. A text whose comments begin with `#`, such as TOML,
//! is sealed by a last line `# check <16 hexadecimal digits>`.
//!
//! This is against accidents, not against forgers: whoever can write a file can seal it.

use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Opens the member.
const KEY: &[u8] = b"\"check\":\"";
/// Closes the member and its object.
const END: &[u8] = b"\"}";
const DIGITS: usize = 16;

/// The check of a sealed object. The default stands before the first of a row, and before an object
/// that stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Check(u64);

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Check> for String {
    fn from(check: Check) -> Self {
        check.to_string()
    }
}

impl TryFrom<String> for Check {
    type Error = std::num::ParseIntError;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&digits, 16).map(Self)
    }
}

/// Why an object cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It ends with no check.
    #[error("it does not end with its check, so it was cut or is an earlier version's")]
    Missing,
    /// It has changed since it was sealed, or what stood before it has.
    #[error("its check does not match, so it is not as it was written")]
    Wrong,
}

/// Appends its check to a JSON object of at least one member, and says which it is.
///
/// ```
/// use formant_runtime::seal::{Broken, Check, seal, verify};
///
/// let mut object = br#"{"rounds":30}"#.to_vec();
/// let check = seal(&mut object, Check::default());
/// assert_eq!(verify(&object, Check::default()), Ok(check));
/// assert_eq!(object, format!(r#"{{"rounds":30,"check":"{check}"}}"#).into_bytes());
///
/// object[10] = b'8';
/// assert_eq!(verify(&object, Check::default()), Err(Broken::Wrong));
/// ```
pub fn seal(object: &mut Vec<u8>, before: Check) -> Check {
    debug_assert!(object.ends_with(b"}") && object.len() > 2, "no JSON object with members");
    object.pop();
    object.truncate(object.trim_ascii_end().len());
    object.push(b',');
    let check = Check(xxh3_64_with_seed(object, before.0));
    object.extend(KEY);
    object.extend(check.to_string().bytes());
    object.extend(END);
    check
}

/// The check of a sealed object, if it is the right one.
pub fn verify(sealed: &[u8], before: Check) -> Result<Check, Broken> {
    let rest = sealed.strip_suffix(END).ok_or(Broken::Missing)?;
    let (rest, digits) = rest.split_last_chunk::<DIGITS>().ok_or(Broken::Missing)?;
    let object = rest.strip_suffix(KEY).ok_or(Broken::Missing)?;
    let check = Check(xxh3_64_with_seed(object, before.0));
    if check.to_string().as_bytes() == digits { Ok(check) } else { Err(Broken::Wrong) }
}

/// Opens the last line of a sealed text.
const LINE: &str = "# check ";

/// Appends its check to a text of whole lines.
///
/// ```
/// use formant_runtime::seal::{Broken, seal_text, verify_text};
///
/// let mut text = "rounds = 30\n".to_owned();
/// seal_text(&mut text);
/// assert_eq!(verify_text(&text), Ok(()));
/// assert_eq!(verify_text(&text.replace("30", "31")), Err(Broken::Wrong));
/// assert_eq!(verify_text("rounds = 30\n"), Err(Broken::Missing));
/// ```
pub fn seal_text(text: &mut String) {
    debug_assert!(text.ends_with('\n'), "no whole lines");
    let check = Check(xxh3_64_with_seed(text.as_bytes(), 0));
    text.extend([LINE, &check.to_string(), "\n"]);
}

/// Whether a sealed text is as it was written.
pub fn verify_text(sealed: &str) -> Result<(), Broken> {
    let rest = sealed.strip_suffix('\n').ok_or(Broken::Missing)?;
    let begin = rest.rfind('\n').map_or(0, |end| end + 1);
    let (text, line) = rest.split_at(begin);
    let digits = line.strip_prefix(LINE).ok_or(Broken::Missing)?;
    let check = Check(xxh3_64_with_seed(text.as_bytes(), 0));
    if check.to_string() == digits { Ok(()) } else { Err(Broken::Wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(text: &str, before: Check) -> (Vec<u8>, Check) {
        let mut object = text.as_bytes().to_vec();
        let check = seal(&mut object, before);
        (object, check)
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let (object, _) = sealed(r#"{"round":10,"loss":0.25}"#, Check::default());
        for at in 0..object.len() {
            for bit in 0..8 {
                let mut changed = object.clone();
                changed[at] ^= 1 << bit;
                assert!(verify(&changed, Check::default()).is_err(), "bit {bit} of byte {at}");
            }
        }
        for end in 0..object.len() {
            assert!(verify(&object[..end], Check::default()).is_err(), "cut at byte {end}");
        }
    }

    #[test]
    fn a_sealed_object_is_json_with_one_more_member() {
        for text in [r#"{"a":{"b":1}}"#, "{\n  \"a\": {\n    \"b\": 1\n  }\n}"] {
            let (object, check) = sealed(text, Check::default());
            let value: serde_json::Value = serde_json::from_slice(&object).unwrap();
            assert_eq!(value, serde_json::json!({ "a": { "b": 1 }, "check": check.to_string() }));
            assert_eq!(verify(&object, Check::default()), Ok(check));
        }
    }

    #[test]
    fn objects_in_a_row_hang_together() {
        let (first, one) = sealed(r#"{"n":1}"#, Check::default());
        let (second, two) = sealed(r#"{"n":2}"#, one);
        assert_eq!(verify(&first, Check::default()), Ok(one));
        assert_eq!(verify(&second, one), Ok(two));
        assert_eq!(verify(&second, Check::default()), Err(Broken::Wrong), "the first is gone");
        assert_eq!(verify(&first, two), Err(Broken::Wrong), "it comes too late");
        assert_eq!(verify(br#"{"n":1}"#, Check::default()), Err(Broken::Missing));
    }

    #[test]
    fn a_check_is_kept_as_its_digits() {
        let (_, check) = sealed(r#"{"n":1}"#, Check::default());
        let text = serde_json::to_string(&check).unwrap();
        assert_eq!(text, format!("\"{check}\""));
        assert_eq!(serde_json::from_str::<Check>(&text).unwrap(), check);
        assert!(serde_json::from_str::<Check>("\"no digits\"").is_err());
    }
}
