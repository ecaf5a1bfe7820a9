//! Dividing one client's samples into train, validation and test with the same label distribution.

use crate::apportionment::largest_remainder;
use crate::federation::ClientData;
use crate::holding::Holding;
use formant_numerics::Rng;

/// Numbers of train, validation and test samples, in this order.
type Triple = [usize; 3];

/// Splits a client's samples. The totals follow the fractions; within them every class is divided
/// in the proportions of the totals, each number rounded up or down.
pub(crate) fn stratified(holding: Holding, fractions: [f64; 3], rng: &mut Rng) -> ClientData {
    let totals = totals(holding.size(), fractions);
    let mut stocks: Vec<Vec<u32>> = holding.into_classes().collect();
    // The order decides which class gets the odd sample when remainders are equal. In a fixed order
    // the same classes would be tested on every client.
    rng.shuffle(&mut stocks);
    let sizes: Vec<usize> = stocks.iter().map(Vec::len).collect();
    let mut parts: [Vec<u32>; 3] = totals.map(Vec::with_capacity);
    for (mut stock, counts) in stocks.into_iter().zip(rounded_table(&sizes, totals)) {
        stock.sort_unstable();
        rng.shuffle(&mut stock);
        let mut rest = stock.as_slice();
        for (part, count) in parts.iter_mut().zip(counts) {
            let (share, left) = rest.split_at(count);
            rest = left;
            part.extend_from_slice(share);
        }
    }
    for part in &mut parts {
        part.sort_unstable();
    }
    let [train, validation, test] = parts;
    ClientData { train, validation, test }
}

/// How many samples go to train, validation and test: the fractions by largest remainder, then one
/// sample for every part that is wanted and empty, as far as the samples reach, in the order train,
/// test, validation.
fn totals(size: usize, fractions: [f64; 3]) -> Triple {
    let mut totals = [0; 3];
    totals.copy_from_slice(&largest_remainder(&fractions, size));
    let wanted: Vec<usize> =
        [0, 2, 1].into_iter().filter(|&part| fractions[part] > 0.0).take(size).collect();
    for &part in &wanted {
        if totals[part] > 0 {
            continue;
        }
        // A part that is not wanted gives first, then the largest, which holds two or more.
        let giver =
            (0..3).max_by_key(|i| (totals[*i] > 0 && !wanted.contains(i), totals[*i], 3 - i));
        if let Some(giver) = giver {
            totals[giver] -= 1;
            totals[part] += 1;
        }
    }
    totals
}

/// A table of whole numbers with the given row sums and column sums, each entry the product of its
/// two sums over the grand total, rounded up or down. Such a table always exists.
///
/// Entries are rounded down first; what is missing goes to the entries that lost most, and where
/// that leads into a dead end, to others along an augmenting path.
fn rounded_table(rows: &[usize], columns: Triple) -> Vec<Triple> {
    let total: usize = rows.iter().sum();
    if total == 0 {
        return vec![[0; 3]; rows.len()];
    }
    let mut rounding = Rounding {
        lost: rows.iter().map(|row| columns.map(|column| row * column % total)).collect(),
        raised: vec![[false; 3]; rows.len()],
        missing: columns,
    };
    let mut table: Vec<Triple> =
        rows.iter().map(|row| columns.map(|column| row * column / total)).collect();
    let mut row_missing = rows.to_vec();
    for (row, entries) in table.iter().enumerate() {
        for (column, entry) in entries.iter().enumerate() {
            row_missing[row] -= entry;
            rounding.missing[column] -= entry;
        }
    }
    let mut order: Vec<(usize, usize)> =
        (0..rows.len()).flat_map(|row| [(row, 0), (row, 1), (row, 2)]).collect();
    order.sort_by_key(|&(row, column)| std::cmp::Reverse(rounding.lost[row][column]));
    for (row, column) in order {
        if row_missing[row] > 0 && rounding.missing[column] > 0 && rounding.open(row, column) {
            rounding.raised[row][column] = true;
            rounding.missing[column] -= 1;
            row_missing[row] -= 1;
        }
    }
    for (row, missing) in row_missing.into_iter().enumerate() {
        for _ in 0..missing {
            rounding.augment(row);
        }
    }
    for (entries, raised) in table.iter_mut().zip(&rounding.raised) {
        for (entry, raised) in entries.iter_mut().zip(raised) {
            *entry += usize::from(*raised);
        }
    }
    table
}

