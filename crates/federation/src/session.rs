//! A client's half: what it computes and what it sends, and in which order.

use crate::{Protocol, Role, Schedule, Until};
use serde::{Deserialize, Serialize};

/// What happens to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEvent {
    /// A whole broadcast has come and is kept.
    Broadcast {
        /// The round that it opens.
        round: u64,
        /// What for.
        role: Role,
    },
    /// The shared phase is done; the upload and the state that goes with it are kept.
    SharedDone {
        /// The round.
        round: u64,
    },
    /// The shared phase diverged; the state is as it was before.
    SharedFailed {
        /// The round.
        round: u64,
    },
    /// The personal phase is done, stopped or diverged; the state that goes with it is kept.
    PersonalDone {
        /// The round.
        round: u64,
    },
    /// The server keeps the upload.
    Acknowledged {
        /// The round that it answers.
        round: u64,
    },
    /// The server does not want the upload.
    Refused {
        /// The round that it answers.
        round: u64,
    },
    /// There is a connection, for the first time or again.
    Connected,
    /// The connection is lost.
    Disconnected,
    /// The run is over.
    Finished,
}

/// What a client's driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAction {
    /// Train the shared phase.
    TrainShared {
        /// The round whose broadcast it starts from.
        round: u64,
    },
    /// Train the personal phase, beside the broadcast of this round and the latest upload.
    TrainPersonal {
        /// The round.
        round: u64,
        /// For how long.
        until: Until,
    },
    /// Stop the personal phase at the end of its batch and report [`SessionEvent::PersonalDone`].
    StopPersonal,
    /// Send the upload. While there is no connection, nothing is to be sent.
    Upload {
        /// The round that it answers.
        round: u64,
    },
    /// Tell the server that there will be no upload.
    ReportFailure {
        /// For which round.
        round: u64,
    },
    /// Nothing remains to be done.
    End,
}

/// One client. It is its own checkpoint: a driver keeps it, together with the client's state, before
/// it acts; what was under way and not kept is done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Session {
    schedule: Schedule,
    personal: crate::Personal,
    work: Work,
    /// The newest broadcast that waits until the work at hand is done.
    next: Option<(u64, Role)>,
    /// The newest round that has been begun, and as what.
    seen: (u64, Role),
    /// The newest round whose personal phase has been begun.
    personal_round: u64,
    /// What the server has yet to confirm, oldest first.
    outbox: Vec<Letter>,
    /// Whether an upload was ever made: a bystander's personal phase needs one.
    has_sent: bool,
    connected: bool,
    finished: bool,
    /// The work at hand is of a round that the run has gone back behind: nothing of it is sent.
    #[serde(default)]
    void: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Work {
    Nothing,
    Shared {
        round: u64,
    },
    Personal {
        round: u64,
    },
    /// Told to stop.
    Stopping {
        round: u64,
    },
}

/// An answer on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Letter {
    round: u64,
    failed: bool,
    /// Compute-and-wait: not before the personal phase is done.
    held: bool,
}

impl Session {
    /// A client before its first round.
    pub fn new(protocol: &Protocol) -> Self {
        Self {
            schedule: protocol.schedule,
            personal: protocol.personal,
            work: Work::Nothing,
            next: None,
            seen: (0, Role::Participant),
            personal_round: 0,
            outbox: Vec::new(),
            has_sent: false,
            connected: false,
            finished: false,
            void: false,
        }
    }

    /// The run has gone back to what it was after `round`: what follows that is to be done again, and
    /// nothing that answers it counts. `has_sent` says whether an upload is left beside which a bystander's
    /// personal phase can train. Work at hand comes to its end, and leads to nothing.
    pub fn go_back(&mut self, round: u64, has_sent: bool) -> Vec<SessionAction> {
        let mut actions = Vec::new();
        self.stop_if_endless(&mut actions);
        self.next = None;
        self.seen = (round, Role::Participant);
        self.personal_round = self.personal_round.min(round);
        self.outbox.clear();
        self.has_sent &= has_sent;
        self.finished = false;
        self.void = self.work != Work::Nothing;
        actions
    }

    /// Whether the work at hand leads to nothing.
    pub fn is_void(&self) -> bool {
        self.void
    }

    /// Work that leads to nothing is over.
    fn end_void(&mut self, actions: &mut Vec<SessionAction>) {
        (self.work, self.void) = (Work::Nothing, false);
        self.take_next(actions);
    }

    /// Goes on after a restart: work that was under way is begun again from what was kept.
    pub fn restart(&mut self) -> Vec<SessionAction> {
        self.connected = false;
        if self.void {
            let mut actions = Vec::new();
            self.end_void(&mut actions);
            return actions;
        }
        match self.work {
            Work::Nothing if self.finished => vec![SessionAction::End],
            Work::Nothing => Vec::new(),
            Work::Shared { round } => vec![SessionAction::TrainShared { round }],
            // A phase that was to stop has stopped, with what was kept of it.
            Work::Stopping { round } => self.handle(SessionEvent::PersonalDone { round }),
            Work::Personal { round } => {
                vec![SessionAction::TrainPersonal { round, until: self.personal.until }]
            }
        }
    }

    /// Whether everything is done and confirmed.
    pub fn is_over(&self) -> bool {
        self.finished && self.work == Work::Nothing
    }

    /// Whether a personal phase of fixed epochs follows the shared phase at hand, if that succeeds.
    pub fn personal_follows(&self) -> bool {
        let fixed = self.personal.exists && self.personal.until == Until::Epochs;
        matches!(self.work, Work::Shared { round } if fixed && self.personal_round < round)
    }

    /// The round whose broadcast waits until the work at hand is done.
    pub fn waiting(&self) -> Option<u64> {
        self.next.map(|(round, _)| round)
    }

