//! Ranks that are threads of one process, for tests.

use crate::RanksError;
use crate::fabric::{Fabric, Frame, Served, To};
use std::sync::mpsc::{Receiver, Sender, channel};

/// From whom, and what; nothing if it has failed and will say no more.
type Sent = (usize, Option<Frame>);

/// One rank's end of channels to all others.
pub struct Mesh {
    rank: usize,
    to: Vec<Sender<Sent>>,
    arrived: Receiver<Sent>,
}

impl Mesh {
    /// So many ranks.
    pub fn of(size: usize) -> Vec<Self> {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
        let end = |(rank, arrived)| Self { rank, to: senders.clone(), arrived };
        receivers.into_iter().enumerate().map(end).collect()
    }

    fn send(&self, to: usize, frame: &Frame) -> Result<(), RanksError> {
        let sent = self.to[to].send((self.rank, Some(frame.clone())));
        sent.map_err(|_| RanksError::Fabric(format!("rank {to} is gone")))
    }
}

impl Fabric for Mesh {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn host(&self) -> String {
        "this process".into()
    }

    fn exchange(
        &mut self,
        frames: &[(To, Frame)],
        served: &mut dyn Served,
    ) -> Result<bool, RanksError> {
        let mut moved = !frames.is_empty();
        for (to, frame) in frames {
            match *to {
                To::One(to) => self.send(to, frame)?,
                To::All => (1..self.size()).try_for_each(|to| self.send(to, frame))?,
            }
        }
        while let Ok((from, frame)) = self.arrived.try_recv() {
            moved = true;
            let frame =
                frame.ok_or_else(|| RanksError::Fabric(format!("rank {from} has failed")))?;
            served.arrived(from, Frame::try_unwrap(frame).unwrap_or_else(|frame| frame.to_vec()));
        }
        Ok(moved)
    }

    fn abort(&mut self) {}

    fn leave(self) {
        for to in &self.to {
            // Some may have gone before.
            let _ = to.send((self.rank, None));
        }
    }
}
