//! The text of `formant data show`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

use formant_data::{
    ClientData, Dataset, Federation, Images, Newcomers, Normalisation, Partition, PartitionPlan,
    Repair, show,
};
use formant_numerics::Shape;
use std::sync::Arc;

/// Labels 0, 1, 2, 0, 1, 2, .. under the names cat, dog, owl.
fn animals(count: usize) -> Arc<Dataset> {
    let images = |count: usize| {
        let labels = (0..count).map(|i| (i % 3) as u16).collect();
        Images::new(Shape::new(1, 1, 1), vec![0; count], labels, &[Normalisation::NONE]).unwrap()
    };
    let names = ["cat", "dog", "owl"].map(String::from).to_vec();
    Arc::new(Dataset::from_parts("animals", names, images(count), images(6)).unwrap())
}

fn three_clients() -> Federation {
    let clients = vec![
        ClientData { train: vec![0, 1, 2], validation: vec![4], test: vec![5, 3] },
        ClientData { train: vec![6, 9], validation: vec![], test: vec![12] },
        ClientData { train: vec![7, 10, 13, 16, 19, 22], validation: vec![25], test: vec![8] },
    ];
    let newcomers = Newcomers::default();
    Federation { dataset: animals(30), clients, names: None, repaired: None, newcomers }
}

fn many_clients() -> Federation {
    let plan = PartitionPlan {
        clients: Some(1_000),
        partition: Partition::Dirichlet { alpha: 0.1 },
        part: None,
        samples: None,
        min_samples: 5,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    };
    Federation::new(animals(9_000), &plan).unwrap()
}

#[test]
fn a_table_of_few_clients() {
    assert_eq!(
        show::table(&three_clients()),
        "\
animals: 17 of 30 training samples over 3 clients, 3 classes of 1x1x1

client  train  validation   test  classes  largest  effective
     0      3           1      2        3   33.3 %       3.00
     1      2           0      1        1  100.0 %       1.00
     2      6           1      1        2   87.5 %       1.28

total: 11 train, 2 validation, 4 test; global test: 6
samples a client: 3 to 8, median 6, mean 5.7; classes held: mean 2.0; effective: mean 1.76
"
    );
}

#[test]
fn a_heat_map_of_few_clients() {
    assert_eq!(
        show::heat_map(&three_clients(), false),
        "\
animals: 17 of 30 training samples over 3 clients, 3 classes of 1x1x1

client  0 1 2
     0 ▒▒▒▒▒▒
     1 ██
     2   ██░░
   all ▒▒▓▓░░

share of the client's labels: blank none, · above 0 %, ░ from 5 %, ▒ from 25 %, ▓ from 50 %, █ from 75 %
classes: 0 cat, 1 dog, 2 owl
"
    );
}

#[test]
fn a_coloured_heat_map_resets_every_line() {
    let text = show::heat_map(&three_clients(), true);
    let painted: Vec<_> = text.lines().filter(|line| line.contains("\u{1b}[48;2;")).collect();
    assert_eq!(painted.len(), 5, "three clients, all, legend: {text}");
    assert!(painted[..4].iter().all(|line| line.ends_with("\u{1b}[0m")));
    assert!(painted[1].contains("\u{1b}[48;2;255;245;170m  "), "{}", painted[1]);
}

#[test]
fn many_clients_are_shown_in_part() {
    let federation = many_clients();
    let table = show::table(&federation);
    assert_eq!(table.lines().count(), 2 + 1 + 20 + 1 + 5 + 1 + 5 + 1 + 3, "{table}");
    for part in [
        "\n    19 ",
        "\n   ... 975 clients are not shown\n",
        "\n   995 ",
        "\n   999 ",
        "\nmedian ",
        "\n  25 % ",
    ] {
        assert!(table.contains(part), "{part:?} is not in:\n{table}");
    }
    assert!(!table.contains("\n    20 ") && !table.contains("\n   994 "), "{table}");
    let map = show::heat_map(&federation, false);
    assert_eq!(map.lines().count(), 2 + 1 + 20 + 1 + 5 + 1 + 1 + 2, "{map}");
}

#[test]
fn nothing_to_show_is_not_a_panic() {
    let none = Federation {
        dataset: animals(3),
        clients: Vec::new(),
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    };
    assert!(show::table(&none).contains("0 of 3 training samples over 0 clients"));
    assert!(show::heat_map(&none, false).contains("all"));
    let empty = Federation { clients: vec![ClientData::default()], ..none };
    assert!(show::table(&empty).contains("0.0 %"));
}
