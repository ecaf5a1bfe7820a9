//! Thousands of runs in random orders of events, with lost connections, messages that come twice or
//! in another order, crashes of server and clients at any point, and clients that never come back.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]

use core::time::Duration;
use formant_federation::{
    Action, Draw, Event, Late, Personal, Protocol, Schedule, Server, Session, SessionAction,
    SessionEvent, Time, Until, Verdict,
};
use formant_numerics::{Rng, Stream};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy)]
enum Packet {
    ToServer(usize, Event),
    ToClient(usize, SessionEvent),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Job {
    Shared(u64),
    Personal(u64, Until),
}

struct Client {
    session: Session,
    job: Option<Job>,
    /// Whether the job was told to stop.
    stop: bool,
    connected: bool,
    /// Gone for good.
    dead: bool,
    /// Rounds whose phases are kept, in the order in which they were.
    shared: Vec<u64>,
    personal: Vec<u64>,
}

struct World {
    rng: Rng,
    now: Time,
    server: Server,
    clients: Vec<Client>,
    packets: Vec<Packet>,
    wakes: BTreeSet<Time>,
    /// The aggregation that was under way when the server crashed.
    interrupted: Option<(u64, Vec<(usize, u64)>)>,
    /// The aggregation under way.
    pending: Option<(u64, Vec<(usize, u64)>)>,
    done: BTreeMap<u64, Vec<(usize, u64)>>,
    accepted: BTreeSet<(usize, u64)>,
    abandoned: bool,
    /// Share of shared phases that diverge.
    failing: f64,
}

impl World {
    fn new(protocol: &Protocol, rng: Rng, failing: f64) -> Self {
        let client = || Client {
            session: Session::new(protocol),
            job: None,
            stop: false,
            connected: false,
            dead: false,
            shared: Vec::new(),
            personal: Vec::new(),
        };
        let mut world = Self {
            rng,
            now: Time::ZERO,
            server: Server::new(protocol.clone()),
            clients: (0..protocol.clients).map(|_| client()).collect(),
            packets: Vec::new(),
            wakes: BTreeSet::new(),
            interrupted: None,
            pending: None,
            done: BTreeMap::new(),
            accepted: BTreeSet::new(),
            abandoned: false,
            failing,
        };
        let actions = world.server.start(world.now);
        world.serve(actions);
        world
    }

    fn chance(&mut self, share: f64) -> bool {
        self.rng.uniform() < share
    }

    fn tell_server(&mut self, event: Event) {
        self.compare_with_questions();
        let actions = self.server.handle(self.now, event);
        self.serve(actions);
    }

    /// Asks the server about an answer that may or may not have been sent, and compares with what a
    /// copy of it then does.
    fn compare_with_questions(&mut self) {
        // Also of a client and of rounds that there are not.
        let client = self.rng.below(self.clients.len() + 1);
        let round = self.rng.below(self.server.round() as usize + 3) as u64;
        let kept = |server: &Server| server.kept().collect::<BTreeSet<_>>();
        let mut copy = self.server.clone();
        let first = copy.handle(self.now, Event::Uploaded { client, round }).into_iter().next();
        let expected = match self.server.verdict(client, round) {
            Verdict::Accept => Action::Accept { client, round },
            Verdict::Acknowledge => Action::Acknowledge { client, round },
            Verdict::Refuse(reason) => Action::Refuse { client, round, reason },
        };
        assert_eq!(first, Some(expected), "{client} {round} {:?}", self.server);
        assert_eq!(copy != self.server, self.server.upload_changes(client, round));
        let is_new = !kept(&self.server).contains(&(client, round));
        let is_kept = kept(&copy).contains(&(client, round));
        assert_eq!(is_new && is_kept, self.server.verdict(client, round) == Verdict::Accept);
        let mut copy = self.server.clone();
        copy.handle(self.now, Event::Failed { client, round });
        assert_eq!(copy != self.server, self.server.failure_changes(client, round));
    }

