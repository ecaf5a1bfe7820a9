//! What lies between ranks.

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

/// Takes what has arrived, and from whom.
pub type Arrived<'a> = dyn FnMut(usize, Vec<u8>) + 'a;

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
        arrived: &mut Arrived<'_>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<bool, String>;

    /// Ends all ranks at once, without a word from any of them. Called when one of them is lost.
    fn abort(&mut self);

    /// Goes after a failure, and waits for nobody.
    fn leave(self)
    where
        Self: Sized,
    {
    }
}