struct Rounding {
    /// The remainder of each entry; an entry without one must not be raised.
    lost: Vec<Triple>,
    raised: Vec<[bool; 3]>,
    /// What each column still needs.
    missing: Triple,
}

impl Rounding {
    fn open(&self, row: usize, column: usize) -> bool {
        self.lost[row][column] > 0 && !self.raised[row][column]
    }

    /// Raises one more entry of a row, moving raises of other rows between columns until one lands
    /// in a column that needs it. Breadth first over the three columns.
    fn augment(&mut self, row: usize) {
        // The row that opens a column, and the column from which it would move.
        let mut via: [Option<(usize, Option<usize>)>; 3] = [None; 3];
        let mut queue: Vec<usize> = (0..3).filter(|&column| self.open(row, column)).collect();
        for &column in &queue {
            via[column] = Some((row, None));
        }
        let mut seen = 0;
        while let Some(&column) = queue.get(seen) {
            seen += 1;
            if self.missing[column] > 0 {
                self.missing[column] -= 1;
                let mut end = Some(column);
                while let Some((mover, from)) = end.and_then(|column| via[column]) {
                    if let Some(to) = end {
                        self.raised[mover][to] = true;
                    }
                    if let Some(from) = from {
                        self.raised[mover][from] = false;
                    }
                    end = from;
                }
                return;
            }
            for other in (0..self.raised.len()).filter(|&other| self.raised[other][column]) {
                for (to, step) in via.iter_mut().enumerate() {
                    if step.is_none() && self.open(other, to) {
                        *step = Some((other, Some(column)));
                        queue.push(to);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn totals_keep_every_wanted_part() {
        let even = [0.6, 0.2, 0.2];
        assert_eq!(totals(0, even), [0, 0, 0]);
        assert_eq!(totals(1, even), [1, 0, 0]);
        assert_eq!(totals(2, even), [1, 0, 1]);
        assert_eq!(totals(3, even), [1, 1, 1]);
        assert_eq!(totals(10, even), [6, 2, 2]);
        assert_eq!(totals(2, [0.8, 0.2, 0.0]), [1, 1, 0]);
        assert_eq!(totals(1, [0.1, 0.0, 0.9]), [1, 0, 0]);
        assert_eq!(totals(2, [0.01, 0.98, 0.01]), [1, 0, 1]);
        assert_eq!(totals(5, [1.0, 0.0, 0.0]), [5, 0, 0]);
    }

    #[test]
    fn a_table_that_greed_alone_cannot_finish() {
        // Exhaustive over small tables, so that dead ends of the greedy phase are among them.
        for a in 0..6 {
            for b in 0..6 {
                for c in 0..6 {
                    let rows = [a, b, c];
                    let total = a + b + c;
                    for x in 0..=total {
                        for y in 0..=total - x {
                            check(&rows, [x, y, total - x - y]);
                        }
                    }
                }
            }
        }
    }

    fn check(rows: &[usize], columns: Triple) {
        let total = rows.iter().sum::<usize>().max(1);
        let table = rounded_table(rows, columns);
        for (entries, &row) in table.iter().zip(rows) {
            assert_eq!(entries.iter().sum::<usize>(), row, "{rows:?} {columns:?}: {table:?}");
            for (&entry, column) in entries.iter().zip(columns) {
                let (low, exact) = (row * column / total, (row * column).is_multiple_of(total));
                assert!(
                    entry == low || !exact && entry == low + 1,
                    "{rows:?} {columns:?}: {table:?}"
                );
            }
        }
        for (i, column) in columns.into_iter().enumerate() {
            assert_eq!(table.iter().map(|entries| entries[i]).sum::<usize>(), column);
        }
    }

    proptest! {
        #[test]
        fn tables_round_every_entry_up_or_down(
            rows in prop::collection::vec(0usize..40, 1..60),
            cuts in (0.0f64..=1.0, 0.0f64..=1.0),
        ) {
            let total: usize = rows.iter().sum();
            let first = (total as f64 * cuts.0) as usize;
            let second = ((total - first) as f64 * cuts.1) as usize;
            check(&rows, [first, second, total - first - second]);
        }
    }
}
