//! A client: one thread owns its state, one trains, tasks talk to the server.

mod admission;
mod backoff;
mod bound;
mod handshake;
mod link;
mod mind;
mod models;
mod plan;
mod policy;
mod session;
mod summary;
mod training;
mod transfer;
pub(crate) mod vault;

pub use admission::{Accept, Proposal};
pub use link::Identity;
pub use policy::{Approval, POLICY, Policy};
pub use summary::Summary;

use crate::error::NetworkError;
use crate::stream::{Limits, Traffic};
use crate::wire::proto;
use admission::{Admission, Known};
use bound::Bound;
use formant_data::{Reading, Share};
use formant_methods::Zoo;
use link::Link;
use mind::{Beginning, Notice, Waiting};
use plan::Assignment;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use tokio::sync::{oneshot, watch};
use tracing::info;
use vault::{Terms, Vault};

/// Where a client's samples come from.
pub enum Source {
    /// They are its own, in memory.
    Share(Box<Share>),
    /// They are its own, in any format.
    Own {
        /// A file or a folder.
        path: PathBuf,
        /// How it is read.
        reading: Box<Reading>,
    },
    /// Its share of the experiment's own dataset, divided as the simulator divides it.
    Rehearse {
        /// The folder of the datasets; without it, the usual one.
        dir: Option<PathBuf>,
    },
}

/// What a client needs.
pub struct JoinOptions {
    /// Host and port.
    pub server: String,
    /// How it is known.
    pub identity: Identity,
    /// Its data.
    pub source: Source,
    /// The methods that it knows.
    pub zoo: Zoo,
    /// The folder that survives a crash.
    pub state: PathBuf,
    /// Most bytes per second in each direction.
    pub rate_limit: Option<u64>,
    /// What a server may have it do.
    pub policy: Policy,
    /// What approves an experiment that neither the policy nor the folder names.
    pub accept: Accept,
    /// Whether a folder whose run is over makes room for the server's new one.
    pub again: bool,
}

/// Takes part in a run until it is over. `None` if `shutdown` came first; then the state is kept, and
/// joining again goes on.
pub async fn join(
    options: JoinOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<Option<Summary>, NetworkError> {
    tokio::pin!(shutdown);
    let (vault, mut begun) = Vault::open(&options.state)?;
    let bound = watch::Sender::new(None);
    let (notices, inbox) = std::sync::mpsc::channel();
    let (commands, orders) = tokio::sync::mpsc::unbounded_channel();
    let link = link(&options, vault.states(), notices.clone(), bound.clone());
    let name = options.identity.name().to_owned();
    let next = match &mut begun {
        Some((terms, manifest)) if manifest.session.is_over() => {
            info!(
                run = terms.run,
                models = %options.state.display(),
                "the run of this folder is over and its models are there; asking the server for a new run"
            );
            let Some(welcome) = ask(&options, &mut shutdown).await? else { return Ok(None) };
            let now = Terms::of(&welcome);
            if now.run == terms.run {
                // Kept with the first thing that follows from it; until then it is asked anew.
                manifest.follow(&welcome);
                None
            } else {
                Some(now)
            }
        }
        _ => None,
    };
    let (vault, beginning) = match (begun, next) {
        (Some((over, _)), Some(now)) => make_room(vault, over, now, options).await?,
        (Some((terms, manifest)), None) => {
            let (source, admission) = options.parts();
            (vault, Beginning::Begun(source, admission, terms, Box::new(manifest)))
        }
        (None, _) => {
            let (source, admission) = options.parts();
            (vault, Beginning::New(source, admission))
        }
    };
    let waiting =
        Waiting { vault, beginning, bound, name, inbox, notices: notices.clone(), commands };
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        // If nobody waits for it any more, it is of no use.
        let _ = ended.send(waiting.run());
    });
    let connection = tokio::spawn(link.clone().run(orders));
    let outcome = until(end, &mut shutdown, &notices).await;
    connection.abort();
    if let Ok(Ok(Some(_))) = outcome {
        // The run is over and everything is kept: only now the server need not stay.
        link.farewell().await;
    }
    outcome.map_err(|_| NetworkError::Stopped { what: "client" })?
}

/// Moves a run that is over aside for the server's new one, once that is admitted: what is not leaves the
/// folder as it is.
async fn make_room(
    vault: Vault,
    over: Terms,
    now: Terms,
    options: JoinOptions,
) -> Result<(Vault, Beginning), NetworkError> {
    let again = options.again;
    vault.may_make_room(&over, &now, again)?;
    let admitted = tokio::task::spawn_blocking(move || {
        let (source, admission) = options.parts();
        // What a folder has run was approved, too.
        let (accepted, ran) = (vault.accepted()?, over.hash());
        let known = Known::of(accepted.as_deref().or(Some(&ran)), &now);
        let assignment = Assignment::new(&now, source, &admission, known)?;
        vault.accept(&now.hash())?;
        vault.make_room(&over)?;
        Ok((vault, Beginning::Admitted(now, Box::new(assignment))))
    });
    admitted.await.map_err(|_| NetworkError::Stopped { what: "client" })?
}

impl JoinOptions {
    /// The data, and what decides whether they are used.
    fn parts(self) -> (Source, Admission) {
        let Self { server, source, zoo, policy, accept, .. } = self;
        (source, Admission { server, zoo, policy, accept })
    }
}

/// Which run the server has; nothing else of it is wanted.
async fn ask(
    options: &JoinOptions,
    shutdown: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Option<Box<proto::Welcome>>, NetworkError> {
    let (notices, inbox) = std::sync::mpsc::channel();
    let (_commands, orders) = tokio::sync::mpsc::unbounded_channel();
    // Nobody ever says what broadcasts may be, so none is fetched.
    let link = link(options, options.state.clone(), notices.clone(), watch::Sender::new(None));
    let connection = tokio::spawn(link.run(orders));
    let (told, answer) = oneshot::channel();
    std::thread::spawn(move || told.send(mind::welcome(&inbox)));
    let answer = until(answer, shutdown, &notices).await;
    connection.abort();
    let _ = connection.await;
    answer.map_err(|_| NetworkError::Stopped { what: "client" })?
}

/// What a thread answers; if `shutdown` comes first, the thread is told to stop.
async fn until<T>(
    mut answer: oneshot::Receiver<T>,
    shutdown: &mut (impl Future<Output = ()> + Unpin),
    notices: &Sender<Notice>,
) -> Result<T, oneshot::error::RecvError> {
    tokio::select! {
        answer = &mut answer => answer,
        () = shutdown => {
            let _ = notices.send(Notice::Stop);
            answer.await
        }
    }
}

fn link(
    options: &JoinOptions,
    states: PathBuf,
    notices: Sender<Notice>,
    bound: watch::Sender<Option<Bound>>,
) -> Arc<Link> {
    Arc::new(Link {
        server: options.server.clone(),
        identity: options.identity.clone(),
        states,
        limits: Limits::both(options.rate_limit),
        traffic: Arc::new(Traffic::default()),
        progress: Arc::default(),
        bound,
        welcomed: AtomicBool::new(false),
        notices,
    })
}