    /// Rounds whose uploads the server has yet to confirm, oldest first.
    pub fn unconfirmed(&self) -> impl Iterator<Item = u64> {
        self.outbox.iter().filter(|letter| !letter.failed).map(|letter| letter.round)
    }

    /// Takes in an event and says what follows from it.
    pub fn handle(&mut self, event: SessionEvent) -> Vec<SessionAction> {
        let mut actions = Vec::new();
        match event {
            SessionEvent::Broadcast { round, role } => self.broadcast(round, role, &mut actions),
            SessionEvent::SharedDone { .. }
            | SessionEvent::SharedFailed { .. }
            | SessionEvent::PersonalDone { .. }
                if self.void =>
            {
                self.end_void(&mut actions);
            }
            SessionEvent::SharedDone { round } if self.work == (Work::Shared { round }) => {
                self.shared_done(round, &mut actions);
            }
            SessionEvent::SharedFailed { round } if self.work == (Work::Shared { round }) => {
                self.work = Work::Nothing;
                self.post(Letter { round, failed: true, held: false }, &mut actions);
                self.take_next(&mut actions);
            }
            SessionEvent::PersonalDone { round } => self.personal_done(round, &mut actions),
            SessionEvent::Acknowledged { round } | SessionEvent::Refused { round } => {
                self.outbox.retain(|letter| letter.round != round);
                self.end_if_over(&mut actions);
            }
            SessionEvent::Connected => {
                self.connected = true;
                let letters = self.outbox.iter().filter(|letter| !letter.held);
                actions.extend(letters.map(Letter::action));
            }
            SessionEvent::Disconnected => self.connected = false,
            SessionEvent::Finished => {
                self.finished = true;
                self.next = None;
                // Nobody waits for an answer any more.
                self.outbox.clear();
                self.stop_if_endless(&mut actions);
                self.end_if_over(&mut actions);
            }
            // A phase that nobody is in: an event from before a restart.
            SessionEvent::SharedDone { .. } | SessionEvent::SharedFailed { .. } => {}
        }
        actions
    }

    fn broadcast(&mut self, round: u64, role: Role, actions: &mut Vec<SessionAction>) {
        // The same broadcast again, because a connection was lost, or one from the past. But a
        // bystander may be asked after all, in place of somebody who is gone.
        let (newest, as_what) = self.next.unwrap_or(self.seen);
        let promoted = (role, as_what) == (Role::Participant, Role::Bystander);
        if self.finished || round < newest || round == newest && !promoted {
            return;
        }
        self.next = Some((round, role));
        if self.work == Work::Nothing {
            self.take_next(actions);
        } else {
            self.stop_if_endless(actions);
        }
    }

    /// A personal phase that lasts until the next broadcast ends with it.
    fn stop_if_endless(&mut self, actions: &mut Vec<SessionAction>) {
        if let Work::Personal { round } = self.work
            && self.personal.until == Until::Broadcast
        {
            self.work = Work::Stopping { round };
            actions.push(SessionAction::StopPersonal);
        }
    }

    /// Begins with the newest broadcast, if there is one.
    fn take_next(&mut self, actions: &mut Vec<SessionAction>) {
        let Some((round, role)) = self.next.take() else {
            self.end_if_over(actions);
            return;
        };
        self.seen = (round, role);
        match role {
            Role::Participant => {
                self.work = Work::Shared { round };
                actions.push(SessionAction::TrainShared { round });
            }
            Role::Bystander if self.personal.exists && self.has_sent => {
                self.begin_personal(round, actions);
            }
            Role::Bystander => {}
        }
    }

    fn shared_done(&mut self, round: u64, actions: &mut Vec<SessionAction>) {
        self.has_sent = true;
        // A bystander that was asked after all has had its personal phase already.
        let personal = self.personal.exists && self.personal_round < round;
        let waits = self.schedule == Schedule::ComputeAndWait && personal;
        self.post(Letter { round, failed: false, held: waits }, actions);
        if personal {
            self.begin_personal(round, actions);
        } else {
            self.work = Work::Nothing;
            self.take_next(actions);
        }
    }

    fn begin_personal(&mut self, round: u64, actions: &mut Vec<SessionAction>) {
        let until = self.personal.until;
        (self.work, self.personal_round) = (Work::Personal { round }, round);
        actions.push(SessionAction::TrainPersonal { round, until });
        if self.next.is_some() || self.finished {
            // What it should last until is here already: it ends after one batch.
            self.stop_if_endless(actions);
        }
    }

    fn personal_done(&mut self, round: u64, actions: &mut Vec<SessionAction>) {
        match self.work {
            Work::Personal { round: at } | Work::Stopping { round: at } if at == round => {}
            _ => return,
        }
        self.work = Work::Nothing;
        for letter in self.outbox.iter_mut().filter(|letter| letter.held && letter.round == round) {
            letter.held = false;
            if self.connected {
                actions.push(letter.action());
            }
        }
        self.take_next(actions);
    }

    /// Keeps an answer until it is confirmed, and sends it if it may go and there is a connection.
    fn post(&mut self, letter: Letter, actions: &mut Vec<SessionAction>) {
        if self.finished {
            return;
        }
        self.outbox.push(letter);
        if self.connected && !letter.held {
            actions.push(letter.action());
        }
    }

    fn end_if_over(&mut self, actions: &mut Vec<SessionAction>) {
        if self.is_over() {
            actions.push(SessionAction::End);
        }
    }
}

impl Letter {
    fn action(&self) -> SessionAction {
        let round = self.round;
        if self.failed {
            SessionAction::ReportFailure { round }
        } else {
            SessionAction::Upload { round }
        }
    }
}
