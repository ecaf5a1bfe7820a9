//! What one client holds while the samples are being divided.

use std::collections::BTreeMap;

/// The samples of one client, by class. A class without samples has no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    by_class: BTreeMap<u16, Vec<u32>>,
    size: usize,
}

impl Holding {
    /// Adds samples of a class.
    pub(crate) fn add(&mut self, class: u16, samples: &[u32]) {
        if !samples.is_empty() {
            self.by_class.entry(class).or_default().extend_from_slice(samples);
            self.size += samples.len();
        }
    }

    /// Gives up one sample of a class: the last, which the shuffle made a random one.
    pub(crate) fn take(&mut self, class: u16) -> Option<u32> {
        let stock = self.by_class.get_mut(&class)?;
        let sample = stock.pop()?;
        if stock.is_empty() {
            self.by_class.remove(&class);
        }
        self.size -= 1;
        Some(sample)
    }

    /// Number of samples.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Number of samples of a class.
    pub(crate) fn count(&self, class: u16) -> usize {
        self.by_class.get(&class).map_or(0, Vec::len)
    }

    /// The class with most samples, the lowest of equals.
    pub(crate) fn most_plentiful(&self) -> Option<u16> {
        let most =
            self.by_class.iter().max_by_key(|(class, stock)| (stock.len(), u16::MAX - **class));
        most.map(|(class, _)| *class)
    }

    /// The classes that have samples, ascending.
    pub(crate) fn classes(&self) -> impl Iterator<Item = u16> {
        self.by_class.keys().copied()
    }

    /// Number of samples of each class that has some, ascending by class.
    pub(crate) fn counts(&self) -> impl Iterator<Item = usize> {
        self.by_class.values().map(Vec::len)
    }

    /// All samples.
    pub(crate) fn samples(&self) -> impl Iterator<Item = u32> {
        self.by_class.values().flatten().copied()
    }

    /// The samples of every class, ascending by class.
    pub(crate) fn into_classes(self) -> impl Iterator<Item = Vec<u32>> {
        self.by_class.into_values()
    }
}

/// Moves one sample of a class from one client to another.
pub(crate) fn move_sample(holdings: &mut [Holding], from: usize, to: usize, class: u16) {
    if let Some(sample) = holdings[from].take(class) {
        holdings[to].add(class, &[sample]);
    }
}
