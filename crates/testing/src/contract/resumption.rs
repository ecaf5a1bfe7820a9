//! Stopped and resumed, a run ends with the bits of an undisturbed one.

use crate::{Folder, Subject, Tripwire, run};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Quiet, RunPlan};
use std::sync::atomic::Ordering;

/// Wherever it is stopped, and whatever machine it goes on with, the result is that of an undisturbed run.
pub fn it_resumes_to_the_same_bits(subject: &Subject) {
    for case in subject.cases() {
        let undisturbed = run(&case.plan());
        for (round, checkpoint_every) in [(1, 1), (2, 100)] {
            let plan = case.plan_with(|p| p.checkpoint_every = checkpoint_every);
            let folder = Folder::new();
            assert_eq!(folder.run_until(&plan, 0, round), Outcome::Interrupted, "{case:?}");
            let so_far = folder.events().len();
            // The machine may be used differently from session to session.
            let resumed = case.plan_with(|p| {
                p.checkpoint_every = 1;
                p.threads = 1;
                p.memory = 0;
            });
            folder.run(&resumed).unwrap();
            assert_eq!(folder.result(), undisturbed, "{case:?} after round {round}");
            assert!(folder.events().len() > so_far, "{case:?}");
        }
    }
}

/// A run is stopped in the middle of phases and evaluations, again and again, and loses nothing but time.
pub fn it_stops_at_any_batch_and_resumes_to_the_same_bits(subject: &Subject) {
    let [first, .., last] = subject.cases() else { unreachable!("there are two cases at least") };
    for case in [first, last] {
        stopped_at_any_batch(|| case.plan_with(|plan| plan.checkpoint_every = 1));
    }
}

/// Stops the only method of a plan at several batches, one session after the other.
///
/// # Panics
///
/// If it does not stop at once, or ends otherwise than undisturbed.
pub fn stopped_at_any_batch(plan: impl Fn() -> RunPlan) {
    let name = &plan().methods[0].label;
    let (whole, counted) = (Tripwire::default(), Folder::new());
    let mut undisturbed = plan();
    whole.lay(&mut undisturbed);
    counted.run(&undisturbed).unwrap();
    let batches = whole.batches.load(Ordering::Relaxed);
    let (folder, threads) = (Folder::new(), undisturbed.threads as u64);
    // Each session begins at a checkpoint, so the same number is somewhere else each time.
    for share in [0.02, 0.17, 0.3, 0.45, 0.11] {
        let at = ((batches as f64 * share) as u64).max(1);
        let wire = Tripwire::at(at);
        let mut plan = plan();
        wire.lay(&mut plan);
        let outcome = sim::run(&plan, folder.path(), &Quiet, &wire.stop).unwrap();
        assert_eq!(outcome, Outcome::Interrupted, "{name}, batch {at} of {batches}");
        let more = wire.batches.load(Ordering::Relaxed) - at;
        // Augmented samples are counted one by one.
        let batch = plan.largest_batch(&plan.methods[0]) as u64;
        assert!(more <= 2 * threads * batch, "{name} went on for {more} after {at}");
    }
    folder.run(&plan()).unwrap();
    assert_eq!(folder.result(), counted.result(), "{name}");
}
