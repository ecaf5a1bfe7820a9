//! The rules that server and clients agree on.

use core::time::Duration;
use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};

/// Everything that decides how a run proceeds, apart from what is computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// All clients of the federation.
    pub clients: usize,
    /// Aggregations until the run is over.
    pub rounds: u64,
    /// When clients compute and when they transmit.
    pub schedule: Schedule,
    /// The personal phase.
    pub personal: Personal,
    /// Share of the clients that are asked in each round; with [`Schedule::Buffered`], that are at
    /// work at any time.
    pub participation: f64,
    /// Share of the asked clients whose uploads close a round.
    pub quorum: f64,
    /// Share of the asked clients that must succeed: with more failures than that a round does not close,
    /// and the run ends. Otherwise whoever makes the others fail would be a quorum of one.
    #[serde(default = "min_success")]
    pub min_success: f64,
    /// After which a round closes with what is there.
    pub deadline: Option<Duration>,
    /// What happens to uploads for a round that has closed.
    pub late: Late,
    /// Of the draw of participants.
    pub seed: u64,
    /// How participants are drawn.
    #[serde(default)]
    pub draw: Draw,
}

/// How the participants of a round are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Draw {
    /// As many as the participation says, without replacement.
    #[default]
    Number,
    /// Everybody by a toss of its own, with the participation as its probability: how many these are is
    /// left to chance.
    Tosses,
}

/// What [`Protocol::min_success`] is unless somebody says otherwise.
pub const MIN_SUCCESS: f64 = 0.5;

const fn min_success() -> f64 {
    MIN_SUCCESS
}

/// When clients compute and when they transmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schedule {
    /// Both phases, then the upload; then the client waits.
    ComputeAndWait,
    /// The upload as soon as the shared phase is done; the personal phase while it, the aggregation
    /// and the next broadcast are under way.
    WaitFree,
    /// Wait-free, and nobody waits for a round: the server aggregates whenever it has so many uploads
    /// (FedBuff; Nguyen et al., AISTATS 2022) and asks the next client at once.
    Buffered {
        /// Uploads in an aggregation.
        size: usize,
    },
}

/// The personal phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Personal {
    /// Whether the method has one.
    pub exists: bool,
    /// How long it lasts.
    pub until: Until,
    /// Whether clients that are not asked in a round have one too.
    pub everyone: bool,
}

/// How long a personal phase lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// A fixed number of epochs.
    Epochs,
    /// Until the next broadcast comes; it stops at the end of a batch and keeps what was learnt.
    Broadcast,
}

/// What happens to uploads for a round that has closed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Late {
    /// They are refused.
    Drop,
    /// Their change goes into the next aggregation, `s` rounds late, with `(1 + s)^−exponent` of its
    /// weight.
    Weigh {
        /// How fast weight goes with staleness.
        exponent: f64,
    },
}

/// Why a client gets a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// It is asked for an upload.
    Participant,
    /// Only for its personal phase.
    Bystander,
}

impl Protocol {
    /// Everybody in every round, nobody left behind: the protocol under which all schedules but the
    /// buffered one compute the same models.
    pub fn synchronous(clients: usize, rounds: u64) -> Self {
        Self {
            clients,
            rounds,
            schedule: Schedule::WaitFree,
            personal: Personal { exists: true, until: Until::Epochs, everyone: false },
            participation: 1.0,
            quorum: 1.0,
            min_success: MIN_SUCCESS,
            deadline: None,
            late: Late::Drop,
            seed: 0,
            draw: Draw::Number,
        }
    }

    /// Whether every upload that counts answers the newest broadcast.
    pub fn is_synchronous(&self) -> bool {
        self.late == Late::Drop && !matches!(self.schedule, Schedule::Buffered { .. })
    }

    /// Whether a round waits for everybody who was asked and has not failed.
    pub fn waits_for_all(&self) -> bool {
        self.is_synchronous() && self.quorum >= 1.0 && self.deadline.is_none()
    }

    /// How many clients are asked in a round.
    pub fn participants_a_round(&self) -> usize {
        self.participants_of(self.clients)
    }

