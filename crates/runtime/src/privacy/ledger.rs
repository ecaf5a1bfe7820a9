//! How often something of one client has been given away with noise, and what that has cost.

use super::Privacy;
use crate::event::{Place, Spent};
use formant_federation::{Draw, Protocol};
use formant_privacy::Accountant;

/// How far adjacent federations may lie apart in what noise is added to, in clips: at a server a client's
/// change is there or not, at a client it is one or another.
pub(super) fn sensitivity(place: Place) -> f64 {
    match place {
        Place::Server => 1.0,
        Place::Client => 2.0,
    }
}

/// With which probability a client takes part in a round, as far as nobody knows: who is drawn by number
/// follows from the seed, which is no secret.
pub(super) fn rate(rules: &Protocol) -> f64 {
    match rules.draw {
        Draw::Tosses => rules.participation,
        Draw::Number => 1.0,
    }
}

/// Releases that one client may be in, over all rounds.
pub(super) fn releases(place: Place, rules: &Protocol) -> u64 {
    let mut count = Count::new(place, rules);
    count.reach(rules, rules.rounds);
    count.most
}

/// How many releases of a federation one client may have been in.
#[derive(Debug, Clone)]
struct Count {
    /// The last round that is counted.
    round: u64,
    /// Of whoever was in most.
    most: u64,
    /// Of each client, where they differ and everybody may know how.
    each: Vec<u64>,
}

impl Count {
    fn new(place: Place, rules: &Protocol) -> Self {
        // A server leaves out whoever is asked in another's place; a client that is asked has sent.
        let differs = place == Place::Server
            && rules.draw == Draw::Number
            && rules.participants_a_round() < rules.clients;
        Self { round: 0, most: 0, each: if differs { vec![0; rules.clients] } else { Vec::new() } }
    }

    fn reach(&mut self, rules: &Protocol, round: u64) {
        if self.each.is_empty() {
            // Everybody may have been in every round.
            (self.round, self.most) = (round, round);
            return;
        }
        for next in self.round + 1..=round {
            for client in rules.drawn(next) {
                self.each[client] += 1;
                self.most = self.most.max(self.each[client]);
            }
        }
        self.round = self.round.max(round);
    }
}

/// What the rounds of a method have cost.
#[derive(Debug, Clone)]
pub struct Ledger {
    privacy: Privacy,
    rules: Protocol,
    accountant: Accountant,
    count: Count,
}

impl Ledger {
    /// Before the first round.
    pub fn new(privacy: Privacy, rules: Protocol) -> Self {
        let multiplier = privacy.noise_multiplier / sensitivity(privacy.place);
        let accountant = Accountant::new(multiplier, rate(&rules));
        Self { accountant, count: Count::new(privacy.place, &rules), privacy, rules }
    }

    /// What all rounds up to one have cost; they are asked for in order.
    pub fn spent(&mut self, round: u64) -> Spent {
        self.count.reach(&self.rules, round);
        self.of(self.count.most)
    }

    /// What so many releases have cost whoever was in them: a client that adds its noise itself knows how many
    /// there were, and need not take itself for whoever was in most.
    pub fn of(&self, releases: u64) -> Spent {
        let Privacy { place, clip, noise_multiplier, delta, noise } = self.privacy;
        let epsilon = self.accountant.epsilon(releases, delta);
        Spent { epsilon, delta, place, clip, noise_multiplier, noise }
    }
}
