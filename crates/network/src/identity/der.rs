//! Reading DER, the encoding of certificates: nothing but tags, lengths and what lies between.

/// A universal or context-specific tag of one byte.
pub(crate) type Tag = u8;

pub(crate) const BOOLEAN: Tag = 0x01;
pub(crate) const INTEGER: Tag = 0x02;
pub(crate) const BIT_STRING: Tag = 0x03;
pub(crate) const OCTET_STRING: Tag = 0x04;
pub(crate) const OBJECT_IDENTIFIER: Tag = 0x06;
pub(crate) const UTF8_STRING: Tag = 0x0c;
pub(crate) const PRINTABLE_STRING: Tag = 0x13;
pub(crate) const TELETEX_STRING: Tag = 0x14;
pub(crate) const IA5_STRING: Tag = 0x16;
pub(crate) const UTC_TIME: Tag = 0x17;
pub(crate) const GENERALIZED_TIME: Tag = 0x18;
pub(crate) const UNIVERSAL_STRING: Tag = 0x1c;
pub(crate) const BMP_STRING: Tag = 0x1e;
pub(crate) const SEQUENCE: Tag = 0x30;
pub(crate) const SET: Tag = 0x31;

/// The tag `[number]` around another value.
pub(crate) const fn around(number: u8) -> Tag {
    0xa0 | number
}

/// The tag `[number]` in place of that of a value without parts.
pub(crate) const fn instead(number: u8) -> Tag {
    0x80 | number
}

/// What is left to read. Every step gives `None` where the bytes are not what was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Nothing, if all has been read.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// The next element: its tag, its content, and all of it as it stands.
    pub(crate) fn element(&mut self) -> Option<(Tag, &'a [u8], &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        // Tags of several bytes are for numbers from 31 on, which X.509 has not.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = length(rest)?;
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some((tag, content, whole))
    }

    /// The content of the next element, which must have this tag.
    pub(crate) fn content(&mut self, wanted: Tag) -> Option<&'a [u8]> {
        self.element().filter(|&(tag, ..)| tag == wanted).map(|(_, content, _)| content)
    }

    /// The parts of the next element, which must have this tag.
    pub(crate) fn parts(&mut self, wanted: Tag) -> Option<Self> {
        self.content(wanted).map(Self)
    }

    /// The content of the next element if it has this tag; otherwise nothing, and it is left.
    pub(crate) fn optional(&mut self, wanted: Tag) -> Option<&'a [u8]> {
        match self.0.first() {
            Some(&tag) if tag == wanted => self.content(wanted),
            _ => Some(&[]),
        }
    }

    /// The next element, a string of whole bytes.
    pub(crate) fn bit_string(&mut self) -> Option<&'a [u8]> {
        match self.content(BIT_STRING)?.split_first()? {
            (0, bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Option<(Tag, &'a [u8])>;

    /// The elements one after another; the last is `None` inside where the bytes are broken.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.element().map(|(tag, content, _)| (tag, content));
        if found.is_none() {
            self.0 = &[];
        }
        Some(found)
    }
}

/// A length in as few bytes as it needs, and what follows it.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((first.into(), rest));
    }
    let (digits, rest) = rest.split_at_checked((first & 0x7f).into())?;
    let short = match digits {
        [] | [0, ..] => return None,
        [one] => *one < 0x80,
        _ => false,
    };
    if short || digits.len() > 4 {
        return None;
    }
    let length = digits.iter().fold(0u32, |sum, &digit| sum << 8 | u32::from(digit));
    Some((usize::try_from(length).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_one_after_another() {
        let mut long = vec![OCTET_STRING, 0x82, 0x01, 0x00];
        long.extend([7; 256]);
        long.extend([BOOLEAN, 1, 0xff]);
        let mut reader = Reader::new(&long);
        assert_eq!(reader.optional(SEQUENCE), Some(&[][..]));
        let (tag, content, whole) = reader.element().unwrap();
        assert_eq!((tag, content, whole.len()), (OCTET_STRING, &[7; 256][..], 260));
        assert_eq!(reader.optional(BOOLEAN), Some(&[0xff][..]));
        assert_eq!(reader.end(), Some(()));
        assert_eq!(reader.element(), None);
    }

    #[test]
    fn lengths_that_are_not_der() {
        let eighty = [&[OCTET_STRING, 0x81, 0x80][..], &[0; 128]].concat();
        assert!(Reader::new(&eighty).element().is_some());
        for bad in [
            &[][..],
            &[0x04],
            &[0x04, 2, 0],
            &[0x04, 0x80, 0, 0],
            &[0x04, 0x81, 1, 0],
            &[0x04, 0x82, 0, 1, 0],
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x04, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x1f, 0x20, 0],
        ] {
            assert_eq!(Reader::new(bad).element(), None, "{bad:?}");
        }
        let broken: Vec<_> = Reader::new(&[BOOLEAN, 0, 0x04, 9]).collect();
        assert_eq!(broken, [Some((BOOLEAN, &[][..])), None]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let read: usize = Reader::new(&bytes).flatten().map(|(_, content)| content.len()).sum();
            prop_assert!(read <= bytes.len());
        }
    }
}
