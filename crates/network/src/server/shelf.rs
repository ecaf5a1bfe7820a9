//! Broadcasts that can be downloaded: in memory once, cut into chunks once, for everybody who asks.

use crate::error::NetworkError;
use crate::wire::{chunk, proto};
use bytes::Bytes;
use formant_runtime::files::Named;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One broadcast. Every chunk is memory of its own: whoever stalls holds a chunk, not the whole.
pub(crate) struct Cut {
    chunks: Vec<proto::Chunk>,
}

impl Cut {
    fn new(bytes: &[u8], size: usize) -> Self {
        let pieces = bytes.chunks(size).enumerate();
        let chunks = pieces
            .map(|(i, piece)| chunk((i * size) as u64, Bytes::copy_from_slice(piece)))
            .collect();
        Self { chunks }
    }

    /// What there is from an offset on.
    pub(crate) fn after(&self, offset: u64) -> impl Iterator<Item = proto::Chunk> {
        let first = self.chunks.partition_point(|c| c.offset + c.data.len() as u64 <= offset);
        self.chunks[first..].iter().map(move |whole| match offset.checked_sub(whole.offset) {
            None | Some(0) => whole.clone(),
            Some(skipped) => chunk(offset, whole.data.slice(skipped as usize..)),
        })
    }
}

/// The broadcasts by the rounds that they open.
pub(crate) struct Shelf {
    states: PathBuf,
    /// Most bytes of a chunk.
    size: usize,
    named: Mutex<BTreeMap<u64, Named>>,
    cut: Mutex<Held>,
    /// One reads what all wait for.
    reading: tokio::sync::Mutex<()>,
}

/// What is in memory.
#[derive(Default)]
struct Held {
    /// The newest that was asked for stays.
    newest: Option<(u64, Arc<Cut>)>,
    /// Others are there for as long as somebody gets them.
    others: BTreeMap<u64, Weak<Cut>>,
}

impl Shelf {
    pub(crate) fn new(states: PathBuf, size: usize, named: BTreeMap<u64, Named>) -> Self {
        let (cut, reading) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { states, size, named: Mutex::new(named), cut, reading }
    }

    /// Replaces what can be downloaded.
    pub(crate) fn replace(&self, named: &BTreeMap<u64, Named>) {
        *lock(&self.named) = named.clone();
    }

    /// The file of a broadcast.
    pub(crate) fn named(&self, round: u64) -> Option<Named> {
        lock(&self.named).get(&round).cloned()
    }

    /// A broadcast in memory.
    pub(crate) async fn cut(&self, round: u64, named: Named) -> Result<Arc<Cut>, NetworkError> {
        if let Some(cut) = self.held(round) {
            return Ok(cut);
        }
        let _one = self.reading.lock().await;
        if let Some(cut) = self.held(round) {
            return Ok(cut);
        }
        let (states, size) = (self.states.clone(), self.size);
        let read = move || Ok(Arc::new(Cut::new(&named.read(&states)?, size)));
        let read = tokio::task::spawn_blocking(read).await;
        let cut = read.map_err(|_| NetworkError::Stopped { what: "file thread" })?;
        cut.inspect(|cut| self.hold(round, cut))
    }

    fn held(&self, round: u64) -> Option<Arc<Cut>> {
        let held = lock(&self.cut);
        match &held.newest {
            Some((newest, cut)) if *newest == round => Some(cut.clone()),
            _ => held.others.get(&round).and_then(Weak::upgrade),
        }
    }

    fn hold(&self, round: u64, cut: &Arc<Cut>) {
        let mut held = lock(&self.cut);
        held.others.retain(|_, other| other.strong_count() > 0);
        if held.newest.as_ref().is_some_and(|(newest, _)| *newest > round) {
            held.others.insert(round, Arc::downgrade(cut));
        } else if let Some((older, cut)) = held.newest.replace((round, cut.clone())) {
            held.others.insert(older, Arc::downgrade(&cut));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::is_whole;
    use formant_runtime::files;

    #[test]
    fn from_any_offset_on_it_is_the_same_bytes() {
        let bytes: Vec<u8> = (0..=99).collect();
        for size in [1, 7, 50, 100, 1_000] {
            let cut = Cut::new(&bytes, size);
            for offset in 0..=100 {
                let mut got = Vec::new();
                for chunk in cut.after(offset) {
                    assert!(is_whole(&chunk) && !chunk.data.is_empty());
                    assert_eq!(chunk.offset, offset + got.len() as u64);
                    got.extend_from_slice(&chunk.data);
                }
                assert_eq!(got, bytes[offset as usize..], "{size} {offset}");
            }
        }
    }

    #[tokio::test]
    async fn everybody_gets_the_same_memory_and_old_rounds_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = |round: u64| {
            let name = format!("broadcast-{round}.bin");
            (round, files::store(folder.path(), &name, &[round as u8; 100]).unwrap())
        };
        let named = BTreeMap::from([store(1), store(2), store(3)]);
        let shelf = Shelf::new(folder.path().into(), 10, named);
        let get = async |round| shelf.cut(round, shelf.named(round).unwrap()).await.unwrap();
        let (first, again) = (get(1).await, get(1).await);
        assert!(Arc::ptr_eq(&first, &again));
        let second = get(2).await;
        assert!(Arc::ptr_eq(&first, &get(1).await), "somebody still gets it");
        let gone = Arc::downgrade(&first);
        drop((first, again));
        assert!(gone.upgrade().is_none(), "nobody gets it any more");
        // One that is late does not take the place of the newest.
        let late = get(1).await;
        assert!(Arc::ptr_eq(&second, &get(2).await) && Arc::ptr_eq(&late, &get(1).await));
        assert!(shelf.named(4).is_none());
        shelf.replace(&BTreeMap::new());
        assert!(shelf.named(1).is_none());
    }
}
