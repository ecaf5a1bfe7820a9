//! What an order comes to: reports of ranks, read by rank 0 in client order.

use crate::RanksError;
use crate::codec::{Letter, calling_off, letter, pass};
use crate::error::silence;
use crate::fabric::To;
use crate::link::Link;
use crate::message::{Done, Ended, Failure, Order, Report};
use crate::muster::Spot;
use formant_methods::MethodError;
use formant_numerics::Pulse;
use formant_runtime::RuntimeError;
use std::collections::VecDeque;

/// An order under way, at all ranks but the first.
pub(crate) struct Stream<'a> {
    link: &'a Link,
    spots: &'a [Spot],
    order: u64,
    pulse: Pulse<'a>,
    /// Who is to be heard next, and of which rank.
    expected: VecDeque<(usize, usize)>,
    /// How many of them were asked for.
    asked: usize,
    window: usize,
    /// By rank; none of rank 0.
    ended: Vec<Option<Ended>>,
}

impl<'a> Stream<'a> {
    /// An order that is given to one rank at a time, and is confirmed.
    pub(crate) fn of(link: &'a Link, spots: &'a [Spot], order: u64) -> Self {
        let ended = (0..link.size()).map(|_| None).collect();
        let (pulse, expected) = (Pulse::NONE, VecDeque::new());
        Self { link, spots, order, pulse, expected, asked: 0, window: 0, ended }
    }

    /// Waits until a rank has done one of them.
    pub(crate) fn confirm(&mut self, rank: usize) -> Result<(), RuntimeError> {
        match (self.hear(rank)?, self.ended[rank].take()) {
            (None, Some(Ended { outcome: Err(failure), .. })) => Err(self.told(rank, &failure)),
            (None, Some(_)) => Ok(()),
            _ => Err(failed(self.spots, rank, "it has answered something else".into())),
        }
    }

