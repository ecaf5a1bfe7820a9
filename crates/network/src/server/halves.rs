//! Connections whose handshake is not done. Nobody knows yet who they are, so they share few places: whoever
//! comes last gets one, and whoever has waited longest of the address with the most gives it up. An
//! honest client needs its place for two round trips, whatever others do meanwhile.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Handshakes at the same time.
const PLACES: usize = 256;
/// Of them, those of one address.
const OF_ONE: usize = 64;

/// The places.
#[derive(Default)]
pub(super) struct Halves(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order in which they came.
    all: BTreeMap<u64, Half>,
    counts: BTreeMap<Origin, usize>,
}

struct Half {
    origin: Origin,
    /// Dropped when the place is given to somebody else.
    _keep: oneshot::Sender<()>,
}

/// What counts as one address: of the new kind, everybody has 2^64.
type Origin = u128;

/// A place. It is free again when this is dropped.
pub(super) struct Place {
    halves: Arc<Halves>,
    number: u64,
    /// Ends when somebody else gets the place.
    pub(super) lost: oneshot::Receiver<()>,
}

impl Halves {
    /// Gives a place to whoever comes.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Place {
        let origin = origin(address);
        let mut waiting = self.lock();
        let of_it = waiting.counts.get(&origin).copied().unwrap_or_default();
        if of_it >= OF_ONE {
            waiting.evict(origin);
        } else if waiting.all.len() >= PLACES {
            waiting.evict_from_most();
        }
        let (keep, lost) = oneshot::channel();
        let number = waiting.next;
        waiting.next += 1;
        waiting.all.insert(number, Half { origin, _keep: keep });
        *waiting.counts.entry(origin).or_default() += 1;
        Place { halves: self.clone(), number, lost }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The oldest of those whose address has the most.
    fn evict_from_most(&mut self) {
        let most = self.counts.values().max();
        let first = self.all.values().find(|half| self.counts.get(&half.origin) == most);
        if let Some(origin) = first.map(|half| half.origin) {
            self.evict(origin);
        }
    }

    fn evict(&mut self, origin: Origin) {
        let oldest = self.all.iter().find(|(_, half)| half.origin == origin);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.leave(number);
        }
    }

    fn leave(&mut self, number: u64) {
        let Some(half) = self.all.remove(&number) else { return };
        if let Some(count) = self.counts.get_mut(&half.origin) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&half.origin);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.halves.lock().leave(self.number);
    }
}

fn origin(address: IpAddr) -> Origin {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX) | 1 << 63,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(place: &mut Place) -> bool {
        place.lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn address(last: u16) -> IpAddr {
        IpAddr::from([10, 0, (last >> 8) as u8, last as u8])
    }

    #[test]
    fn one_address_drives_out_itself_and_nobody_else() {
        let halves = Arc::new(Halves::default());
        let mut honest = halves.enter(address(1));
        let mut flood: Vec<_> = (0..1_000).map(|_| halves.enter(address(2))).collect();
        assert!(!is_lost(&mut honest));
        let left = flood.iter_mut().filter_map(|place| (!is_lost(place)).then_some(())).count();
        assert_eq!(left, OF_ONE);
        // The newest are there.
        assert!(flood[1_000 - OF_ONE..].iter_mut().all(|place| !is_lost(place)));
        drop(flood);
        assert_eq!(halves.lock().all.len(), 1);
        assert_eq!(halves.lock().counts.len(), 1);
    }

    #[test]
    fn many_addresses_leave_a_place_to_whoever_comes() {
        let halves = Arc::new(Halves::default());
        let flood: Vec<_> = (0..1_000).map(|n| halves.enter(address(n % 500))).collect();
        assert_eq!(halves.lock().all.len(), PLACES);
        // It came last and has one place: others have waited longer.
        let mut honest = halves.enter(address(600));
        let more: Vec<_> = (0..100).map(|n| halves.enter(address(n))).collect();
        assert!(!is_lost(&mut honest));
        drop((flood, more));
    }

    #[test]
    fn a_network_of_the_new_kind_is_one_address() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
