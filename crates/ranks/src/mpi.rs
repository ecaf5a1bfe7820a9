//! MPI as a fabric.

use crate::RanksError;
use crate::fabric::{Fabric, Frame, Served, To};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::point_to_point::{Message, Status};
use mpi::request::{LocalScope, Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Root, Source};
use std::time::Duration;

/// Longer frames go in parts: MPI counts in 32 bits with a sign, and a rank that is sent something long is known to live by
/// every part of it. On the slowest networks that clusters have, one takes a second.
const PART: usize = 64 << 20;

/// In tests, parts may be shorter. All ranks have to be told the same.
#[cfg(debug_assertions)]
const SHORTER: &str = "FORMANT_MPI_PART";

/// The last part of a frame, one of those before it, and the length of a frame that goes to all.
const LAST: i32 = 0;
const MORE: i32 = 1;
const TO_ALL: i32 = 2;

/// While frames are on their way, it is looked so often for others.
const PAUSE: Duration = Duration::from_micros(50);

/// All processes that were started together.
pub struct Mpi {
    /// What other parts have come of a frame, by rank.
    parts: Vec<Vec<u8>>,
    /// The longest part.
    part: usize,
    world: SimpleCommunicator,
    /// For what goes to all, so that it is not taken for anything else.
    all: SimpleCommunicator,
    /// Ends when it goes, after those above.
    _universe: Universe,
}