    /// Gives each rank its order. Reports about the clients that are expected are read in this order, a window of them
    /// on their way at a time.
    pub(crate) fn open(
        (link, spots, order): (&'a Link, &'a [Spot], u64),
        orders: impl Fn(usize) -> Order,
        expected: impl IntoIterator<Item = (usize, usize)>,
        (window, pulse): (usize, Pulse<'a>),
    ) -> Result<Self, RuntimeError> {
        for rank in 1..link.size() {
            let bytes = letter(order, &orders(rank)).map_err(|why| failed(spots, rank, why))?;
            link.send(To::One(rank), bytes);
        }
        let expected = expected.into_iter().filter(|(_, rank)| *rank != 0).collect();
        let mut stream = Self { pulse, expected, window, ..Self::of(link, spots, order) };
        stream.ask();
        Ok(stream)
    }

    /// Asks for as many reports as may be on their way.
    fn ask(&mut self) {
        while self.asked < self.window.min(self.expected.len()) {
            self.pass(self.expected[self.asked].1);
            self.asked += 1;
        }
    }

    /// Lets the next report of a rank come.
    pub(crate) fn pass(&self, rank: usize) {
        self.link.send(To::One(rank), pass(self.order));
    }

    /// The client of the next report, if there is one.
    pub(crate) fn next_client(&self) -> Option<usize> {
        self.expected.front().map(|(client, _)| *client)
    }

    /// The next report.
    pub(crate) fn read(&mut self) -> Result<(Report, Letter), RuntimeError> {
        let Some((_, rank)) = self.expected.pop_front() else {
            return Err(failed(self.spots, 0, "nothing is expected".into()));
        };
        self.asked -= 1;
        self.ask();
        match self.hear(rank)? {
            Some(report) => Ok(report),
            // It stays ended, so that nobody waits for its end again.
            None => match &self.ended[rank] {
                Some(Ended { outcome: Err(failure), .. }) => Err(self.told(rank, failure)),
                _ => Err(failed(self.spots, rank, "it has ended before its time".into())),
            },
        }
    }

    /// The next report of a rank; none if it has ended, however often that is asked: it says nothing after its end.
    pub(crate) fn hear(&mut self, rank: usize) -> Result<Option<(Report, Letter)>, RuntimeError> {
        if self.ended[rank].is_some() {
            return Ok(None);
        }
        let why = |why| failed(self.spots, rank, why);
        loop {
            if self.pulse.is_stopped() {
                return Err(MethodError::Stopped.into());
            }
            let Some(letter) =
                self.link.wait(rank).map_err(|error| lost(self.spots, rank, &error))?
            else {
                continue;
            };
            if letter.order() != self.order {
                return Err(why("it answers something else".into()));
            }
            return Ok(match letter.head::<Report>().map_err(why)? {
                Report::Ended(ended) => {
                    self.ended[rank] = Some(ended);
                    None
                }
                report => Some((report, letter)),
            });
        }
    }

    fn told(&self, rank: usize, failure: &Failure) -> RuntimeError {
        match failure {
            Failure::Stopped => MethodError::Stopped.into(),
            Failure::Other(why) => failed(self.spots, rank, why.clone()),
        }
    }

    /// Waits until all ranks have ended, and gives what the order has come to, by rank from the second on. After a
    /// failure, the rest is called off first, so that ranks are ready for the next order.
    pub(crate) fn close<T>(
        mut self,
        outcome: Result<T, RuntimeError>,
        ended: &mut impl FnMut(usize, &Ended),
    ) -> Result<(T, Vec<Done>), RuntimeError> {
        let mut failure = outcome.as_ref().err().map(|_| ());
        let (mut dones, mut first) = (Vec::new(), None);
        let mut is_off = false;
        for rank in 1..self.link.size() {
            loop {
                if failure.is_some() && !std::mem::replace(&mut is_off, true) {
                    self.call_off();
                }
                if self.ended[rank].is_some() {
                    break;
                }
                match self.hear(rank) {
                    Ok(_) => {}
                    Err(error) => {
                        failure = Some(());
                        let is_stop = error.is_stop();
                        first.get_or_insert(error);
                        if !is_stop {
                            // It is lost, and there is nothing to wait for.
                            break;
                        }
                        self.pulse = Pulse::NONE;
                    }
                }
            }
            let Some(rank_ended) = self.ended[rank].take() else { continue };
            ended(rank, &rank_ended);
            match rank_ended.outcome {
                Ok(done) => dones.push(done),
                Err(told) => {
                    failure = Some(());
                    let told = self.told(rank, &told);
                    // What has gone wrong says more than that others were stopped for it.
                    if first.as_ref().is_none_or(RuntimeError::is_stop) {
                        first = Some(told);
                    }
                }
            }
        }
        match (outcome, first) {
            (Ok(value), None) => Ok((value, dones)),
            (Err(error), Some(told)) if error.is_stop() && !told.is_stop() => Err(told),
            (Ok(_), Some(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Nobody needs the rest.
    fn call_off(&mut self) {
        self.pulse = Pulse::NONE;
        for rank in 1..self.link.size() {
            if self.ended[rank].is_none() {
                self.link.send(To::One(rank), calling_off(self.order));
            }
        }
    }
}

/// A rank that is not there any more, by name, and all others that are not.
fn lost(spots: &[Spot], rank: usize, error: &RanksError) -> RuntimeError {
    let why = match error {
        RanksError::Lost { seconds, others } => {
            silence(*seconds, others.iter().map(|rank| name(spots, *rank)))
        }
        other => other.to_string(),
    };
    failed(spots, rank, why)
}

fn name(spots: &[Spot], rank: usize) -> String {
    spots.get(rank).map_or_else(|| format!("rank {rank}"), |spot| spot.name(rank))
}

/// A failure of a rank, by name.
pub(crate) fn failed(spots: &[Spot], rank: usize, why: String) -> RuntimeError {
    RuntimeError::Executor { place: name(spots, rank), why }
}
