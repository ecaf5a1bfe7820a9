//! The thread that serves a fabric, and what others ask of it.

use crate::RanksError;
use crate::clock::Clock;
use crate::codec::{ALIVE as SIGN, Kind, Letter};
use crate::fabric::{Fabric, Frame, Served, To};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The fabric is looked at so often at least while nothing happens. A look takes about a microsecond.
const SLOWEST: Duration = Duration::from_millis(1);
/// And so soon after something has happened.
const FASTEST: Duration = Duration::from_micros(20);

/// A rank that has nothing to say says so.
const ALIVE: Duration = Duration::from_secs(5);

/// A rank that rank 0 does not hear for so long is lost. Others wait longer for rank 0, because it is the one that knows
/// who is lost. What counts is time in which this rank listens ([`Clock`]), and parts of long frames are heard as well.
const LOST: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(90)];

/// How long whoever waits for a message waits before it looks whether it still wants it.
const LOOK: Duration = Duration::from_millis(20);

/// This rank's connection to the others.
pub struct Link {
    rank: usize,
    size: usize,
    host: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Something is to be sent, or the end has come.
    to_send: Condvar,
    /// Something has arrived, or the fabric has failed.
    arrived: Condvar,
    /// The order under way is called off.
    stop: AtomicBool,
    /// All ranks are to end, whatever is on its way.
    abort: AtomicBool,
    /// After so long, whoever is not heard is lost.
    lost: OnceLock<Duration>,
}

#[derive(Default)]
struct State {
    out: VecDeque<(To, Frame)>,
    clock: Clock,
    /// By rank, what has arrived and was not read.
    letters: Vec<VecDeque<Letter>>,
    /// The order under way, and how many reports of it may go.
    order: u64,
    passes: u64,
    /// The newest order that was called off.
    called_off: u64,
    traffic: Traffic,
    failure: Option<String>,
    /// The thread ends when all is sent.
    closing: bool,
}

/// Bytes that a rank has exchanged with others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    /// Sent; what goes to all by a collective counts once.
    pub sent: u64,
    /// Received.
    pub received: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> Duration {
        self.lost.get().copied().unwrap_or(LOST[0])
    }

    /// Whoever serves the fabric looks at it. Once rank 0 is lost, nobody wants what is under way: others may go on
    /// elsewhere already.
    fn look(&self, rank: usize) {
        let mut state = self.lock();
        state.clock.look(Instant::now());
        if rank != 0 && state.clock.silence(0) > self.lost() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }
}

