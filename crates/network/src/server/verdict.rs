//! What a client is told about its upload.

use crate::wire::proto::{self, verdict::Kind};
use formant_federation::{Refusal, Verdict};

/// Why an upload is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: Refusal,
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
    pub(crate) fn on_the_way(reason: Refusal, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), blame: Blame::Way }
    }

    pub(crate) fn in_content(reason: Refusal, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), blame: Blame::Content }
    }

    /// The server is going: there is no verdict, and the client comes back.
    pub(crate) fn stopping() -> Self {
        Self::on_the_way(Refusal::Stopping, Refusal::Stopping.sentence())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.reason == Refusal::Stopping
    }

    /// Whether the upload is refused for good, and not only this time.
    pub(crate) fn is_final(&self) -> bool {
        self.blame != Blame::Way
    }

    pub(crate) fn verdict(&self) -> proto::Verdict {
        let kind = if self.is_final() { Kind::Refused } else { Kind::Again };
        proto::Verdict {
            kind: kind.into(),
            reason: self.reason.word().into(),
            detail: self.detail.clone(),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(reason: Refusal) -> Self {
        Self { reason, detail: reason.sentence().into(), blame: Blame::Round }
    }
}

/// The round protocol's verdict as it goes over the wire.
pub(crate) fn told(verdict: Verdict) -> Result<proto::Verdict, Fault> {
    let plain = |kind: Kind| {
        Ok(proto::Verdict { kind: kind.into(), reason: String::new(), detail: String::new() })
    };
    match verdict {
        Verdict::Accept => plain(Kind::Accepted),
        Verdict::Acknowledge => plain(Kind::Kept),
        Verdict::Refuse(reason) => Err(reason.into()),
    }
}
