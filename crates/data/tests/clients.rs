//! Clients that exist already, clients of a file, and clients whose images look different.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

use formant_data::{
    ClientData, Dataset, Federation, Images, Newcomers, Normalisation, Owners, Partition,
    PartitionPlan, Repair, Samples, Share, Skew, Split, description, division_hash, show,
};
use formant_numerics::Shape;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Samples of three classes, whose owners are given as numbers.
fn owned(of: &[u32], names: &[&str]) -> Arc<Dataset> {
    let images = |count: usize| {
        let labels = (0..count).map(|i| (i % 3) as u16).collect();
        Images::new(Shape::new(1, 1, 1), vec![0; count], labels, &[Normalisation::NONE]).unwrap()
    };
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    let mut made = Dataset::from_parts("made", classes, images(of.len()), images(1)).unwrap();
    let names = names.iter().map(ToString::to_string).collect();
    made.owners = Some(Arc::new(Owners { names, of: of.to_vec() }));
    Arc::new(made)
}

fn plan(partition: Partition) -> PartitionPlan {
    PartitionPlan {
        clients: None,
        partition,
        part: None,
        samples: None,
        min_samples: 2,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    }
}

fn of_file(path: &Path) -> Partition {
    Partition::File { partition_file: path.into(), partition_hash: None }
}

fn held(client: &ClientData) -> Vec<u32> {
    let mut held: Vec<u32> = client.indices(Split::All).collect();
    held.sort_unstable();
    held
}

#[test]
fn natural_clients_are_the_owners() {
    let dataset = owned(&[2, 0, 2, 0, 2, 1, 2, 0], &["zoe", "bob", "ann"]);
    let federation = Federation::new(dataset.clone(), &plan(Partition::Natural)).unwrap();
    assert_eq!(federation.names.as_deref(), Some(&["zoe".into(), "ann".into()][..]));
    assert_eq!(
        federation.clients.iter().map(held).collect::<Vec<_>>(),
        [vec![1, 3, 7], vec![0, 2, 4, 6]]
    );
    assert_eq!(
        federation.dataset.remarks,
        ["1 of the 3 clients of made hold fewer than min_samples = 2 samples and are left out"]
    );
    let table = show::table(&federation);
    assert!(table.contains("effective  name\n") && table.contains("  zoe\n"), "{table}");
    assert!(table.contains("samples a client: 3 to 4, median"), "{table}");

    // So many of them as the plan says, and other ones for another seed.
    let of: Vec<u32> = (0..200).map(|i| i / 4).collect();
    let names: Vec<String> = (0..50).map(|i| i.to_string()).collect();
    let many = owned(&of, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let draw = |seed| {
        let plan = PartitionPlan { clients: Some(10), seed, ..plan(Partition::Natural) };
        Federation::new(many.clone(), &plan).unwrap().names.unwrap()
    };
    assert_eq!((draw(1).len(), draw(1)), (10, draw(1)));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn natural_clients_that_are_not_there_say_so() {
    let message = |dataset: &Arc<Dataset>, plan: &PartitionPlan| {
        Federation::new(dataset.clone(), plan).unwrap_err().to_string()
    };
    let natural = plan(Partition::Natural);
    let dataset = owned(&[0, 0, 0, 1, 1], &["a", "b"]);
    let many = PartitionPlan { clients: Some(3), ..natural.clone() };
    let text = message(&dataset, &many);
    assert!(text.contains("clients = 3") && text.contains("2 of the 2 clients"), "{text}");
    let large = PartitionPlan { min_samples: 9, ..natural.clone() };
    let text = message(&dataset, &large);
    assert!(text.contains("0 of the 2 clients") && text.contains("lower"), "{text}");
    let text = message(&owned(&[0, 7], &["a"]), &natural);
    assert!(text.contains("sample 1 of made belongs to nobody"), "{text}");
    let digits = Arc::new(Dataset::load("mnist-small", None).unwrap());
    let text = message(&digits, &natural);
    assert!(text.contains("mnist-small does not say whose") && text.contains("choose"), "{text}");
    let text = message(&digits, &plan(Partition::Iid));
    assert!(text.contains("clients = unset"), "{text}");
}

fn drawn_federation() -> Federation {
    let dataset = Arc::new(Dataset::load("mnist-small", None).unwrap());
    let partition = Partition::Dirichlet { alpha: 0.3 };
    let plan =
        PartitionPlan { clients: Some(5), samples: Some(500), min_samples: 20, ..plan(partition) };
    Federation::new(dataset, &plan).unwrap()
}

#[test]
fn a_division_is_replayed_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("split.json");
    let mut federation = drawn_federation();
    // Names that look like numbers in another order, and one that has to be escaped.
    let cases = [None, Some(["1", "0", "2", "3", "4"]), Some(["a\"\\", "b", "c", "0", "ä"])];
    for names in cases {
        federation.names = names.map(|names| names.map(String::from).to_vec());
        std::fs::write(&path, federation.to_json()).unwrap();
        let plan = PartitionPlan { seed: 99, ..plan(of_file(&path)) };
        let replayed = Federation::new(federation.dataset.clone(), &plan).unwrap();
        assert_eq!(replayed.clients, federation.clients);
        assert_eq!(replayed.names, federation.names);
        assert_eq!(replayed.dataset.remarks.len(), 1);
    }
    let partition = Partition::File {
        partition_file: path.clone(),
        partition_hash: Some(division_hash(&path).unwrap()),
    };
    Federation::new(federation.dataset.clone(), &plan(partition.clone())).unwrap();
    std::fs::write(&path, federation.to_json() + " ").unwrap();
    let changed = Federation::new(federation.dataset, &plan(partition)).unwrap_err().to_string();
    assert!(changed.contains("split.json: its hash is") && changed.contains("hint: bring back"));
}

#[test]
fn divisions_of_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("split.json");
    let dataset = owned(&[0; 12], &["x"]);
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Federation::new(dataset.clone(), &plan(of_file(&path))).unwrap()
    };
    let lists = read("[[4, 1, 0, 5], [2, 3]]");
    assert_eq!(lists.clients.iter().map(held).collect::<Vec<_>>(), [vec![0, 1, 4, 5], vec![2, 3]]);
    assert!(lists.clients.iter().all(|client| !client.test.is_empty()), "drawn");
    // The order of numbers, not that of text.
    let keys = (0..11).map(|i| format!("\"{i}\": [{i}]")).collect::<Vec<_>>();
    let mut sorted = keys.clone();
    sorted.sort();
    for keys in [keys, sorted] {
        let numbered = read(&format!("{{{}}}", keys.join(",\n")));
        assert!(numbered.clients.iter().zip(0..).all(|(client, i)| held(client) == [i]));
        assert_eq!(numbered.names, None);
    }
    let named = read(
        "{\"f_02\": {\"train\": [3, 1], \"test\": [0]}, \"f_01\": {\"train\": [4], \"val\": [2]}}",
    );
    assert_eq!(named.names, Some(vec!["f_02".into(), "f_01".into()]));
    let expected = ClientData { train: vec![1, 3], validation: vec![], test: vec![0] };
    assert_eq!(named.clients[0], expected);
    assert_eq!(named.clients[1].validation, [2]);
}

