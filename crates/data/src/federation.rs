//! A dataset divided among clients.

use crate::feature_skew::Skewed;
use crate::heterogeneity::mean_concentration;
use crate::partition::Shares;
use crate::split::stratified;
use crate::{DataError, Dataset, Partition, PartitionPlan, Repaired, Skew};
use formant_numerics::{Rng, Stream};
use std::sync::Arc;

/// The samples of one client, as ascending indices into [`Dataset::train`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientData {
    /// What it trains on; never empty.
    pub train: Vec<u32>,
    /// What it chooses settings by.
    pub validation: Vec<u32>,
    /// What its personal model is judged on.
    pub test: Vec<u32>,
}

/// A part of a client's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// The training samples.
    Train,
    /// The validation samples.
    Validation,
    /// The local test samples.
    Test,
    /// All three together.
    All,
}

impl ClientData {
    /// The indices of a part; of [`Split::All`] in the order train, validation, test.
    ///
    /// ```
    /// use formant_data::{ClientData, Split};
    /// let client = ClientData { train: vec![1, 5], validation: vec![3], test: vec![0] };
    /// assert_eq!(client.indices(Split::All).collect::<Vec<_>>(), [1, 5, 3, 0]);
    /// assert_eq!(client.size(Split::Train), 2);
    /// ```
    pub fn indices(&self, which: Split) -> impl Iterator<Item = u32> + Clone {
        let none: &[u32] = &[];
        let part =
            |split, indices| if which == split || which == Split::All { indices } else { none };
        let train = part(Split::Train, self.train.as_slice());
        let validation = part(Split::Validation, self.validation.as_slice());
        let test = part(Split::Test, self.test.as_slice());
        train.iter().chain(validation).chain(test).copied()
    }

    /// Number of samples in a part.
    pub fn size(&self, which: Split) -> usize {
        match which {
            Split::Train => self.train.len(),
            Split::Validation => self.validation.len(),
            Split::Test => self.test.len(),
            Split::All => self.train.len() + self.validation.len() + self.test.len(),
        }
    }
}

/// A dataset and the clients among which its training samples are divided. [`Dataset::test`] is the
/// global test set.
#[derive(Debug, Clone)]
pub struct Federation {
    /// The samples.
    pub dataset: Arc<Dataset>,
    /// Who holds which.
    pub clients: Vec<ClientData>,
    /// What the clients are called, if they have names.
    pub names: Option<Vec<String>>,
    /// What it took to give everybody the minimum, if it took anything.
    pub repaired: Option<Repaired>,
    /// Who joins when training is over; see [`Federation::setting_aside`].
    pub newcomers: Newcomers,
}

/// Clients that take no part in training. They stand apart from [`Federation::clients`], so that nothing sees them
/// that does not ask for them, and their numbers follow those of the clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Newcomers {
    /// Who holds which samples.
    pub clients: Vec<ClientData>,
    /// What they are called, if they have names.
    pub names: Option<Vec<String>>,
}

impl Federation {
    /// Divides the training samples of a dataset as a plan says. The result depends on nothing but
    /// the labels, the owners and the plan, and the file that it names.
    pub fn new(dataset: Arc<Dataset>, plan: &PartitionPlan) -> Result<Self, DataError> {
        let fractions = plan.fractions()?;
        let division = plan.divide(&dataset)?;
        let clients = match division.shares {
            Shares::Split(clients) => clients,
            Shares::Whole(holdings) => (0u64..)
                .zip(holdings)
                .map(|(client, holding)| {
                    let mut rng = Rng::new(plan.seed, Stream::Split, 0, client);
                    stratified(holding, fractions, &mut rng)
                })
                .collect(),
        };
        let (names, repaired) = (division.names, division.repaired);
        let newcomers = Newcomers::default();
        let mut federation = Self { dataset, clients, names, repaired, newcomers };
        federation.remark(division.remarks);
        federation.remark(federation.repair_remark(plan));
        Ok(federation)
    }

