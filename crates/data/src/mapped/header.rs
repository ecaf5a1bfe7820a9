//! What a file of `formant data import` says of itself: 64 bytes at its beginning, and a header at its end.

use super::damaged;
use crate::{DataError, Description};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// How such a file begins. No text does, and no other format that is known.
pub(crate) const MAGIC: [u8; 8] = *b"\x89FORMANT";
/// The version that is written; all that is read.
const VERSION: u32 = 1;
/// Tells whether numbers are stored as this machine keeps them.
const BYTE_ORDER: u32 = 0x0102_0304;
/// Sections begin at multiples of this: a cache line, and enough for any number.
pub(crate) const ALIGNMENT: u64 = 64;
/// Bytes of the beginning.
pub(crate) const PREFIX: usize = 64;
/// Of these, what the check at their end is about.
const CHECKED: usize = 56;

/// The beginning of a file. It is written last, when everything else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Where the header begins; it ends with the file.
    pub(crate) header_at: u64,
    /// Bytes of the whole file.
    pub(crate) file_bytes: u64,
    /// XXH3-128 of the header.
    pub(crate) header_check: u128,
}

impl Prefix {
    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; PREFIX] {
        let mut bytes = [0; PREFIX];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&BYTE_ORDER.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.header_at.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.file_bytes - self.header_at).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[40..CHECKED].copy_from_slice(&self.header_check.to_le_bytes());
        let check = xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the beginning of a file that is in memory or mapped, and compares it with the file's length.
    pub(crate) fn of(path: &Path, file: &[u8]) -> Result<Self, DataError> {
        let Some(bytes) = file.get(..PREFIX) else {
            let found = format!("it ends after {} bytes, within its first {PREFIX}", file.len());
            return Err(damaged(path, found));
        };
        if bytes[..8] != MAGIC {
            let found = "it does not begin as a file of `formant data import` does".into();
            return Err(damaged(path, found));
        }
        let whole = |at: usize| le_u64(bytes, at);
        if xxh3_64(&bytes[..CHECKED]) != whole(CHECKED) {
            return Err(damaged(path, format!("its first {PREFIX} bytes are not as written")));
        }
        let version = le_u32(bytes, 8);
        if version != VERSION {
            return Err(DataError::Input {
                place: path.display().to_string(),
                found: format!("it has version {version}, and this program reads {VERSION}"),
                remedy: "use a newer Formant, or import the data again with this one".into(),
            });
        }
        let found = Self {
            header_at: whole(16),
            file_bytes: whole(32),
            header_check: u128::from(whole(40)) | u128::from(whole(48)) << 64,
        };
        let (there, written) = (file.len() as u64, found.file_bytes);
        if there < written {
            return Err(damaged(
                path,
                format!("it is cut off: {there} of {written} bytes are there"),
            ));
        }
        if there > written {
            let found = format!("{} bytes follow its {written}", there - written);
            return Err(damaged(path, found));
        }
        let sound = le_u32(bytes, 12) == BYTE_ORDER
            && found.header_at >= PREFIX as u64
            && found.header_at.checked_add(whole(24)) == Some(written);
        if sound {
            Ok(found)
        } else {
            Err(damaged(path, "its beginning does not make sense".into()))
        }
    }
}

fn le_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le_u32(bytes, at)) | u64::from(le_u32(bytes, at + 4)) << 32
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

/// Everything about the data but the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// What the data are called.
    pub(crate) name: String,
    /// What they consist of.
    pub(crate) data: Description,
    /// Number of training samples.
    pub(crate) train: usize,
    /// Number of test samples.
    pub(crate) test: usize,
    /// What the clients are called, if the samples have owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owners: Option<Vec<String>>,
    /// What was decided when they were imported.
    pub(crate) remarks: Vec<String>,
    /// Where everything lies, in the order of the file.
    pub(crate) sections: Vec<Section>,
}

/// A part of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// What is in it.
    pub(crate) name: SectionName,
    /// Where it begins.
    pub(crate) at: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// XXH3-128 of it, as hexadecimal digits.
    pub(crate) check: String,
}

/// What may be in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SectionName {
    Train,
    Test,
    TrainLabels,
    TestLabels,
    Owners,
}

impl SectionName {
    /// Every section of a file, in its order.
    pub(crate) const ALL: [Self; 5] =
        [Self::Train, Self::Test, Self::TrainLabels, Self::TestLabels, Self::Owners];

    /// What messages call it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Train => "training samples",
            Self::Test => "test samples",
            Self::TrainLabels => "labels of the training samples",
            Self::TestLabels => "labels of the test samples",
            Self::Owners => "owners of the training samples",
        }
    }
}

/// How a check is written.
pub(crate) fn digits(check: u128) -> String {
    format!("{check:032x}")
}

