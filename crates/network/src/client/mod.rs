//! A client: one thread owns its state, one trains, tasks talk to the server.

mod backoff;
mod handshake;
mod link;
mod mind;
mod models;
mod plan;
mod session;
mod summary;
mod training;
mod transfer;
mod vault;

pub use link::Identity;
pub use summary::Summary;

use crate::error::NetworkError;
use crate::stream::{Limits, Traffic};
use crate::wire::proto;
use formant_data::{Reading, Share};
use formant_methods::Zoo;
use formant_runtime::files;
use link::Link;
use mind::{Notice, Waiting};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;
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
    if let Some((terms, manifest)) = &begun
        && manifest.session.is_over()
    {
        info!(
            run = terms.run,
            models = %options.state.display(),
            "the run of this folder is over and its models are there; asking the server for a new run"
        );
        let Some(welcome) = ask(&options, &mut shutdown).await? else { return Ok(None) };
        let now = Terms::of(&welcome);
        if now.run != terms.run {
            vault.make_room(terms, &now, options.again)?;
            begun = None;
        } else if let Some((_, manifest)) = &mut begun {
            // Kept with the first thing that follows from it; until then it is asked anew.
            manifest.follow(&welcome);
        }
    }
    let (notices, inbox) = std::sync::mpsc::channel();
    let (commands, orders) = tokio::sync::mpsc::unbounded_channel();
    let link = link(&options, vault.states(), notices.clone());
    let (ended, end) = oneshot::channel();
    let waiting = Waiting {
        vault,
        name: options.identity.name().to_owned(),
        source: options.source,
        zoo: options.zoo,
        inbox,
        notices: notices.clone(),
        commands,
    };
    std::thread::spawn(move || {
        // If nobody waits for it any more, it is of no use.
        let _ = ended.send(waiting.run(begun));
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

/// Which run the server has. What it sends besides is of no use, and goes where nobody looks.
async fn ask(
    options: &JoinOptions,
    shutdown: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Option<Box<proto::Welcome>>, NetworkError> {
    let aside = options.state.join("asking");
    files::create_folder(&aside)?;
    let (notices, inbox) = std::sync::mpsc::channel();
    let (_commands, orders) = tokio::sync::mpsc::unbounded_channel();
    let connection = tokio::spawn(link(options, aside.clone(), notices.clone()).run(orders));
    let (told, answer) = oneshot::channel();
    std::thread::spawn(move || told.send(mind::welcome(&inbox)));
    let answer = until(answer, shutdown, &notices).await;
    connection.abort();
    let _ = connection.await;
    let _ = std::fs::remove_dir_all(&aside);
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

fn link(options: &JoinOptions, states: PathBuf, notices: Sender<Notice>) -> Arc<Link> {
    Arc::new(Link {
        server: options.server.clone(),
        identity: options.identity.clone(),
        states,
        limits: Limits::both(options.rate_limit),
        traffic: Arc::new(Traffic::default()),
        progress: Arc::default(),
        welcomed: AtomicBool::new(false),
        notices,
    })
}
