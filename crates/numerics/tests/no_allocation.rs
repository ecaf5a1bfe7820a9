//! A training step allocates nothing: all its memory belongs to the worker and to the terms.
#![expect(unsafe_code, reason = "a global allocator that counts is an unsafe trait")]

use formant_data::Images;
use formant_numerics::{
    Augmentation, Augmenter, Band, BatchPlan, Batches, CATALOGUE, CpuWorker, Criterion, Descent,
    Family, Form, Length, Loss, Model, Moments, NetworkSpec, Norm, Normalisation, Objective,
    Optimiser, Part, Patience, Rng, Rule, Scope, Shape, Spectral, Stream, Tape, Term, Weight,
    Worker,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Per thread, so that the harness's own threads do not count.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes that were asked for, whatever became of them.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    // A thread that is being torn down has no counter any more, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
    let _ = BYTES.try_with(|n| n.set(n.get() + bytes));
}

// SAFETY: every request goes to the system's allocator as it came; the counter is a plain cell
// that neither allocates nor has a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];
const BATCH: usize = 6;

#[test]
fn the_size_of_a_workspace_is_known_before_it_is_there() {
    for entry in CATALOGUE {
        for shape in [Shape::new(1, 28, 28), Shape::new(3, 32, 32)] {
            let network = NetworkSpec::named(entry.name).build(shape, 10).unwrap();
            for batch in [1, 10, 64] {
                let before = BYTES.get();
                let workspace = network.workspace(batch);
                let taken = (BYTES.get() - before) as u64;
                drop(workspace);
                let known = network.workspace_bytes(batch, true);
                let place = format!("{} on {shape}, batch {batch}: {known} of {taken}", entry.name);
                assert!(known <= taken && taken - known < taken / 20 + (1 << 20), "{place}");
                assert!(network.workspace_bytes(batch, false) < known, "{place}");
            }
        }
    }
}

#[test]
fn a_step_allocates_nothing() {
    for entry in CATALOGUE {
        let norms: &[Option<Norm>] = match entry.family {
            Family::ResNet => &[Some(Norm::Batch), Some(Norm::Group)],
            _ => &[None],
        };
        for norm in norms {
            let mut spec = NetworkSpec::named(entry.name);
            if norm.is_some() {
                (spec.norm, spec.width) = (*norm, Some(4));
            }
            let network = spec.build(Shape::new(3, 32, 32), 10).expect("a catalogue name");
            for (part, rule) in [
                (Part::All, Rule::momentum(0.9)),
                (Part::Head, Rule::Sgd { momentum: 0.9, nesterov: true }),
                (Part::All, Rule::Adam(Moments::default())),
                (Part::Head, Rule::AdamW(Moments::default())),
            ] {
                let allocations = allocations_of_steps(&network, part, rule);
                assert_eq!(allocations, 0, "{} ({norm:?}, {part:?}, {rule:?})", entry.name);
            }
        }
    }
}

/// Allocations of three steps, after one that warms up.
fn allocations_of_steps(network: &Arc<Tape>, part: Part, rule: Rule) -> usize {
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let mut model = network.init(&mut rng);
    let teacher: Model = network.init(&mut rng);
    let mut worker = CpuWorker::new(network.clone(), BATCH);
    worker.inputs.extend((0..BATCH * network.input().len()).map(|_| rng.normal() as f32));
    worker.labels.extend((0..BATCH).map(|_| rng.below(network.classes()) as u32));
    let (features, labels) = (vec![0.5; 2 * network.features()], [0, 1]);
    worker.begin();

    let teacher = &teacher.parameters;
    let mut terms = vec![
        1e-2 * Term::Proximal { anchor: teacher },
        1e-3 * Term::Linear { direction: teacher },
        1e-3 * Term::Head { features: &features, labels: &labels },
    ];
    for (scope, length) in [
        (Scope::Flat, Length::Exact),
        (Scope::Flat, Length::Fast),
        (Scope::PerLayer, Length::Fast),
        (Scope::Plain, Length::Exact),
    ] {
        for form in FORMS {
            let tau = if form == Form::Raw { 1.0 } else { 0.3 };
            let spectral = Spectral { form, scope, length, tau, ..Spectral::towards(teacher) };
            terms.push(1e-6 * Term::Spectral(spectral));
            let random = Spectral { band: Band::Random(1), part: Part::Body, ..spectral };
            terms.push(Weight::Share(1e-3).of(Term::Spectral(random)));
        }
    }
    // Of large networks, these have transforms of their own.
    for (length, tau) in [Length::Exact, Length::Fast]
        .into_iter()
        .flat_map(|length| [0.02, 0.12].map(|tau| (length, tau)))
    {
        let narrow = Spectral { length, tau, ..Spectral::towards(teacher) };
        terms.push(1e-6 * Term::Spectral(narrow));
    }
    let shift = vec![0.1; network.classes()];
    let weights = vec![0.5; network.classes()];
    let criterion = Criterion { smoothing: 0.1, weights: Some(&weights) };
    let objective = Objective { loss: Loss::Shifted { shift: &shift }, criterion, terms: &terms };
    let mut teachers = worker.teachers(&terms, &model.parameters).expect("a ratio within bounds");

    let optimiser = Optimiser { weight_decay: 1e-4, clip: Some(0.5), rule, ..Optimiser::sgd(1e-3) };
    let descent = Descent { optimiser, part };
    let mut step = |worker: &mut CpuWorker| {
        worker
            .descend(&mut model, descent, &objective, &mut teachers)
            .expect("a step that stays finite");
        // By hand, without a spectrum.
        let by_hand = Objective { terms: &terms[..3], ..objective };
        worker.step(&mut model, descent, &by_hand).expect("a step that stays finite");
    };
    step(&mut worker);
    let before = ALLOCATIONS.get();
    for n in [BATCH, BATCH - 1, BATCH - 1] {
        // The last batch of an epoch is often a smaller one.
        worker.labels.truncate(n);
        worker.inputs.truncate(n * network.input().len());
        step(&mut worker);
    }
    ALLOCATIONS.get() - before
}