#[test]
fn every_fault_of_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("split.json");
    let dataset = owned(&[0; 12], &["x"]);
    let message = |plan: &PartitionPlan| {
        let text = Federation::new(dataset.clone(), plan).unwrap_err().to_string();
        assert!(!text.is_empty());
        text
    };
    let from_file = plan(of_file(&path));
    assert!(message(&from_file).contains("check data.partition_file"));
    let cases = [
        ("[[0], [1, 0]]", "line 1, column 12: sample 0 is listed twice"),
        ("[[3, 3]]", "sample 3 is listed twice"),
        ("[[0],\n [12]]", "line 2, column 5: there is no sample 12, the data have 12, from 0"),
        ("[[0], []]", "client 1 has no samples"),
        ("{\"ann\": []}", "client \"ann\" has no samples"),
        ("{\"ann\": {\"test\": [1]}}", "client \"ann\" has no samples to train on"),
        ("{\"ann\": [1], \"ann\": [2]}", "client \"ann\" is listed twice"),
        ("[{\"train\": [1], \"train\": [2]}]", "\"train\" is listed twice"),
        ("[{\"train\": [1]}, [2]]", "client 1 is split into parts, or the ones before it are"),
        ("[{\"train\": [1], \"dev\": [2]}]", "\"dev\" is no part of a client"),
        ("[[-1]]", "invalid value: integer `-1`"),
        ("[[1.5]]", "invalid type: floating point"),
        ("[[99999999999999999999999]]", "invalid type: floating point"),
        ("[]", "it lists no clients"),
        ("{}", "it lists no clients"),
        ("7", "invalid type: integer `7`, expected a list or an object of clients"),
        ("[7]", "expected a list of samples, or an object"),
        ("[[0]] x", "trailing characters"),
        ("[[0], [", "EOF while parsing"),
        ("", "EOF while parsing"),
    ];
    for (text, part) in cases {
        std::fs::write(&path, text).unwrap();
        let message = message(&from_file);
        assert!(message.contains("split.json") && message.contains("\nhint: "), "{message}");
        assert!(message.contains(part), "{text}: {message}");
    }
    std::fs::write(&path, "[".repeat(100_000)).unwrap();
    assert!(message(&from_file).contains("split.json"));
    std::fs::write(&path, " ".repeat(1 << 21)).unwrap();
    assert!(message(&from_file).contains("it is longer than 1049344 bytes"));
    std::fs::write(&path, "[[0], [1]]").unwrap();
    let three = PartitionPlan { clients: Some(3), ..from_file };
    assert!(message(&three).contains("lists 2: set clients = 2"));
    let place = plan(of_file(folder.path()));
    assert!(message(&place).contains("not a regular file"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn natural_clients_hold_their_own(
        of in prop::collection::vec(0u32..12, 30..200),
        clients in prop::option::of(1usize..12),
        min_samples in 1usize..20,
        seed in any::<u64>(),
    ) {
        let names: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
        let dataset = owned(&of, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let plan = PartitionPlan { clients, min_samples, seed, ..plan(Partition::Natural) };
        let count = |owner: usize| of.iter().filter(|o| **o as usize == owner).count();
        let fit = (0..12).filter(|&owner| count(owner) >= min_samples).count();
        let Ok(federation) = Federation::new(dataset.clone(), &plan) else {
            prop_assert!(fit == 0 || clients.is_some_and(|clients| clients > fit));
            return Ok(());
        };
        prop_assert_eq!(federation.clients.len(), clients.unwrap_or(fit));
        for (client, name) in federation.clients.iter().zip(federation.names.as_ref().unwrap()) {
            let owner: usize = name[1..].parse().unwrap();
            prop_assert!(held(client).iter().all(|&i| of[i as usize] as usize == owner));
            prop_assert_eq!(client.size(Split::All), count(owner));
        }
        let again = Federation::new(dataset, &plan).unwrap();
        prop_assert_eq!(again.clients, federation.clients);
    }

    #[test]
    fn any_file_is_an_error_at_worst(text in "[\\[\\]{}:,\"0-9a-z ]{0,60}") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("split.json");
        std::fs::write(&path, text).unwrap();
        if let Ok(federation) = Federation::new(owned(&[0; 12], &["x"]), &plan(of_file(&path))) {
            prop_assert!(federation.clients.iter().all(|client| !client.train.is_empty()));
        }
    }
}

const SKEWS: [Skew; 3] = [
    Skew::Rotation { skew_strength: 60.0 },
    Skew::Noise { skew_strength: 0.3 },
    Skew::Colour { skew_strength: 0.5 },
];

fn batch(samples: &dyn Samples, indices: &[u32]) -> Vec<u32> {
    let mut values = vec![f32::NAN; indices.len() * samples.shape().len()];
    samples.gather(indices, &mut values);
    values.into_iter().map(f32::to_bits).collect()
}

/// What makes training on an exported share what the simulator does.
#[test]
fn a_skewed_client_sees_what_its_share_holds() {
    let plain = drawn_federation();
    let known = description("mnist-small").unwrap();
    for skew in SKEWS {
        let federation = plain.clone().skewed(skew, 7).unwrap();
        assert_eq!(federation.clients, plain.clients);
        assert_eq!(federation.dataset.remarks.len(), 1);
        for (client, data) in federation.clients.iter().enumerate() {
            let share = Share::of_client(&federation, client).unwrap().to_bytes().unwrap();
            let share = Share::from_bytes(&share, "x").unwrap();
            let (own, mine) = share.into_dataset("own", &known).unwrap();
            for split in [Split::Train, Split::Validation, Split::Test] {
                let [here, there]: [Vec<u32>; 2] =
                    [data.indices(split).collect(), mine.indices(split).collect()];
                let simulated = batch(&*federation.dataset.train, &here);
                assert!(simulated == batch(&*own.train, &there), "{skew:?} {client} {split:?}");
                assert!(simulated != batch(&*plain.dataset.train, &here), "{skew:?} {client}");
            }
        }
        // Nobody's samples and the global test set are as they were.
        let free: Vec<u32> = (0..8_000)
            .filter(|i| !plain.clients.iter().any(|c| c.indices(Split::All).any(|j| j == *i)))
            .collect();
        let [skewed, as_was] = [&federation, &plain].map(|f| batch(&*f.dataset.train, &free));
        assert!(skewed == as_was);
        assert!(Arc::ptr_eq(&federation.dataset.test, &plain.dataset.test));
        // The seed alone decides, and the order of a batch nothing.
        let again = plain.clone().skewed(skew, 7).unwrap();
        let other = plain.clone().skewed(skew, 8).unwrap();
        let indices = &plain.clients[0].train;
        let [one, two, three] =
            [&federation, &again, &other].map(|f| batch(&*f.dataset.train, indices));
        assert!(one == two && one != three);
        let alone = batch(&*federation.dataset.train, &indices[3..4]);
        assert!(alone == one[3 * 784..4 * 784]);
    }
}

/// One picture of a known client, changed.
fn changed(shape: Shape, pixels: Vec<u8>, skew: Skew, seed: u64) -> Vec<u8> {
    let normalisation = vec![Normalisation::new(0.5, 0.25); shape.channels];
    let train = Images::new(shape, pixels, vec![0], &normalisation).unwrap();
    let test = Images::new(shape, vec![], vec![], &normalisation).unwrap();
    let dataset = Dataset::from_parts("one", vec!["a".into()], train, test).unwrap();
    let clients = vec![ClientData { train: vec![0], ..ClientData::default() }];
    let federation = Federation {
        dataset: Arc::new(dataset),
        clients,
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    };
    let skewed = federation.skewed(skew, seed).unwrap();
    skewed.dataset.train.bytes(0).unwrap().into_owned()
}

#[test]
fn rotations_turn_about_the_centre() {
    // A bright spot away from the centre of a 9x9 picture keeps its distance from it.
    let shape = Shape::new(1, 9, 9);
    let mut pixels = vec![0; 81];
    pixels[4 * 9 + 7] = 255;
    let mut angles = Vec::new();
    for seed in 0..20 {
        let turned = changed(shape, pixels.clone(), Skew::Rotation { skew_strength: 90.0 }, seed);
        let mass: f64 = turned.iter().map(|&b| f64::from(b)).sum();
        let mean = |of: fn(usize) -> usize| {
            turned.iter().enumerate().map(|(i, &b)| of(i) as f64 * f64::from(b)).sum::<f64>() / mass
        };
        let (y, x) = (mean(|i| i / 9) - 4.0, mean(|i| i % 9) - 4.0);
        assert!((y.hypot(x) - 3.0).abs() < 0.3, "seed {seed}: ({y}, {x})");
        angles.push(y.atan2(x).to_degrees());
    }
    assert!(angles.iter().all(|angle| angle.abs() < 95.0));
    assert!(angles.iter().any(|a| *a > 20.0) && angles.iter().any(|a| *a < -20.0), "{angles:?}");
}

#[test]
fn colours_scale_every_channel_and_noise_has_its_level() {
    let shape = Shape::new(3, 50, 50);
    let tinted = changed(shape, vec![100; 7_500], Skew::Colour { skew_strength: 0.5 }, 3);
    let channels: Vec<u8> = tinted.chunks(2_500).map(|c| c[0]).collect();
    assert!(tinted.chunks(2_500).all(|c| c.iter().all(|b| *b == c[0] && (50..=150).contains(b))));
    assert!(channels[0] != channels[1] && channels[1] != channels[2], "{channels:?}");
    let deviations: Vec<f64> = (0..10)
        .map(|seed| {
            let noisy = changed(shape, vec![128; 7_500], Skew::Noise { skew_strength: 0.1 }, seed);
            let mean = noisy.iter().map(|&b| f64::from(b)).sum::<f64>() / 7_500.0;
            assert!((mean - 128.0).abs() < 2.0, "{mean}");
            let square = noisy.iter().map(|&b| (f64::from(b) - mean).powi(2)).sum::<f64>();
            (square / 7_500.0).sqrt() / 255.0
        })
        .collect();
    assert!(deviations.iter().all(|d| *d < 0.11), "{deviations:?}");
    assert!(deviations.iter().any(|d| *d > 0.05) && deviations.iter().any(|d| *d < 0.05));
}

#[test]
fn skewed_images_are_pinned() {
    // A change here changes the results of every experiment: see CHANGELOG, Numerics.
    let shape = Shape::new(3, 2, 2);
    let pixels: Vec<u8> = (0..12).map(|i| 20 * i).collect();
    let seen = SKEWS.map(|skew| changed(shape, pixels.clone(), skew, 1));
    assert_eq!(seen, PINNED);
}

const PINNED: [&[u8]; 3] = [
    &[16, 8, 40, 31, 80, 71, 103, 95, 143, 135, 167, 158],
    &[92, 0, 77, 0, 40, 32, 210, 201, 83, 245, 160, 209],
    &[0, 28, 55, 83, 96, 120, 145, 169, 223, 251, 255, 255],
];

/// Samples that are kept as numbers.
#[derive(Debug)]
struct Numbers(Vec<f32>);

impl Samples for Numbers {
    fn len(&self) -> usize {
        self.0.len() / 2
    }

    fn shape(&self) -> Shape {
        Shape::new(2, 1, 1)
    }

    fn label(&self, _: usize) -> usize {
        0
    }

    fn gather(&self, indices: &[u32], out: &mut [f32]) {
        for (slot, &index) in indices.iter().enumerate() {
            for channel in 0..2 {
                out[channel * indices.len() + slot] = self.0[2 * index as usize + channel];
            }
        }
    }
}

#[test]
fn numbers_take_noise_and_nothing_else() {
    let samples = |count: usize| Numbers((0..2 * count).map(|i| i as f32).collect());
    let dataset = Dataset::from_parts("n", vec!["a".into()], samples(4), samples(1)).unwrap();
    let clients = vec![ClientData { train: vec![0, 1, 2], ..ClientData::default() }];
    let federation = Federation {
        dataset: Arc::new(dataset),
        clients,
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    };
    for skew in [SKEWS[0], SKEWS[2]] {
        let message = federation.clone().skewed(skew, 1).unwrap_err().to_string();
        assert!(message.contains("no images of bytes") && message.contains("hint: use skew"));
    }
    let noisy = federation.skewed(SKEWS[1], 1).unwrap();
    let mut values = [0.0; 8];
    noisy.dataset.train.gather(&[0, 1, 2, 3], &mut values);
    let plain = [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0];
    for (i, (value, plain)) in values.iter().zip(plain).enumerate() {
        assert_eq!(*value == plain, i % 4 == 3, "{values:?}");
        assert!((value - plain).abs() < 1.2, "{values:?}");
    }
    let mut two = [0.0; 4];
    noisy.dataset.train.gather(&[2, 1], &mut two);
    assert_eq!(two, [values[2], values[1], values[6], values[5]]);
    for strength in [0.0, -1.0, 1.1, f64::NAN] {
        let noise = Skew::Noise { skew_strength: strength };
        let message = drawn_federation().skewed(noise, 1).unwrap_err().to_string();
        assert!(message.contains("skew_strength") && message.contains("up to 1"), "{message}");
    }
}

#[test]
fn newcomers_are_the_last_clients_and_stand_apart() {
    let all = drawn_federation();
    let clients = all.clients.len();
    let apart = all.clone().setting_aside(2).unwrap();
    assert_eq!(apart.clients, all.clients[..clients - 2]);
    assert_eq!(apart.newcomers.clients, all.clients[clients - 2..]);
    assert_eq!(apart.to_json(), all.to_json(), "a file of the division has them all");
    let nobody = all.clone().setting_aside(0).unwrap();
    assert_eq!((&nobody.clients, nobody.newcomers), (&all.clients, Newcomers::default()));
    let named = Federation {
        names: Some((0..clients).map(|i| format!("client {i}")).collect()),
        ..all.clone()
    };
    let named = named.setting_aside(1).unwrap();
    assert_eq!(named.names.as_ref().unwrap().len(), clients - 1);
    assert_eq!(named.newcomers.names, Some(vec![format!("client {}", clients - 1)]));
    for many in [clients, clients + 1] {
        let error = all.clone().setting_aside(many).unwrap_err().to_string();
        assert!(
            error.contains("new_clients") && error.contains("at least one has to train"),
            "{error}"
        );
    }
}
