//! Another way to combine uploads takes the place of the mean, in whole runs.

use crate::standard::case;
use formant_methods::{Combine, Combining, Contribution, MethodError, Round};
use formant_runtime::RunPlan;
use formant_testing::{DENSE, Folder, WITH_BUFFERS, run};
use std::sync::Arc;

/// The median of each coordinate, whatever the weights.
struct Median;

struct Columns(Vec<Vec<Vec<f32>>>);

impl Combine for Median {
    fn begin<'r>(&'r self, round: Round<'r>) -> Result<Box<dyn Combining + 'r>, MethodError> {
        let lengths = round.reference.iter().map(|vector| vector.len());
        Ok(Box::new(Columns(lengths.map(|len| vec![Vec::new(); len]).collect())))
    }
}

impl Combining for Columns {
    fn add(&mut self, upload: Contribution<'_>) -> Result<(), MethodError> {
        for (columns, vector) in self.0.iter_mut().zip(upload.vectors) {
            columns.iter_mut().zip(*vector).for_each(|(column, x)| column.push(*x));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Option<Vec<Vec<f32>>>, MethodError> {
        let median = |mut column: Vec<f32>| {
            column.sort_by(f32::total_cmp);
            column[column.len() / 2]
        };
        Ok(Some(self.0.into_iter().map(|all| all.into_iter().map(median).collect()).collect()))
    }
}

fn by_median(plan: &mut RunPlan) {
    plan.combine = Arc::new(Median);
}

#[test]
fn a_median_is_taken_by_every_method_that_asks_for_a_mean() {
    for name in ["fedavg", "feddyn", "fedgen", "fedavgm", "pfedme", "fedrep", "fedrod", "scd"] {
        for network in [DENSE, WITH_BUFFERS] {
            let case = case(&format!("name = \"{name}\""), network);
            let one = run(&case.plan_with(|plan| {
                by_median(plan);
                plan.threads = 1;
            }));
            let two = run(&case.plan_with(by_median));
            assert_eq!(one, two, "{case:?}: threads");
            assert_ne!(one.fingerprints, run(&case.plan()).fingerprints, "{case:?}: it is used");
            let folder = Folder::new();
            folder.run_until(&case.plan_with(by_median), 0, 1);
            folder.run(&case.plan_with(by_median)).unwrap();
            assert_eq!(folder.result(), one, "{case:?}: resumed");
        }
    }
}
