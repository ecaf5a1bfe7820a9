//! Differential privacy over real sockets: noise of the system's, counted.

use crate::house::{House, named, never, within};
use formant_network::client::join;
use formant_report::{RunLog, rows};
use formant_runtime::event::{NoiseSource, Place};
use formant_runtime::{EVENTS_FILE, Ledger};

fn house(clients: usize, place: &str) -> House {
    let mut house = House::new(clients, "scd", "");
    house.set("privacy", "where", place);
    house.set("privacy", "clip", 1.0);
    house.set("privacy", "noise_multiplier", 0.5);
    house
}

#[tokio::test(flavor = "multi_thread")]
async fn a_federation_ends_with_noise_that_nobody_can_predict_and_says_what_it_cost() {
    for (place, whose) in [("server", Place::Server), ("client", Place::Client)] {
        let house = house(3, place);
        let server = house.serve().await;
        let address = server.address().to_string();
        let clients: Vec<_> = (0..3)
            .map(|client| tokio::spawn(join(house.options(&address, client), never())))
            .collect();
        within(server.wait_for_round(3)).await;
        let status = server.status().await.unwrap().privacy.unwrap();
        let end = within(server.finish(never())).await.unwrap().unwrap();
        let mut summaries = Vec::new();
        for client in clients {
            summaries.push(within(client).await.unwrap().unwrap().unwrap());
        }
        assert_eq!((end.rounds, end.stopped), (3, None), "{place}");
        // The simulator draws its noise from the seed.
        assert_ne!(house.fingerprint(), house.simulated(), "{place}");
        let log = house.folder.path().join("server").join(EVENTS_FILE);
        let spent = rows(&RunLog::read(&log).unwrap()).remove(0).privacy.unwrap();
        assert_eq!((spent.place, spent.noise), (whose, NoiseSource::System));
        let plan = house.settings().0.plan().unwrap();
        let mut ledger = Ledger::new(plan.privacy.unwrap(), plan.rules(&plan.methods[0]));
        assert!([2, 3].map(|round| ledger.spent(round).epsilon).contains(&status.epsilon));
        assert_eq!(spent.epsilon, ledger.spent(3).epsilon, "{place}");
        // A client's own log says the same of itself, round by round.
        let own = RunLog::read(&house.client_folder(1).join(EVENTS_FILE)).unwrap();
        let told = own.methods[0].rounds.values().map(|round| round.privacy.unwrap());
        let mut ledger = Ledger::new(plan.privacy.unwrap(), plan.rules(&plan.methods[0]));
        let expected: Vec<f64> = (1..=3).map(|round| ledger.spent(round).epsilon).collect();
        assert_eq!(told.map(|told| told.epsilon).collect::<Vec<_>>(), expected, "{place}");
        assert_eq!(rows(&own).remove(0).privacy, Some(spent));
        assert!(summaries.iter().all(|summary| summary.privacy == Some(spent)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_again_and_again_gives_away_one_model_a_round() {
    let mut house = house(2, "server");
    house.table.insert("rounds".into(), 4.into());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    house.set("server", "listen", port.to_string());
    let mut server = house.serve().await;
    let clients: Vec<_> = (0..2)
        .map(|client| tokio::spawn(join(house.options(&port.to_string(), client), never())))
        .collect();
    for round in 1..=4 {
        within(server.wait_for_round(round)).await;
        assert_eq!(server.finish(std::future::ready(())).await.unwrap(), None);
        server = house.serve().await;
    }
    let end = within(server.finish(never())).await.unwrap().unwrap();
    for client in clients {
        within(client).await.unwrap().unwrap().unwrap();
    }
    assert_eq!((end.rounds, end.stopped), (4, None));
    // What clients were told is what the server's state says, and so is the model in its folder.
    let last = |folder: &std::path::Path| {
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let file = manifest["broadcasts"]["5"]["file"].as_str().unwrap().to_owned();
        std::fs::read(folder.join("states").join(file)).unwrap()
    };
    let server = house.folder.path().join("server");
    let told = last(&server);
    assert!([0, 1].map(|client| last(&house.client_folder(client))).iter().all(|got| *got == told));
    let (experiment, _) = house.settings();
    let plan = experiment.plan().unwrap();
    let method = &*plan.methods[0].method;
    let state = method.decode_server(&named(&server, "server")).unwrap();
    let state = method.global_model(&state).unwrap().unwrap().into_owned();
    let kept = formant_model::ModelFile::read(&server.join("generic.safetensors")).unwrap();
    assert_eq!(kept.model, state);
    // Each of the four rounds was spent once, whatever was made anew.
    let log = RunLog::read(&server.join(EVENTS_FILE)).unwrap();
    let spent: Vec<_> =
        log.methods[0].rounds.values().map(|round| round.privacy.unwrap()).collect();
    let mut ledger = Ledger::new(plan.privacy.unwrap(), plan.rules(&plan.methods[0]));
    let expected: Vec<f64> = (1..=4).map(|round| ledger.spent(round).epsilon).collect();
    assert_eq!(spent.iter().map(|spent| spent.epsilon).collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_counts_the_uploads_that_it_has_made_itself() {
    let mut house = house(3, "client");
    house.table.insert("rounds".into(), 4.into());
    house.set("train", "participation", 0.34);
    house.run().await;
    let plan = house.settings().0.plan().unwrap();
    let ledger = Ledger::new(plan.privacy.unwrap(), plan.rules(&plan.methods[0]));
    let mut made = 0;
    for client in 0..3 {
        let own = RunLog::read(&house.client_folder(client).join(EVENTS_FILE)).unwrap();
        let told: Vec<f64> = own
            .methods
            .iter()
            .flat_map(|method| method.rounds.values())
            .filter_map(|round| Some(round.privacy?.epsilon))
            .collect();
        let expected: Vec<f64> =
            (1..=told.len() as u64).map(|uploads| ledger.of(uploads).epsilon).collect();
        assert_eq!(told, expected);
        made += told.len();
    }
    // One or two of three are asked in a round.
    assert!((4..12).contains(&made), "{made}");
}
