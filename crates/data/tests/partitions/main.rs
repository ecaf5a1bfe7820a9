//! What every division of a dataset among clients promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

mod repairs;

use formant_data::{
    DataError, Dataset, Federation, Images, Normalisation, Partition, PartitionPlan, Repair, Split,
};
use formant_numerics::Shape;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A set with the given number of one-pixel samples of each class, the classes interleaved.
fn dataset(class_sizes: &[usize]) -> Arc<Dataset> {
    let mut labels = Vec::new();
    for turn in 0..class_sizes.iter().copied().max().unwrap_or(0) {
        labels.extend((0u16..).zip(class_sizes).filter(|(_, size)| turn < **size).map(|(c, _)| c));
    }
    let images = |labels: Vec<u16>| {
        let pixels = vec![0; labels.len()];
        Images::new(Shape::new(1, 1, 1), pixels, labels, &[Normalisation::NONE]).unwrap()
    };
    let names = (0..class_sizes.len()).map(|class| class.to_string()).collect();
    Arc::new(Dataset::from_parts("made", names, images(labels), images(vec![0])).unwrap())
}

fn plan(clients: usize, partition: Partition) -> PartitionPlan {
    PartitionPlan {
        clients: Some(clients),
        partition,
        part: None,
        samples: None,
        min_samples: 1,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    }
}

fn message(dataset: &Arc<Dataset>, plan: &PartitionPlan) -> String {
    Federation::new(dataset.clone(), plan).unwrap_err().to_string()
}

/// Every sample at most once, ascending within a split, at least the minimum a client.
fn check_sound(federation: &Federation, plan: &PartitionPlan) -> usize {
    let mut seen = BTreeSet::new();
    assert_eq!(federation.clients.len(), plan.clients.unwrap());
    for client in &federation.clients {
        for split in [&client.train, &client.validation, &client.test] {
            assert!(split.is_sorted());
        }
        assert!(client.size(Split::All) >= plan.min_samples);
        assert!(!client.train.is_empty());
        for index in client.indices(Split::All) {
            assert!((index as usize) < federation.dataset.train.len());
            assert!(seen.insert(index), "sample {index} is held twice");
        }
    }
    seen.len()
}

/// Totals follow the fractions, and every class is divided like the totals, within one.
fn check_stratified(federation: &Federation, plan: &PartitionPlan) {
    let test_fraction = 1.0 - plan.train_fraction - plan.validation_fraction;
    let parts = [
        (Split::Train, plan.train_fraction),
        (Split::Validation, plan.validation_fraction),
        (Split::Test, test_fraction),
    ];
    for (i, client) in federation.clients.iter().enumerate() {
        let size = client.size(Split::All);
        let all = federation.label_counts(i, Split::All);
        let nothing_lent = parts.iter().all(|(_, f)| *f <= 1e-9 || f * size as f64 >= 1.0);
        for (split, fraction) in parts {
            let total = client.size(split);
            // One for the rounding, two for samples lent to parts that would be empty.
            let slack = if nothing_lent { 1.0 } else { 3.0 };
            let off = (total as f64 - fraction * size as f64).abs();
            assert!(off < slack + 1e-6, "{split:?} of client {i}: {total} of {size}");
            if fraction > 1e-9 && size >= 3 {
                assert!(total > 0, "{split:?} of client {i} is empty");
            }
            if fraction <= 1e-9 {
                assert_eq!(total, 0);
            }
            for (part, whole) in federation.label_counts(i, split).iter().zip(&all) {
                let ideal = (whole * total) as f64 / size as f64;
                assert!((*part as f64 - ideal).abs() < 1.0, "{part} instead of {ideal}");
            }
        }
        if test_fraction > 1e-9 && size >= 2 {
            assert!(!client.test.is_empty());
        }
    }
}

fn any_partition() -> impl Strategy<Value = Partition> {
    prop_oneof![
        Just(Partition::Iid),
        (-3.0f64..2.0).prop_map(|power| Partition::Dirichlet { alpha: 10f64.powf(power) }),
        (-3.0f64..2.0).prop_map(|power| Partition::Quantity { alpha: 10f64.powf(power) }),
    ]
}

