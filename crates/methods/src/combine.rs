//! How a round's uploads become one: a mean of whatever kind the server was told to take.

use crate::{Central, Message, MethodError, Upload};
use formant_numerics::{Rng, vector::WeightedMean};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// A way to combine the vectors of many uploads. Methods ask for a [`Mean`] and do not know which way it
/// is taken.
pub trait Combine: Send + Sync {
    /// Begins a round with nothing.
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError>;
}

/// The round whose uploads are to be combined.
#[derive(Debug)]
pub struct Round<'r> {
    /// Counted from 1.
    pub number: usize,
    /// All clients of the federation, whether they take part in the round or not.
    pub clients: usize,
    /// What the uploads answer, vector by vector and as long as theirs: an upload's change is what it has
    /// less this. Where the broadcast had nothing, clients began with zeros.
    pub reference: &'r [Cow<'r, [f32]>],
    /// Which of the vectors holds statistics; see [`Message::STATISTICS`].
    pub statistics: usize,
    /// How much uploads count.
    pub weighing: Weighing,
    /// For a way that draws: nothing else draws from it, and it is keyed by the round.
    pub rng: Rng,
    /// Where to say which uploads do not count as they were sent; without it, nobody asks.
    pub judgements: Option<&'r Judgements>,
}

/// How much uploads count in a mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighing {
    /// As much as their clients have samples.
    BySamples,
    /// All the same.
    Equally,
}

/// One client's part in what is combined.
#[derive(Debug, Clone, Copy)]
pub struct Contribution<'u> {
    /// Who sent it.
    pub client: usize,
    /// How much it counts, as its method weighs.
    pub weight: f64,
    /// How much of it counts because it is late: 1 in a synchronous round. It is in the weight already.
    pub share: f64,
    /// What was learnt.
    pub vectors: &'u [&'u [f32]],
}

/// An upload that does not count as it was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Whose it is.
    pub client: usize,
    /// What was done to it.
    pub treatment: Treatment,
    /// How much of it has counted, from 0 to 1.
    pub share: f64,
}

/// What a way to combine does to an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Nothing of it counts, but for statistics of batch norm.
    LeftOut,
    /// Its change is shortened to this share.
    Clipped,
    /// Its weight is cut to this share.
    Capped,
    /// So many of its numbers are left out that this share of them is not.
    Trimmed,
    /// It counts for this share of what the upload in the middle of all counts for.
    WeighedDown,
}

impl Treatment {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::LeftOut => "left-out",
            Self::Clipped => "clipped",
            Self::Capped => "capped",
            Self::Trimmed => "trimmed",
            Self::WeighedDown => "weighed-down",
        }
    }
}

/// What was found about the uploads of a round.
#[derive(Debug, Default)]
pub struct Judgements(Mutex<Vec<Judgement>>);

impl Judgements {
    /// Adds one, if it is one: what counts in full is nothing to speak of.
    pub fn add(&self, client: usize, treatment: Treatment, share: f64) {
        if share < 1.0 {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(Judgement { client, treatment, share });
        }
    }

    /// All of them, by client.
    pub fn into_vec(self) -> Vec<Judgement> {
        let mut all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by_key(|judgement| judgement.client);
        all
    }
}

/// A way to combine that tells what it does.
pub struct Judged<'c> {
    /// The way.
    pub combine: &'c dyn Combine,
    /// Where it tells it.
    pub judgements: &'c Judgements,
}

impl Combine for Judged<'_> {
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
        self.combine.begin(Round { judgements: Some(self.judgements), ..round })
    }
}

/// Uploads being combined, one at a time and in client order.
pub trait Combining {
    /// Takes in one upload.
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError>;
    /// What they come to, in the same order; none if nothing weighs anything.
    fn finish(self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError>;
}

/// `Σ n_k w_k / Σ n_k`, summed in `f64`: the aggregation of FedAvg.
#[derive(Debug, Clone, Copy, Default)]
pub struct WeightedAverage;

impl Combine for WeightedAverage {
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
        Ok(Box::new(Sums(round.reference.iter().map(|of| WeightedMean::new(of.len())).collect())))
    }
}

