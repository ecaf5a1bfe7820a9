//! MPI as a fabric.

use crate::fabric::{Arrived, Fabric, Frame, To};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::point_to_point::{Message, Status};
use mpi::request::{LocalScope, Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Root, Source};
use std::time::Duration;

/// MPI counts in 32 bits with a sign. Longer frames go in parts.
const PART: usize = 1 << 30;

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
    world: SimpleCommunicator,
    /// For what goes to all, so that it is not taken for anything else.
    all: SimpleCommunicator,
    /// Ends when it goes, after those above.
    _universe: Universe,
}

/// Looks whether what is waited for is still wanted, and ends all ranks if not.
type Look<'a> = dyn Fn() + 'a;

type Sends<'a, 's> = Vec<Request<'a, [u8], &'s LocalScope<'a>>>;

impl Mpi {
    /// Waits for all processes. Once in a process, by the thread that will use it.
    pub fn start() -> Result<Self, String> {
        let begun = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, _) = begun.ok_or("MPI has been started before")?;
        let world = universe.world();
        let all = world.duplicate();
        let parts = vec![Vec::new(); world.size() as usize];
        Ok(Self { parts, world, all, _universe: universe })
    }

    /// Hands over what is there; says whether anything was.
    fn receive(&mut self, arrived: &mut Arrived<'_>, look: &Look<'_>) -> bool {
        let mut any = false;
        while let Some((message, status)) = self.world.any_process().immediate_matched_probe() {
            any = true;
            let (from, tag) = (status.source_rank() as usize, status.tag());
            let part = take(message, status, look);
            if tag == TO_ALL {
                let length = u64::from_le_bytes(std::array::from_fn(|i| part[i]));
                let mut bytes = vec![0; length as usize];
                self.pass_to_all(&mut bytes, look);
                arrived(from, bytes);
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
                arrived(from, whole);
            }
        }
        any
    }

    /// Takes part in a collective: all others do, or will as soon as they look.
    fn pass_to_all(&self, bytes: &mut [u8], look: &Look<'_>) {
        for part in bytes.chunks_mut(PART) {
            mpi::request::scope(|scope| {
                let root = self.all.process_at_rank(0);
                complete(root.immediate_broadcast_into(scope, part), look);
            });
        }
    }
}

/// Receives a message that has been found.
fn take(message: Message, status: Status, look: &Look<'_>) -> Vec<u8> {
    let mut bytes = vec![0_u8; status.count(u8::equivalent_datatype()) as usize];
    mpi::request::scope(|scope| {
        complete(message.immediate_matched_receive_into(scope, bytes.as_mut_slice()), look);
    });
    bytes
}

/// Waits until something is done. MPI would wait as well, but not let anybody else have the core meanwhile. Whatever
/// else is under way moves on.
fn complete<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>, look: &Look<'_>) {
    while let Err(under_way) = request.test() {
        request = under_way;
        look();
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
        arrived: &mut Arrived<'_>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<bool, String> {
        let look = || {
            if !wanted() {
                SimpleCommunicator::world().abort(1);
            }
        };
        let mut moved = !frames.is_empty();
        let lengths: Vec<[u8; 8]> =
            frames.iter().map(|(_, frame)| (frame.len() as u64).to_le_bytes()).collect();
        mpi::request::scope(|scope| {
            let mut sends: Sends<'_, '_> = Vec::new();
            for ((to, frame), length) in frames.iter().zip(&lengths) {
                match *to {
                    To::One(to) => {
                        let to = self.world.process_at_rank(to as i32);
                        let mut parts = frame.chunks(PART).peekable();
                        while let Some(part) = parts.next() {
                            let tag = if parts.peek().is_some() { MORE } else { LAST };
                            sends.push(to.immediate_send_with_tag(scope, part, tag));
                        }
                    }
                    To::All => {
                        for to in 1..self.size() {
                            let to = self.world.process_at_rank(to as i32);
                            sends.push(to.immediate_send_with_tag(scope, &length[..], TO_ALL));
                        }
                        // The root of a collective lends its memory to it as the others do.
                        self.pass_to_all(&mut frame.to_vec(), &look);
                    }
                }
            }
            loop {
                let came = self.receive(arrived, &look);
                moved |= came;
                sends = sends.into_iter().filter_map(|send| send.test().err()).collect();
                if sends.is_empty() {
                    break;
                }
                if !came {
                    look();
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
