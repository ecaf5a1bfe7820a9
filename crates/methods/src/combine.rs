//! How a round's uploads become one: a mean of whatever kind the server was told to take.

use crate::{Central, Message, MethodError, Upload};
use formant_numerics::vector::WeightedMean;
use std::marker::PhantomData;

/// A way to combine the vectors of many uploads. Methods ask for a [`Mean`] and do not know which way it
/// is taken.
pub trait Combine: Send + Sync {
    /// Begins with nothing; the vectors to come have these lengths.
    fn begin(&self, lengths: &[usize]) -> Box<dyn Combining>;
}

/// Uploads being combined, one at a time and in client order.
pub trait Combining {
    /// Takes in one upload.
    fn add(&mut self, weight: f64, vectors: &[&[f32]]);
    /// What they come to, in the same order; none if nothing weighs anything.
    fn finish(self: Box<Self>) -> Option<Vec<Vec<f32>>>;
}

/// `Σ n_k w_k / Σ n_k`, summed in `f64`: the aggregation of FedAvg.
#[derive(Debug, Clone, Copy, Default)]
pub struct WeightedAverage;

impl Combine for WeightedAverage {
    fn begin(&self, lengths: &[usize]) -> Box<dyn Combining> {
        Box::new(Sums(lengths.iter().map(|len| WeightedMean::new(*len)).collect()))
    }
}

struct Sums(Vec<WeightedMean>);

impl Combining for Sums {
    fn add(&mut self, weight: f64, vectors: &[&[f32]]) {
        self.0.iter_mut().zip(vectors).for_each(|(sum, vector)| sum.add(weight, vector));
    }

    fn finish(self: Box<Self>) -> Option<Vec<Vec<f32>>> {
        self.0.into_iter().map(WeightedMean::finish).collect()
    }
}

/// A round's uploads in ascending client order, so that sums do not depend on arrival. They are
/// read one at a time and may live on disk; each was checked against the method's own expectations.
pub struct Uploads<'a, U> {
    source: &'a mut dyn Iterator<Item = Result<Upload<U>, MethodError>>,
}

impl<'a, U> Uploads<'a, U> {
    /// Uploads from a source that yields them in client order.
    pub fn new(source: &'a mut dyn Iterator<Item = Result<Upload<U>, MethodError>>) -> Self {
        Self { source }
    }
}

impl<U> Iterator for Uploads<'_, U> {
    type Item = Result<Upload<U>, MethodError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.source.next()
    }
}

/// What a method's server may receive of a round: nothing but their mean, or every upload.
pub trait Receive<'a, U>: Sized {
    /// Makes it of a round's uploads.
    fn receive(uploads: Uploads<'a, U>, central: &Central<'_>) -> Result<Self, MethodError>;
}

impl<'a, U> Receive<'a, U> for Uploads<'a, U> {
    fn receive(uploads: Self, _central: &Central<'_>) -> Result<Self, MethodError> {
        Ok(uploads)
    }
}

/// The mean of a round's uploads, all that most methods need.
#[derive(Debug, Clone, PartialEq)]
pub struct Mean<U, W = BySamples> {
    /// A message whose vectors are the mean's; what else is in it is the first client's.
    pub message: U,
    /// How many uploads went into it.
    pub uploads: usize,
    weigh: PhantomData<W>,
}

/// How much an upload counts in a mean.
pub trait Weigh: 'static {
    /// The weight of an upload from a client with so many samples, of which a share counts.
    fn weight(samples: f64, share: f64) -> f64;
}

/// As much as its client has samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BySamples;

impl Weigh for BySamples {
    fn weight(samples: f64, share: f64) -> f64 {
        samples * share
    }
}

/// As much as every other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equally;

impl Weigh for Equally {
    fn weight(_samples: f64, share: f64) -> f64 {
        share
    }
}

impl<'a, U: Message, W: Weigh> Receive<'a, U> for Mean<U, W> {
    fn receive(uploads: Uploads<'a, U>, central: &Central<'_>) -> Result<Self, MethodError> {
        Self::of(uploads, central.combine, |_| Ok(()))
    }
}

