//! Where server, clients and clock stand.

use super::Course;
use super::agenda::Agenda;
use crate::executor::Jobs;
use formant_federation::{Protocol, Server, Session, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where server, clients and clock stand. Together with the states, a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Situation {
    pub(super) now: Time,
    pub(super) server: Server,
    pub(super) sessions: Vec<Session>,
    pub(super) agenda: Agenda,
    /// What clients have begun and nobody has computed yet.
    pub(super) jobs: Jobs,
    /// Shared phases that are computed and not over: the size of the upload, if there is one.
    pub(super) computed: BTreeMap<usize, Option<u64>>,
    /// Personal phases without an end: which round's, and since when.
    pub(super) endless: BTreeMap<usize, (u64, Time)>,
    /// Uploads on their way: their size, and since when.
    pub(super) on_their_way: BTreeMap<usize, BTreeMap<u64, (u64, Time)>>,
    /// When each client's link is free again, up and down.
    pub(super) links: Vec<[Time; 2]>,
    /// When the server wants to be woken.
    pub(super) wake: Option<Time>,
    /// Why clients failed in the open round.
    pub(super) failures: BTreeMap<usize, String>,
    /// Seconds that each client has computed.
    pub(super) busy: Vec<f64>,
    /// When the last phase that is computed will be over.
    pub(super) last_phase: Time,
    /// When the last aggregation was.
    pub(super) last_round: Time,
}

impl Situation {
    /// Before the first round.
    pub(super) fn new(course: &Course<'_>) -> Self {
        let clients = course.rules.clients;
        Self {
            now: Time::ZERO,
            server: Server::new(course.rules.clone()),
            sessions: vec![Session::new(&course.rules); clients],
            agenda: Agenda::default(),
            jobs: Jobs::new(),
            computed: BTreeMap::new(),
            endless: BTreeMap::new(),
            on_their_way: BTreeMap::new(),
            links: vec![[Time::ZERO; 2]; clients],
            wake: None,
            failures: BTreeMap::new(),
            busy: vec![0.0; clients],
            last_phase: Time::ZERO,
            last_round: Time::ZERO,
        }
    }

    /// The round that is open, from 1.
    pub(super) fn round(&self) -> u64 {
        self.server.round()
    }

    /// Seconds until the last aggregation, and until the last phase was or will be over too.
    pub(super) fn ready(&self) -> (f64, f64) {
        (self.last_round.seconds(), self.last_round.max(self.last_phase).seconds())
    }

    /// An upload that is on its way: its size, and since when it is.
    pub(super) fn sent(&mut self, client: usize, round: u64) -> Option<&mut (u64, Time)> {
        self.on_their_way.get_mut(&client)?.get_mut(&round)
    }

    /// An upload is no longer on its way: its size, and since when it was.
    pub(super) fn arrived(&mut self, client: usize, round: u64) -> Option<(u64, Time)> {
        let sent = self.on_their_way.get_mut(&client)?;
        let arrived = sent.remove(&round);
        if sent.is_empty() {
            self.on_their_way.remove(&client);
        }
        arrived
    }

    /// Seconds of the whole time in which each client computed nothing.
    pub(super) fn idle(&self) -> Vec<f64> {
        let (_, total) = self.ready();
        self.busy.iter().map(|busy| (total - busy).max(0.0)).collect()
    }

    /// Goes on to more rounds than it began with.
    pub(crate) fn go_on_to(&mut self, rounds: usize) {
        self.server.go_on_to(rounds as u64);
    }

    /// Whether it belongs to a method with these rules, and names no client that they do not have.
    pub(crate) fn fits(&self, rules: &Protocol) -> bool {
        let at_work = self.jobs.keys().chain(self.computed.keys()).chain(self.endless.keys());
        let elsewhere = self.on_their_way.keys().chain(self.failures.keys());
        let named = at_work.chain(elsewhere).copied().chain(self.agenda.clients());
        [self.sessions.len(), self.busy.len(), self.links.len()] == [rules.clients; 3]
            && self.server.fits(rules)
            && named.into_iter().all(|client| client < rules.clients)
    }

    /// The rounds whose broadcasts somebody may still need.
    pub(super) fn needed(&self) -> BTreeSet<u64> {
        let jobs = self.jobs.values().flatten().map(|step| step.round);
        let endless = self.endless.values().map(|(round, _)| *round);
        let waiting = self.sessions.iter().filter_map(Session::waiting);
        let rounds = jobs.chain(endless).chain(waiting).chain(self.agenda.on_their_way());
        rounds.chain(self.server.open_rounds()).chain(self.server.due_rounds()).collect()
    }
}
