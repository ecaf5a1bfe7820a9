//! Gathering a batch of skewed samples allocates nothing: it happens inside a training step.
#![expect(unsafe_code, reason = "a global allocator that counts is an unsafe trait")]

use formant_data::{Dataset, Federation, Partition, PartitionPlan, Repair, Skew};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Per thread, so that the harness's own threads do not count.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every request goes to the system's allocator as it came; the counter is a plain cell
// that neither allocates nor has a destructor. What is not defined here comes through these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is being torn down has no counter any more, and nobody asks for it.
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_skewed_batch_is_gathered_without_allocating() {
    let plan = PartitionPlan {
        clients: Some(4),
        partition: Partition::Iid,
        part: None,
        samples: Some(400),
        min_samples: 20,
        repair: Repair::Move,
        train_fraction: 0.75,
        validation_fraction: 0.0,
        seed: 1,
    };
    let dataset = Arc::new(Dataset::load("mnist-small", None).unwrap());
    let plain = Federation::new(dataset, &plan).unwrap();
    let mut batch = vec![0.0; 75 * 784];
    for skew in [
        Skew::Rotation { skew_strength: 45.0 },
        Skew::Noise { skew_strength: 0.1 },
        Skew::Colour { skew_strength: 0.5 },
    ] {
        let skewed = plain.clone().skewed(skew, 1).unwrap();
        let before = ALLOCATIONS.get();
        skewed.dataset.train.gather(&skewed.clients[1].train, &mut batch);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{skew:?}");
    }
    let before = ALLOCATIONS.get();
    assert!(plain.dataset.train.labels().len() == 8_000 && ALLOCATIONS.get() > before, "it counts");
}
