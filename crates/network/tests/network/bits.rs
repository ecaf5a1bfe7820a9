//! The network computes what the simulator computes, bit for bit.

use crate::house::{House, never, within};
use formant_network::client::{JoinOptions, join};
use formant_runtime::{Attack, AttackKind, Attacks, Combination, Rule};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_over_sockets_give_the_bits_of_the_simulator() {
    let house = House::new(10, "scd", "");
    let (end, summaries) = house.run().await;
    assert_eq!((end.rounds, end.stopped), (3, None));
    assert_eq!(house.fingerprint(), house.simulated());
    assert!(summaries.iter().all(|summary| summary.rounds == 3 && summary.samples > 0));
    assert!(summaries.iter().any(|summary| summary.personal.as_ref().unwrap().accuracy > 0.2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bits_do_not_depend_on_the_schedule_the_way_or_who_is_asked() {
    let mut house = House::new(5, "scd", "compress = \"zstd\"\nchunk = \"1KiB\"");
    house.set("train", "participation", 0.6);
    house.set("federation", "schedule", "compute-and-wait");
    house.set("federation", "personal", "everyone");
    let (end, _) = house.run().await;
    assert_eq!(end.rounds, 3);
    assert_eq!(house.fingerprint(), house.simulated());
}

#[tokio::test(flavor = "multi_thread")]
async fn augmented_samples_are_the_same_wherever_a_client_keeps_them() {
    let mut house = House::new(3, "ditto", "");
    let plain = house.simulated();
    let augment = toml::toml! {
        crop = 2
        flip = 0.5
        rotation = 10
        brightness = 0.2
        cutout = 6
        mixup = 1.0
    };
    house.set("data", "augment", augment);
    std::fs::remove_dir_all(house.folder.path().join("simulated")).unwrap();
    let (end, _) = house.run().await;
    assert_eq!(end.rounds, 3);
    let augmented = house.simulated();
    assert_eq!(house.fingerprint(), augmented);
    assert_ne!(augmented, plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_with_half_precision_come_to_an_end() {
    let house = House::new(24, "fedavg", "upload_precision = \"f16\"");
    let (end, summaries) = house.run().await;
    assert_eq!((end.rounds, summaries.len()), (3, 24));
    let log = std::fs::read_to_string(house.folder.path().join("server/events.jsonl")).unwrap();
    let count = |kind: &str| log.matches(&format!("\"event\":\"{kind}\"")).count();
    assert_eq!((count("uploaded"), count("round_finished"), count("run_finished")), (72, 3, 1));
    assert!(house.folder.path().join("server/generic.safetensors").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_clients_that_stop_in_the_middle_go_on_with_the_same_bits() {
    let mut house = House::new(3, "scd", "");
    house.table.insert("rounds".into(), 4.into());
    // A port of its own, to be found again after a restart.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    house.set("server", "listen", port.to_string());
    let mut server = house.serve().await;
    let join_all = || {
        let options = (0..3).map(|client| house.options(&port.to_string(), client));
        options.map(|options| tokio::spawn(join(options, never()))).collect::<Vec<_>>()
    };
    let mut clients = join_all();
    for round in 1..=3 {
        within(server.wait_for_round(round)).await;
        assert_eq!(server.finish(std::future::ready(())).await.unwrap(), None);
        server = house.serve().await;
    }
    let end = within(server.finish(never())).await.unwrap().unwrap();
    for client in clients.drain(..) {
        within(client).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(end.rounds, 4);
    assert_eq!(house.fingerprint(), house.simulated());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: cargo test --release -p formant-network -- --ignored --nocapture"]
async fn two_hundred_clients_finish_twenty_rounds() {
    let mut house = House::new(200, "fedavg", "");
    house.table.insert("rounds".into(), 20.into());
    house.set("network", "hidden", vec![100]);
    let server = house.serve().await;
    let address = server.address().to_string();
    let started = std::time::Instant::now();
    let clients: Vec<_> = (0..200)
        .map(|client| {
            let options =
                JoinOptions { source: house.share(client), ..house.options(&address, client) };
            tokio::spawn(join(options, never()))
        })
        .collect();
    within(server.wait_for_round(20)).await;
    let status = server.status().await.unwrap();
    let end = within(server.finish(never())).await.unwrap().unwrap();
    for client in clients {
        within(client).await.unwrap().unwrap().unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{seconds:.1} s for 20 rounds, {:.2} rounds/s", 20.0 / seconds);
    println!(
        "{:.1} MB received, {:.1} MB sent, {memory} (server and all clients)",
        status.received_bytes as f64 / 1e6,
        status.sent_bytes as f64 / 1e6
    );
    assert_eq!(end.rounds, 20);
    assert_eq!(house.fingerprint(), house.simulated());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_comes_does_not_stop_the_run() {
    let mut house = House::new(3, "scd", "linger = \"0s\"");
    house.set("federation", "deadline", "200ms");
    house.set("federation", "personal_until", "broadcast");
    let server = house.serve().await;
    let address = server.address().to_string();
    let clients: Vec<_> =
        (0..2).map(|client| tokio::spawn(join(house.options(&address, client), never()))).collect();
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (3, None));
    for client in clients {
        // The server does not stay, so one of them may be left without a goodbye.
        client.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_lost_in_a_later_round_does_not_stop_the_run() {
    let mut house = House::new(2, "fedavg", "linger = \"0s\"");
    house.set("federation", "deadline", "2s");
    house.table.insert("rounds".into(), 6.into());
    let server = house.serve().await;
    let address = server.address().to_string();
    let stays = tokio::spawn(join(house.options(&address, 0), never()));
    let goes = tokio::spawn(join(house.options(&address, 1), never()));
    within(server.wait_for_round(4)).await;
    goes.abort();
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (6, None));
    stays.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_buffered_schedule_aggregates_what_is_there() {
    let mut house = House::new(4, "fedavg", "");
    house.set("federation", "schedule", "buffered");
    house.set("federation", "buffer", 2);
    house.table.insert("rounds".into(), 5.into());
    let (end, summaries) = house.run().await;
    assert_eq!((end.rounds, end.stopped, summaries.len()), (5, None, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn robust_ways_to_combine_give_the_bits_of_the_simulator() {
    for (rule, method) in [
        ("clipped", "ditto"),
        ("median", "fedavg"),
        ("trimmed-mean", "feddyn"),
        ("krum", "scd"),
        ("geometric-median", "fedrod"),
    ] {
        let mut house = House::new(5, method, "");
        let mean = house.simulated();
        std::fs::remove_dir_all(house.folder.path().join("simulated")).unwrap();
        house.set("federation", "combine", rule);
        let (end, _) = house.run().await;
        assert_eq!((end.rounds, end.stopped), (3, None), "{rule}");
        let robust = house.simulated();
        assert_eq!(house.fingerprint(), robust, "{rule}");
        assert_ne!(robust, mean, "{rule}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_knows_of_samples_counts_and_nobody_outvotes_all_others() {
    // One client counts for a hundred thousand samples, whatever it says that it has, and another for one.
    let house = House::new(4, "fedavg", "samples = { client-000 = 100000, client-002 = 1 }");
    let (end, _) = house.run().await;
    assert_eq!((end.rounds, end.stopped), (3, None));
    let simulated = |max_share: f64| {
        let mut plan = house.settings().0.plan().unwrap();
        let claim = |client, samples| Attack {
            kind: AttackKind::None,
            clients: vec![client],
            samples: Some(samples),
            from: 1,
        };
        let dataset = &plan.federation.dataset;
        let claims = vec![claim(0, 100_000), claim(2, 1)];
        plan.attacks = Attacks::new(claims, &dataset.train, dataset.classes);
        plan.combine = Arc::new(Combination { rule: Rule::Mean, max_share, memory: 1 << 20 });
        house.simulated_by(&plan)
    };
    assert_eq!(house.fingerprint(), simulated(0.5));
    assert_ne!(house.fingerprint(), simulated(1.0), "the limit is felt");
    assert_ne!(house.fingerprint(), house.simulated(), "its word would be another");
}

#[test]
fn samples_that_nobody_can_have_are_refused() {
    let parse = |samples: &str| {
        let mut table = House::new(2, "fedavg", "").table;
        let server = table["server"].as_table_mut().unwrap();
        server.extend(samples.parse::<toml::Table>().unwrap());
        let parsed =
            formant_network::ServerSettings::parse(&table, &formant_methods::Zoo::standard());
        parsed.map(drop).unwrap_err().to_string()
    };
    for (samples, expected) in [
        ("samples = 7", "`server.samples = 7`"),
        ("samples = { client-000 = 0 }", "`server.samples.client-000 = 0`"),
        ("samples = { client-00 = 5 }", "server.samples.client-00"),
    ] {
        let error = parse(samples);
        assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
    }
}