impl<U: Message, W: Weigh> Mean<U, W> {
    /// Combines uploads; each is shown first, for a method that needs more of them than their mean.
    pub fn of(
        uploads: Uploads<'_, U>,
        combine: &dyn Combine,
        mut show: impl FnMut(&Upload<U>) -> Result<(), MethodError>,
    ) -> Result<Self, MethodError> {
        let (mut combined, mut carrier, mut count) = (None, None, 0);
        for upload in uploads {
            let upload = upload?;
            show(&upload)?;
            let vectors = upload.message.vectors();
            let lengths: Vec<usize> = vectors.iter().map(|vector| vector.len()).collect();
            let (expected, sums): &mut (Vec<usize>, Box<dyn Combining>) =
                combined.get_or_insert_with(|| (lengths.clone(), combine.begin(&lengths)));
            if lengths != *expected {
                return Err(MethodError::ForeignUpload {
                    client: upload.client,
                    sent: format!("vectors of {lengths:?} numbers"),
                    expected: format!("{expected:?}"),
                });
            }
            sums.add(W::weight(upload.samples, upload.share), &vectors);
            drop(vectors);
            count += 1;
            carrier.get_or_insert(upload.message);
        }
        let finished = combined.and_then(|(_, sums)| sums.finish());
        let (mut message, mean) = carrier.zip(finished).ok_or(MethodError::NoUploads)?;
        let lengths = |mean: &[Vec<f32>]| mean.iter().map(Vec::len).collect::<Vec<_>>();
        let expected: Vec<usize> = message.vectors().iter().map(|vector| vector.len()).collect();
        assert_eq!(lengths(&mean), expected, "uploads are combined into vectors of their lengths");
        for (place, mean) in message.vectors_mut().into_iter().zip(mean) {
            *place = mean;
        }
        Ok(Self { message, uploads: count, weigh: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_numerics::Model;

    fn mean_of<W: Weigh>(
        uploads: &[(f64, &[f32], &[f32])],
        combine: &dyn Combine,
    ) -> Result<Model, MethodError> {
        let mut source = uploads.iter().enumerate().map(|(client, &(samples, w, b))| {
            let message = Model { parameters: w.to_vec(), buffers: b.to_vec() };
            Ok(Upload { client, samples, share: 1.0, staleness: 0, message })
        });
        let mean = Mean::<Model, W>::of(Uploads::new(&mut source), combine, |_| Ok(()))?;
        assert_eq!(mean.uploads, uploads.len());
        Ok(mean.message)
    }

    const THREE: [(f64, &[f32], &[f32]); 3] =
        [(1.0, &[1.0, 0.0], &[8.0]), (2.0, &[2.0, 3.0], &[0.0]), (5.0, &[3.0, -2.0], &[-4.0])];

    #[test]
    fn the_mean_weighs_by_samples_and_includes_buffers() {
        // (1·1 + 2·2 + 5·3)/8 = 20/8; (0 + 2·3 − 5·2)/8 = −4/8; (8 + 0 − 5·4)/8 = −12/8.
        let mean = mean_of::<BySamples>(&THREE, &WeightedAverage).unwrap();
        assert_eq!(mean, Model { parameters: vec![2.5, -0.5], buffers: vec![-1.5] });
        // (1 + 2 + 3)/3, (0 + 3 − 2)/3, (8 + 0 − 4)/3.
        let mean = mean_of::<Equally>(&THREE, &WeightedAverage).unwrap();
        assert_eq!(mean, Model { parameters: vec![2.0, 1.0 / 3.0], buffers: vec![4.0 / 3.0] });
    }

    #[test]
    fn nothing_to_average_is_an_error() {
        let none = |uploads: &[_]| mean_of::<BySamples>(uploads, &WeightedAverage);
        assert!(matches!(none(&[]), Err(MethodError::NoUploads)));
        let weightless: (f64, &[f32], &[f32]) = (0.0, &[1.0, 2.0], &[3.0]);
        assert!(matches!(none(&[weightless]), Err(MethodError::NoUploads)));
    }

    #[test]
    fn a_message_of_another_shape_is_an_error_that_names_who_sent_it() {
        let odd: (f64, &[f32], &[f32]) = (1.0, &[1.0], &[]);
        let error = mean_of::<BySamples>(&[THREE[0], odd], &WeightedAverage).unwrap_err();
        assert!(error.to_string().starts_with("client 1 sent vectors of [1, 0]"), "{error}");
    }

    /// The median of each coordinate, whatever the weights: a second way, which no outlier moves far.
    struct Median;

    impl Combine for Median {
        fn begin(&self, lengths: &[usize]) -> Box<dyn Combining> {
            Box::new(Columns(lengths.iter().map(|len| vec![Vec::new(); *len]).collect()))
        }
    }

    struct Columns(Vec<Vec<Vec<f32>>>);

    impl Combining for Columns {
        fn add(&mut self, _weight: f64, vectors: &[&[f32]]) {
            for (columns, vector) in self.0.iter_mut().zip(vectors) {
                columns.iter_mut().zip(*vector).for_each(|(column, x)| column.push(*x));
            }
        }

        fn finish(self: Box<Self>) -> Option<Vec<Vec<f32>>> {
            let median = |mut column: Vec<f32>| {
                column.sort_by(f32::total_cmp);
                column[column.len() / 2]
            };
            Some(self.0.into_iter().map(|all| all.into_iter().map(median).collect()).collect())
        }
    }

    #[test]
    fn another_way_takes_the_place_of_the_mean() {
        let median = mean_of::<BySamples>(&THREE, &Median).unwrap();
        assert_eq!(median, Model { parameters: vec![2.0, 0.0], buffers: vec![0.0] });
    }
}
