//! What this crate reads of certificates and of lists of revoked ones (RFC 5280).
//!
//! A handful of fields: whether a certificate may be trusted is for TLS to say, which has verified a
//! peer's before it comes here. The signature of a list is verified here, by the algorithms of TLS.

use super::der::{self, Reader, Tag};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The contents of the identifiers 2.5.29.14, .15, .20 and .17.
pub(crate) const SUBJECT_KEY: &[u8] = &[0x55, 0x1d, 0x0e];
pub(crate) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const LIST_NUMBER: &[u8] = &[0x55, 0x1d, 0x14];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// The fields of a certificate.
#[derive(Debug)]
pub(crate) struct Certificate<'a> {
    /// The bytes of its number, which may begin with zeros.
    pub(crate) serial: &'a [u8],
    /// Its last moment.
    pub(crate) not_after: Timestamp,
    /// Whose it is: one group after another, as they stand.
    pub(crate) subject: Reader<'a>,
    /// Its public key.
    pub(crate) key: Key<'a>,
    extensions: Vec<(&'a [u8], &'a [u8])>,
}

/// A public key.
#[derive(Debug)]
pub(crate) struct Key<'a> {
    algorithm: &'a [u8],
    /// The bytes of the key itself.
    pub(crate) bytes: &'a [u8],
}

/// A list of revoked certificates.
#[derive(Debug)]
pub(crate) struct Revoked<'a> {
    /// Their numbers.
    pub(crate) serials: Vec<&'a [u8]>,
    /// The bytes of its own number, if it has one.
    pub(crate) number: &'a [u8],
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// From all of these bytes.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (whole, _) = signed(bytes)?;
        let mut body = Reader::new(whole).parts(der::SEQUENCE)?;
        body.optional(der::around(0))?; // version
        let serial = body.content(der::INTEGER)?;
        body.content(der::SEQUENCE)?; // algorithm of the signature, which stands behind once more
        body.content(der::SEQUENCE)?; // issuer
        let mut validity = body.parts(der::SEQUENCE)?;
        time(&mut validity)?;
        let not_after = time(&mut validity)?;
        let subject = body.parts(der::SEQUENCE)?;
        let mut key = body.parts(der::SEQUENCE)?;
        let key = Key { algorithm: key.content(der::SEQUENCE)?, bytes: key.bit_string()? };
        body.optional(der::instead(1))?; // unique identifiers, of the second version
        body.optional(der::instead(2))?;
        let extensions = match body.optional(der::around(3))? {
            [] => Vec::new(),
            list => extensions(list)?,
        };
        body.end()?;
        Some(Self { serial, not_after, subject, key, extensions })
    }

    /// The value of an extension, if it has it, or what is wrong with it.
    pub(crate) fn extension(&self, identifier: &[u8]) -> Result<Option<&'a [u8]>, String> {
        let mut found = self.extensions.iter().filter(|(own, _)| *own == identifier);
        match (found.next(), found.next()) {
            (value, None) => Ok(value.map(|(_, value)| *value)),
            (_, Some(_)) => Err("it has an extension twice".into()),
        }
    }

    /// The URIs among its alternative names, or what is wrong with them.
    pub(crate) fn uris(&self) -> Result<Vec<&'a str>, String> {
        let Some(names) = self.extension(ALTERNATIVE_NAME)? else { return Ok(Vec::new()) };
        uris(names).ok_or_else(|| "its alternative names cannot be read".into())
    }
}

impl<'a> Revoked<'a> {
    /// From all of these bytes.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (whole, mut rest) = signed(bytes)?;
        let (algorithm, signature) = (rest.content(der::SEQUENCE)?, rest.bit_string()?);
        let mut body = Reader::new(whole).parts(der::SEQUENCE)?;
        body.optional(der::INTEGER)?; // version
        // What has been signed names the algorithm too, lest somebody choose another one.
        if body.content(der::SEQUENCE)? != algorithm {
            return None;
        }
        body.content(der::SEQUENCE)?; // issuer
        time(&mut body)?;
        let mut next = body.clone();
        if time(&mut next).is_some() {
            body = next;
        }
        let mut serials = Vec::new();
        for entry in Reader::new(body.optional(der::SEQUENCE)?) {
            let (_, entry) = entry.filter(|&(tag, _)| tag == der::SEQUENCE)?;
            serials.push(Reader::new(entry).content(der::INTEGER)?);
        }
        let number = match body.optional(der::around(0))? {
            [] => None,
            list => extensions(list)?.into_iter().find(|(own, _)| *own == LIST_NUMBER),
        };
        let number = match number {
            Some((_, number)) => Reader::new(number).content(der::INTEGER)?,
            None => &[],
        };
        body.end()?;
        Some(Self { serials, number, signed: whole, algorithm, signature })
    }

    /// Whether the owner of a key has signed it.
    pub(crate) fn is_signed_by(&self, key: &Key<'_>) -> bool {
        let known = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
        known.iter().any(|one| {
            *one.signature_alg_id() == *self.algorithm
                && *one.public_key_alg_id() == *key.algorithm
                && one.verify_signature(key.bytes, self.signed, self.signature).is_ok()
        })
    }
}

/// What is signed in a certificate or a list, as it stands, and what follows: algorithm, signature.
fn signed(bytes: &[u8]) -> Option<(&[u8], Reader<'_>)> {
    let mut outside = Reader::new(bytes);
    let mut parts = outside.parts(der::SEQUENCE)?;
    outside.end()?;
    let (_, _, whole) = parts.element()?;
    let rest = parts.clone();
    parts.content(der::SEQUENCE)?;
    parts.bit_string()?;
    parts.end()?;
    Some((whole, rest))
}

