//! One connection at work: what the server orders is fetched, what the client has is sent.

use super::bound::Bound;
use super::link::{Command, Ended, Link};
use super::mind::Notice;
use super::transfer::{self, Caller, Lost, Way};
use crate::error::NetworkError;
use crate::wire::{confused, file_named, proto, role_from_wire};
use formant_runtime::files::Named;
use proto::dismiss::Cause;
use proto::order::Order;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// How long transfers may take to end when the line is broken.
const DRAIN: Duration = Duration::from_secs(1);

/// What a task of a session has brought.
pub(super) enum Brought {
    Broadcast { round: u64, role: formant_federation::Role, file: Option<Named> },
    Last { cause: Cause, round: u64, file: Option<Named> },
    Verdict { round: u64, verdict: proto::Verdict },
    Excess(NetworkError),
}

/// Waits until it is known what broadcasts may be, and whether this one may; outside, whether anybody
/// still wants to know.
async fn expected(
    mut bound: watch::Receiver<Option<Bound>>,
    round: u64,
    file: &proto::File,
) -> Result<Result<(), NetworkError>, Lost> {
    let known = bound.wait_for(Option::is_some).await;
    let known = known.map_err(|_| Lost("the client has stopped".into()))?;
    Ok(known.as_ref().map_or(Ok(()), |bound| bound.check_file(round, file)))
}

/// A session under way.
pub(super) struct Running<'l> {
    pub(super) link: &'l Link,
    pub(super) caller: Caller,
    pub(super) chunk: usize,
    pub(super) packing: (i32, i32),
    pub(super) tasks: JoinSet<Result<Brought, Lost>>,
    /// The broadcast that is coming: a newer one takes its place.
    pub(super) download: Option<AbortHandle>,
}

impl Running<'_> {
    pub(super) fn take(&mut self, order: proto::Order) -> Option<Ended> {
        match order.order {
            Some(Order::Broadcast(order)) => {
                let (round, role) = (order.round, role_from_wire(order.role()));
                let Some(file) = order.file else {
                    return Some(Ended::Refused(confused("a broadcast without a file")));
                };
                let (way, states) = (self.way(), self.link.states.clone());
                let bound = self.link.bound.subscribe();
                let task = self.tasks.spawn(async move {
                    if let Err(excess) = expected(bound, round, &file).await? {
                        return Ok(Brought::Excess(excess));
                    }
                    let file = transfer::download(way, &states, round, file).await?;
                    Ok(Brought::Broadcast { round, role, file })
                });
                if let Some(older) = self.download.replace(task) {
                    older.abort();
                }
                None
            }
            Some(Order::Dismiss(order)) => self.dismissed(order),
            Some(Order::Welcome(_)) | None => {
                Some(Ended::Refused(confused("an order that says nothing")))
            }
        }
    }

    fn dismissed(&mut self, order: proto::Dismiss) -> Option<Ended> {
        let cause = order.cause();
        if cause == Cause::Replaced {
            return Some(Ended::Refused(NetworkError::Refused {
                server: self.link.server.clone(),
                reason: "another process has joined under the same name".into(),
                hint: "run one client for each name",
            }));
        }
        // Nobody waits for an upload any more.
        self.tasks.abort_all();
        let Some(proto::Broadcast { round, file: Some(file), .. }) = order.last else {
            let _ = self.link.notices.send(Notice::Dismissed { cause, last: None });
            return Some(Ended::Over);
        };
        let (way, states) = (self.way(), self.link.states.clone());
        let bound = self.link.bound.subscribe();
        self.tasks.spawn(async move {
            if let Err(excess) = expected(bound, round, &file).await? {
                return Ok(Brought::Excess(excess));
            }
            let file = transfer::download(way, &states, round, file).await?;
            Ok(Brought::Last { cause, round, file })
        });
        None
    }

    /// What a transfer goes by.
    fn way(&self) -> Way {
        Way { caller: self.caller.clone(), progress: self.link.progress.clone() }
    }

    pub(super) fn send(&mut self, command: Command) {
        let mut way = self.way();
        let (chunk, states) = (self.chunk, self.link.states.clone());
        match command {
            Command::Upload { round, file, samples, loss } => {
                let header = proto::UploadHeader {
                    round,
                    file: Some(file_named(&file)),
                    encoding: self.packing.0,
                    precision: self.packing.1,
                    samples,
                    loss,
                };
                let path = states.join(&file.file);
                self.tasks.spawn(async move {
                    let verdict = transfer::upload(way, header, path, chunk).await?;
                    Ok(Brought::Verdict { round, verdict })
                });
            }
            Command::Fail { round, why } => {
                self.tasks.spawn(async move {
                    let told = way.caller.fail(proto::Failure { round, reason: why }).await;
                    let verdict = told.map_err(Lost::from)?.into_inner();
                    Ok(Brought::Verdict { round, verdict })
                });
            }
        }
    }

    /// On a broken line transfers end by themselves, once they have kept what had still arrived. True if
    /// nothing more is needed.
    pub(super) async fn drain(&mut self) -> bool {
        let rest = async {
            let mut is_over = false;
            while let Some(brought) = self.tasks.join_next().await {
                is_over |= matches!(self.bring(brought), Some(Ended::Over));
            }
            is_over
        };
        tokio::time::timeout(DRAIN, rest).await.unwrap_or(false)
    }

    pub(super) fn bring(
        &mut self,
        brought: Result<Result<Brought, Lost>, tokio::task::JoinError>,
    ) -> Option<Ended> {
        // A download that was given up for a newer one is no news.
        let brought = brought.ok()?;
        let (notice, ended) = match brought {
            Err(lost) => return Some(lost.into()),
            Ok(Brought::Excess(excess)) => return Some(Ended::Refused(excess)),
            // The server has a newer broadcast, of which it will tell.
            Ok(Brought::Broadcast { file: None, .. }) => return None,
            Ok(Brought::Broadcast { round, role, file: Some(file) }) => {
                (Notice::Broadcast { round, role, file }, None)
            }
            Ok(Brought::Last { cause, round, file }) => {
                let last = file.map(|file| (round, file));
                (Notice::Dismissed { cause, last }, Some(Ended::Over))
            }
            Ok(Brought::Verdict { round, verdict }) => (Notice::Verdict { round, verdict }, None),
        };
        match self.link.notices.send(notice) {
            Ok(()) => ended,
            Err(_) => Some(Ended::Over),
        }
    }
}
