//! What a client is told about its upload.

use crate::wire::proto::{self, verdict::Kind};
use formant_federation::{Action, Refusal};

/// The reason of a server that is going.
const STOPPING: &str = "stopping";

/// Why an upload is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A word for tables.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) detail: String,
    pub(crate) blame: Blame,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It was damaged or held up on the way, and may be sent again.
    Way,
    /// It came as it was sent, and is wrong: the client has not answered the round and cannot.
    Content,
    /// The round does not want it.
    Round,
}

impl Fault {
    pub(crate) fn on_the_way(reason: &'static str, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), blame: Blame::Way }
    }

    pub(crate) fn in_content(reason: &'static str, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), blame: Blame::Content }
    }

    /// The server is going: there is no verdict, and the client comes back.
    pub(crate) fn stopping() -> Self {
        Self::on_the_way(STOPPING, "the server is stopping")
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.reason == STOPPING
    }

    pub(crate) fn verdict(&self) -> proto::Verdict {
        let kind = match self.blame {
            Blame::Way => Kind::Again,
            Blame::Content | Blame::Round => Kind::Refused,
        };
        proto::Verdict {
            kind: kind.into(),
            reason: self.reason.into(),
            detail: self.detail.clone(),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let (reason, detail) = match refusal {
            Refusal::Unknown => ("unknown-client", "there is no such client"),
            Refusal::NotAsked => ("wrong-round", "this client was not asked for this round"),
            Refusal::Late => ("late", "the round has closed"),
            Refusal::Over => ("over", "the run is over"),
        };
        Self { reason, detail: detail.into(), blame: Blame::Round }
    }
}

/// The verdict that stands in a machine's actions for one client's answer.
pub(crate) fn of_actions(
    actions: &[Action],
    answer: (usize, u64),
) -> Result<proto::Verdict, Fault> {
    let plain = |kind: Kind| {
        Ok(proto::Verdict { kind: kind.into(), reason: String::new(), detail: String::new() })
    };
    for action in actions {
        match *action {
            Action::Accept { client, round } if (client, round) == answer => {
                return plain(Kind::Accepted);
            }
            Action::Acknowledge { client, round } if (client, round) == answer => {
                return plain(Kind::Kept);
            }
            Action::Refuse { client, round, reason } if (client, round) == answer => {
                return Err(reason.into());
            }
            _ => {}
        }
    }
    Err(Fault::on_the_way("no-verdict", "the server cannot say; ask again"))
}
