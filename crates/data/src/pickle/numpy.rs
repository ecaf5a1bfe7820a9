//! Arrays of NumPy in a pickle.

use super::{Fault, Id, Node, Pickle, text};
use std::borrow::Cow;

/// An array: numbers of one kind in rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbers<'p> {
    pub(crate) extents: Vec<usize>,
    /// `u` or `i`, and the bytes of each.
    pub(crate) kind: (u8, usize),
    big_endian: bool,
    /// The numbers, row after row.
    pub(crate) bytes: Cow<'p, [u8]>,
}

impl Numbers<'_> {
    /// The numbers themselves, if they are whole and stand in one row.
    pub(crate) fn wholes(&self) -> Option<Vec<i64>> {
        let (kind, size) = self.kind;
        if self.extents.len() != 1 {
            return None;
        }
        let whole = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            if self.big_endian {
                word[..size].reverse();
            }
            let unused = 64 - 8 * size as u32;
            let number = u64::from_le_bytes(word) << unused;
            if kind == b'i' {
                Some(number as i64 >> unused)
            } else {
                i64::try_from(number >> unused).ok()
            }
        };
        self.bytes.chunks_exact(size).map(whole).collect()
    }
}

impl Pickle<'_> {
    /// An array, by what Python would call to make it.
    pub(crate) fn array(&self, id: Id, what: &str) -> Result<Numbers<'_>, Fault> {
        let wanted = "an array of NumPy with whole numbers";
        let fault = |id| self.fault(id, what, wanted);
        let parts = self.parts(id).ok_or_else(|| fault(id))?;
        let extents: Option<Vec<usize>> = self.items(parts.extents).and_then(|items| {
            items.iter().map(|item| usize::try_from(self.whole(*item)?).ok()).collect()
        });
        let extents = extents.ok_or_else(|| fault(parts.extents))?;
        let (kind, big_endian) = self.kind(parts.kind).ok_or_else(|| fault(parts.kind))?;
        let bytes = self.bytes(parts.bytes).ok_or_else(|| fault(parts.bytes))?;
        let claimed = extents.iter().try_fold(kind.1, |a, &b| a.checked_mul(b));
        if claimed != Some(bytes.len()) {
            let means =
                claimed.map_or("more than any file has".into(), |claimed| claimed.to_string());
            let wanted = format!("the {means} bytes of its extents {extents:?}");
            return Err(self.fault(parts.bytes, what, &wanted));
        }
        let bytes = match *extents.as_slice() {
            [rows, columns] if parts.by_columns && !bytes.is_empty() => {
                let column = |at| (0..columns).map(move |column| (column * rows + at) * kind.1);
                let places = (0..rows).flat_map(column);
                places.flat_map(|place| &bytes[place..place + kind.1]).copied().collect()
            }
            [] | [_] | [_, _] => bytes,
            _ if !parts.by_columns => bytes,
            _ => return Err(self.fault(id, what, "an array in C order")),
        };
        Ok(Numbers { extents, kind, big_endian, bytes })
    }

    /// What an array is made of: `_reconstruct` with a state, or since protocol 5 `_frombuffer`.
    fn parts(&self, id: Id) -> Option<ArrayParts> {
        let Node::Call { callee, arguments, state } = self.node(id) else { return None };
        let Node::Name(module, name) = self.node(*callee) else { return None };
        let module = module.replace("numpy._core.", "numpy.core.");
        match (module.as_str(), name.as_str()) {
            ("numpy.core.multiarray", "_reconstruct") => {
                let [_, extents, kind, order, bytes] = *self.items((*state)?)? else { return None };
                let by_columns = self.truth(order)?;
                Some(ArrayParts { extents, kind, by_columns, bytes })
            }
            ("numpy.core.numeric", "_frombuffer") => {
                let [bytes, kind, extents, order] = *self.items(*arguments)? else { return None };
                let Node::Text(order) = self.node(order) else { return None };
                Some(ArrayParts { extents, kind, by_columns: order == "F", bytes })
            }
            _ => None,
        }
    }

    fn truth(&self, id: Id) -> Option<bool> {
        match self.node(id) {
            Node::Truth(value) => Some(*value),
            Node::Whole(value) => Some(*value != 0),
            _ => None,
        }
    }

    /// The kind of an array's numbers, `numpy.dtype("u1")`, and whether the first byte of each counts most.
    fn kind(&self, id: Id) -> Option<((u8, usize), bool)> {
        let Node::Call { callee, arguments, state } = self.node(id) else { return None };
        let Node::Name(module, name) = self.node(*callee) else { return None };
        if (module.as_str(), name.as_str()) != ("numpy", "dtype") {
            return None;
        }
        let name = self.bytes(*self.items(*arguments)?.first()?)?;
        let kind = match &*name {
            [b'|' | b'<' | b'>' | b'=', rest @ ..] => rest,
            all => all,
        };
        let kind = match kind {
            [kind @ (b'u' | b'i'), size @ (b'1' | b'2' | b'4' | b'8')] => {
                (*kind, usize::from(size - b'0'))
            }
            _ => return None,
        };
        let order = state.and_then(|state| self.items(state)?.get(1).copied());
        let order = order.and_then(|order| self.bytes(order));
        Some((kind, order.as_deref() == Some(b">")))
    }

    /// Bytes, in any of the ways in which they are written.
    pub(super) fn bytes(&self, id: Id) -> Option<Cow<'_, [u8]>> {
        match self.node(id) {
            Node::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            // A text of Python 2 that Python 3 has read as Latin-1 and written again.
            Node::Text(text) => text::latin1(text).map(Cow::Owned),
            Node::Call { callee, arguments, .. } => {
                let Node::Name(module, name) = self.node(*callee) else { return None };
                let arguments = self.items(*arguments)?;
                match (module.as_str(), name.as_str(), arguments) {
                    ("_codecs", "encode", [content, ..]) => match self.node(*content) {
                        Node::Text(content) => text::latin1(content).map(Cow::Owned),
                        _ => None,
                    },
                    ("__builtin__" | "builtins", "bytes" | "bytearray", []) => {
                        Some(Cow::Borrowed(&[]))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

struct ArrayParts {
    extents: Id,
    kind: Id,
    by_columns: bool,
    bytes: Id,
}
