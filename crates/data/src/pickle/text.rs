//! Texts as the protocol of lines (0) writes them, and bytes that were written as text.

/// The bytes of a quoted text of Python 2: `'a\x00b\n'`.
pub(crate) fn unescaped(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let (first, rest) = line.split_first()?;
    let (last, inside) = rest.split_last()?;
    if first != last || !matches!(first, b'\'' | b'"') {
        return None;
    }
    let mut plain = Vec::with_capacity(inside.len());
    let mut rest = inside.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match *rest.next()? {
            b'n' => plain.push(b'\n'),
            b'r' => plain.push(b'\r'),
            b't' => plain.push(b'\t'),
            b'x' => {
                let digits = rest.as_slice().get(..2)?;
                plain.push(u8::try_from(hexadecimal(digits)?).ok()?);
                rest.nth(1);
            }
            quoted @ (b'\\' | b'\'' | b'"') => plain.push(quoted),
            _ => return None,
        }
    }
    Some(plain)
}

/// A text of which characters beyond Latin-1, and those that end lines, are written as `\uXXXX`.
pub(crate) fn raw_unicode(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        let wide = match (byte, line.get(at + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        let digits = line.get(at + 2..at + 2 + wide).filter(|_| wide > 0);
        let escaped = digits.and_then(hexadecimal).and_then(char::from_u32);
        text.push(escaped.unwrap_or(char::from(byte)));
        at += if escaped.is_some() { 2 + wide } else { 1 };
    }
    text
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    let digit = |value: u32, byte: &u8| Some(value << 4 | char::from(*byte).to_digit(16)?);
    digits.iter().try_fold(0, digit)
}

/// The bytes of which each was written as the character of its number.
pub(crate) fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_lines_are_unescaped() {
        assert_eq!(unescaped(br"'a\x00\xff\n\\\''").unwrap(), b"a\x00\xff\n\\'");
        assert_eq!(unescaped(b"\"it's\"").unwrap(), b"it's");
        for broken in ["", "'", "'a", "a'", "'\\", "'\\x0'", "'\\q'", "'\\x+1'"] {
            assert!(unescaped(broken.as_bytes()).is_none(), "{broken}");
        }
        assert_eq!(raw_unicode(b"a\\u000ab\\u20ac\xe9\\"), "a\nb\u{20ac}\u{e9}\\");
        assert_eq!(raw_unicode(b"\\ud800\\u12"), "\\ud800\\u12");
        assert_eq!(latin1("\u{0}\u{ff}").unwrap(), [0, 255]);
        assert!(latin1("\u{100}").is_none());
    }
}
