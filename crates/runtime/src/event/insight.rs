//! What a run found out about its data and its models besides scores: who holds what, where models
//! err, and how their spectra lie to each other. No result depends on any of it.

use formant_numerics::Confusion;
use serde::{Deserialize, Serialize};

/// How the training samples are divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// The classes' names, in the order of their labels.
    pub classes: Vec<String>,
    /// Training samples of every client by class, in client order; absent if that would be more than
    /// [`Division::MOST`] numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<Vec<u32>>>,
    /// Samples that went to another client than drawn, so that every client has the minimum.
    pub moved: usize,
    /// Samples that were divided, over all three splits.
    pub divided: usize,
    /// The mean over clients of `Σ_c p_c²`, `p_c` being the share of class `c` in what a client holds: 1 if
    /// everybody has a single class, `1 / classes` if all classes are even everywhere.
    pub concentration: f64,
    /// The same as drawn, before samples were moved; absent if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_concentration: Option<f64>,
}

impl Division {
    /// The most numbers that a log's first line holds of a division.
    pub const MOST: usize = 50_000;
}

/// Where a method's models err, at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detailed {
    /// The method's label.
    pub method: String,
    /// Rounds completed.
    pub round: usize,
    /// The generic model (or the averaged PM) on the global test set; absent without such a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gm: Option<Errors>,
    /// The personal models (or the GM), each on its own client's samples, added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pm: Option<Errors>,
    /// Accuracy of the same generic model on every client's own samples, in client order; `None` for a
    /// client without any.
    pub gm_on_clients: Vec<Option<f64>>,
}

/// The answers of a model, or of several, on a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Samples by true class, and in it by the class that was answered; absent with more than
    /// [`Errors::CLASSES`] classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Answers by how sure they are: equal parts of the range from 0 to 1 of the winning probability.
    pub reliability: Vec<Reliability>,
}

impl Errors {
    /// The most classes of which a log holds who is taken for whom.
    pub const CLASSES: usize = Confusion::CLASSES;

    /// What a log says of answers; nothing of a set without samples. Where a model has answered something that is
    /// not a number, it has answered no class: such a sample counts in the reliability alone, as sure and wrong.
    pub fn of(answers: &Confusion) -> Option<Self> {
        let bins = answers.calibration.bins();
        let reliability: Vec<Reliability> = bins
            .map(|bin| Reliability { samples: bin.samples, right: bin.right, confidence: bin.sure })
            .collect();
        let confusion = answers.rows().map(|rows| rows.map(<[u64]>::to_vec).collect());
        let any = reliability.iter().any(|bin| bin.samples > 0);
        any.then_some(Self { confusion, reliability })
    }
}

/// Answers that are about equally sure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// How many.
    pub samples: u64,
    /// How many of these are right.
    pub right: u64,
    /// The sum of the probabilities that they were given.
    pub confidence: f64,
}

/// The spectra of some models at an evaluation: the generic one beside some clients' personal ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spectra {
    /// The method's label.
    pub method: String,
    /// Rounds completed; 0 is before training.
    pub round: usize,
    /// The generic model's tensors; absent where [`ClientSpectra::layers`] is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gm: Option<Vec<LayerSpectrum>>,
    /// The clients that are shown, the same ones in every evaluation: the first by id. One whose model has
    /// diverged is left out.
    pub clients: Vec<ClientSpectra>,
}

/// A personal model's spectrum and how it lies to the generic model's. All of it but the tensors is of the flat
/// vector of all trainable parameters, by the discrete Fourier transform of the next length that is quick: zeros
/// are appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientSpectra {
    /// Who it is.
    pub client: usize,
    /// `D(P‖Q)` of the normalised magnitudes, PM against GM, over all bins.
    pub divergence: f64,
    /// The same over the lowest tenth of the bins.
    pub low_divergence: f64,
    /// `‖w_p − w_G‖ / ‖w_G‖`: how far apart the models are, phase included.
    pub distance: f64,
    /// Its tensors; only at a method's first and last evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<LayerSpectrum>>,
}

/// The magnitudes of one tensor's own transform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerSpectrum {
    /// The tensor's name, as PyTorch has it.
    pub layer: String,
    /// Root mean square of the magnitudes in bands from the lowest to the highest frequency, of equal width
    /// on a logarithmic axis as far as there are bins; divided by the square root of the tensor's length.
    pub bands: Vec<f32>,
}