    /// What the server's driver does.
    fn serve(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Broadcast { client, round, role } => {
                    self.send(client, SessionEvent::Broadcast { round, role });
                }
                Action::Accept { client, round } => {
                    assert!(self.accepted.insert((client, round)), "accepted twice");
                    self.send(client, SessionEvent::Acknowledged { round });
                }
                Action::Acknowledge { client, round } => {
                    self.send(client, SessionEvent::Acknowledged { round });
                }
                Action::Refuse { client, round, .. } => {
                    assert!(!self.accepted.contains(&(client, round)), "kept and then refused");
                    self.send(client, SessionEvent::Refused { round });
                }
                Action::Aggregate { round, uploads } => self.order(round, uploads),
                Action::Wake { at } => drop(self.wakes.insert(at)),
                Action::Abandon { .. } => {
                    assert!(self.failing > 0.0, "nobody has failed");
                    self.abandoned = true;
                }
                Action::Finish => {}
                Action::Dismiss { client } => self.send(client, SessionEvent::Finished),
            }
        }
    }

    fn order(&mut self, round: u64, uploads: Vec<(usize, u64)>) {
        assert_eq!(round, self.done.len() as u64 + 1, "rounds come one after the other");
        assert!(!uploads.is_empty() && uploads.is_sorted(), "{uploads:?}");
        let protocol = self.server.protocol();
        let strict =
            protocol.late == Late::Drop && !matches!(protocol.schedule, Schedule::Buffered { .. });
        for upload in &uploads {
            assert!(self.accepted.contains(upload), "aggregated and never accepted");
            assert!(self.done.values().all(|before| !before.contains(upload)), "aggregated twice");
            assert!(upload.1 <= round && (!strict || upload.1 == round), "of another round");
        }
        if let Some((_, before)) = self.interrupted.take() {
            assert_eq!(before, uploads, "ordered again after a restart, and otherwise");
        }
        self.pending = Some((round, uploads));
    }

    fn send(&mut self, client: usize, event: SessionEvent) {
        if self.clients[client].connected {
            self.packets.push(Packet::ToClient(client, event));
        }
    }

    fn tell_client(&mut self, client: usize, event: SessionEvent) {
        let actions = self.clients[client].session.handle(event);
        self.act(client, actions);
    }

    /// What a client's driver does.
    fn act(&mut self, client: usize, actions: Vec<SessionAction>) {
        for action in actions {
            let own = &mut self.clients[client];
            match action {
                SessionAction::TrainShared { round } => {
                    assert_eq!(own.job, None, "one thing at a time");
                    own.job = Some(Job::Shared(round));
                }
                SessionAction::TrainPersonal { round, until } => {
                    assert_eq!(own.job, None, "one thing at a time");
                    (own.job, own.stop) = (Some(Job::Personal(round, until)), false);
                }
                SessionAction::StopPersonal => {
                    assert!(matches!(own.job, Some(Job::Personal(_, Until::Broadcast))));
                    own.stop = true;
                }
                SessionAction::Upload { round } => {
                    assert!(own.connected && own.shared.contains(&round));
                    self.packets.push(Packet::ToServer(client, Event::Uploaded { client, round }));
                }
                SessionAction::ReportFailure { round } => {
                    assert!(own.connected);
                    self.packets.push(Packet::ToServer(client, Event::Failed { client, round }));
                }
                SessionAction::End => assert_eq!(own.job, None),
            }
        }
    }

    /// Ends a client's job, if it can end.
    fn finish_job(&mut self, client: usize) -> bool {
        let fails = self.chance(self.failing);
        let own = &mut self.clients[client];
        let event = match own.job {
            Some(Job::Shared(round)) if fails => SessionEvent::SharedFailed { round },
            Some(Job::Shared(round)) => {
                assert!(own.shared.last() < Some(&round), "a round trained twice");
                own.shared.push(round);
                SessionEvent::SharedDone { round }
            }
            Some(Job::Personal(_, Until::Broadcast)) if !own.stop => return false,
            Some(Job::Personal(round, _)) => {
                assert!(own.personal.last() < Some(&round), "a round trained twice");
                own.personal.push(round);
                SessionEvent::PersonalDone { round }
            }
            None => return false,
        };
        own.job = None;
        self.tell_client(client, event);
        true
    }

    fn connect(&mut self, client: usize) -> bool {
        let own = &mut self.clients[client];
        if own.connected || own.dead {
            return false;
        }
        own.connected = true;
        self.tell_server(Event::Joined { client });
        self.tell_client(client, SessionEvent::Connected);
        true
    }

    fn disconnect(&mut self, client: usize) {
        if !self.clients[client].connected {
            return;
        }
        self.clients[client].connected = false;
        // What was on the way is lost.
        self.packets.retain(|packet| match packet {
            Packet::ToServer(from, _) => *from != client,
            Packet::ToClient(to, _) => *to != client,
        });
        self.tell_server(Event::Left { client });
        self.tell_client(client, SessionEvent::Disconnected);
    }

    fn crash_client(&mut self, client: usize) {
        self.disconnect(client);
        let own = &mut self.clients[client];
        let bytes = postcard::to_stdvec(&own.session).unwrap();
        own.session = postcard::from_bytes(&bytes).unwrap();
        let stopping = match own.job.take() {
            Some(Job::Personal(round, _)) if own.stop => Some(round),
            _ => None,
        };
        own.stop = false;
        if !own.dead {
            let actions = own.session.restart();
            // A phase that was stopping counts as done with what was kept of it.
            own.personal.extend(stopping);
            self.act(client, actions);
        }
    }

    fn crash_server(&mut self) {
        let bytes = postcard::to_stdvec(&self.server).unwrap();
        self.server = postcard::from_bytes(&bytes).unwrap();
        self.packets.clear();
        self.wakes.clear();
        self.interrupted = self.pending.take();
        for client in 0..self.clients.len() {
            if self.clients[client].connected {
                self.clients[client].connected = false;
                self.tell_client(client, SessionEvent::Disconnected);
            }
        }
        let actions = self.server.start(self.now);
        self.serve(actions);
        assert_eq!(self.interrupted, None, "an aggregation that was ordered is ordered again");
    }

    /// What a client has sent is taken out, unless it is being aggregated.
    fn withdraw(&mut self, client: usize) {
        let is_under_way =
            |(_, uploads): &(u64, Vec<(usize, u64)>)| uploads.iter().any(|(who, _)| *who == client);
        if self.failing == 0.0 || self.pending.as_ref().is_some_and(is_under_way) {
            return;
        }
        let kept: Vec<_> = self.server.kept().filter(|(who, _)| *who == client).collect();
        self.tell_server(Event::Withdrawn { client });
        self.accepted.retain(|answer| !kept.contains(answer));
        let pending = self.pending.iter().flat_map(|(_, uploads)| uploads);
        assert!(self.server.kept().chain(pending.copied()).all(|(who, _)| who != client));
    }

    fn deliver(&mut self, twice: f64) -> bool {
        if self.packets.is_empty() {
            return false;
        }
        let place = self.rng.below(self.packets.len());
        let packet =
            if self.chance(twice) { self.packets[place] } else { self.packets.swap_remove(place) };
        match packet {
            Packet::ToServer(_, event) => self.tell_server(event),
            Packet::ToClient(client, event) => self.tell_client(client, event),
        }
        true
    }

    fn aggregate(&mut self) -> bool {
        let Some((round, uploads)) = self.pending.take() else { return false };
        self.done.insert(round, uploads);
        self.tell_server(Event::Aggregated { round });
        true
    }

    /// Lets time pass to the next wake.
    fn pass(&mut self) -> bool {
        let Some(at) = self.wakes.pop_first() else { return false };
        self.now = self.now.max(at);
        self.tell_server(Event::Tick);
        true
    }

    /// One step of whatever can happen; `accidents` says how often something goes wrong.
    fn step(&mut self, accidents: f64) -> bool {
        let client = self.rng.below(self.clients.len());
        if self.chance(accidents) {
            match self.rng.below(9) {
                0 => self.crash_server(),
                8 => self.withdraw(client),
                1..=3 => self.crash_client(client),
                _ => self.disconnect(client),
            }
            return true;
        }
        let twice = if accidents > 0.0 { 0.1 } else { 0.0 };
        match self.rng.below(10) {
            0 | 1 => self.connect(client),
            2..=4 => self.finish_job(client),
            5..=7 => self.deliver(twice),
            8 => self.aggregate(),
            _ => self.chance(0.1) && self.pass(),
        }
    }
}

