//! From the experiment that the server has sent and the client's own data to what it computes.

use super::Source;
use super::admission::{Admission, Known};
use super::bound::Bound;
use super::vault::Terms;
use crate::error::NetworkError;
use crate::wire::confused;
use formant_data::{ClientData, Dataset, Description, OwnSplit, Reading};
use formant_experiment::{Experiment, OneMethod, Override, Side};
use formant_methods::Zoo;
use formant_runtime::event::RunStarted;
use formant_runtime::{Desk, Guarding, Task};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use toml::Table;

/// What a client computes, and on what.
pub(crate) struct Assignment {
    pub(crate) task: Task,
    /// The first line of the event log.
    pub(crate) header: RunStarted,
    /// What broadcasts may be.
    pub(crate) bound: Bound,
    /// Whether the server is told the mean loss of what makes an upload.
    pub(crate) sends_loss: bool,
    /// The client's place.
    client: usize,
    /// Images, some of which are the client's.
    pub(crate) dataset: Arc<Dataset>,
    /// Which of them.
    data: ClientData,
}

/// The experiment that the server has sent. What it calls its data is a name: no server chooses which
/// files of this machine are opened.
fn read(terms: &Terms, source: &Source, zoo: &Zoo) -> Result<OneMethod, NetworkError> {
    let table: Table = terms
        .experiment
        .parse()
        .map_err(|error| confused(format!("the experiment is not TOML: {error}")))?;
    let changes: Vec<Override> = match source {
        Source::Rehearse { dir: Some(dir) } => {
            vec![Override::new(&["data", "dir"], dir.display().to_string())]
        }
        Source::Rehearse { dir: None } | Source::Share(_) | Source::Own { .. } => Vec::new(),
    };
    let data = table.get("data").and_then(toml::Value::as_table);
    for key in ["source", "dataset", "dir", "partition_file"] {
        let told = data.and_then(|data| data.get(key)).and_then(toml::Value::as_str);
        let is_path = |text: &str| key == "dir" || text.contains(['/', '\\']) || text == "..";
        if let Some(path) = told.filter(|text| is_path(text)) {
            return Err(confused(format!("`data.{key} = {path:?}` names a place on this machine")));
        }
    }
    Ok(OneMethod::new(Experiment::parse_for_network(&table, &changes, zoo)?)?)
}

/// What a sample is, as the server says.
fn described(experiment: &OneMethod) -> Result<Description, NetworkError> {
    let origin = &experiment.data.origin;
    let nothing = || format!("the experiment does not say what a sample of {} is", origin.name());
    origin.described().ok_or_else(|| confused(nothing()))
}

/// The client's own data, as the server has described them.
fn own(
    experiment: &OneMethod,
    client: usize,
    path: &Path,
    reading: &Reading,
) -> Result<(Dataset, ClientData), NetworkError> {
    let data = &experiment.data;
    let description = described(experiment)?;
    let split = OwnSplit {
        train_fraction: data.train_fraction,
        validation_fraction: data.validation_fraction,
        seed: data.seed.unwrap_or(experiment.seed),
        client,
    };
    let (dataset, data) = description.own(path, reading, split, &mut |_, _| {})?;
    // The run is about the federation's data, whatever a client calls its own.
    Ok((Dataset { name: experiment.data.origin.name(), ..dataset }, data))
}

impl Assignment {
    /// Compares what the server asks with this site's rules, and wires the experiment up over the client's
    /// own data.
    pub(crate) fn new(
        terms: &Terms,
        source: Source,
        admission: &Admission,
        known: Known,
    ) -> Result<Self, NetworkError> {
        let experiment = read(terms, &source, &admission.zoo)?;
        let description = described(&experiment)?;
        let nobodys = Dataset::described(experiment.data.origin.name(), &description)?;
        let admitted = admission.admit(terms, &experiment, &nobodys)?;
        let (client, clients) = (terms.client, experiment.clients());
        let (dataset, data) = match source {
            Source::Share(share) => {
                let (dataset, data) =
                    share.into_dataset(experiment.data.origin.name(), &description)?;
                (Arc::new(dataset), Some(data))
            }
            Source::Own { path, reading } => {
                let (dataset, data) = own(&experiment, client, &path, &reading)?;
                (Arc::new(dataset), Some(data))
            }
            Source::Rehearse { .. } => {
                let federation = experiment.federation()?;
                let told = experiment.data.origin.description.as_ref();
                if told.is_some_and(|told| *told != federation.dataset.description()) {
                    return Err(NetworkError::setting(
                        format!(
                            "{} here is not as the server describes it",
                            federation.dataset.name
                        ),
                        "rehearse with the server's own files, or bring data of your own with --data",
                    ));
                }
                let data = federation.clients.into_iter().nth(client);
                (federation.dataset, data)
            }
        };
        let Some(data) = data.filter(|_| client < clients) else {
            return Err(confused(format!("{clients} clients, of which this is number {client}")));
        };
        if data.train.is_empty() {
            return Err(NetworkError::setting(
                "there are no samples to train on",
                "give this client data with training samples",
            ));
        }
        let bound = admission.admit_samples(admitted, data.train.len(), known)?;
        let (task, header) =
            experiment.task(&dataset, Side::Client { place: client, data: &data })?;
        // No noise is in it, whoever adds some to uploads.
        let sends_loss = admission.policy.send_loss && task.privacy.is_none();
        Ok(Self { task, header, bound, sends_loss, client, dataset, data })
    }

    /// The client's place of work.
    pub(crate) fn desk(&self) -> Desk<'_> {
        self.task.desk(self.client, &*self.dataset.train, &self.data.train)
    }

    /// Samples that it trains on.
    pub(crate) fn samples(&self) -> usize {
        self.data.train.len()
    }

    /// Samples that its models are scored on.
    pub(crate) fn scored(&self) -> Cow<'_, [u32]> {
        self.task.evaluation.scored(&self.data, &*self.dataset.train)
    }

    /// How it chooses which model it serves.
    pub(crate) fn guarding(&self) -> Guarding<'_> {
        self.task.evaluation.guarding(&self.data, &*self.dataset.train)
    }

    /// Samples in its largest training step.
    pub(crate) fn largest_batch(&self) -> usize {
        self.task.method.largest_batch(self.samples())
    }
}