/// Divisions that may leave out classes, and may find a minimum out of reach.
fn any_by_classes() -> impl Strategy<Value = Partition> {
    let bernoulli = |(p, power): (f64, f64)| Partition::Bernoulli {
        class_probability: p,
        alpha: 10f64.powf(power),
    };
    prop_oneof![
        (1usize..5).prop_map(|k| Partition::Shards { shards_per_client: k }),
        (0.001f64..=1.0, -3.0f64..2.0).prop_map(bernoulli),
    ]
}

fn any_fractions() -> impl Strategy<Value = (f64, f64)> {
    prop_oneof![
        Just((0.8, 0.2)),
        Just((1.0, 0.0)),
        Just((0.7, 0.0)),
        (0.05f64..0.9, 0.0f64..1.0).prop_map(|(train, rest)| (train, rest * (1.0 - train))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn iid_and_dirichlet_use_every_sample_once(
        sizes in prop::collection::vec(0usize..80, 2..12),
        clients in 1usize..30,
        partition in any_partition(),
        fill in 0.0f64..=1.0,
        share in prop::option::of(0.3f64..=1.0),
        fractions in any_fractions(),
        seed in any::<u64>(),
    ) {
        let total: usize = sizes.iter().sum();
        let samples = share.map(|share| (total as f64 * share) as usize);
        let used = samples.unwrap_or(total);
        prop_assume!(used >= clients);
        let plan = PartitionPlan {
            samples,
            // From 1 up to the most that is possible, which leaves the repair no freedom.
            min_samples: 1 + ((used / clients - 1) as f64 * fill) as usize,
            train_fraction: fractions.0,
            validation_fraction: fractions.1,
            seed,
            ..plan(clients, partition.clone())
        };
        let dataset = dataset(&sizes);
        let federation = Federation::new(dataset.clone(), &plan).unwrap();
        prop_assert_eq!(check_sound(&federation, &plan), used);
        check_stratified(&federation, &plan);
        if partition == Partition::Iid {
            let held = federation.clients.iter().map(|client| client.size(Split::All));
            prop_assert!(held.clone().max().unwrap() <= held.min().unwrap() + 1);
        }
        let again = Federation::new(dataset.clone(), &plan).unwrap();
        prop_assert_eq!(&again.clients, &federation.clients);
    }

    #[test]
    fn shards_and_tosses_give_every_sample_to_one_client_at_most(
        sizes in prop::collection::vec(0usize..80, 2..12),
        clients in 1usize..25,
        partition in any_by_classes(),
        min_samples in 1usize..8,
        fractions in any_fractions(),
        seed in any::<u64>(),
    ) {
        prop_assume!(sizes.iter().any(|size| *size > 0));
        let plan = PartitionPlan {
            min_samples,
            train_fraction: fractions.0,
            validation_fraction: fractions.1,
            seed,
            ..plan(clients, partition.clone())
        };
        let dataset = dataset(&sizes);
        let federation = match Federation::new(dataset.clone(), &plan) {
            Ok(federation) => federation,
            Err(
                DataError::Unrepairable { .. }
                | DataError::TooFewSamples { .. }
                | DataError::Plan { key: "shards_per_client", .. },
            ) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        let held = check_sound(&federation, &plan);
        check_stratified(&federation, &plan);
        let total: usize = sizes.iter().sum();
        if let Partition::Shards { shards_per_client } = partition {
            prop_assert_eq!(held, total);
            // A run of consecutive samples reaches over as many classes as fit into its length.
            let longest = total.div_ceil(clients * shards_per_client);
            let least = *sizes.iter().filter(|size| **size > 0).min().unwrap();
            let classes = shards_per_client * ((longest - 1) / least + 2);
            for client in 0..clients {
                let counts = federation.label_counts(client, Split::All);
                prop_assert!(counts.iter().filter(|count| **count > 0).count() <= classes);
            }
        } else {
            // A class is left out as a whole, or not at all.
            for (class, size) in sizes.iter().enumerate() {
                let counts = (0..clients).map(|c| federation.label_counts(c, Split::All)[class]);
                prop_assert!([0, *size].contains(&counts.sum()));
            }
        }
        let again = Federation::new(dataset.clone(), &plan).unwrap();
        prop_assert_eq!(&again.clients, &federation.clients);
    }

    #[test]
    fn pathological_clients_hold_exactly_k_classes(
        sizes in prop::collection::vec(60usize..120, 2..12),
        clients in 1usize..25,
        k in 1usize..12,
        min_samples in 1usize..30,
        fractions in any_fractions(),
        seed in any::<u64>(),
    ) {
        prop_assume!(k <= sizes.len());
        let plan = PartitionPlan {
            min_samples,
            train_fraction: fractions.0,
            validation_fraction: fractions.1,
            seed,
            ..plan(clients, Partition::Pathological { classes_per_client: k })
        };
        let federation = match Federation::new(dataset(&sizes), &plan) {
            Ok(federation) => federation,
            Err(DataError::Unrepairable { .. } | DataError::TooFewSamples { .. }) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        let held = check_sound(&federation, &plan);
        check_stratified(&federation, &plan);
        let mut owners = vec![0; sizes.len()];
        for client in 0..clients {
            let counts = federation.label_counts(client, Split::All);
            prop_assert_eq!(counts.iter().filter(|count| **count > 0).count(), k);
            owners.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += usize::from(*count > 0));
        }
        prop_assert!(owners.iter().max().unwrap() - owners.iter().min().unwrap() <= 1);
        let owned = sizes.iter().zip(&owners).filter(|(_, owners)| **owners > 0);
        prop_assert_eq!(held, owned.map(|(size, _)| size).sum::<usize>());
    }
}

#[test]
fn another_seed_gives_another_division() {
    let dataset = dataset(&[50; 5]);
    for partition in [
        Partition::Iid,
        Partition::Dirichlet { alpha: 0.5 },
        Partition::Pathological { classes_per_client: 2 },
        Partition::Quantity { alpha: 0.5 },
        Partition::Shards { shards_per_client: 2 },
        Partition::Bernoulli { class_probability: 0.5, alpha: 1.0 },
    ] {
        let one = plan(5, partition);
        let other = PartitionPlan { seed: 2, ..one.clone() };
        let [one, other] =
            [one, other].map(|plan| Federation::new(dataset.clone(), &plan).unwrap());
        assert_ne!(one.clients, other.clients);
    }
}

#[test]
fn a_thousand_clients_at_a_tiny_concentration() {
    let dataset = dataset(&[6_000; 10]);
    let plan =
        PartitionPlan { min_samples: 10, ..plan(1_000, Partition::Dirichlet { alpha: 0.01 }) };
    let federation = Federation::new(dataset, &plan).unwrap();
    assert_eq!(check_sound(&federation, &plan), 60_000);
    check_stratified(&federation, &plan);
}

#[test]
fn a_concentration_near_zero_gives_every_class_one_owner() {
    for alpha in [f64::MIN_POSITIVE, 5e-324] {
        let federation =
            Federation::new(dataset(&[100; 4]), &plan(3, Partition::Dirichlet { alpha })).unwrap();
        let counts: Vec<_> = (0..3).map(|c| federation.label_counts(c, Split::All)).collect();
        // Repair moves single samples only: nearly all of a class stays with its owner.
        for class in 0..4 {
            assert!(counts.iter().any(|counts| counts[class] >= 98), "{counts:?}");
        }
    }
}

#[test]
fn sizes_follow_the_concentration_and_labels_do_not() {
    let sizes = |alpha| {
        let plan = plan(10, Partition::Quantity { alpha });
        let federation = Federation::new(dataset(&[2_000; 5]), &plan).unwrap();
        for client in 0..10 {
            let counts = federation.label_counts(client, Split::All);
            let held: usize = counts.iter().sum();
            if held > 500 {
                let even = held as f64 / 5.0;
                assert!(
                    counts.iter().all(|&n| (n as f64 - even).abs() < 0.25 * even),
                    "{counts:?}"
                );
            }
        }
        let mut sizes: Vec<_> = federation.clients.iter().map(|c| c.size(Split::All)).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(1e300), [1_000; 10]);
    assert!(sizes(0.1)[9] > 3_000, "{:?}", sizes(0.1));
    // One client holds all but what the others need.
    assert_eq!(sizes(5e-324)[..9], [1; 9]);
}

#[test]
fn shards_are_runs_of_a_class() {
    // 20 shards of 25, two of which are one class of 50.
    let plan = plan(10, Partition::Shards { shards_per_client: 2 });
    let federation = Federation::new(dataset(&[50; 10]), &plan).unwrap();
    for client in 0..10 {
        let counts = federation.label_counts(client, Split::All);
        assert!(counts.iter().all(|count| [0, 25, 50].contains(count)), "{counts:?}");
        assert_eq!(federation.clients[client].size(Split::All), 50);
    }
}

#[test]
fn tosses_choose_classes_and_a_draw_divides_them() {
    let counts = |p: f64, alpha: f64| -> Vec<Vec<usize>> {
        let plan = plan(40, Partition::Bernoulli { class_probability: p, alpha });
        let federation = Federation::new(dataset(&[400; 10]), &plan).unwrap();
        (0..40).map(|client| federation.label_counts(client, Split::All)).collect()
    };
    let held = |counts: &[Vec<usize>]| counts.iter().flatten().filter(|n| **n > 0).count();
    // 40 clients times 10 classes, of which a share is drawn.
    let half = held(&counts(0.5, 1e6));
    assert!((160..=240).contains(&half), "{half}");
    assert_eq!(held(&counts(1.0, 1e300)), 400);
    assert!(counts(1.0, 1e300).iter().flatten().all(|n| *n == 10));
    // At a tiny probability everybody still holds a class, and the tosses end.
    assert_eq!(held(&counts(1e-300, 1e300)), 40);
}

#[test]
fn a_large_concentration_divides_evenly() {
    let federation =
        Federation::new(dataset(&[100; 4]), &plan(5, Partition::Dirichlet { alpha: 1e300 }))
            .unwrap();
    for client in 0..5 {
        assert_eq!(federation.label_counts(client, Split::All), [20; 4]);
    }
}

#[test]
fn a_subsample_is_balanced_and_drawn_from_the_seed() {
    let dataset = dataset(&[100, 100, 7, 100]);
    let chosen = |seed| {
        let plan = PartitionPlan { samples: Some(100), seed, ..plan(1, Partition::Iid) };
        let federation = Federation::new(dataset.clone(), &plan).unwrap();
        assert_eq!(federation.label_counts(0, Split::All), [31, 31, 7, 31]);
        federation.clients[0].indices(Split::All).collect::<BTreeSet<_>>()
    };
    assert_ne!(chosen(1), chosen(2));
}

#[test]
fn equal_remainders_do_not_test_the_same_classes_everywhere() {
    // Every client holds one sample of each class; a fixed order would test two classes only.
    let plan = PartitionPlan {
        train_fraction: 0.8,
        validation_fraction: 0.0,
        ..plan(40, Partition::Pathological { classes_per_client: 10 })
    };
    let federation = Federation::new(dataset(&[40; 10]), &plan).unwrap();
    let mut tested = [0; 10];
    for client in 0..40 {
        let counts = federation.label_counts(client, Split::Test);
        tested.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(tested.iter().all(|count| *count > 0), "{tested:?}");
}

#[test]
fn the_division_for_a_seed_is_pinned() {
    // A change here changes the results of every experiment: see CHANGELOG, Numerics.
    let plan = PartitionPlan { min_samples: 4, ..plan(3, Partition::Dirichlet { alpha: 0.5 }) };
    let federation = Federation::new(dataset(&[8, 8, 8]), &plan).unwrap();
    let held: Vec<_> = federation.clients.iter().map(|client| client.train.as_slice()).collect();
    assert_eq!(held, PINNED);
}

const PINNED: [&[u32]; 3] = [&[14, 21, 23], &[0, 1, 2, 3, 6, 7, 13, 16], &[8, 12, 19]];

#[test]
fn settings_out_of_range_name_the_key_and_the_remedy() {
    let dataset = dataset(&[10; 4]);
    let iid = plan(4, Partition::Iid);
    let dirichlet = |alpha| plan(4, Partition::Dirichlet { alpha });
    let classes = |k| plan(4, Partition::Pathological { classes_per_client: k });
    let tosses = |p, alpha| plan(4, Partition::Bernoulli { class_probability: p, alpha });
    let shards = |k| plan(4, Partition::Shards { shards_per_client: k });
    let cases = [
        (PartitionPlan { clients: Some(0), ..iid.clone() }, ["clients = 0", "1 or more"]),
        (PartitionPlan { min_samples: 0, ..iid.clone() }, ["min_samples = 0", "1 or more"]),
        (dirichlet(0.0), ["alpha = 0", "above 0"]),
        (dirichlet(-1.0), ["alpha = -1", "above 0"]),
        (dirichlet(f64::NAN), ["alpha = NaN", "above 0"]),
        (dirichlet(f64::INFINITY), ["alpha = inf", "finite"]),
        (plan(4, Partition::Quantity { alpha: 0.0 }), ["alpha = 0", "above 0"]),
        (tosses(0.0, 1.0), ["class_probability = 0", "(0, 1]"]),
        (tosses(1.5, 1.0), ["class_probability = 1.5", "(0, 1]"]),
        (tosses(f64::NAN, 1.0), ["class_probability = NaN", "(0, 1]"]),
        (tosses(0.5, f64::NAN), ["alpha = NaN", "above 0"]),
        (shards(0), ["shards_per_client = 0", "use 1 to 10"]),
        (shards(11), ["shards_per_client = 11", "use 1 to 10: 4 clients share 40 samples"]),
        (shards(usize::MAX), ["shards_per_client = 1844", "use 1 to 10"]),
        (PartitionPlan { clients: None, ..iid.clone() }, ["clients = unset", "how many"]),
        (classes(0), ["classes_per_client = 0", "1 to 4"]),
        (classes(5), ["classes_per_client = 5", "1 to 4"]),
        (PartitionPlan { train_fraction: 0.0, ..iid.clone() }, ["train_fraction = 0", "(0, 1]"]),
        (PartitionPlan { train_fraction: 1.5, ..iid.clone() }, ["train_fraction = 1.5", "(0, 1]"]),
        (PartitionPlan { train_fraction: f64::NAN, ..iid.clone() }, ["= NaN", "(0, 1]"]),
        (PartitionPlan { validation_fraction: -0.1, ..iid.clone() }, ["= -0.1", "[0, 1)"]),
        (PartitionPlan { validation_fraction: f64::NAN, ..iid.clone() }, ["= NaN", "[0, 1)"]),
        (PartitionPlan { validation_fraction: 0.6, ..iid.clone() }, ["0.6 + 0.6", "exceed 1"]),
        (PartitionPlan { samples: Some(0), ..iid.clone() }, ["samples = 0", "1 to 40"]),
        (PartitionPlan { samples: Some(41), ..iid.clone() }, ["samples = 41", "1 to 40"]),
        (PartitionPlan { min_samples: 11, ..iid.clone() }, ["need 44 samples", "only 40"]),
        (PartitionPlan { clients: Some(usize::MAX), ..iid.clone() }, ["only 40", "lower clients"]),
        (
            PartitionPlan { samples: Some(20), min_samples: 6, ..iid.clone() },
            ["need 24 samples, but only 20", "raise samples"],
        ),
    ];
    for (plan, parts) in cases {
        let message = message(&dataset, &plan);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn the_divisions_by_other_rules_are_pinned() {
    // A change here changes the results of every experiment: see CHANGELOG, Numerics.
    let held = [
        Partition::Quantity { alpha: 0.5 },
        Partition::Shards { shards_per_client: 2 },
        Partition::Bernoulli { class_probability: 0.5, alpha: 1.0 },
    ]
    .map(|partition| {
        let plan = PartitionPlan { min_samples: 4, ..plan(3, partition) };
        Federation::new(dataset(&[8, 8, 8]), &plan).unwrap().clients[2].train.clone()
    });
    assert_eq!(held, PINNED_OTHERS);
}

const PINNED_OTHERS: [&[u32]; 3] = [&[7, 21], &[2, 3, 15, 17, 21], &[5, 9, 20, 21]];

#[test]
fn impossible_pathological_divisions_say_why() {
    let pathological = plan(20, Partition::Pathological { classes_per_client: 2 });
    let text = message(&dataset(&[3, 30, 30, 30]), &pathological);
    assert!(text.contains("class 0 has 3 samples for the 10 clients"), "{text}");

    // The owner of the only small class cannot reach the minimum within it.
    let single = plan(2, Partition::Pathological { classes_per_client: 1 });
    let text = message(&dataset(&[5, 100]), &PartitionPlan { min_samples: 10, ..single.clone() });
    assert!(text.contains("holds 5 samples") && text.contains("lower min_samples"), "{text}");

    // Classes nobody owns do not count.
    let text = message(&dataset(&[30; 4]), &PartitionPlan { min_samples: 40, ..single });
    assert!(text.contains("need 80 samples, but only 60"), "{text}");
}
