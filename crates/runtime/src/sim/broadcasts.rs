//! Broadcasts that somebody may still need: the newest in memory, older ones on disk.

use crate::RuntimeError;
use crate::store::{ServerStore, Stored};
use formant_methods::{ErasedMethod, MethodError, Value};
use std::collections::{BTreeMap, BTreeSet};
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

    /// Adds the newest, which opens `round`; those that are not `needed` go.
    pub(super) fn advance(
        &mut self,
        round: u64,
        newest: Value,
        needed: &BTreeSet<u64>,
        store: &ServerStore<'_>,
    ) -> Result<(), RuntimeError> {
        let (last, value, _) = &self.newest;
        if needed.contains(last) {
            self.older.insert(*last, store.write_value("broadcast", value)?);
        }
        self.older.retain(|round, stored| {
            let keep = needed.contains(round);
            if !keep {
                store.remove_value(stored);
            }
            keep
        });
        let bytes = newest.encoded_len()? as u64;
        self.newest = (round, Arc::new(newest), bytes);
        Ok(())
    }

    /// The broadcast of a round.
    pub(super) fn get(
        &self,
        round: u64,
        store: &ServerStore<'_>,
        method: &dyn ErasedMethod,
    ) -> Result<Arc<Value>, RuntimeError> {
        if round == self.newest.0 {
            return Ok(self.newest.1.clone());
        }
        let stored = self.older.get(&round).ok_or_else(|| {
            MethodError::Storage(format!("the broadcast of round {round} was given up too early"))
        })?;
        Ok(Arc::new(method.decode_broadcast(&store.load(stored)?)?))
    }

    /// Writes the newest for a checkpoint of a server that has moved on from it.
    pub(super) fn write_newest(&self, store: &ServerStore<'_>) -> Result<Stored, RuntimeError> {
        store.write_value("broadcast", &self.newest.1)
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