struct Sums(Vec<WeightedMean>);

impl Combining for Sums {
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
        let Contribution { weight, vectors, .. } = upload;
        self.0.iter_mut().zip(vectors).for_each(|(sum, vector)| sum.add(weight, vector));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
        Ok(self.0.into_iter().map(WeightedMean::finish).collect())
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

/// What a method's server needs of a round's uploads. Its [`Received`](crate::Method::Received) says it by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Not one of them.
    Nothing,
    /// What they come to when they are combined. No single upload is ever looked at, so that sums of masked
    /// vectors would do.
    Sums,
    /// Every one by itself.
    Uploads,
}

impl Needs {
    /// Whether sums are enough.
    pub const fn sums_only(self) -> bool {
        matches!(self, Self::Nothing | Self::Sums)
    }

    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sums => "sums only",
            Self::Uploads => "every upload",
        }
    }
}

/// What a method's server may receive of a round: nothing, the mean of the uploads, or every upload.
pub trait Receive<'a, U>: Sized {
    /// What that is.
    const NEEDS: Needs;

    /// Makes it of a round's uploads.
    fn receive(uploads: Uploads<'a, U>, central: &Central<'_>) -> Result<Self, MethodError>;
}

impl<'a, U> Receive<'a, U> for Uploads<'a, U> {
    const NEEDS: Needs = Needs::Uploads;

    fn receive(uploads: Self, _central: &Central<'_>) -> Result<Self, MethodError> {
        Ok(uploads)
    }
}

impl<'a, U> Receive<'a, U> for () {
    const NEEDS: Needs = Needs::Nothing;

    fn receive(_uploads: Uploads<'a, U>, _central: &Central<'_>) -> Result<Self, MethodError> {
        Ok(())
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
    /// How that is called.
    const WEIGHING: Weighing;

    /// The weight of an upload from a client with so many samples, of which a share counts.
    fn weight(samples: f64, share: f64) -> f64;
}

/// As much as its client has samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BySamples;

impl Weigh for BySamples {
    const WEIGHING: Weighing = Weighing::BySamples;

    fn weight(samples: f64, share: f64) -> f64 {
        samples * share
    }
}

/// As much as every other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equally;

impl Weigh for Equally {
    const WEIGHING: Weighing = Weighing::Equally;

    fn weight(_samples: f64, share: f64) -> f64 {
        share
    }
}

impl<'a, U: Message, W: Weigh> Receive<'a, U> for Mean<U, W> {
    const NEEDS: Needs = Needs::Sums;

