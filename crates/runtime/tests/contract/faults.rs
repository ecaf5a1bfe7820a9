//! Every call that writes fails once, or for good from then on: what the folder was told to hold is still there, and the
//! run that goes on ends with the same bits.
//!
//! `FORMANT_FAULTS=all cargo test --test contract faults` has every call fail, and not every few.

use crate::standard::plan_of;
use formant_runtime::RunPlan;
use formant_runtime::files::faults::{Faults, Lasting};
use formant_testing::{DENSE, Folder, run};

/// Calls from one fault to the next.
fn stride() -> usize {
    if std::env::var("FORMANT_FAULTS").is_ok_and(|asked| asked == "all") { 1 } else { 11 }
}

fn plans() -> [RunPlan; 2] {
    let mut spilled = plan_of(&["name = \"ditto\""], DENSE);
    spilled.memory = 1;
    let mut patient = plan_of(&["name = \"fedrod\"", "name = \"ditto\""], DENSE);
    patient.evaluation.patience = Some(2);
    [spilled, patient]
}

#[test]
fn a_call_that_fails_loses_nothing_of_a_run() {
    for plan in plans() {
        let expected = run(&plan);
        for lasting in [Lasting::Once, Lasting::FromThenOn] {
            let (mut failed, mut calls) = (0, 0);
            for at in (1..).step_by(stride()) {
                let folder = Folder::new();
                let faults = Faults::below(folder.path(), at, lasting);
                let outcome = folder.run(&plan);
                let reached = faults.have_failed();
                calls = faults.made().len();
                drop(faults);
                if !reached {
                    outcome.unwrap();
                    break;
                }
                failed += 1;
                let what = format!("{lasting:?}, call {at}");
                if let Err(error) = &outcome {
                    let error = error.to_string();
                    assert!(error.contains("\nhint: "), "{what}: {error}");
                    let again = folder.run(&plan).map_err(|error| error.to_string());
                    // It may have failed when all was done.
                    let is_over = again.as_ref().is_err_and(|error| error.contains("is complete"));
                    assert!(is_over || again.is_ok(), "{what}: {error}, then {again:?}");
                }
                assert_eq!(folder.result(), expected, "{what}: {outcome:?}");
            }
            println!("{lasting:?}: {failed} of {calls} calls failed");
            assert!(calls > 50 && failed * stride() + stride() > calls.min(60));
        }
    }
}
