//! Who is connected, and whether their certificates still hold: a connection outlives the moment in
//! which it was let in.

use super::actor::Message;
use super::core::Core;
use super::service::{Names, NoName};
use super::vault::CERTIFICATES;
use formant_runtime::RuntimeError;
use formant_runtime::files::{self, Synced};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tracing::warn;

/// Connections with the same certificate: one at work, and others whose end is not noticed yet.
const SAME: usize = 3;
/// How often certificates are checked again.
const PATROL: Duration = Duration::from_secs(2);
/// How long a revoked connection stays, so that the client can be told why it ends.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a connection may stay without a request of a client.
const SILENCE: Duration = Duration::from_secs(10);

/// What to do about a certificate that is not as it was kept.
const DAMAGED: &str = "restore the whole state folder from a copy";

/// A client's certificate as it lies in the server's folder.
#[derive(Serialize, Deserialize)]
struct Kept {
    certificate: Vec<u8>,
}

/// How far a connection is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Stage {
    /// It is welcome.
    Open,
    /// Its certificate is revoked; it gets nothing more.
    Revoked,
    /// The socket closes.
    Cut,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Pass {
    /// By which the name is known; none without TLS.
    pub(crate) certificate: Option<Vec<u8>>,
    client: OnceLock<usize>,
    /// The control stream, if this connection has one.
    session: Mutex<Option<u64>>,
    stage: watch::Sender<Stage>,
}

impl Pass {
    pub(crate) fn joined(&self, session: u64) {
        *lock(&self.session) = Some(session);
    }

    /// Waits until the connection has come so far; for ever if it ends otherwise.
    pub(crate) fn reached(&self, stage: Stage) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.stage.subscribe();
        Box::pin(async move {
            if now.wait_for(|now| *now >= stage).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// Closes the socket after a while, if by then it should be.
    fn cut_after(self: &Arc<Self>, pause: Duration, should: fn(&Self) -> bool) {
        // The connection may end before, and then it does not count any more.
        let pass = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            if let Some(pass) = pass.upgrade().filter(|pass| should(pass)) {
                pass.stage.send_replace(Stage::Cut);
            }
        });
    }
}

/// Everybody who is connected.
pub(crate) struct Door {
    /// Names by certificate; without it, clients say their names.
    names: Option<Names>,
    passes: Mutex<Vec<Weak<Pass>>>,
    /// The certificate that every client has last come with, also if it has gone.
    last: Mutex<HashMap<usize, Vec<u8>>>,
    /// Those that lie in the server's folder.
    kept: Mutex<HashMap<usize, Vec<u8>>>,
}

impl Door {
    pub(crate) fn new(names: Option<Names>) -> Self {
        Self { names, passes: Mutex::default(), last: Mutex::default(), kept: Mutex::default() }
    }

    /// Takes up the certificates with which uploads have come that are kept: they may be revoked by now, and
    /// their clients need not come back for that.
    pub(crate) fn remember(&self, folder: &Path) -> Result<(), RuntimeError> {
        let folder = folder.join(CERTIFICATES);
        let (mut last, mut kept) = (lock(&self.last), lock(&self.kept));
        for name in files::names(&folder)? {
            let client = name.strip_suffix(".json").and_then(|client| client.parse().ok());
            if let Some(client) = client
                && let Some(Kept { certificate }) =
                    files::read_manifest(&folder.join(&name), DAMAGED)?
            {
                last.insert(client, certificate.clone());
                kept.insert(client, certificate);
            }
        }
        Ok(())
    }

    /// Keeps the certificate that a client has come with, unless it lies there already.
    pub(crate) fn keep(&self, client: usize, folder: &Path) -> Result<(), RuntimeError> {
        let Some(certificate) = self.certificate(client) else { return Ok(()) };
        let mut kept = lock(&self.kept);
        if kept.get(&client) != Some(&certificate) {
            let path = folder.join(CERTIFICATES).join(format!("{client}.json"));
            // Sealed: one that was damaged would look revoked, and take out what its client has sent.
            let sealed = Kept { certificate };
            files::write_manifest(&path, &sealed, Synced::Name)?;
            kept.insert(client, sealed.certificate);
        }
        Ok(())
    }

    /// The certificate that a client has last come with.
    pub(crate) fn certificate(&self, client: usize) -> Option<Vec<u8>> {
        lock(&self.last).get(&client).cloned()
    }

    pub(crate) fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Lets a connection in, unless its certificate has too many already. It must soon say what it
    /// wants.
    pub(crate) fn enter(&self, certificate: Option<Vec<u8>>) -> Option<Arc<Pass>> {
        let mut passes = lock(&self.passes);
        passes.retain(|pass| pass.strong_count() > 0);
        if certificate.is_some() {
            let open = passes.iter().filter_map(Weak::upgrade);
            if open.filter(|pass| pass.certificate == certificate).count() >= SAME {
                return None;
            }
        }
        let pass = Arc::new(Pass {
            certificate,
            client: OnceLock::new(),
            session: Mutex::default(),
            stage: watch::Sender::new(Stage::Open),
        });
        passes.push(Arc::downgrade(&pass));
        pass.cut_after(SILENCE, |pass| pass.client.get().is_none());
        Some(pass)
    }

