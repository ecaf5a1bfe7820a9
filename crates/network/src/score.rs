//! Accuracy and loss of a model on some images.

use formant_data::Images;
use formant_numerics::{Model, Network, Worker};
use formant_runtime::event::Score;

pub(crate) use formant_runtime::EVALUATION_BATCH as BATCH;

/// Scores a model on some of the images; `None` if there are none.
pub(crate) fn score(
    network: &dyn Network,
    model: &Model,
    (images, indices): (&Images, &[u32]),
    worker: &mut Worker,
) -> Option<Score> {
    let (right, loss) = formant_runtime::score(network, model, images, indices, worker);
    (!indices.is_empty()).then(|| Score::new(right, loss, indices.len()))
}
