//! Broadcasts that somebody may still need: the newest in memory, older ones on disk.

use crate::RuntimeError;
use crate::store::{Store, Stored};
use formant_methods::{ErasedMethod, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Broadcasts by the round that they open.
pub(super) struct Broadcasts {
    newest: (u64, Arc<Value>, u64),
    older: BTreeMap<u64, Stored>,
}

impl Broadcasts {
    /// The broadcast of the open round, and what a checkpoint has kept of older ones.
    pub(super) fn new(
        round: u64,
        newest: Value,
        older: BTreeMap<u64, Stored>,
    ) -> Result<Self, RuntimeError> {
        let bytes = newest.encoded_len()? as u64;
        Ok(Self { newest: (round, Arc::new(newest), bytes), older })
    }

    /// Adds the newest; those before `needed` go.
    pub(super) fn advance(
        &mut self,
        (round, newest): (u64, Value),
        needed: u64,
        store: &Store<'_>,
    ) -> Result<(), RuntimeError> {
        let (last, value, _) = &self.newest;
        if *last >= needed {
            self.older.insert(*last, store.write_value("broadcast", value)?);
        }
        let newer = self.older.split_off(&needed);
        for stored in std::mem::replace(&mut self.older, newer).values() {
            store.remove_value(stored);
        }
        let bytes = newest.encoded_len()? as u64;
        self.newest = (round, Arc::new(newest), bytes);
        Ok(())
    }

    /// The broadcast of a round.
    pub(super) fn get(
        &self,
        round: u64,
        (store, method): (&Store<'_>, &dyn ErasedMethod),
    ) -> Result<Arc<Value>, RuntimeError> {
        match self.older.get(&round) {
            Some(stored) if round != self.newest.0 => {
                Ok(Arc::new(method.decode_broadcast(&store.load(stored)?)?))
            }
            _ => Ok(self.newest.1.clone()),
        }
    }

    /// Encoded size of the newest.
    pub(super) fn bytes(&self) -> u64 {
        self.newest.2
    }

    /// What a checkpoint has to name.
    pub(super) fn older(&self) -> &BTreeMap<u64, Stored> {
        &self.older
    }
}
