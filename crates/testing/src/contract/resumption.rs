//! Stopped and resumed, a run ends with the bits of an undisturbed one.

use crate::{Folder, Subject, run};
use formant_runtime::sim::Outcome;

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