impl Link {
    /// Starts the thread, which makes the fabric.
    pub fn start<F: Fabric>(
        make: impl FnOnce() -> Result<F, RanksError> + Send + 'static,
    ) -> Result<Self, RanksError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            to_send: Condvar::new(),
            arrived: Condvar::new(),
            stop: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            lost: OnceLock::new(),
        });
        let (ready, made) = std::sync::mpsc::channel();
        let served = shared.clone();
        let thread = std::thread::Builder::new().name("ranks".into()).spawn(move || {
            let mut fabric = match make() {
                Ok(fabric) => fabric,
                Err(why) => return drop(ready.send(Err(why))),
            };
            let (rank, size, host) = (fabric.rank(), fabric.size(), fabric.host());
            // Once: nobody else sets it.
            let _ = served.lost.set(LOST[usize::from(rank > 0)]);
            {
                let mut state = served.lock();
                state.clock = Clock::of(size);
                state.letters = (0..size).map(|_| VecDeque::new()).collect();
            }
            // Whoever starts it waits for this.
            let _ = ready.send(Ok((rank, size, host)));
            let serving = catch_unwind(AssertUnwindSafe(|| serve(&mut fabric, &served)));
            let panicked = || RanksError::Fabric("the fabric's thread has panicked".into());
            let outcome = serving.unwrap_or_else(|_| Err(panicked()));
            if let Err(why) = outcome {
                fabric.leave();
                served.lock().failure.get_or_insert(why.to_string());
                served.stop.store(true, Ordering::Relaxed);
                served.arrived.notify_all();
            }
        });
        let failed = |why: String| RanksError::Fabric(why);
        let thread =
            thread.map_err(|error| failed(format!("no thread can be started: {error}")))?;
        let made = made.recv();
        let (rank, size, host) =
            made.unwrap_or_else(|_| Err(failed("the fabric's thread has ended".into())))?;
        Ok(Self { rank, size, host, shared, thread: Some(thread) })
    }

    /// This rank's number.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The machine that it runs on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether a rank is lost, or the fabric itself: nobody can be asked to end any more.
    pub fn is_broken(&self) -> bool {
        let state = self.shared.lock();
        state.failure.is_some() || self.silent(&state).next().is_some()
    }

    /// Who has been silent for so long that it is lost.
    fn silent<'a>(&'a self, state: &'a State) -> impl Iterator<Item = usize> + 'a {
        // Others than rank 0 talk to it alone.
        let others = if self.rank == 0 { 1..self.size } else { 0..1 };
        others.filter(|rank| state.clock.silence(*rank) > self.shared.lost())
    }

    /// Bytes exchanged so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.lock().traffic
    }

    /// Sends a message as soon as those before it have gone.
    pub(crate) fn send(&self, to: To, bytes: Vec<u8>) {
        let mut state = self.shared.lock();
        state.out.push_back((to, Frame::new(bytes)));
        self.shared.to_send.notify_one();
    }

    /// The next message from a rank; none if there is none for a moment, so that whoever waits can look whether it
    /// still wants it.
    pub(crate) fn wait(&self, from: usize) -> Result<Option<Letter>, RanksError> {
        let begun = Instant::now();
        let mut state = self.shared.lock();
        loop {
            if let Some(letter) = state.letters[from].pop_front() {
                return Ok(Some(letter));
            }
            if let Some(why) = &state.failure {
                return Err(RanksError::Fabric(why.clone()));
            }
            let silence = state.clock.silence(from);
            if silence > self.shared.lost() {
                let others = self.silent(&state).filter(|rank| *rank != from).collect();
                return Err(RanksError::Lost { seconds: silence.as_secs(), others });
            }
            let Some(left) = LOOK.checked_sub(begun.elapsed()) else { return Ok(None) };
            state = (self.shared.arrived.wait_timeout(state, left))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The next message from a rank, whenever it comes.
    pub(crate) fn next(&self, from: usize) -> Result<Letter, RanksError> {
        loop {
            if let Some(letter) = self.wait(from)? {
                return Ok(letter);
            }
        }
    }

    /// This rank begins to carry an order out.
    pub(crate) fn begin(&self, order: u64) {
        let mut state = self.shared.lock();
        // What was said of an order before it was read is in here already, also while one before it is read.
        if order > state.order {
            (state.order, state.passes) = (order, 0);
        }
        let is_off = state.called_off >= order || state.failure.is_some();
        self.shared.stop.store(is_off, Ordering::Relaxed);
    }

    /// Set when the order under way is called off.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.shared.stop
    }

    /// Waits until the next report of the order under way may go; not any more if it is called off.
    pub(crate) fn wait_for_pass(&self) -> bool {
        let mut state = self.shared.lock();
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return false;
            }
            if state.passes > 0 {
                state.passes -= 1;
                return true;
            }
            if state.clock.silence(0) > self.shared.lost() {
                // Whoever reads the next order is told.
                return false;
            }
            let waited = self.shared.arrived.wait_timeout(state, ALIVE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all ranks, of which one is lost.
    pub fn abort(mut self) {
        self.shared.abort.store(true, Ordering::Relaxed);
        self.close();
    }

    fn close(&mut self) {
        self.shared.lock().closing = true;
        self.shared.to_send.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has ended the fabric, and there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread at its work.
struct Serving<'s> {
    shared: &'s Shared,
    rank: usize,
    /// When something was said last.
    said: Instant,
    /// What nobody understands.
    broken: Option<String>,
}

impl Served for Serving<'_> {
    fn arrived(&mut self, from: usize, frame: Vec<u8>) {
        if let Err(why) = self.shared.take_in(from, frame) {
            self.broken.get_or_insert(why);
        }
    }

    fn heard(&mut self, rank: usize) {
        self.shared.lock().clock.hear(rank);
    }

    fn is_wanted(&mut self) -> bool {
        self.shared.look(self.rank);
        !self.shared.is_aborted()
    }

    fn sign(&mut self) -> Option<&'static [u8]> {
        let is_time = self.said.elapsed() > ALIVE;
        is_time.then(|| {
            self.said = Instant::now();
            SIGN
        })
    }
}

fn serve(fabric: &mut impl Fabric, shared: &Shared) -> Result<(), RanksError> {
    let (rank, size) = (fabric.rank(), fabric.size());
    let mut pause = FASTEST;
    let mut serving = Serving { shared, rank, said: Instant::now(), broken: None };
    loop {
        shared.look(rank);
        let mut state = shared.lock();
        if shared.is_aborted() {
            drop(state);
            fabric.abort();
            return Ok(());
        }
        if state.out.is_empty()
            && size > 1
            && let Some(sign) = serving.sign()
        {
            let to = if rank == 0 { 1..size } else { 0..1 };
            let frame = Frame::new(sign.to_vec());
            state.out.extend(to.map(|to| (To::One(to), frame.clone())));
        }
        let out: Vec<_> = state.out.drain(..).collect();
        let closing = state.closing;
        drop(state);
        if !out.is_empty() {
            serving.said = Instant::now();
        }
        let moved = fabric.exchange(&out, &mut serving)?;
        if let Some(why) = serving.broken.take() {
            return Err(RanksError::Protocol(why));
        }
        let mut state = shared.lock();
        let sent = out.iter().map(|(_, frame)| frame.len() as u64);
        state.traffic.sent += sent.sum::<u64>();
        if moved {
            pause = FASTEST;
        } else if closing && state.out.is_empty() {
            return Ok(());
        } else if state.out.is_empty() {
            let waited = shared.to_send.wait_timeout(state, pause);
            drop(waited.unwrap_or_else(PoisonError::into_inner).0);
            pause = (pause * 2).min(SLOWEST);
        }
    }
}

impl Shared {
    fn take_in(&self, from: usize, bytes: Vec<u8>) -> Result<(), String> {
        let length = bytes.len() as u64;
        let kind = Kind::of(bytes).map_err(|why| format!("from rank {from}: {why}"))?;
        let mut state = self.lock();
        state.traffic.received += length;
        state.clock.hear(from);
        match kind {
            Kind::Said(letter) => state.letters[from].push_back(letter),
            Kind::Pass(order) => {
                // It may come before the order is read.
                if order > state.order {
                    (state.order, state.passes) = (order, 0);
                }
                state.passes += u64::from(order == state.order);
            }
            Kind::CalledOff(order) => {
                state.called_off = state.called_off.max(order);
                if order >= state.order {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            Kind::Alive => return Ok(()),
        }
        self.arrived.notify_all();
        Ok(())
    }
}
