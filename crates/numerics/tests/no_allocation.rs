//! A training step allocates nothing: all its memory belongs to the worker and to the terms.
#![expect(unsafe_code, reason = "a global allocator that counts is an unsafe trait")]

use formant_numerics::{
    CATALOGUE, Family, Form, Length, Linear, Model, Network, NetworkSpec, Norm, Part, Proximal,
    Rng, Scope, Sgd, Shape, SpectralDivergence, Stream, Term, Worker,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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
            for part in [Part::All, Part::Head] {
                let allocations = allocations_of_steps(&*network, part);
                assert_eq!(allocations, 0, "{} ({norm:?}, {part:?})", entry.name);
            }
        }
    }
}

/// Allocations of three steps, after one that warms up.
fn allocations_of_steps(network: &dyn Network, part: Part) -> usize {
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let mut model = network.init(&mut rng);
    let teacher: Model = network.init(&mut rng);
    let mut worker = Worker::new(network, BATCH);
    worker.inputs.extend((0..BATCH * network.input().len()).map(|_| rng.normal() as f32));
    worker.labels.extend((0..BATCH).map(|_| rng.below(network.classes()) as u32));
    worker.begin_phase();

    let mut spectral: Vec<SpectralDivergence> = Vec::new();
    for kind in
        [(Scope::Flat, Length::Exact), (Scope::Flat, Length::Fast), (Scope::PerLayer, Length::Fast)]
    {
        let plans = worker.spectrum(network, kind);
        for form in FORMS {
            let tau = if form == Form::Raw { 1.0 } else { 0.3 };
            let term = SpectralDivergence::new(plans.clone(), form, tau, &teacher.parameters);
            spectral.push(term.expect("a ratio within bounds"));
        }
    }
    let mut proximal = Proximal { anchor: &teacher.parameters };
    let mut linear = Linear { direction: &teacher.parameters };
    let mut terms: Vec<(f32, &mut dyn Term)> = vec![(1e-2, &mut proximal), (1e-3, &mut linear)];
    terms.extend(spectral.iter_mut().map(|term| (1e-6, term as &mut dyn Term)));

    let sgd = Sgd { learning_rate: 1e-3, momentum: 0.9, weight_decay: 1e-4, clip: Some(0.5) };
    let mut step = |worker: &mut Worker| {
        worker
            .step(network, &mut model, (&sgd, part), &mut terms)
            .expect("a step that stays finite");
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
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    std::hint::black_box(vec![1.0f32; 100]);
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
