//! What each augmentation adds to a training step, in turns with the plain step.

use crate::client::{CLASSES, LEARNING_RATE, SHAPE, Work};
use anyhow::Context as _;
use formant_data::Images;
use formant_numerics::{
    Augmentation, Augmenter, BatchPlan, Batches, CpuWorker, Descent, Model, Normalisation,
    Objective, Optimiser, Part, Patience, Rng, Stream, Worker as _,
};
use serde_json::{Map, Value, json};
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: Work,
}

/// Everything by itself, and what is usual together.
fn kinds() -> [(&'static str, Augmentation); 10] {
    let none = Augmentation::NONE;
    [
        ("none", none),
        ("crop", Augmentation { crop: 4, ..none }),
        ("flip", Augmentation { flip: 0.5, ..none }),
        ("crop and flip", Augmentation { crop: 4, flip: 0.5, ..none }),
        ("cutout", Augmentation { cutout: 16, ..none }),
        ("rotation", Augmentation { rotation: 15.0, ..none }),
        ("brightness", Augmentation { brightness: 0.4, ..none }),
        ("contrast", Augmentation { contrast: 0.4, ..none }),
        ("colour", Augmentation { brightness: 0.4, contrast: 0.4, saturation: 0.4, ..none }),
        ("mixup", Augmentation { mixup: 1.0, ..none }),
    ]
}

/// Seconds of all steps that were made, whole and gathering alone.
#[derive(Debug, Default, Clone, Copy)]
struct Spent {
    steps: u32,
    whole: f64,
    gathering: f64,
}

pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    let work = &args.work;
    let network = work.network()?;
    let batch = work.batch as usize;
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let len = 16 * batch;
    let pixels = (0..len * SHAPE.len()).map(|_| rng.below(256) as u8).collect();
    let labels = (0..len).map(|_| rng.below(CLASSES) as u16).collect();
    let normalisation = [Normalisation::new(0.5, 0.25); 3];
    let images = Images::new(SHAPE, pixels, labels, &normalisation).context("images")?;
    let train: Vec<u32> = (0..len as u32).collect();
    let mut model = network.init(&mut rng);
    let mut worker = CpuWorker::new(network.clone(), batch);
    let mut spent = [Spent::default(); kinds().len()];
    let (started, mut warm) = (Instant::now(), false);
    loop {
        let elapsed = started.elapsed().as_secs_f64();
        if !warm && elapsed > work.warm_up {
            (spent, warm) = ([Spent::default(); kinds().len()], true);
        }
        if warm && elapsed > work.warm_up + work.seconds {
            break;
        }
        // In turns, so that a noisy neighbour disturbs all alike.
        for ((_, how), spent) in kinds().into_iter().zip(&mut spent) {
            let patience = Patience::Batches(2);
            let plan = BatchPlan { samples: &images, train: &train, batch, epochs: 1, patience };
            let mut augmenter = Augmenter::new(how, &rng);
            let batches = Batches::new(plan, &mut rng);
            let mut batches =
                if how.is_none() { batches } else { batches.augmented(&mut augmenter) };
            worker.begin();
            step(&mut worker, &mut model, &mut batches, spent)?;
        }
    }
    let plain = spent[0];
    let figures = kinds().into_iter().zip(spent).map(|((name, _), spent)| {
        let (steps, milliseconds) = (f64::from(spent.steps), 1e3);
        let added = (spent.gathering - plain.gathering * steps / f64::from(plain.steps)) / steps;
        let figures = json!({
            "steps": spent.steps,
            "step_ms": milliseconds * spent.whole / steps,
            "gather_ms": milliseconds * spent.gathering / steps,
            "added_share_of_a_plain_step": added / (plain.whole / f64::from(plain.steps)),
        });
        (name.to_owned(), figures)
    });
    Ok(Value::Object(figures.collect::<Map<_, _>>()))
}

/// Two steps: the first, in which memory may have to be found, is not counted.
fn step(
    worker: &mut CpuWorker,
    model: &mut Model,
    batches: &mut Batches<'_>,
    spent: &mut Spent,
) -> anyhow::Result<()> {
    let descent = Descent { optimiser: Optimiser::sgd(LEARNING_RATE), part: Part::All };
    for counts in [false, true] {
        let start = Instant::now();
        worker.take(batches.next().context("a batch")?);
        let gathered = start.elapsed().as_secs_f64();
        worker.descend(model, descent, &Objective::CROSS_ENTROPY, &mut [])?;
        if counts {
            spent.steps += 1;
            spent.gathering += gathered;
            spent.whole += start.elapsed().as_secs_f64();
        }
    }
    Ok(())
}