    /// What giving everybody the minimum has made of the draw, if it made something of it.
    fn repair_remark(&self, plan: &PartitionPlan) -> Option<String> {
        let (all, min) = (self.clients.len(), plan.min_samples);
        let now = self.concentration();
        Some(match self.repaired? {
            Repaired::Moved { samples, drawn: Some(drawn) } => {
                let of: usize = self.clients.iter().map(|client| client.size(Split::All)).sum();
                let way_out = match plan.partition {
                    Partition::Dirichlet { .. } => "; data.repair = \"redraw\" keeps the mix",
                    _ => "",
                };
                format!(
                    "{samples} of {of} samples were moved to give each client min_samples = {min}: mean Σp² of \
                     labels {now:.3}, drawn {drawn:.3}{way_out}"
                )
            }
            Repaired::Moved { samples, drawn: None } => {
                format!(
                    "drawn sizes were lifted by {samples} samples in all to min_samples = {min}"
                )
            }
            Repaired::Redrawn { clients } => format!(
                "{clients} of {all} clients were drawn again to give each min_samples = {min}: mean Σp² of \
                 labels {now:.3}"
            ),
        })
    }

    /// How particular the clients are: the mean of `Σ_c p_c²` over those with samples, `p_c` being the share
    /// of class `c` in all that a client holds. 1 if everybody has a single class, `1 / classes` if all
    /// classes are even everywhere, and 0 without any samples.
    pub fn concentration(&self) -> f64 {
        let counts = (0..self.clients.len()).map(|client| self.label_counts(client, Split::All));
        mean_concentration(counts.map(Vec::into_iter)).unwrap_or(0.0)
    }

    /// The same clients, with samples that look different to each of them. It depends on nothing but the
    /// seed, the number of the client and the number of the sample.
    ///
    /// An error if the strength is out of range, or the samples are no images and the skew needs some.
    pub fn skewed(mut self, skew: Skew, seed: u64) -> Result<Self, DataError> {
        if skew != Skew::None {
            let train = Skewed::new(self.dataset.train.clone(), skew, seed, &self.clients)?;
            Arc::make_mut(&mut self.dataset).train = Arc::new(train);
            self.remark([skew.remark()]);
        }
        Ok(self)
    }

    /// Sets the last so many clients aside as [newcomers](Federation::newcomers): what they hold, they never train on
    /// with the others. An error if nobody would be left.
    pub fn setting_aside(mut self, newcomers: usize) -> Result<Self, DataError> {
        let clients = self.clients.len();
        let Some(left) = clients.checked_sub(newcomers).filter(|left| *left > 0) else {
            return Err(DataError::Plan {
                key: "new_clients",
                value: newcomers.to_string(),
                remedy: format!(
                    "there are {clients} clients in all, and at least one has to train: use less"
                ),
            });
        };
        self.newcomers = Newcomers {
            clients: self.clients.split_off(left),
            names: self.names.as_mut().map(|names| names.split_off(left)),
        };
        Ok(self)
    }

    fn remark(&mut self, remarks: impl IntoIterator<Item = String>) {
        let mut remarks = remarks.into_iter().peekable();
        if remarks.peek().is_some() {
            // The samples are shared: only names and remarks are copied.
            Arc::make_mut(&mut self.dataset).remarks.extend(remarks);
        }
    }

    /// How many samples of each class a part of a client holds. Panics when there is no such
    /// client, as a slice does.
    pub fn label_counts(&self, client: usize, which: Split) -> Vec<usize> {
        self.labels_of(&self.clients[client], which)
    }

    /// How many samples of each class a part of somebody's samples holds.
    pub fn labels_of(&self, data: &ClientData, which: Split) -> Vec<usize> {
        let mut counts = vec![0; self.dataset.classes];
        for index in data.indices(which) {
            counts[self.dataset.train.label(index as usize)] += 1;
        }
        counts
    }
}
