//! What lies between ranks.

use crate::RanksError;
use std::sync::Arc;

/// Bytes on their way. One frame may go to many ranks.
pub type Frame = Arc<Vec<u8>>;

/// Who is to get a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// One rank.
    One(usize),
    /// All but rank 0, which sends it.
    All,
}

/// Whoever a fabric works for, asked and told while it is at it.
pub trait Served {
    /// A frame has arrived from a rank.
    fn arrived(&mut self, from: usize, frame: Vec<u8>);

    /// A part of a frame has come from a rank, or was taken by it: it lives, long before the frame is whole.
    fn heard(&mut self, rank: usize);

    /// Whether what the fabric waits for is still wanted. To be asked at every look: by that it is known as well for how
    /// long others could have been heard.
    fn is_wanted(&mut self) -> bool;

    /// The frame by which ranks know that this one lives, once it is time for it again. It goes to rank 0, or from
    /// there to all others.
    fn sign(&mut self) -> Option<&'static [u8]>;
}

/// Carries bytes between ranks. One thread makes it and uses it.
///
/// What one rank sends to another arrives once, whole and in order; what goes to all is part of that order.
pub trait Fabric {
    /// This rank's number.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// What the machine is called on which it runs.
    fn host(&self) -> String;

    /// Sends frames and hands over what arrives meanwhile, or what is there if there is nothing to send. Comes back
    /// when all frames are on their way; says whether anything has come or gone.
    ///
    /// It never waits for a rank that waits for this one: while frames go, others come. While it waits, it looks whether
    /// that is still wanted, and ends all ranks once it is not: a rank that is lost never takes the rest of a frame.
    fn exchange(
        &mut self,
        frames: &[(To, Frame)],
        served: &mut dyn Served,
    ) -> Result<bool, RanksError>;

    /// Ends all ranks at once, without a word from any of them. Called when one of them is lost.
    fn abort(&mut self);

    /// Goes after a failure, and waits for nobody.
    fn leave(self)
    where
        Self: Sized,
    {
    }
}