/// Frames on their way, and whose life they show once they were taken.
type Sends<'a, 's> = Vec<(Request<'a, [u8], &'s LocalScope<'a>>, Option<usize>)>;

impl Mpi {
    /// Waits for all processes. Once in a process, by the thread that will use it.
    pub fn start() -> Result<Self, RanksError> {
        let begun = mpi::initialize_with_threading(Threading::Funneled);
        let twice = || RanksError::Fabric("MPI has been started before".into());
        let (universe, _) = begun.ok_or_else(twice)?;
        let world = universe.world();
        let all = world.duplicate();
        let parts = vec![Vec::new(); world.size() as usize];
        Ok(Self { parts, part: longest_part(), world, all, _universe: universe })
    }

    /// Hands over what is there; says whether anything was.
    fn receive(&mut self, served: &mut dyn Served) -> bool {
        let mut any = false;
        while let Some((message, status)) = self.world.any_process().immediate_matched_probe() {
            any = true;
            let (from, tag) = (status.source_rank() as usize, status.tag());
            let part = self.take(message, status, served);
            served.heard(from);
            if tag == TO_ALL {
                let length = u64::from_le_bytes(std::array::from_fn(|i| part[i]));
                let mut bytes = vec![0; length as usize];
                self.take_with_all(&mut bytes, served);
                served.arrived(from, bytes);
                continue;
            }
            let parts = &mut self.parts[from];
            let whole = if parts.is_empty() {
                part
            } else {
                parts.extend(part);
                std::mem::take(parts)
            };
            if tag == MORE {
                *parts = whole;
            } else {
                served.arrived(from, whole);
            }
        }
        any
    }

    /// Receives a message that has been found.
    fn take(&self, message: Message, status: Status, served: &mut dyn Served) -> Vec<u8> {
        let mut bytes = vec![0_u8; status.count(u8::equivalent_datatype()) as usize];
        mpi::request::scope(|scope| {
            let taken = message.immediate_matched_receive_into(scope, bytes.as_mut_slice());
            complete(taken, &mut || self.attend(served));
        });
        bytes
    }

    /// Takes part in a collective: all others do, or will as soon as they look. A rank through which others get their
    /// part may take its time: this one says meanwhile that it lives.
    fn take_with_all(&self, bytes: &mut [u8], served: &mut dyn Served) {
        for part in bytes.chunks_mut(self.part) {
            mpi::request::scope(|scope| {
                let taken = self.all.process_at_rank(0).immediate_broadcast_into(scope, part);
                complete(taken, &mut || self.attend(served));
            });
            served.heard(0);
        }
    }

    /// Has all others take part in a collective, and hears them meanwhile.
    fn give_to_all(&mut self, bytes: &mut [u8], served: &mut dyn Served) {
        for part in bytes.chunks_mut(self.part) {
            mpi::request::scope(|scope| {
                // The root of a collective lends its memory to it as the others do.
                let given = self.all.process_at_rank(0).immediate_broadcast_into(scope, part);
                complete(given, &mut || {
                    end_unless_wanted(served);
                    self.receive(served);
                });
            });
        }
    }

    /// What else is to be done while something is on its way.
    fn attend(&self, served: &mut dyn Served) {
        end_unless_wanted(served);
        if self.world.rank() != 0
            && let Some(sign) = served.sign()
        {
            mpi::request::scope(|scope| {
                let rank_0 = self.world.process_at_rank(0);
                let said = rank_0.immediate_send_with_tag(scope, sign, LAST);
                complete(said, &mut || end_unless_wanted(served));
            });
        }
    }
}

fn longest_part() -> usize {
    #[cfg(debug_assertions)]
    if let Some(part) = std::env::var(SHORTER).ok().and_then(|part| part.parse().ok()) {
        return usize::max(part, 1);
    }
    PART
}

fn end_unless_wanted(served: &mut dyn Served) {
    if !served.is_wanted() {
        SimpleCommunicator::world().abort(1);
    }
}

/// Waits until something is done. MPI would wait as well, but not let anybody else have the core meanwhile. Whatever
/// else is under way moves on.
fn complete<'a, D: ?Sized, S: Scope<'a>>(
    mut request: Request<'a, D, S>,
    meanwhile: &mut dyn FnMut(),
) {
    while let Err(under_way) = request.test() {
        request = under_way;
        meanwhile();
        std::thread::sleep(PAUSE);
    }
}

impl Fabric for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn host(&self) -> String {
        mpi::environment::processor_name().unwrap_or_else(|_| "a host without a name".into())
    }

    fn exchange(
        &mut self,
        frames: &[(To, Frame)],
        served: &mut dyn Served,
    ) -> Result<bool, RanksError> {
        let mut moved = !frames.is_empty();
        let lengths: Vec<[u8; 8]> =
            frames.iter().map(|(_, frame)| (frame.len() as u64).to_le_bytes()).collect();
        let others = if self.rank() == 0 { 1..self.size() } else { 0..1 };
        mpi::request::scope(|scope| {
            let mut sends: Sends<'_, '_> = Vec::new();
            for ((to, frame), length) in frames.iter().zip(&lengths) {
                match *to {
                    To::One(to) => {
                        let there = self.world.process_at_rank(to as i32);
                        let mut parts = frame.chunks(self.part).peekable();
                        while let Some(part) = parts.next() {
                            // A long part has gone once somebody has taken it.
                            let is_last = parts.peek().is_none();
                            let (tag, taker) =
                                if is_last { (LAST, None) } else { (MORE, Some(to)) };
                            sends.push((there.immediate_send_with_tag(scope, part, tag), taker));
                        }
                    }
                    To::All => {
                        for to in 1..self.size() {
                            let to = self.world.process_at_rank(to as i32);
                            let length = to.immediate_send_with_tag(scope, &length[..], TO_ALL);
                            sends.push((length, None));
                        }
                        self.give_to_all(&mut frame.to_vec(), served);
                    }
                }
            }
            loop {
                let came = self.receive(served);
                moved |= came;
                let mut under_way = Vec::new();
                for (send, taker) in sends {
                    if let Err(send) = send.test() {
                        under_way.push((send, taker));
                    } else if let Some(rank) = taker {
                        served.heard(rank);
                    }
                }
                sends = under_way;
                if sends.is_empty() {
                    break;
                }
                end_unless_wanted(served);
                if let Some(sign) = served.sign() {
                    sends.extend(others.clone().map(|to| {
                        let to = self.world.process_at_rank(to as i32);
                        (to.immediate_send_with_tag(scope, sign, LAST), None)
                    }));
                }
                if !came {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        Ok(moved)
    }

    fn leave(self) {
        // To end MPI in order is to wait for ranks that may wait for this one.
        std::mem::forget(self);
    }

    fn abort(&mut self) {
        self.world.abort(1);
    }
}