    /// Notes that a request has come from a client of the federation.
    pub(crate) fn known(&self, pass: &Pass, client: usize) {
        if pass.client.set(client).is_ok()
            && let Some(certificate) = pass.certificate.clone()
        {
            let mut last = lock(&self.last);
            last.insert(client, certificate);
        }
    }

    /// Clients whose last certificate is revoked.
    pub(crate) fn revoked(&self) -> Vec<usize> {
        let Some(names) = &self.names else { return Vec::new() };
        let last = lock(&self.last);
        let revoked = |certificate: &[u8]| matches!(names(certificate), Err(NoName::Refused(_)));
        last.iter().filter(|(_, last)| revoked(last)).map(|(client, _)| *client).collect()
    }

    fn passes(&self) -> Vec<Arc<Pass>> {
        let passes = lock(&self.passes);
        passes.iter().filter_map(Weak::upgrade).collect()
    }

    fn check(&self, pass: &Pass) -> Result<(), NoName> {
        match (&self.names, &pass.certificate) {
            (Some(names), Some(certificate)) => names(certificate).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether the certificates of a client's connections hold at this moment, or why not.
    pub(crate) fn still_known(&self, client: usize) -> Result<(), NoName> {
        let passes = self.passes();
        let mut own = passes.iter().filter(|pass| pass.client.get() == Some(&client));
        own.try_for_each(|pass| self.check(pass))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns out clients whose certificates have been revoked, for as long as the server runs. No round
/// waits for them, until they come back with a new certificate.
pub(crate) async fn patrol(core: Arc<Core>) {
    let mut opened = core.opened.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PATROL) => {}
            changed = opened.changed() => if changed.is_err() { return },
        }
        let mut anybody = false;
        for pass in core.door.passes() {
            let Some(client) = pass.client.get().copied() else { continue };
            if *pass.stage.borrow() != Stage::Open {
                continue;
            }
            // A list that cannot be read is no reason to turn out those who are in.
            if let Err(NoName::Refused(why)) = core.door.check(&pass) {
                warn!(client = core.name(client), why, "turned out");
                expel(&core, &pass, client);
            } else {
                anybody = true;
            }
        }
        // If nobody is left, the round waits for somebody rather than giving up.
        if anybody {
            opened.borrow_and_update();
            for client in core.door.revoked() {
                let _ = core.actor.send(Message::Withdrawn { client });
            }
        }
    }
}

fn expel(core: &Core, pass: &Arc<Pass>, client: usize) {
    pass.stage.send_replace(Stage::Revoked);
    let session = *lock(&pass.session);
    if let Some(session) = session {
        let _ = core.actor.send(Message::Left { client, session });
    }
    pass.cut_after(GOODBYE, |_| true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_has_so_many_connections_and_others_have_theirs() {
        let door = Door::new(None);
        let enter = |certificate: u8| door.enter(Some(vec![certificate]));
        let mut first: Vec<_> = (0..SAME).map(|_| enter(1).unwrap()).collect();
        assert!(enter(1).is_none(), "the newest is refused");
        assert!(enter(2).is_some());
        first.pop();
        assert!(enter(1).is_some(), "one has ended");
        // Without TLS there is nothing to tell them apart.
        let plain: Vec<_> = (0..2 * SAME).map(|_| door.enter(None)).collect();
        assert!(plain.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn who_says_nothing_is_cut_and_who_is_known_stays() {
        let door = Door::new(None);
        let (silent, known) = (door.enter(None).unwrap(), door.enter(None).unwrap());
        door.known(&known, 0);
        let short = Duration::from_millis(10);
        for pass in [&silent, &known] {
            pass.cut_after(short, |pass| pass.client.get().is_none());
        }
        silent.reached(Stage::Cut).await;
        tokio::time::sleep(2 * short).await;
        assert_eq!(*known.stage.borrow(), Stage::Open);
    }

    #[test]
    fn a_revoked_certificate_is_noticed_on_the_way() {
        let good = |certificate: &[u8]| match certificate {
            [1] => Ok("one".to_owned()),
            _ => Err(NoName::Refused("revoked".into())),
        };
        let door = Door::new(Some(Arc::new(good)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let (one, two) = (door.enter(Some(vec![1])).unwrap(), door.enter(Some(vec![2])).unwrap());
        door.known(&one, 0);
        door.known(&two, 1);
        assert_eq!(door.still_known(0), Ok(()));
        assert_eq!(door.still_known(1), Err(NoName::Refused("revoked".into())));
        drop(two);
        assert_eq!(door.revoked(), [1], "also after it has gone");
    }
}