fn extensions(list: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut all = Vec::new();
    for one in Reader::new(Reader::new(list).content(der::SEQUENCE)?) {
        let (_, one) = one.filter(|&(tag, _)| tag == der::SEQUENCE)?;
        let mut one = Reader::new(one);
        let identifier = one.content(der::OBJECT_IDENTIFIER)?;
        one.optional(der::BOOLEAN)?; // critical
        all.push((identifier, one.content(der::OCTET_STRING)?));
        one.end()?;
    }
    Some(all)
}

fn uris(names: &[u8]) -> Option<Vec<&str>> {
    let mut all = Vec::new();
    for name in Reader::new(Reader::new(names).content(der::SEQUENCE)?) {
        let (tag, name) = name?;
        if tag == der::instead(6) {
            all.push(str::from_utf8(name).ok()?);
        }
    }
    Some(all)
}

/// A part of a subject.
#[derive(Debug)]
pub(crate) struct Attribute<'a> {
    /// What it is, such as a common name.
    pub(crate) identifier: &'a [u8],
    /// In which encoding its text is.
    pub(crate) tag: Tag,
    /// Its text.
    pub(crate) value: &'a [u8],
}

/// The parts of a subject. A group of several is refused: the library that writes certificates cannot
/// write one again.
pub(crate) fn attributes<'a>(subject: &Reader<'a>) -> Option<Vec<Attribute<'a>>> {
    let mut all = Vec::new();
    for group in subject.clone() {
        let (_, group) = group.filter(|&(tag, _)| tag == der::SET)?;
        let mut group = Reader::new(group);
        let mut one = group.parts(der::SEQUENCE)?;
        group.end()?;
        let identifier = one.content(der::OBJECT_IDENTIFIER)?;
        let (tag, value, _) = one.element()?;
        one.end()?;
        all.push(Attribute { identifier, tag, value });
    }
    Some(all)
}

/// The numbers of an object identifier.
pub(crate) fn numbers(identifier: &[u8]) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    let mut number = 0u64;
    for &byte in identifier {
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if all.is_empty() {
                let first = (number / 40).min(2);
                all.push(first);
                number -= 40 * first;
            }
            all.push(number);
            number = 0;
        }
    }
    // A last byte that announces another one would leave a number open.
    identifier.last().filter(|&&byte| byte & 0x80 == 0).map(|_| all)
}

/// A moment: RFC 5280 allows seconds in UTC only, with two digits of the year until 2049.
fn time(reader: &mut Reader<'_>) -> Option<Timestamp> {
    let (tag, digits, _) = reader.element()?;
    let digits = str::from_utf8(digits).ok()?.strip_suffix('Z')?;
    let (year, rest) = digits.split_at_checked(match tag {
        der::UTC_TIME => 2,
        der::GENERALIZED_TIME => 4,
        _ => return None,
    })?;
    if rest.len() != 10 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let year: i16 = match (tag, year.parse().ok()?) {
        (der::UTC_TIME, year @ 0..50) => 2000 + year,
        (der::UTC_TIME, year) => 1900 + year,
        (_, year) => year,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let moment = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    TimeZone::UTC.to_timestamp(moment).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments() {
        let read = |tag, text: &str| {
            let bytes = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&mut Reader::new(&bytes)).map(|moment| moment.to_string())
        };
        assert_eq!(read(der::UTC_TIME, "491231235959Z").unwrap(), "2049-12-31T23:59:59Z");
        assert_eq!(read(der::UTC_TIME, "500101000000Z").unwrap(), "1950-01-01T00:00:00Z");
        assert_eq!(read(der::GENERALIZED_TIME, "20500228010203Z").unwrap(), "2050-02-28T01:02:03Z");
        for bad in ["", "Z", "4912312359Z", "491231235959", "491331235959Z", "4912312359+9Z"] {
            assert_eq!(read(der::UTC_TIME, bad), None, "{bad}");
        }
        assert_eq!(read(der::GENERALIZED_TIME, "20500228010203.5Z"), None);
        assert_eq!(read(der::INTEGER, "491231235959Z"), None);
    }

    #[test]
    fn numbers_of_identifiers() {
        assert_eq!(numbers(&[0x55, 4, 3]).unwrap(), [2, 5, 4, 3]);
        assert_eq!(numbers(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]).unwrap(), [1, 2, 840, 113_549]);
        assert_eq!(numbers(&[0x88, 0x37]).unwrap(), [2, 999]);
        assert_eq!(numbers(&[0x2a, 0x86]), None);
        assert_eq!(numbers(&[]), None);
        assert_eq!(numbers(&[0xff; 12]), None);
    }

    /// One bit of a real certificate after another: most are read, none makes a panic.
    #[test]
    fn a_certificate_with_any_bit_changed() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        let uri = "urn:formant:client:a".try_into().unwrap();
        params.subject_alt_names.push(rcgen::SanType::URI(uri));
        let certificate = params.self_signed(&key).unwrap();
        let whole = Certificate::read(certificate.der()).unwrap();
        assert_eq!(whole.uris().unwrap(), ["urn:formant:client:a"]);
        assert_eq!(attributes(&whole.subject).unwrap().len(), 1);
        for bit in 0..8 * certificate.der().len() {
            let mut other = certificate.der().to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            if let Some(read) = Certificate::read(&other) {
                let _ = (read.uris(), read.extension(KEY_USAGE), attributes(&read.subject));
            }
            other.truncate(bit / 8);
            assert!(Certificate::read(&other).is_none(), "{} bytes", bit / 8);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_certificate_and_no_list(bytes: Vec<u8>) {
            prop_assert!(Certificate::read(&bytes).is_none());
            prop_assert!(Revoked::read(&bytes).is_none());
        }
    }
}
