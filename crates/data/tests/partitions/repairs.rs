//! What becomes of clients that are drawn too small.

use crate::{check_sound, dataset, message, plan};
use formant_data::{
    DataError, Dataset, Federation, Partition, PartitionPlan, Repair, Repaired, Split,
};
use proptest::prelude::*;
use std::sync::Arc;

/// A set of ten classes of the same size.
fn ten(samples: usize) -> Arc<Dataset> {
    dataset(&[samples / 10; 10])
}

fn of_a_hundred(min_samples: usize, repair: Repair, seed: u64) -> PartitionPlan {
    PartitionPlan { min_samples, repair, seed, ..plan(100, Partition::Dirichlet { alpha: 0.1 }) }
}

/// The mean over classes of `Σ_k q_k²`, `q_k` being the share of client `k` in the class.
fn class_concentration(federation: &Federation) -> f64 {
    let counts: Vec<Vec<usize>> =
        (0..federation.clients.len()).map(|c| federation.label_counts(c, Split::All)).collect();
    let classes = federation.dataset.classes;
    let of = |class: usize| {
        let (total, squares) = counts.iter().fold((0.0, 0.0), |(total, squares), of| {
            let count = of[class] as f64;
            (total + count, squares + count * count)
        });
        squares / (total * total)
    };
    (0..classes).map(of).sum::<f64>() / classes as f64
}

#[test]
fn drawing_again_keeps_the_law_of_the_labels_and_moving_does_not() {
    // Of a Dirichlet(0.1) draw over ten classes, E Σp² is (1 + 0.1) / (1 + 10 * 0.1).
    let law = 1.1 / 2.0;
    let mean = |samples: usize, min: usize, repair, figure: fn(&Federation) -> f64| {
        let of = |seed| {
            let plan = of_a_hundred(min, repair, seed);
            let federation = Federation::new(ten(samples), &plan).unwrap();
            assert_eq!(check_sound(&federation, &plan), samples);
            // Of many samples, now and then everybody has enough.
            assert!(federation.repaired.is_some() || samples == 50_000, "nothing was repaired");
            figure(&federation)
        };
        (1..=16).map(of).sum::<f64>() / 16.0
    };
    for (samples, min) in [(10_000, 20), (5_000, 20)] {
        let again = mean(samples, min, Repair::Redraw, Federation::concentration);
        assert!((again - law).abs() < 0.025, "{again} of {samples}");
        let moved = mean(samples, min, Repair::Move, Federation::concentration);
        assert!(moved < law - 0.025 && moved < again, "{moved} of {samples}");
    }
    // How a class is spread is (1 + 0.1) / (1 + 100 * 0.1) by the law, and stays so as long as the minimum
    // leaves most sizes as they are.
    let spread = mean(50_000, 20, Repair::Redraw, class_concentration);
    assert!((spread - 0.1).abs() < 0.01, "{spread}");
}

#[test]
fn drawing_again_is_the_same_every_time_and_changes_nothing_without_need() {
    let divide = |samples, plan: &PartitionPlan| Federation::new(ten(samples), plan).unwrap();
    let again = |seed| divide(5_000, &of_a_hundred(20, Repair::Redraw, seed)).clients;
    assert_eq!(again(4), again(4));
    assert_ne!(again(4), again(5));
    let even = |repair| {
        let partition = Partition::Dirichlet { alpha: 5.0 };
        PartitionPlan { min_samples: 2, repair, ..plan(10, partition) }
    };
    let (moved, again) = (divide(5_000, &even(Repair::Move)), divide(5_000, &even(Repair::Redraw)));
    assert_eq!((&moved.clients, moved.repaired), (&again.clients, None));
    assert!(again.repaired.is_none() && again.dataset.remarks.is_empty());
}

#[test]
fn what_was_repaired_is_told() {
    let moved = Federation::new(ten(5_000), &of_a_hundred(20, Repair::Move, 1)).unwrap();
    let Some(Repaired::Moved { samples, drawn: Some(drawn) }) = moved.repaired else {
        panic!("{:?}", moved.repaired)
    };
    // The samples that the small ones lack: nobody else takes any.
    let least = PartitionPlan { min_samples: 1, ..of_a_hundred(20, Repair::Move, 1) };
    let nearly = Federation::new(ten(5_000), &least).unwrap();
    let lacking: usize =
        nearly.clients.iter().map(|c| 20usize.saturating_sub(c.size(Split::All))).sum();
    let lifted = match nearly.repaired {
        Some(Repaired::Moved { samples, .. }) => samples,
        _ => 0,
    };
    assert_eq!(samples, lacking + lifted);
    assert!(drawn > moved.concentration() + 0.02, "{drawn} and {}", moved.concentration());
    let again = Federation::new(ten(5_000), &of_a_hundred(20, Repair::Redraw, 1)).unwrap();
    let Some(Repaired::Redrawn { clients }) = again.repaired else {
        panic!("{:?}", again.repaired)
    };
    assert!((10..80).contains(&clients), "{clients}");
    assert_eq!(
        [&moved.dataset.remarks[..], &again.dataset.remarks[..]].concat(),
        [
            format!(
                "{samples} of 5000 samples were moved to give each client min_samples = 20: mean Σp² of \
                 labels {:.3}, drawn {drawn:.3}; data.repair = \"redraw\" keeps the mix",
                moved.concentration()
            ),
            format!(
                "{clients} of 100 clients were drawn again to give each min_samples = 20: mean Σp² of \
                 labels {:.3}",
                again.concentration()
            ),
        ]
    );
}

#[test]
fn a_minimum_that_is_out_of_reach_and_partitions_without_columns_are_refused() {
    let text = message(&ten(2_000), &of_a_hundred(20, Repair::Redraw, 1));
    for part in
        ["data.min_samples = 20", "1000 more draws", "hint: lower data.min_samples", "\"move\""]
    {
        assert!(text.contains(part), "{text}");
    }
    let iid = PartitionPlan { repair: Repair::Redraw, ..plan(3, Partition::Iid) };
    assert!(message(&ten(100), &iid).contains("repair = \"redraw\" does not make a partition"));
    let tiny =
        PartitionPlan { repair: Repair::Redraw, ..plan(3, Partition::Dirichlet { alpha: 1e-12 }) };
    assert!(message(&ten(100), &tiny).contains("use 0.000000001 or more"));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn drawing_again_gives_everybody_the_minimum_or_says_that_it_cannot(
        sizes in prop::collection::vec(0usize..80, 2..12),
        clients in 1usize..20,
        power in -2.0f64..2.0,
        fill in 0.0f64..=0.6,
        seed in any::<u64>(),
    ) {
        let total: usize = sizes.iter().sum();
        prop_assume!(total >= clients);
        let plan = PartitionPlan {
            min_samples: 1 + ((total / clients - 1) as f64 * fill) as usize,
            repair: Repair::Redraw,
            seed,
            ..plan(clients, Partition::Dirichlet { alpha: 10f64.powf(power) })
        };
        match Federation::new(dataset(&sizes), &plan) {
            Ok(federation) => prop_assert_eq!(check_sound(&federation, &plan), total),
            Err(error) => prop_assert!(matches!(error, DataError::Undrawn { .. }), "{}", error),
        }
    }
}
