//! Texts that stand for classes or owners, by number.

use super::{Cell, number};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Beyond this, a number may not be exact.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The word of each row, as a number in the order of first appearance.
#[derive(Default)]
pub(crate) struct Words {
    known: HashMap<String, u32>,
    pub(crate) of: Vec<u32>,
    text: String,
}

/// Words in their order, and their places there by the numbers of [`Words`].
pub(crate) struct Ordered {
    pub(crate) names: Vec<String>,
    pub(crate) places: Vec<u32>,
}

impl Words {
    /// Adds the word of the next row; false if there is none.
    pub(crate) fn add(&mut self, cell: Cell<'_>) -> bool {
        let word = match cell {
            Cell::Missing => return false,
            Cell::Text(text) => text,
            Cell::Number(number) => {
                self.text.clear();
                // Writing into memory does not fail.
                let _ = write!(self.text, "{number}");
                &self.text
            }
        };
        let next = self.known.len() as u32;
        let id = self.known.get(word).copied().unwrap_or(next);
        if id == next {
            self.known.insert(word.to_owned(), id);
        }
        self.of.push(id);
        true
    }

    /// How many different words there are.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// A word that is a number with a fraction, if all are numbers and one is such.
    pub(crate) fn fraction(&self) -> Option<&str> {
        let all_numbers = self.known.keys().all(|word| number(word).is_some());
        let has_fraction = |word: &&String| number(word).is_some_and(|n| n.fract() != 0.0);
        if all_numbers {
            self.known.keys().filter(has_fraction).min().map(String::as_str)
        } else {
            None
        }
    }

    /// The words sorted: by value if all are whole numbers, so that 10 comes after 9.
    pub(crate) fn sorted(&self) -> Ordered {
        let whole = self.known.keys().all(|word| whole(word).is_some());
        let mut names: Vec<&String> = self.known.keys().collect();
        if whole {
            names.sort_by_key(|name| (self::whole(name), *name));
        } else {
            names.sort();
        }
        let mut places = vec![0; names.len()];
        for (place, name) in (0..).zip(&names) {
            places[self.known[*name] as usize] = place;
        }
        Ordered { names: names.into_iter().cloned().collect(), places }
    }

    /// The same of classes: `1` and `1.0` are one class.
    pub(crate) fn classes(&self) -> Ordered {
        let sorted = self.sorted();
        if !sorted.names.iter().all(|name| whole(name).is_some()) {
            return sorted;
        }
        let (mut names, mut merged) = (Vec::<String>::new(), Vec::new());
        for name in &sorted.names {
            let name = whole(name).unwrap_or_default().to_string();
            if names.last() != Some(&name) {
                names.push(name);
            }
            merged.push(names.len() as u32 - 1);
        }
        let places = sorted.places.iter().map(|&place| merged[place as usize]).collect();
        Ordered { names, places }
    }
}

/// A whole number that is written out.
pub(crate) fn whole(text: &str) -> Option<i64> {
    let exact = |n: &f64| n.fract() == 0.0 && n.abs() < MOST_EXACT;
    text.parse().ok().or_else(|| number(text).filter(exact).map(|n| n as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Words {
        let mut words = Words::default();
        for text in texts {
            assert!(words.add(Cell::of(text)), "{text}");
        }
        words
    }

    #[test]
    fn whole_numbers_are_ordered_by_value_and_merged() {
        let found = words(&["10", "9", "-1", "9.0", "10"]);
        let Ordered { names, places } = found.classes();
        assert_eq!(names, ["-1", "9", "10"]);
        let of: Vec<u32> = found.of.iter().map(|&id| places[id as usize]).collect();
        assert_eq!(of, [2, 1, 0, 1, 2]);
        // Clients are names: these are two.
        assert_eq!(found.sorted().names, ["-1", "9", "9.0", "10"]);
    }

    #[test]
    fn texts_are_ordered_as_texts() {
        let found = words(&["b", "10", "9"]);
        assert_eq!(found.classes().names, ["10", "9", "b"]);
        assert_eq!(found.fraction(), None);
        assert_eq!(words(&["1", "0.5"]).fraction(), Some("0.5"));
    }
}
