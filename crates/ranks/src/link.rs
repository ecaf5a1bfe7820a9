//! The thread that serves a fabric, and what others ask of it.

use crate::codec::{Kind, Letter, alive};
use crate::fabric::{Fabric, Frame, To};
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

/// A rank that rank 0 does not hear for so long is lost. Others wait longer for rank 0: while it waits for one that is
/// lost, it says nothing, and it is the one that knows who that is.
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
    /// By rank.
    ranks: Vec<Heard>,
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

struct Heard {
    last: Instant,
    letters: VecDeque<Letter>,
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

    fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }
}

impl Link {
    /// Starts the thread, which makes the fabric.
    pub fn start<F: Fabric>(
        make: impl FnOnce() -> Result<F, String> + Send + 'static,
    ) -> Result<Self, String> {
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
            let heard = || Heard { last: Instant::now(), letters: VecDeque::new() };
            served.lock().ranks = (0..size).map(|_| heard()).collect();
            // Whoever starts it waits for this.
            let _ = ready.send(Ok((rank, size, host)));
            let serving = catch_unwind(AssertUnwindSafe(|| serve(&mut fabric, &served)));
            let outcome =
                serving.unwrap_or_else(|_| Err("the fabric's thread has panicked".into()));
            if let Err(why) = outcome {
                fabric.leave();
                served.lock().failure.get_or_insert(why);
                served.stop.store(true, Ordering::Relaxed);
                served.arrived.notify_all();
            }
        });
        let thread = thread.map_err(|error| format!("no thread can be started: {error}"))?;
        let (rank, size, host) =
            made.recv().unwrap_or_else(|_| Err("the fabric's thread has ended".into()))?;
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
        let others = state.ranks.iter().enumerate().filter(|(rank, _)| *rank != self.rank);
        // Others than rank 0 talk to it alone.
        let mut heard = others.filter(|(rank, _)| self.rank == 0 || *rank == 0);
        state.failure.is_some() || heard.any(|(_, heard)| heard.last.elapsed() > self.shared.lost())
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
    pub(crate) fn wait(&self, from: usize) -> Result<Option<Letter>, String> {
        let begun = Instant::now();
        let mut state = self.shared.lock();
        loop {
            if let Some(letter) = state.ranks[from].letters.pop_front() {
                return Ok(Some(letter));
            }
            if let Some(why) = &state.failure {
                return Err(why.clone());
            }
            let silent = state.ranks[from].last.elapsed();
            if silent > self.shared.lost() {
                return Err(format!("it has not been heard for {} seconds", silent.as_secs()));
            }
            let Some(left) = LOOK.checked_sub(begun.elapsed()) else { return Ok(None) };
            state = (self.shared.arrived.wait_timeout(state, left))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The next message from a rank, whenever it comes.
    pub(crate) fn next(&self, from: usize) -> Result<Letter, String> {
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
            if state.ranks[0].last.elapsed() > self.shared.lost() {
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

fn serve(fabric: &mut impl Fabric, shared: &Shared) -> Result<(), String> {
    let (rank, size) = (fabric.rank(), fabric.size());
    let mut pause = FASTEST;
    let mut said = Instant::now();
    loop {
        let mut state = shared.lock();
        if shared.is_aborted() {
            drop(state);
            fabric.abort();
            return Ok(());
        }
        if state.out.is_empty() && said.elapsed() > ALIVE && size > 1 {
            let to = if rank == 0 { 1..size } else { 0..1 };
            let frame = Frame::new(alive());
            state.out.extend(to.map(|to| (To::One(to), frame.clone())));
        }
        let out: Vec<_> = state.out.drain(..).collect();
        let closing = state.closing;
        drop(state);
        if !out.is_empty() {
            said = Instant::now();
        }
        let mut broken = None;
        let mut arrived = |from, bytes| {
            if let Err(why) = shared.take_in(from, bytes) {
                broken.get_or_insert(why);
            }
        };
        let moved = fabric.exchange(&out, &mut arrived, &|| !shared.is_aborted())?;
        if let Some(why) = broken {
            return Err(why);
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
        state.ranks[from].last = Instant::now();
        match kind {
            Kind::Said(letter) => state.ranks[from].letters.push_back(letter),
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