/// Rules drawn at random, of all kinds.
fn protocol(rng: &mut Rng) -> Protocol {
    let clients = 1 + rng.below(6);
    let mut protocol = Protocol {
        schedule: match rng.below(3) {
            0 => Schedule::ComputeAndWait,
            1 => Schedule::WaitFree,
            _ => Schedule::Buffered { size: 1 },
        },
        personal: Personal {
            exists: rng.below(3) > 0,
            until: if rng.below(2) == 0 { Until::Epochs } else { Until::Broadcast },
            everyone: rng.below(3) == 0,
        },
        participation: [0.3, 0.6, 1.0][rng.below(3)],
        quorum: [0.5, 0.8, 1.0][rng.below(3)],
        min_success: [0.0, 0.5, 0.9][rng.below(3)],
        deadline: (rng.below(2) == 0).then(|| Duration::from_secs(10)),
        late: if rng.below(2) == 0 { Late::Drop } else { Late::Weigh { exponent: 0.5 } },
        seed: rng.next_u64(),
        ..Protocol::synchronous(clients, 1 + rng.below(6) as u64)
    };
    if let Schedule::Buffered { size } = &mut protocol.schedule {
        let most = (clients as f64 * protocol.participation).round().max(1.0) as usize;
        *size = 1 + rng.below(most);
        protocol.personal.everyone = false;
        protocol.quorum = 1.0;
    }
    if protocol.is_synchronous() && protocol.seed.is_multiple_of(4) {
        protocol.draw = Draw::Tosses;
    }
    if protocol.fault().is_some() {
        protocol.personal.until = Until::Epochs;
    }
    assert_eq!(protocol.fault(), None);
    protocol
}

