//! A small federation, simulated and served.

use formant_data::{Federation, Share};
use formant_experiment::OneMethod;
use formant_methods::Zoo;
use formant_network::ServerSettings;
use formant_network::client::{Accept, Identity, JoinOptions, Policy, Source, Summary, join};
use formant_network::identity::{Authority, ClientIdentity, Validity};
use formant_network::server::{End, RunningServer, Trust};
use formant_numerics::{Rng, Stream};
use formant_runtime::event::Event;
use formant_runtime::{EVENTS_FILE, Quiet, RunPlan, sim};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;
use toml::Table;
use xxhash_rust::xxh3::Xxh3;

/// Nothing here takes long; what takes this long hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An experiment and folders for it.
pub(crate) struct House {
    pub(crate) folder: TempDir,
    pub(crate) clients: usize,
    pub(crate) table: Table,
    federation: Federation,
}

impl House {
    /// A federation of so many clients with one method; `more` is TOML that goes on in `[server]`.
    pub(crate) fn new(clients: usize, method: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let linger = if more.contains("linger") { "" } else { "linger = \"60s\"" };
        let text = format!(
            r#"
            rounds = 3
            [data]
            dataset = "mnist-small"
            clients = {clients}
            samples = {}
            min_samples = 8
            [network]
            name = "mlp"
            hidden = [16]
            [train]
            batch = 10
            epochs = 1
            personal_epochs = 2
            [[method]]
            name = "{method}"
            [server]
            listen = "127.0.0.1:0"
            ops = "127.0.0.1:0"
            {linger}
            {more}
            "#,
            40 * clients
        );
        let table: Table = text.parse().unwrap();
        let (experiment, _) = ServerSettings::parse(&table, &Zoo::standard()).unwrap();
        Self { folder, clients, federation: experiment.federation().unwrap(), table }
    }

    /// Changes a key of the experiment.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: impl Into<toml::Value>) {
        let section = self.table.entry(section).or_insert_with(|| Table::new().into());
        section.as_table_mut().unwrap().insert(key.into(), value.into());
    }

    /// Divides the images anew, after a change to how they are divided.
    pub(crate) fn divide(&mut self) {
        self.federation = self.settings().0.federation().unwrap();
    }

    pub(crate) fn settings(&self) -> (OneMethod, ServerSettings) {
        let (experiment, mut settings) =
            ServerSettings::parse(&self.table, &Zoo::standard()).unwrap();
        settings.state = self.folder.path().join("server");
        (experiment, settings)
    }

    pub(crate) async fn serve(&self) -> RunningServer {
        let (experiment, settings) = self.settings();
        RunningServer::start(&experiment, settings, Trust::Names).await.unwrap()
    }

    pub(crate) fn client_folder(&self, client: usize) -> PathBuf {
        self.folder.path().join(format!("client-{client:03}"))
    }

    pub(crate) fn options(&self, server: &str, client: usize) -> JoinOptions {
        JoinOptions {
            server: server.into(),
            identity: Identity::Name(format!("client-{client:03}")),
            // Every other client has its samples in a file of its own.
            source: if client.is_multiple_of(2) {
                self.share(client)
            } else {
                Source::Rehearse { dir: None }
            },
            zoo: Zoo::standard(),
            state: self.client_folder(client),
            rate_limit: None,
            // Few samples, in few steps.
            policy: lenient(),
            accept: Accept::Anything,
            again: false,
        }
    }

    /// All clients and the server, to the end.
    pub(crate) async fn run(&self) -> (End, Vec<Summary>) {
        let server = self.serve().await;
        let address = server.address().to_string();
        let clients: Vec<_> = (0..self.clients)
            .map(|client| tokio::spawn(join(self.options(&address, client), never())))
            .collect();
        let end = within(server.finish(never())).await.unwrap().unwrap();
        let mut summaries = Vec::new();
        for client in clients {
            summaries.push(within(client).await.unwrap().unwrap().unwrap());
        }
        (end, summaries)
    }

    /// The samples of a client.
    pub(crate) fn share(&self, client: usize) -> Source {
        Source::Share(Box::new(Share::of_client(&self.federation, client).unwrap()))
    }

    /// The fingerprint that the simulator computes for the same experiment.
    pub(crate) fn simulated(&self) -> String {
        self.simulated_by(&self.settings().0.plan().unwrap())
    }

    /// The same for a plan that something is changed in.
    pub(crate) fn simulated_by(&self, plan: &RunPlan) -> String {
        let run_dir = self.folder.path().join("simulated");
        let _ = std::fs::remove_dir_all(&run_dir);
        sim::run(plan, &run_dir, &Quiet, &AtomicBool::new(false)).unwrap();
        let log = std::fs::read_to_string(run_dir.join(EVENTS_FILE)).unwrap();
        let finished = log.lines().find_map(|line| match serde_json::from_str(line).unwrap() {
            Event::MethodFinished { fingerprint, .. } => fingerprint,
            _ => None,
        });
        finished.unwrap()
    }

    /// The same fingerprint from the folders of the server and its clients.
    pub(crate) fn fingerprint(&self) -> String {
        self.fingerprint_in(self.folder.path())
    }

    /// The same from copies of the folders.
    pub(crate) fn fingerprint_in(&self, root: &Path) -> String {
        let mut hash = Xxh3::new();
        hash.update(&named(&root.join("server"), "server"));
        let plan = self.settings().0.plan().unwrap();
        let init = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
        let untrained = plan.methods[0].method.start_client(&init).encode().unwrap();
        for client in 0..self.clients {
            let state = named_if(&root.join(format!("client-{client:03}")), "state");
            hash.update(&state.unwrap_or_else(|| untrained.clone()));
        }
        format!("{:032x}", hash.digest128())
    }
}

/// Rules for clients with hardly any data, which have nothing to lose.
pub(crate) fn lenient() -> Policy {
    let rules = "min_steps = 1\nmin_batch = 1\nmax_batch_share = 1\nsend_label_counts = true";
    Policy::parse(&rules.parse().unwrap(), &Zoo::standard()).unwrap()
}

/// The bytes of a state that a folder's manifest names.
pub(crate) fn named(folder: &Path, key: &str) -> Vec<u8> {
    named_if(folder, key).unwrap()
}

fn named_if(folder: &Path, key: &str) -> Option<Vec<u8>> {
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let file = manifest[key]["file"].as_str()?;
    Some(std::fs::read(folder.join("states").join(file)).unwrap())
}

/// An authority in a folder, with a server on this machine and clients.
pub(crate) fn authority(folder: &Path, names: &[&str]) -> Authority {
    let year = Validity::days(365).unwrap();
    let mut authority = Authority::create(folder, year, false).unwrap();
    authority.issue_server(&["localhost"], Validity::days(30).unwrap()).unwrap();
    for name in names {
        authority.issue_client(name, Validity::days(30).unwrap()).unwrap();
    }
    authority
}

/// A client of it.
pub(crate) fn identity(certs: &Path, name: &str) -> Identity {
    let bundle = certs.join("clients").join(format!("{name}.bundle.pem"));
    let bundle = if bundle.exists() { bundle } else { certs.join(format!("{name}.bundle.pem")) };
    Identity::of(&ClientIdentity::read(&bundle).unwrap(), "localhost").unwrap()
}

pub(crate) async fn never() {
    std::future::pending::<()>().await;
}

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it hangs")
}