    fn receive(uploads: Uploads<'a, U>, central: &Central<'_>) -> Result<Self, MethodError> {
        Self::of(uploads, central, |_| Ok(()))
    }
}

/// Which of the generators beside the server's belongs to the way uploads are combined.
const COMBINING: u64 = 2;

impl<U: Message, W: Weigh> Mean<U, W> {
    /// Combines uploads in the server's way; each is shown first, for a method that needs more of them than
    /// their mean.
    pub fn of(
        mut uploads: Uploads<'_, U>,
        central: &Central<'_>,
        mut show: impl FnMut(&Upload<U>) -> Result<(), MethodError>,
    ) -> Result<Self, MethodError> {
        let first = uploads.next().ok_or(MethodError::NoUploads)??;
        let expected = lengths(&first.message);
        let reference: Vec<_> = expected
            .iter()
            .enumerate()
            .map(|(place, len)| fitted(central.reference.get(place).copied(), *len))
            .collect();
        let mut combined = central.combine.begin(Round {
            number: central.round,
            clients: central.clients,
            reference: &reference,
            statistics: U::STATISTICS,
            weighing: W::WEIGHING,
            rng: central.rng.apart(COMBINING),
            judgements: None,
        })?;
        let (mut carrier, mut count) = (None, 0);
        for upload in std::iter::once(Ok(first)).chain(uploads) {
            let upload = upload?;
            show(&upload)?;
            let Upload { client, samples, share, .. } = upload;
            let vectors = upload.message.vectors();
            if vectors.iter().map(|vector| vector.len()).ne(expected.iter().copied()) {
                return Err(MethodError::ForeignUpload {
                    client,
                    sent: format!("vectors of {:?} numbers", lengths(&upload.message)),
                    expected: format!("{expected:?}"),
                });
            }
            let weight = W::weight(samples, share);
            combined.add(Contribution { client, weight, share, vectors: &vectors })?;
            drop(vectors);
            count += 1;
            carrier.get_or_insert(upload.message);
        }
        let (mut message, mean) = carrier.zip(combined.finish()?).ok_or(MethodError::NoUploads)?;
        let came: Vec<usize> = mean.iter().map(Vec::len).collect();
        assert_eq!(came, expected, "uploads are combined into vectors of their lengths");
        for (place, mean) in message.vectors_mut().into_iter().zip(mean) {
            *place = mean;
        }
        Ok(Self { message, uploads: count, weigh: PhantomData })
    }
}

fn lengths(message: &impl Message) -> Vec<usize> {
    message.vectors().into_iter().map(<[f32]>::len).collect()
}

/// A vector of a broadcast as long as one that answers it: a message may be shorter (a body without its
/// head), and what was not there yet when clients began they began with zeros.
fn fitted(vector: Option<&[f32]>, len: usize) -> Cow<'_, [f32]> {
    let vector = vector.unwrap_or_default();
    if let Some(part) = vector.get(..len) {
        return Cow::Borrowed(part);
    }
    let mut longer = vector.to_vec();
    longer.resize(len, 0.0);
    Cow::Owned(longer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_numerics::{Model, NetworkSpec, Shape, Stream};

    fn mean_of<W: Weigh>(
        uploads: &[(f64, &[f32], &[f32])],
        combine: &dyn Combine,
    ) -> Result<Model, MethodError> {
        let mut source = uploads.iter().enumerate().map(|(client, &(samples, w, b))| {
            let message = Model { parameters: w.to_vec(), buffers: b.to_vec() };
            Ok(Upload { client, samples, share: 1.0, staleness: 0, message })
        });
        let network = NetworkSpec::named("logistic").build(Shape::new(1, 1, 1), 2).unwrap();
        let central = Central {
            network: &*network,
            rng: Rng::new(1, Stream::Test, 0, 0),
            round: 3,
            clients: 9,
            reference: &[&[10.0, 20.0, 30.0]],
            combine,
        };
        let mean = Mean::<Model, W>::of(Uploads::new(&mut source), &central, |_| Ok(()))?;
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

    /// A second way: what was sent most recently, if what the round says of itself is right.
    struct Last(Weighing);

    struct Newest<'r> {
        round: Round<'r>,
        newest: Option<Vec<Vec<f32>>>,
    }

    impl Combine for Last {
        fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
            assert_eq!((round.number, round.clients, round.statistics), (3, 9, 1));
            assert_eq!(round.weighing, self.0);
            // Cut where uploads are shorter than the broadcast, zeros where it had nothing.
            assert_eq!(round.reference, [vec![10.0, 20.0], vec![0.0]]);
            Ok(Box::new(Newest { round, newest: None }))
        }
    }

    impl Combining for Newest<'_> {
        fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
            let Contribution { client, weight, share, vectors } = upload;
            let samples = THREE[client].0;
            let weighs = if self.round.weighing == Weighing::Equally { 1.0 } else { samples };
            assert_eq!((weight, share), (weighs, 1.0));
            self.newest = Some(vectors.iter().map(|vector| vector.to_vec()).collect());
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
            Ok(self.newest)
        }
    }

    #[test]
    fn another_way_takes_the_place_of_the_mean_and_knows_the_round() {
        let last = Model { parameters: vec![3.0, -2.0], buffers: vec![-4.0] };
        let by_samples = mean_of::<BySamples>(&THREE, &Last(Weighing::BySamples)).unwrap();
        let equally = mean_of::<Equally>(&THREE, &Last(Weighing::Equally)).unwrap();
        assert_eq!([by_samples, equally], [last.clone(), last]);
    }
}
