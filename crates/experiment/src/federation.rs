//! `[federation]`: how a round proceeds.

pub(crate) mod combining;

use crate::section::{Decision, Section, key, whole};
use crate::units::{MAYBE_TIME, Span};
use formant_federation::{Late, MIN_SUCCESS, Schedule, Until};
use formant_methods::choice;
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_runtime::Rule;
use serde::{Deserialize, Serialize};

pub(crate) const SECTION: Section = Section {
    complete: combining::complete,
    decisions: &[Decision { key: combining::KEY, owners: combining::owners }],
    ..Section::new(
        "federation",
        "How a round proceeds: who waits for whom and for how long, and how uploads become one.",
        KEYS,
    )
};

const KEYS: &[Key] = &[
    key(
        "schedule",
        Kind::Choice(ScheduleWord::WORDS),
        Preset::Text(ScheduleWord::WaitFree.word()),
        "wait-free: the personal phase runs while the upload and the next broadcast travel; compute-and-wait: both phases, then the upload; buffered: asynchronous (FedBuff), no rounds to wait for",
    ),
    key(
        "buffer",
        whole(1),
        Preset::Integer(BUFFER as i64),
        "K: uploads in one aggregation of the buffered schedule",
    ),
    key(
        "quorum",
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Number(1.0),
        "share of the asked clients whose uploads close a round; those who fail count as missing, but are not waited for",
    ),
    key(
        "min_success",
        Kind::Number { min: 0.0, max: 1.0 },
        Preset::Number(MIN_SUCCESS),
        "share of the asked clients that must not fail; with fewer the run stops rather than close a round with a few",
    ),
    key(
        "deadline",
        Kind::Form(&MAYBE_TIME),
        Preset::Unset,
        "after this long a round closes with what is there; unset: never",
    ),
    key(
        "late",
        Kind::Choice(LateWord::WORDS),
        Preset::Text(LateWord::Drop.word()),
        "uploads for a round that has closed: drop refuses them; weigh adds their change to the next round, (1 + rounds late)^-staleness_exponent of it",
    ),
    key(
        "staleness_exponent",
        Kind::Number { min: 0.0, max: 100.0 },
        Preset::Number(EXPONENT),
        "how fast a late or asynchronous upload loses weight; 0: not at all",
    ),
    key(
        "personal",
        Kind::Choice(Whose::WORDS),
        Preset::Text(Whose::Participants.word()),
        "whose personal models are trained in a round",
    ),
    key(
        "personal_until",
        Kind::Choice(UntilWord::WORDS),
        Preset::Text(UntilWord::Epochs.word()),
        "how long a personal phase lasts: train.personal_epochs, or until the next broadcast comes",
    ),
    combining::COMBINE,
    combining::CLIP,
    combining::TRIM,
    combining::ATTACKERS,
    combining::SELECTED,
    combining::STEPS,
    combining::MAX_SHARE,
];

/// What the keys of a schedule or a rule that is not chosen hold.
const BUFFER: usize = 10;
const EXPONENT: f64 = 0.5;

/// How a round proceeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// `|S_t|/N`: share of the clients that take part in a round. In a file it stands in `[train]`.
    pub participation: f64,
    /// When clients compute and when they transmit.
    pub schedule: Schedule,
    /// Share of the asked clients whose uploads close a round.
    pub quorum: f64,
    /// Share of the asked clients that must succeed.
    pub min_success: f64,
    /// After which a round closes with what is there.
    pub deadline: Option<Span>,
    /// What happens to uploads for a round that has closed. An asynchronous schedule always weighs:
    /// with [`Schedule::Buffered`], [`Late::Drop`] becomes [`Late::Weigh`] with the default exponent.
    pub late: Late,
    /// Whose personal models are trained in a round.
    pub personal: Whose,
    /// How long a personal phase lasts.
    pub personal_until: Until,
    /// How uploads become one.
    pub combine: Rule,
    /// The greatest share of a round's weight that one upload may have.
    pub max_share: f64,
}

choice! {
    /// Whose personal models are trained in a round.
    pub enum Whose {
        /// Of the clients that are asked for an upload.
        Participants = "participants",
        /// Of all clients.
        Everyone = "everyone",
    }
}

choice! {
    enum ScheduleWord {
        WaitFree = "wait-free",
        ComputeAndWait = "compute-and-wait",
        Buffered = "buffered",
    }
}

choice! {
    enum LateWord {
        Drop = "drop",
        Weigh = "weigh",
    }
}

choice! {
    enum UntilWord {
        Epochs = "epochs",
        Broadcast = "broadcast",
    }
}

/// The keys of the section.
#[derive(Serialize, Deserialize)]
pub(crate) struct Keys {
    schedule: ScheduleWord,
    buffer: usize,
    quorum: f64,
    min_success: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Span>,
    late: LateWord,
    staleness_exponent: f64,
    personal: Whose,
    personal_until: UntilWord,
    #[serde(flatten)]
    combining: combining::Keys,
}

impl Rules {
    pub(crate) fn of(keys: &Keys, participation: f64) -> Self {
        let schedule = match keys.schedule {
            ScheduleWord::WaitFree => Schedule::WaitFree,
            ScheduleWord::ComputeAndWait => Schedule::ComputeAndWait,
            ScheduleWord::Buffered => Schedule::Buffered { size: keys.buffer },
        };
        // A change to an older model is stale by nature, so it has a weight.
        let weigh = keys.late == LateWord::Weigh || keys.schedule == ScheduleWord::Buffered;
        let exponent = keys.staleness_exponent;
        Self {
            participation,
            schedule,
            quorum: keys.quorum,
            min_success: keys.min_success,
            deadline: keys.deadline,
            late: if weigh { Late::Weigh { exponent } } else { Late::Drop },
            personal: keys.personal,
            personal_until: match keys.personal_until {
                UntilWord::Epochs => Until::Epochs,
                UntilWord::Broadcast => Until::Broadcast,
            },
            combine: keys.combining.rule(),
            max_share: keys.combining.max_share(),
        }
    }

    pub(crate) fn keys(&self) -> Keys {
        let (schedule, buffer) = match self.schedule {
            Schedule::WaitFree => (ScheduleWord::WaitFree, BUFFER),
            Schedule::ComputeAndWait => (ScheduleWord::ComputeAndWait, BUFFER),
            Schedule::Buffered { size } => (ScheduleWord::Buffered, size),
        };
        let (late, staleness_exponent) = match self.late {
            Late::Drop => (LateWord::Drop, EXPONENT),
            Late::Weigh { exponent } => (LateWord::Weigh, exponent),
        };
        Keys {
            schedule,
            buffer,
            quorum: self.quorum,
            min_success: self.min_success,
            deadline: self.deadline,
            late,
            staleness_exponent,
            personal: self.personal,
            personal_until: match self.personal_until {
                Until::Epochs => UntilWord::Epochs,
                Until::Broadcast => UntilWord::Broadcast,
            },
            combining: combining::Keys::of(self.combine, self.max_share),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let train: crate::training::Train = crate::training::SECTION.defaults();
        Self::of(&SECTION.defaults(), train.participation)
    }
}