impl Header {
    /// Reads the header, which the beginning vouches for, and compares its parts with each other.
    pub(crate) fn of(path: &Path, file: &[u8], prefix: &Prefix) -> Result<Self, DataError> {
        let bytes = &file[prefix.header_at as usize..];
        if xxh3_128(bytes) != prefix.header_check {
            let found = format!("its header, from byte {}, is not as written", prefix.header_at);
            return Err(damaged(path, found));
        }
        let header: Self = serde_json::from_slice(bytes)
            .map_err(|error| damaged(path, format!("its header cannot be read ({error})")))?;
        let shape = header.data.shape;
        let extents = [shape.channels, shape.height, shape.width];
        if extents.into_iter().try_fold(4_usize, usize::checked_mul).is_none() {
            return Err(damaged(path, "its header claims samples beyond any memory".into()));
        }
        let unfit = |error| damaged(path, format!("its header does not fit together ({error})"));
        header.data.check().map_err(unfit)?;
        header.check_sections(path, prefix.header_at)?;
        Ok(header)
    }

    /// How many bytes a section has to have.
    fn bytes_of(&self, name: SectionName) -> Option<u64> {
        let width = if self.data.values.are_bytes() { 1 } else { 4 };
        let sample = self.data.shape.len().checked_mul(width);
        let bytes = match name {
            SectionName::Train => sample?.checked_mul(self.train)?,
            SectionName::Test => sample?.checked_mul(self.test)?,
            SectionName::TrainLabels => self.train.checked_mul(2)?,
            SectionName::TestLabels => self.test.checked_mul(2)?,
            SectionName::Owners if self.owners.is_some() => self.train.checked_mul(4)?,
            SectionName::Owners => 0,
        };
        Some(bytes as u64)
    }

    /// An error unless the sections are those of such data, one after the other and within the file.
    fn check_sections(&self, path: &Path, end: u64) -> Result<(), DataError> {
        let mut from = PREFIX as u64;
        let names: Vec<SectionName> = self.sections.iter().map(|section| section.name).collect();
        if names != SectionName::ALL {
            return Err(damaged(
                path,
                "its header does not name the sections of such a file".into(),
            ));
        }
        for section in &self.sections {
            let Section { name, at, bytes, .. } = section;
            let ends = at.checked_add(*bytes).filter(|ends| *ends <= end);
            let (true, true, true, Some(ends)) =
                (*at >= from, at % ALIGNMENT == 0, self.bytes_of(*name) == Some(*bytes), ends)
            else {
                let what = name.words();
                let found = format!("{bytes} bytes from {at} cannot be the {what}");
                return Err(damaged(path, found));
            };
            from = ends;
        }
        Ok(())
    }

    /// Where a section lies.
    pub(crate) fn range(&self, name: SectionName) -> Range<usize> {
        let section = self.sections.iter().find(|section| section.name == name);
        section.map_or(0..0, |section| section.at as usize..(section.at + section.bytes) as usize)
    }

    /// Compares every section with its check, and sees that there is nothing between them; the number of
    /// bytes that were read.
    pub(crate) fn verify(&self, path: &Path, file: &[u8], end: u64) -> Result<u64, DataError> {
        let mut from = PREFIX;
        for section in &self.sections {
            let range = self.range(section.name);
            check_gap(path, file, from..range.start)?;
            if digits(xxh3_128(&file[range.clone()])) != section.check {
                let (what, at) = (section.name.words(), range.start);
                let found = format!("the {what}, from byte {at}, are not as written");
                return Err(damaged(path, found));
            }
            from = range.end;
        }
        check_gap(path, file, from..end as usize)?;
        Ok(file.len() as u64)
    }
}

/// An error unless what lies between two sections is zero.
fn check_gap(path: &Path, file: &[u8], gap: Range<usize>) -> Result<(), DataError> {
    let first = gap.start;
    match file[gap].iter().position(|&byte| byte != 0) {
        Some(place) => {
            let found = format!("byte {} lies between two sections and is not 0", first + place);
            Err(damaged(path, found))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_read_as_written_and_other_versions_are_named() {
        let prefix = Prefix { header_at: 64, file_bytes: 100, header_check: 7 << 90 | 3 };
        let mut file = prefix.to_bytes().to_vec();
        file.resize(100, 0);
        let path = Path::new("set.formant");
        assert_eq!(Prefix::of(path, &file).unwrap(), prefix);
        let resealed = |at: usize, byte: u8| {
            let mut file = file.clone();
            file[at] = byte;
            let check = xxh3_64(&file[..CHECKED]);
            file[CHECKED..PREFIX].copy_from_slice(&check.to_le_bytes());
            Prefix::of(path, &file).unwrap_err().to_string()
        };
        let message = resealed(8, 2);
        assert!(message.contains("set.formant: it has version 2"), "{message}");
        // A header outside the file, and numbers the other way round.
        for (at, byte) in [(16, 65), (23, 0xff), (12, 1)] {
            let message = resealed(at, byte);
            assert!(message.contains("does not make sense"), "{message}");
        }
    }
}
