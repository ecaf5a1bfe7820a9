//! A dataset over numbers that somebody else holds: arrays of a program that this one is a part of.

use crate::reading::{TEST_FRACTION, split_off, test_remark};
use crate::statistics::Statistics;
use crate::store::Store;
use crate::{DataError, Dataset, Floats, Images, Normalisation, Owners, Samples, Values};
use formant_numerics::Shape;
use std::sync::Arc;

/// Values of samples (NCHW) that are only read, whoever holds them.
#[derive(Clone)]
pub enum Lent {
    /// Pixels.
    Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>),
    /// Real numbers; NaN where one is missing.
    Floats(Arc<dyn AsRef<[f32]> + Send + Sync>),
}

/// Samples and their classes.
#[derive(Clone)]
pub struct LentSamples {
    /// Sample after sample, and channel after channel within one.
    pub values: Lent,
    /// One for each.
    pub labels: Vec<u16>,
}

/// Everything that makes a [`Dataset`] of numbers that are there already.
pub struct LentDataset {
    /// What it is called.
    pub name: String,
    /// The shape of one sample.
    pub shape: Shape,
    /// What is divided among the clients.
    pub train: LentSamples,
    /// The global test set; without one, a share of each class becomes it.
    pub test: Option<LentSamples>,
    /// That share.
    pub test_fraction: f64,
    /// A name for every class; without, they are numbered.
    pub class_names: Option<Vec<String>>,
    /// By what samples are normalised, one for each channel; without, by what the training samples have.
    pub normalisation: Option<Vec<Normalisation>>,
    /// Whose the training samples are.
    pub owners: Option<Owners>,
}

impl LentDataset {
    /// Training samples alone, about which nothing more is known.
    pub fn new(name: impl Into<String>, shape: Shape, train: LentSamples) -> Self {
        Self {
            name: name.into(),
            shape,
            train,
            test: None,
            test_fraction: TEST_FRACTION,
            class_names: None,
            normalisation: None,
            owners: None,
        }
    }

    /// The dataset: the same, bit for bit, as if the numbers had come from a file. They are not copied, unless a test
    /// set must be split off.
    pub fn dataset(self) -> Result<Dataset, DataError> {
        let Self { shape, mut train, mut test, mut owners, .. } = self;
        let mut remarks = Vec::new();
        if test.is_none() {
            let is_test = split_off(&train.labels, self.test_fraction);
            remarks.push(test_remark(&is_test, self.test_fraction));
            test = Some(train.chosen(shape, &is_test, true));
            train = train.chosen(shape, &is_test, false);
            if let Some(owners) = &mut owners {
                let mut at = is_test.iter();
                owners.of.retain(|_| at.next() == Some(&false));
            }
        }
        let test = test.unwrap_or_else(|| train.none());
        let largest = train.labels.iter().chain(&test.labels).max().copied().unwrap_or(0);
        let numbered = || (0..=largest).map(|class| class.to_string()).collect();
        let class_names: Vec<String> = self.class_names.unwrap_or_else(numbered);
        let normalisation = self.normalisation.unwrap_or_else(|| train.normalisation(shape));
        let [train, test] = [train, test].map(|part| part.samples(shape, &normalisation));
        let dataset = Dataset::assemble(self.name, class_names, train?, test?)?;
        if let Some(owners) = &owners
            && owners.of.len() != dataset.train.len()
        {
            return Err(DataError::Parts {
                key: "owners.of.len()",
                value: owners.of.len().to_string(),
                remedy: format!("name an owner for each of {} samples", dataset.train.len()),
            });
        }
        Ok(Dataset { owners: owners.map(Arc::new), remarks, ..dataset })
    }
}

