//! Which parts of a file are in use. One file for all client states, because a file for each costs
//! more than what is in it: creating and removing ten thousand of them took half as long as
//! training the clients.

use std::collections::BTreeMap;

/// Parts begin at multiples of this, so that a part that goes fits a state that has grown a little.
const GRAIN: u64 = 4096;

/// The parts of a file that are free.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Length by offset; neighbours are merged.
    free: BTreeMap<u64, u64>,
    end: u64,
}

fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRAIN).max(GRAIN)
}

impl Slots {
    /// The first part that is large enough, or one at the end.
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let bytes = rounded(bytes);
        let found = self.free.iter().find(|(_, length)| **length >= bytes);
        let Some((&offset, &length)) = found else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        offset
    }

    /// Gives a part back.
    pub(super) fn release(&mut self, mut offset: u64, bytes: u64) {
        let mut length = rounded(bytes);
        if let Some(after) = self.free.remove(&(offset + length)) {
            length += after;
        }
        if let Some((&before, &its)) = self.free.range(..offset).next_back()
            && before + its == offset
        {
            offset = before;
            length += its;
        }
        if offset + length == self.end {
            self.free.remove(&offset);
            self.end = offset;
        } else {
            self.free.insert(offset, length);
        }
    }

    /// Everything is free but these parts.
    pub(super) fn of(mut kept: Vec<(u64, u64)>) -> Self {
        kept.sort_unstable();
        let mut slots = Self::default();
        for (offset, bytes) in kept {
            if offset > slots.end {
                slots.free.insert(slots.end, offset - slots.end);
            }
            slots.end = slots.end.max(offset.saturating_add(rounded(bytes)));
        }
        slots
    }

    /// Where the last part in use ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_that_goes_is_the_next_one_taken() {
        let mut slots = Slots::default();
        let taken: Vec<u64> = (0..4).map(|_| slots.take(5_000)).collect();
        assert_eq!(taken, [0, 8192, 16384, 24576]);
        slots.release(8192, 5_000);
        assert_eq!((slots.take(9_000), slots.take(1), slots.take(8_000)), (32768, 8192, 45056));
    }

    proptest! {
        /// Parts in use never overlap, and what is free is found again after a restart.
        #[test]
        fn parts_do_not_overlap(steps in prop::collection::vec((any::<bool>(), 0u64..20_000), 1..200)) {
            let mut slots = Slots::default();
            let mut used: BTreeMap<u64, u64> = BTreeMap::new();
            for (take, number) in steps {
                if take || used.is_empty() {
                    let offset = slots.take(number);
                    prop_assert!(used.insert(offset, number).is_none());
                } else {
                    let nth = usize::try_from(number).unwrap() % used.len();
                    let (&offset, &bytes) = used.iter().nth(nth).unwrap();
                    used.remove(&offset);
                    slots.release(offset, bytes);
                }
                let ends = used.iter().map(|(offset, bytes)| offset + rounded(*bytes));
                let starts = used.keys().copied().skip(1).chain([slots.end()]);
                prop_assert!(ends.zip(starts).all(|(end, start)| end <= start));
            }
            let again = Slots::of(used.into_iter().collect());
            prop_assert_eq!((again.free, again.end), (slots.free, slots.end));
        }
    }
}
