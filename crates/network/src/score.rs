//! Accuracy and loss of a model on some images.

use formant_data::Images;
use formant_numerics::{Batch, Model, Network, Pass, Worker, accuracy_and_loss};
use formant_runtime::event::Score;

/// Samples in one batch.
pub(crate) const BATCH: usize = 64;

/// Scores a model on some of the images; `None` if there are none.
pub(crate) fn score(
    network: &dyn Network,
    model: &Model,
    (images, indices): (&Images, &[u32]),
    worker: &mut Worker,
) -> Option<Score> {
    let (mut right, mut loss) = (0, 0.0);
    for chunk in indices.chunks(BATCH) {
        worker.inputs.resize(chunk.len() * network.input().len(), 0.0);
        images.gather(chunk, &mut worker.inputs);
        images.gather_labels(chunk, &mut worker.labels);
        let batch = Batch { inputs: &worker.inputs, labels: &worker.labels };
        let output = network.forward(Pass::Eval(model), &batch, &mut worker.workspace);
        let (r, l) = accuracy_and_loss(output.logits, &worker.labels);
        right += r;
        loss += l;
    }
    let count = indices.len() as f64;
    (count > 0.0).then(|| Score { accuracy: right as f64 / count, loss: loss / count })
}