    /// The same, if so many are left to be asked.
    pub(crate) fn participants_of(&self, clients: usize) -> usize {
        let count = (clients as f64 * self.participation).round() as usize;
        count.clamp(1, clients.max(1))
    }

    /// How many clients are drawn in a round, on average.
    pub fn expected_participants(&self) -> f64 {
        match self.draw {
            Draw::Number => self.participants_a_round() as f64,
            Draw::Tosses => self.clients as f64 * self.participation,
        }
    }

    /// Who is asked in a round, ascending: a draw of its own for each round. Where tosses have chosen
    /// nobody it is one client all the same, which nobody has [drawn](Self::drawn): a round needs an answer
    /// to close.
    pub fn participants(&self, round: u64) -> Vec<usize> {
        self.participants_among(round, &(0..self.clients).collect::<Vec<_>>())
    }

    /// The same, of these clients.
    pub(crate) fn participants_among(&self, round: u64, among: &[usize]) -> Vec<usize> {
        let drawn = self.drawn_among(round, among.to_vec());
        if !drawn.is_empty() || among.is_empty() {
            return drawn;
        }
        vec![among[self.draws(round).beside().below(among.len())]]
    }

    /// Who is drawn in a round, ascending. Others may be asked in their place when they have failed.
    pub fn drawn(&self, round: u64) -> Vec<usize> {
        self.drawn_among(round, (0..self.clients).collect())
    }

    fn drawn_among(&self, round: u64, mut chosen: Vec<usize>) -> Vec<usize> {
        let count = self.participants_of(chosen.len());
        match self.draw {
            Draw::Tosses => {
                let mut rng = self.draws(round);
                chosen.retain(|_| rng.uniform() < self.participation);
            }
            Draw::Number if count < chosen.len() => {
                self.draws(round).shuffle(&mut chosen);
                chosen.truncate(count);
                chosen.sort_unstable();
            }
            Draw::Number => {}
        }
        chosen
    }

    fn draws(&self, round: u64) -> Rng {
        Rng::new(self.seed, Stream::Participation, round, 0)
    }

    /// Uploads that close a round of so many asked clients, none of whom has failed.
    pub fn needed(&self, asked: usize) -> usize {
        share(self.quorum, asked)
    }

    /// Clients that must succeed for a round of so many asked clients to close at all.
    pub fn least(&self, asked: usize) -> usize {
        share(self.min_success, asked)
    }

    /// What a stale upload counts: the share of its change, and the share of its weight. FedBuff
    /// divides by all uploads, so a stale change is damped; in a round with fresh uploads, a late one
    /// has less to say, and does not hold the others back.
    pub fn shares(&self, staleness: u64) -> (f64, f64) {
        let weight = self.weight(staleness);
        match self.schedule {
            Schedule::Buffered { .. } => (weight, 1.0),
            _ => (1.0, weight),
        }
    }

    /// What is left of an upload's weight after so many rounds.
    pub fn weight(&self, staleness: u64) -> f64 {
        match self.late {
            Late::Weigh { exponent } if staleness > 0 => {
                // Through logarithms of a software library: the same bits on every machine.
                libm::pow(1.0 + staleness as f64, -exponent)
            }
            _ => 1.0,
        }
    }

    /// Why these rules cannot work, in words, with the remedy; `None` if they can.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let waits = self.schedule == Schedule::ComputeAndWait;
        if waits && self.personal.until == Until::Broadcast && self.personal.exists {
            return Some((
                "compute-and-wait uploads after the personal phase, which would wait for the broadcast that waits for the upload",
                "train the personal phase for fixed epochs, or use the schedule wait-free",
            ));
        }
        if let Schedule::Buffered { size } = self.schedule {
            if size == 0 || size > self.participants_a_round() {
                return Some((
                    "the buffer is never full: it must hold at least one upload and no more than clients are at work",
                    "choose a smaller buffer or a larger participation",
                ));
            }
            if self.quorum < 1.0 {
                return Some((
                    "with the buffered schedule there are no rounds of which a quorum could be there",
                    "leave out the quorum, and choose the size of the buffer",
                ));
            }
            if self.personal.everyone && self.personal.exists {
                return Some((
                    "with the buffered schedule there are no rounds that a client could skip",
                    "leave personal at participants",
                ));
            }
        }
        None
    }
}