#[test]
fn steps_with_spectra_of_other_kinds_allocate_nothing() {
    let network =
        NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10).expect("a catalogue name");
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let (mut model, teacher) = (network.init(&mut rng), network.init(&mut rng).parameters);
    let mut worker = CpuWorker::new(network.clone(), 2);
    worker.inputs.extend((0..2 * network.input().len()).map(|_| rng.normal() as f32));
    worker.labels.extend([3, 4]);
    worker.begin();
    let mut terms = Vec::new();
    for scope in [Scope::TwoD, Scope::Kernel, Scope::Singular] {
        for form in FORMS.into_iter().filter(|f| (scope, *f) != (Scope::Singular, Form::Complex)) {
            let spectral = Spectral { form, scope, tau: 0.3, ..Spectral::towards(&teacher) };
            terms.push(1e-6 * Term::Spectral(spectral));
        }
    }
    let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
    let mut teachers = worker.teachers(&terms, &model.parameters).expect("a ratio within bounds");
    let descent = Descent { optimiser: Optimiser::sgd(1e-3), part: Part::All };
    let mut step = || {
        worker.descend(&mut model, descent, &objective, &mut teachers).expect("a finite step");
    };
    step();
    let before = ALLOCATIONS.get();
    step();
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

#[test]
fn an_augmented_step_allocates_nothing() {
    let shape = Shape::new(3, 32, 32);
    let network = NetworkSpec::named("lenet5").build(shape, 10).expect("a catalogue name");
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let pixels = (0..20 * shape.len()).map(|_| rng.below(256) as u8).collect();
    let labels = (0..20).map(|_| rng.below(10) as u16).collect();
    let normalisation = [Normalisation::new(0.5, 0.25); 3];
    let images = Images::new(shape, pixels, labels, &normalisation).expect("images");
    let train: Vec<u32> = (0..20).collect();
    let how = Augmentation {
        crop: 4,
        flip: 0.5,
        rotation: 15.0,
        brightness: 0.4,
        contrast: 0.4,
        saturation: 0.4,
        cutout: 16,
        mixup: 1.0,
    };
    let mut augmenter = Augmenter::new(how, &Rng::new(1, Stream::Test, 1, 0));
    let patience = Patience::Epochs;
    let plan = BatchPlan { samples: &images, train: &train, batch: BATCH, epochs: 3, patience };
    let mut batches = Batches::new(plan, &mut rng).augmented(&mut augmenter);
    let mut model = network.init(&mut Rng::new(1, Stream::Test, 2, 0));
    let mut worker = CpuWorker::new(network.clone(), BATCH);
    worker.begin();
    let descent = Descent { optimiser: Optimiser::sgd(1e-3), part: Part::All };
    let mut step = || {
        worker.take(batches.next()?);
        Some(worker.descend(&mut model, descent, &Objective::CROSS_ENTROPY, &mut []))
    };
    step().expect("a first step").expect("a finite one");
    let before = ALLOCATIONS.get();
    let mut steps = 0;
    while let Some(value) = step() {
        value.expect("a step that stays finite");
        steps += 1;
    }
    assert_eq!((ALLOCATIONS.get() - before, steps), (0, 11));
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    std::hint::black_box(vec![1.0f32; 100]);
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
