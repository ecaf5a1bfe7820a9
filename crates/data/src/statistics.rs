//! Mean and standard deviation of each channel, as samples go by.

use crate::{Normalisation, Schema, Values};
use formant_numerics::Shape;

/// What has been seen of each channel.
pub(crate) struct Statistics {
    shape: Shape,
    channels: Vec<Channel>,
}

/// Sums of one channel. Those of bytes are whole numbers, so their order does not matter.
#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    count: u64,
    sum: u128,
    squares: u128,
    mean: f64,
    /// Sum of squared distances from the mean (Welford's method).
    spread: f64,
}

impl Statistics {
    /// Nothing seen yet.
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, channels: vec![Channel::default(); shape.channels] }
    }

    /// Adds the bytes of a sample.
    pub(crate) fn add_bytes(&mut self, sample: &[u8]) {
        let plane = self.shape.plane();
        for (channel, bytes) in self.channels.iter_mut().zip(sample.chunks_exact(plane)) {
            // A plane of 2^32 pixels still fits.
            let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            let squares: u64 = bytes.iter().map(|&byte| u64::from(byte) * u64::from(byte)).sum();
            channel.count += plane as u64;
            channel.sum += u128::from(sum);
            channel.squares += u128::from(squares);
        }
    }

    /// Adds the numbers of a sample; those that are missing do not count.
    pub(crate) fn add_floats(&mut self, sample: &[f32]) {
        let plane = self.shape.plane();
        for (channel, values) in self.channels.iter_mut().zip(sample.chunks_exact(plane)) {
            for value in values.iter().filter(|value| !value.is_nan()) {
                let value = f64::from(*value);
                channel.count += 1;
                let from_mean = value - channel.mean;
                channel.mean += from_mean / channel.count as f64;
                channel.spread += from_mean * (value - channel.mean);
            }
        }
    }

    /// The normalisation that gives every channel mean 0 and standard deviation 1. That of pixels has four
    /// decimals, as published ones have, so that the published sets get their published values. A channel
    /// that is constant, and the features of a category, stay as they are.
    pub(crate) fn normalisation(
        &self,
        values: Values,
        schema: Option<&Schema>,
    ) -> Vec<Normalisation> {
        let numeric = schema.map(Schema::numeric);
        let is_numeric = |channel: usize| numeric.as_ref().is_none_or(|numeric| numeric[channel]);
        let channels = self.channels.iter().enumerate();
        channels
            .map(|(nth, channel)| match values {
                Values::Bytes => channel.of_bytes(),
                Values::Floats if is_numeric(nth) => channel.of_floats(),
                Values::Floats => Normalisation::NONE,
            })
            .collect()
    }
}

impl Channel {
    fn of_bytes(&self) -> Normalisation {
        if self.count == 0 {
            return Normalisation::NONE;
        }
        let count = self.count as f64;
        let (mean, square) = (self.sum as f64 / count, self.squares as f64 / count);
        let deviation = (square - mean * mean).max(0.0).sqrt();
        let rounded = |x: f64| ((x / 255.0 * 1e4).round() / 1e4) as f32;
        let std = rounded(deviation);
        Normalisation::new(rounded(mean), if std > 0.0 { std } else { 1.0 })
    }

    fn of_floats(&self) -> Normalisation {
        let deviation = (self.spread / (self.count.max(1) as f64)).sqrt() as f32;
        let std = if deviation.is_finite() && deviation > 0.0 { deviation } else { 1.0 };
        Normalisation::new(self.mean as f32, std)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    #[test]
    fn bytes_have_the_mean_and_deviation_of_their_fractions() {
        let mut statistics = Statistics::new(Shape::new(2, 1, 2));
        statistics.add_bytes(&[0, 255, 7, 7]);
        statistics.add_bytes(&[0, 255, 7, 7]);
        let [wide, constant] = statistics.normalisation(Values::Bytes, None)[..] else { panic!() };
        assert_eq!(wide, Normalisation::new(0.5, 0.5));
        assert_eq!(constant, Normalisation::new(0.0275, 1.0));
    }

    #[test]
    fn missing_numbers_do_not_count_and_categories_stay() {
        let column = |name: &str, categories| Column { name: name.into(), categories };
        let schema = Schema {
            columns: vec![column("a", None), column("b", Some(vec!["x".into()]))],
            label: "y".into(),
        };
        let mut statistics = Statistics::new(Shape::new(2, 1, 1));
        for row in [[1.0, 1.0], [f32::NAN, 0.0], [3.0, 1.0]] {
            statistics.add_floats(&row);
        }
        let found = statistics.normalisation(Values::Floats, Some(&schema));
        assert_eq!(found, [Normalisation::new(2.0, 1.0), Normalisation::NONE]);
    }
}