/// A share of some clients, rounded up, and at least one.
fn share(share: f64, asked: usize) -> usize {
    // A share of 0.8 of ten is eight, whatever 0.8 is in binary.
    ((share * asked as f64 - 1e-9).ceil() as usize).clamp(1, asked.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_a_share_rounded_up_and_at_least_one() {
        let with = |quorum| Protocol { quorum, ..Protocol::synchronous(10, 1) };
        let counts = [0.0, 0.1, 0.11, 0.8, 0.81, 1.0].map(|quorum| with(quorum).needed(10));
        assert_eq!(counts, [1, 1, 2, 8, 9, 10]);
        assert_eq!((with(1.0).needed(1), with(0.5).needed(0)), (1, 1));
    }

    #[test]
    fn participants_are_drawn_anew_each_round_and_stand_in_order() {
        let mut protocol = Protocol::synchronous(10, 5);
        assert_eq!(protocol.participants(1), (0..10).collect::<Vec<_>>());
        protocol.participation = 0.3;
        let draws: Vec<_> = (1..=5).map(|round| protocol.participants(round)).collect();
        assert!(draws.iter().all(|draw| draw.len() == 3 && draw.is_sorted()));
        assert!(draws.iter().any(|draw| *draw != draws[0]));
        assert_eq!(protocol.participants(3), draws[2]);
    }

    #[test]
    fn tosses_draw_everybody_as_often_as_the_participation_says_and_leave_no_round_without_an_answer()
     {
        let draw = Draw::Tosses;
        let protocol = Protocol { draw, participation: 0.2, ..Protocol::synchronous(5, 4_000) };
        assert_eq!(protocol.expected_participants(), 1.0);
        let rounds = 1..=protocol.rounds;
        let drawn: Vec<_> = rounds.clone().map(|round| protocol.drawn(round)).collect();
        for client in 0..5 {
            let times = drawn.iter().filter(|drawn| drawn.contains(&client)).count();
            // A binomial draw: 800 on average, with a standard deviation of 25.3; five of them.
            assert!((673..927).contains(&times), "client {client} was drawn {times} times");
        }
        // Nobody in a third of the rounds, 0.8^5: somebody is asked, and counts for nothing.
        let empty = drawn.iter().filter(|drawn| drawn.is_empty()).count();
        assert!((1_160..1_460).contains(&empty), "{empty}");
        for (round, drawn) in rounds.zip(drawn) {
            let asked = protocol.participants(round);
            assert!(asked == drawn && asked.is_sorted() || drawn.is_empty() && asked.len() == 1);
        }
        let all = Protocol { participation: 1.0, ..protocol };
        assert_eq!(all.participants(7), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn weight_goes_with_staleness() {
        let mut protocol = Protocol::synchronous(2, 1);
        assert_eq!(protocol.weight(3), 1.0);
        protocol.late = Late::Weigh { exponent: 0.5 };
        assert_eq!((protocol.weight(0), protocol.weight(3)), (1.0, 0.5));
        // Late in a round it has less to say; in a buffer, all of it counts less.
        assert_eq!(protocol.shares(3), (1.0, 0.5));
        protocol.schedule = Schedule::Buffered { size: 1 };
        assert_eq!(protocol.shares(3), (0.5, 1.0));
    }

    #[test]
    fn rules_that_wait_for_each_other_are_found() {
        let mut protocol = Protocol::synchronous(4, 1);
        assert_eq!(protocol.fault(), None);
        protocol.personal.until = Until::Broadcast;
        assert_eq!(protocol.fault(), None);
        protocol.schedule = Schedule::ComputeAndWait;
        assert!(protocol.fault().is_some());
        protocol.personal.exists = false;
        assert_eq!(protocol.fault(), None);
        protocol.schedule = Schedule::Buffered { size: 5 };
        assert!(protocol.fault().is_some());
        protocol.schedule = Schedule::Buffered { size: 4 };
        assert_eq!(protocol.fault(), None);
    }
}
