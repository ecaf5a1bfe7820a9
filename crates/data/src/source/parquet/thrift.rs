//! What a Parquet file claims about itself, looked through before memory is taken for it.
//!
//! Footer and page headers are structures of Thrift's compact protocol. The library takes memory for what
//! they say; a file of a hundred bytes may say that it has a page of two billion.

use std::io::Read;

/// Structures within structures; those of Parquet have fewer than ten.
const DEEPEST: usize = 32;
/// A text within a page header; statistics hold the least and the largest value of a column.
const MOST_TEXT: u64 = 64 << 20;

/// Is told every number with the fields that lead there.
pub(super) type Take<'t> = &'t mut dyn FnMut(&[i16], i64) -> Result<(), String>;

/// A stream of the protocol.
struct Walk<'w, R> {
    stream: R,
    /// Bytes that may follow.
    left: u64,
    take: Take<'w>,
    path: Vec<i16>,
}

/// Looks through one structure of at most `most` bytes; gives its length.
pub(super) fn walk(stream: impl Read, most: u64, take: Take<'_>) -> Result<u64, String> {
    let mut walk = Walk { stream, left: most, take, path: Vec::new() };
    walk.structure(0)?;
    Ok(most - walk.left)
}

impl<R: Read> Walk<'_, R> {
    fn byte(&mut self) -> Result<u8, String> {
        let mut byte = [0];
        self.left = self.left.checked_sub(1).ok_or("it ends too early")?;
        self.stream
            .read_exact(&mut byte)
            .map_err(|error| format!("it ends too early ({error})"))?;
        Ok(byte[0])
    }

    fn skip(&mut self, count: u64) -> Result<(), String> {
        if count > self.left || count > MOST_TEXT {
            return Err(format!("a text in its description claims {count} bytes"));
        }
        self.left -= count;
        let skipped = std::io::copy(&mut (&mut self.stream).take(count), &mut std::io::sink());
        match skipped {
            Ok(skipped) if skipped == count => Ok(()),
            _ => Err("it ends too early".into()),
        }
    }

    fn unsigned(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number in its description is too long".into())
    }

    fn signed(&mut self) -> Result<i64, String> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn structure(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err("its description is nested too deeply".into());
        }
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Ok(());
            }
            field = match head >> 4 {
                0 => self.signed()? as i16,
                step => field.wrapping_add(i16::from(step)),
            };
            self.path.push(field);
            // A boolean is its own kind.
            if !matches!(kind, 1 | 2) {
                self.value(kind, depth)?;
            }
            self.path.pop();
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), String> {
        match kind {
            1..=3 => self.byte().map(|_| ()),
            4..=6 => {
                let number = self.signed()?;
                (self.take)(&self.path, number)
            }
            7 => self.skip(8),
            8 => {
                let length = self.unsigned()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
                // Every element has a byte at least.
                if count > self.left {
                    return Err(format!("a list in its description claims {count} entries"));
                }
                for _ in 0..count {
                    self.value(head & 0x0f, depth + 1)?;
                }
                Ok(())
            }
            12 => self.structure(depth + 1),
            // No structure of Parquet has a map.
            other => Err(format!("its description has a value of the unknown kind {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(bytes: &[u8]) -> Result<Vec<(Vec<i16>, i64)>, String> {
        let mut seen = Vec::new();
        walk(bytes, bytes.len() as u64, &mut |path, number| {
            seen.push((path.to_vec(), number));
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn numbers_come_with_the_fields_that_lead_there() {
        // {1: 3, 4: {2: -1}, 5: "ab", 6: [1, 2], 7: true}
        let bytes = [0x15, 6, 0x3c, 0x25, 1, 0, 0x18, 2, b'a', b'b', 0x19, 0x25, 2, 4, 0x11, 0];
        let found = walked(&bytes).unwrap();
        assert_eq!(found, [(vec![1], 3), (vec![4, 2], -1), (vec![6], 1), (vec![6], 2)]);
        for length in 0..bytes.len() {
            assert!(walked(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_claimed_is_compared_with_what_is_there() {
        let list = [0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(walked(&list).unwrap_err().contains("entries"));
        let text = [0x18, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(walked(&text).unwrap_err().contains("bytes"));
        assert!(walked(&[0x1c; 100]).unwrap_err().contains("too deeply"));
        assert!(walked(&[0xff; 100]).is_err());
    }
}