impl LentSamples {
    /// Those that are marked, or those that are not, copied.
    fn chosen(&self, shape: Shape, marks: &[bool], marked: bool) -> Self {
        fn picked<T: Copy>(all: &[T], size: usize, places: impl Iterator<Item = usize>) -> Vec<T> {
            places.flat_map(|i| all[i * size..(i + 1) * size].iter().copied()).collect()
        }
        let size = shape.len();
        let at = || (0..marks.len()).filter(|i| marks[*i] == marked);
        let values = match &self.values {
            Lent::Bytes(all) => Lent::Bytes(Arc::new(picked((**all).as_ref(), size, at()))),
            Lent::Floats(all) => Lent::Floats(Arc::new(picked((**all).as_ref(), size, at()))),
        };
        Self { values, labels: at().map(|i| self.labels[i]).collect() }
    }

    /// None of them.
    fn none(&self) -> Self {
        let values = match &self.values {
            Lent::Bytes(_) => Lent::Bytes(Arc::new(Vec::new())),
            Lent::Floats(_) => Lent::Floats(Arc::new(Vec::new())),
        };
        Self { values, labels: Vec::new() }
    }

    /// Mean and deviation of every channel.
    fn normalisation(&self, shape: Shape) -> Vec<Normalisation> {
        let mut statistics = Statistics::new(shape);
        let size = shape.len().max(1);
        match &self.values {
            Lent::Bytes(all) => {
                (**all).as_ref().chunks_exact(size).for_each(|sample| statistics.add_bytes(sample));
                statistics.normalisation(Values::Bytes, None)
            }
            Lent::Floats(all) => {
                (**all)
                    .as_ref()
                    .chunks_exact(size)
                    .for_each(|sample| statistics.add_floats(sample));
                statistics.normalisation(Values::Floats, None)
            }
        }
    }

    fn samples(
        self,
        shape: Shape,
        normalisation: &[Normalisation],
    ) -> Result<Arc<dyn Samples>, DataError> {
        Ok(match self.values {
            Lent::Bytes(all) => {
                Arc::new(Images::over(shape, Store::Lent(all), self.labels, normalisation)?)
            }
            Lent::Floats(all) => {
                Arc::new(Floats::over(shape, Store::Lent(all), self.labels, normalisation)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(values: Vec<f32>, labels: Vec<u16>) -> LentSamples {
        LentSamples { values: Lent::Floats(Arc::new(values)), labels }
    }

    #[test]
    fn numbers_are_lent_and_normalised_by_the_training_samples() {
        let shape = Shape::new(2, 1, 1);
        let train = Arc::new(vec![1.0, 5.0, 3.0, 5.0]);
        let lender = LentSamples { values: Lent::Floats(train.clone()), labels: vec![0, 1] };
        let test = Some(lent(vec![2.0, 7.0], vec![1]));
        let set = LentDataset { test, ..LentDataset::new("mine", shape, lender) };
        let set = set.dataset().unwrap();
        assert_eq!(Arc::strong_count(&train), 2);
        assert_eq!((set.train.len(), set.test.len(), set.classes), (2, 1, 2));
        let mut sample = [0.0; 2];
        set.test.gather(&[0], &mut sample);
        // Mean 2 and deviation 1; a channel that is constant is only moved.
        assert_eq!(sample, [0.0, 2.0]);
    }

    #[test]
    fn without_a_test_set_a_share_of_each_class_becomes_one_and_owners_follow() {
        let labels: Vec<u16> = (0..20).map(|i| i % 2).collect();
        let values = (0..20).map(|i| i as f32).collect();
        let owners = Owners {
            names: vec!["a".into(), "b".into()],
            of: (0..20).map(|i| u32::from(i >= 10)).collect(),
        };
        let set = LentDataset {
            owners: Some(owners),
            normalisation: Some(vec![Normalisation::NONE]),
            ..LentDataset::new("mine", Shape::new(1, 1, 1), lent(values, labels))
        };
        let set = set.dataset().unwrap();
        assert_eq!((set.train.len(), set.test.len()), (16, 4));
        let of = &set.owners.as_ref().unwrap().of;
        for (i, &owner) in of.iter().enumerate() {
            let value = set.train.floats(i).unwrap()[0];
            assert_eq!(u32::from(value >= 10.0), owner);
            assert_eq!(usize::from(value as u16 % 2), set.train.label(i));
        }
        assert!(set.remarks[0].contains("4 of 20"), "{:?}", set.remarks);
    }
}