/// A run of which some time is bad; afterwards it must come to its end, if that is possible.
fn survive(seed: u64) {
    let mut rng = Rng::new(seed, Stream::Test, 0, 0);
    let protocol = protocol(&mut rng);
    let failing = if rng.below(4) == 0 { 0.2 } else { 0.0 };
    let mut world = World::new(&protocol, rng, failing);
    for _ in 0..200 {
        world.step(0.1);
    }
    // Somebody may never come back; the run goes on where the rules let it.
    if protocol.deadline.is_some() && protocol.clients > 1 {
        let client = world.rng.below(protocol.clients);
        world.clients[client].dead = true;
        world.crash_client(client);
    }
    let mut idle = 0;
    for _ in 0..100_000 {
        if world.server.is_over() {
            break;
        }
        idle = if world.step(0.0) { 0 } else { idle + 1 };
        if idle > 200 {
            idle = 0;
            world.pass();
        }
    }
    assert!(world.server.is_over(), "seed {seed}: no progress\n{protocol:?}\n{:?}", world.server);
    let rounds: Vec<u64> = world.done.keys().copied().collect();
    if !world.abandoned {
        assert_eq!(rounds, (1..=protocol.rounds).collect::<Vec<_>>(), "seed {seed}");
    }
    // Every accepted upload was aggregated once, or came after the last aggregation.
    let aggregated: BTreeSet<_> = world.done.values().flatten().copied().collect();
    let kept: BTreeSet<_> = world.server.kept().collect();
    assert!(aggregated.is_disjoint(&kept), "seed {seed}");
    let both: BTreeSet<_> = aggregated.union(&kept).copied().collect();
    assert_eq!(both, world.accepted, "seed {seed}");
    no_state_is_lost(&world, &protocol, seed);
}

/// With fixed epochs, whoever begins a round has finished both phases of the one before.
fn no_state_is_lost(world: &World, protocol: &Protocol, seed: u64) {
    for client in &world.clients {
        assert!(client.shared.is_sorted() && client.personal.is_sorted());
        if protocol.personal.exists && !protocol.personal.everyone {
            let behind = client.shared.len() - client.personal.len();
            assert!(behind <= 1, "seed {seed}: {:?} and {:?}", client.shared, client.personal);
            assert_eq!(client.shared[..client.personal.len()], client.personal, "seed {seed}");
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_counts_twice_whatever_happens() {
    for seed in 0..5_000 {
        survive(seed);
    }
}

/// Without accidents every client trains every round, and both schedules do the same work.
#[test]
fn both_synchronous_schedules_do_the_same_work() {
    for seed in 0..200 {
        let trained = [Schedule::ComputeAndWait, Schedule::WaitFree].map(|schedule| {
            let protocol = Protocol { schedule, ..Protocol::synchronous(4, 5) };
            let mut world = World::new(&protocol, Rng::new(seed, Stream::Test, 1, 0), 0.0);
            while !world.server.is_over() || world.clients.iter().any(|c| c.job.is_some()) {
                world.step(0.0);
            }
            world.clients.iter().map(|c| (c.shared.clone(), c.personal.clone())).collect::<Vec<_>>()
        });
        assert_eq!(trained[0], trained[1]);
        assert!(trained[0].iter().all(|(shared, _)| *shared == [1, 2, 3, 4, 5]));
    }
}
