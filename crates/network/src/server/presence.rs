//! Who is there, and what they are told.

use super::actor::{Actor, Message, Orders, Over};
use crate::audit::Entry;
use crate::error::NetworkError;
use crate::wire::{file_named, proto, sha256};
use formant_federation::Event;
use std::sync::atomic::Ordering::Relaxed;
use tracing::{info, warn};

/// The control stream of a client that is there.
pub(crate) struct Present {
    pub(crate) session: u64,
    /// When the client made the connection, by its own clock.
    pub(crate) born: u64,
    pub(crate) orders: Orders,
}

impl Actor {
    /// True if the client is there by this connection now.
    pub(super) fn joined(&mut self, client: usize, present: Present) -> Result<bool, NetworkError> {
        if self.present.get(&client).is_some_and(|other| other.born > present.born) {
            // The greeting of a connection that the client has given up for the one that is there. If
            // somebody still listens to it, a clock was set back: it may try again.
            info!(client = self.core.name(client), "an older connection comes late");
            return Ok(false);
        }
        info!(client = self.core.name(client), "joined");
        let certificate = self.core.door.certificate(client).map(|der| sha256(&der));
        let name = self.core.name(client).to_owned();
        self.book.note(Entry::Joined { client: name, certificate })?;
        if let Some(replaced) = self.present.insert(client, present) {
            let cause = proto::dismiss::Cause::Replaced;
            let _ = replaced.orders.try_send(Ok(self.dismissal(cause)));
        }
        self.core.metrics.present.store(self.present.len() as u64, Relaxed);
        Ok(true)
    }

    pub(super) fn left(&mut self, client: usize, session: u64) -> Result<(), NetworkError> {
        // Another connection of the same client may have taken its place.
        if self.present.get(&client).is_none_or(|present| present.session != session) {
            return Ok(());
        }
        info!(client = self.core.name(client), "left");
        self.present.remove(&client);
        self.core.metrics.present.store(self.present.len() as u64, Relaxed);
        self.handle(Event::Left { client })?;
        self.tell_whether_everybody_knows();
        Ok(())
    }

    pub(super) fn broadcast(&self, round: u64, role: proto::Role) -> proto::Broadcast {
        let file = self.manifest.broadcasts.get(&round).map(file_named);
        proto::Broadcast { round, role: role.into(), file }
    }

    pub(super) fn dismissal(&self, cause: proto::dismiss::Cause) -> proto::Order {
        let last = self
            .manifest
            .end
            .as_ref()
            .map(|end| self.broadcast(end.rounds + 1, proto::Role::Bystander));
        let dismiss = proto::Dismiss { cause: cause.into(), last };
        proto::Order { order: Some(proto::order::Order::Dismiss(dismiss)) }
    }

    /// Sends an order. A client that does not read its orders is cut off and may come back.
    pub(super) fn send(&mut self, client: usize, order: proto::order::Order) {
        let Some(Present { session, orders, .. }) = self.present.get(&client) else { return };
        if orders.try_send(Ok(proto::Order { order: Some(order) })).is_err() {
            warn!(client = self.core.name(client), "does not read its orders");
            // As if its stream had ended: the machine must know that it is gone.
            let _ = self.core.actor.send(Message::Left { client, session: *session });
        }
    }

    pub(super) fn tell_whether_everybody_knows(&mut self) {
        let Some(end) = &self.manifest.end else { return };
        let everybody = self.content.len() + self.core.excluded.len()
            == self.core.wiring.settings.clients.len();
        let everybody_knows = everybody && self.present.is_empty();
        let over = Over { end: Some(end.clone()), everybody_knows };
        self.over.send_replace(over);
    }
}
