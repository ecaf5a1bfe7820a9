//! Optimisers and criteria against PyTorch: eight steps of a small network, and losses of logits.

use super::digest::{Fixture, Member};
use super::recipe::{Samples, labels, model, values};
use crate::{
    CpuWorker, Criterion, Descent, Moments, NetworkSpec, Objective, Optimiser, Part, Rule, Shape,
    Worker,
};

/// The same numbers stand in `make.py`.
const STEPS: usize = 8;
const BATCH: usize = 6;
const SCORED: (usize, usize) = (9, 5);

/// Of all 24 cases, four are criteria and the others optimisers; none is left out.
#[test]
fn all_cases_agree_with_pytorch() {
    let fixture = Fixture::open("training");
    let cases = fixture.cases();
    let (criteria, optimisers): (Vec<&str>, Vec<&str>) =
        cases.into_iter().partition(|name| name.starts_with("criterion_"));
    assert_eq!((criteria.len(), optimisers.len()), (4, 20));
    for name in criteria {
        let error = compare_criterion(&fixture, name);
        println!("{name:28} {error:.1e}");
    }
    for name in optimisers {
        let error = compare_steps(&fixture, name);
        println!("{name:28} {error:.1e}");
    }
}

fn compare_criterion(fixture: &Fixture, name: &str) -> f64 {
    let cells: Vec<&str> = fixture.line(name).split('|').map(str::trim).collect();
    let (samples, classes) = SCORED;
    let weights: Vec<f32> = values("weights", classes).iter().map(|x| 1.0 + x / 2.0).collect();
    let criterion = Criterion {
        smoothing: cells[1].parse().unwrap(),
        weights: (cells[2] == "yes").then_some(&*weights),
    };
    let logits: Vec<f32> =
        values("logits", samples * classes).into_iter().map(|x| 4.0 * x).collect();
    let mut d_logits = vec![f32::NAN; logits.len()];
    let loss = criterion.evaluate(&logits, &labels(samples, classes), &mut d_logits);
    let members = [Member::new("loss", &[loss as f32]), Member::new("logits", &d_logits)];
    fixture.compare(name, &members, 64)
}

fn compare_steps(fixture: &Fixture, name: &str) -> f64 {
    let spec = NetworkSpec { hidden: Some(vec![9]), ..NetworkSpec::named("mlp") };
    let network = spec.build(Shape::new(1, 4, 5), 4).unwrap();
    let samples = Samples::new(network.input(), BATCH, network.classes());
    let mut worker = CpuWorker::new(network.clone(), BATCH);
    worker.inputs.extend(&samples.inputs);
    worker.labels.extend(&samples.labels);
    worker.begin();
    let descent = Descent { optimiser: optimiser(fixture.line(name)), part: Part::All };
    let start = model(network.layout());
    let (mut model, mut losses, mut worst) = (start.clone(), Vec::new(), 0.0f64);
    for step in 1..=STEPS {
        losses.push(worker.step(&mut model, descent, &Objective::CROSS_ENTROPY).unwrap() as f32);
        if step == 1 || step == STEPS {
            let moved = network.layout().tensors().iter().map(|tensor| {
                let range = tensor.range.clone();
                let before = &start.parameters[range.clone()];
                Member::change(&tensor.name, before, &model.parameters[range])
            });
            let moved: Vec<Member> = moved.collect();
            worst = worst.max(fixture.compare(&format!("{name}.step{step}"), &moved, 64));
        }
    }
    let losses = [Member::new("losses", &losses)];
    worst.max(fixture.compare(&format!("{name}.losses"), &losses, 64))
}

/// Rule, learning rate, momentum, weight decay and clipping.
fn optimiser(line: &str) -> Optimiser {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let number = |cell: &str| cell.parse::<f32>().unwrap();
    let momentum = number(cells[2]);
    Optimiser {
        learning_rate: number(cells[1]),
        weight_decay: number(cells[3]),
        clip: (!cells[4].is_empty()).then(|| number(cells[4])),
        rule: match cells[0] {
            "sgd" => Rule::momentum(momentum),
            "nesterov" => Rule::Sgd { momentum, nesterov: true },
            "adam" => Rule::Adam(Moments::default()),
            "adamw" => Rule::AdamW(Moments::default()),
            other => panic!("{other}"),
        },
    }
}
