//! What a federation has trained lies in the folders of its server and clients, and what a second one
//! does with these folders.

use crate::house::{House, never, within};
use formant_model::folder::{GENERIC, MODELS, OWN, PERSONAL, personal};
use formant_model::{ModelFile, Role};
use formant_network::client::{JoinOptions, join};
use std::path::Path;

fn read(path: &Path) -> ModelFile {
    ModelFile::read(path).unwrap()
}

/// Methods whose personal model is the client's own, has a shared body (with and without a generic
/// model), or is fine-tuned for use.
#[tokio::test(flavor = "multi_thread")]
async fn both_sides_end_with_the_models_of_the_simulator() {
    for method in ["scd", "fedrod", "fedrep", "fedbabu"] {
        let house = House::new(3, method, "");
        let (_, summaries) = house.run().await;
        house.simulated();
        let simulated = house.folder.path().join("simulated").join(MODELS).join(method);
        let generic = read(&simulated.join(GENERIC));
        let expect_generic = |folder: &Path| match generic.card.role {
            Role::Generic => assert_eq!(read(&folder.join(GENERIC)), generic, "{method}"),
            // Nobody has seen all personal models, so nobody has their mean.
            _ => assert!(!folder.join(GENERIC).exists(), "{method}"),
        };
        expect_generic(&house.folder.path().join("server"));
        for (client, summary) in summaries.iter().enumerate() {
            let folder = house.client_folder(client);
            expect_generic(&folder);
            let own = read(&folder.join(OWN));
            let expected = read(&simulated.join(PERSONAL).join(personal(client)));
            assert_eq!(own.model, expected.model, "{method}, client {client}");
            let name = Some(format!("client-{client:03}"));
            assert_eq!(own.card.role, Role::Personal { client, name });
            assert_eq!((own.card.round, own.card.classes), (3, expected.card.classes));
            assert_eq!(summary.model.as_deref(), Some(&*folder.join(OWN)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_serve_what_they_serve_in_the_simulator() {
    for (method, guard) in [("scd", "best"), ("ditto", "blend"), ("fedrod", "bands")] {
        let mut house = House::new(3, method, "");
        house.set("evaluation", "guard", guard);
        house.set("data", "train_fraction", 0.5);
        house.set("data", "validation_fraction", 0.25);
        house.divide();
        let (_, summaries) = house.run().await;
        assert_eq!(house.fingerprint(), house.simulated());
        let simulated = house.folder.path().join("simulated").join(MODELS).join(method);
        let mut chosen = 0;
        for (client, summary) in summaries.iter().enumerate() {
            let own = read(&house.client_folder(client).join(OWN));
            let expected = read(&simulated.join(PERSONAL).join(personal(client)));
            assert_eq!(own.model, expected.model, "{method}, client {client}");
            chosen += usize::from(summary.choice.is_some());
        }
        assert_eq!(chosen, 3, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_without_personal_models_leaves_the_generic_one() {
    let house = House::new(2, "fedavg", "");
    let (_, summaries) = house.run().await;
    let folder = house.client_folder(1);
    assert!(!folder.join(OWN).exists());
    assert_eq!(summaries[1].model.as_deref(), Some(&*folder.join(GENERIC)));
    assert_eq!(
        read(&folder.join(GENERIC)),
        read(&house.folder.path().join("server").join(GENERIC))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_there_before_the_run_is_over() {
    let mut house = House::new(2, "ditto", "");
    house.table.insert("rounds".into(), 50.into());
    let server = house.serve().await;
    let address = server.address().to_string();
    let clients: Vec<_> =
        (0..2).map(|client| tokio::spawn(join(house.options(&address, client), never()))).collect();
    within(server.wait_for_round(4)).await;
    let wait_for = async |path: std::path::PathBuf| {
        while ModelFile::read(&path).is_err() {
            tokio::task::yield_now().await;
        }
        read(&path).card.round
    };
    assert!(within(wait_for(house.folder.path().join("server").join(GENERIC))).await >= 1);
    for client in 0..2 {
        assert!(within(wait_for(house.client_folder(client).join(OWN))).await >= 1);
        within(wait_for(house.client_folder(client).join(GENERIC))).await;
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_finished_run_refuses_a_new_one_or_makes_room() {
    let house = House::new(2, "ditto", "");
    let (_, first) = house.run().await;
    let folder = house.client_folder(0);
    let old = std::fs::read(folder.join(OWN)).unwrap();
    // The same run: the result once more.
    let server = house.serve().await;
    let address = server.address().to_string();
    let again = within(join(house.options(&address, 0), never())).await.unwrap().unwrap();
    assert_eq!(again, first[0]);
    server.finish(std::future::ready(())).await.unwrap();
    // A new one, in a new folder of the server.
    std::fs::rename(house.folder.path().join("server"), house.folder.path().join("old")).unwrap();
    let server = house.serve().await;
    let address = server.address().to_string();
    let error = within(join(house.options(&address, 0), never())).await.unwrap_err().to_string();
    assert!(error.contains("which is over, and the server has the new run"), "{error}");
    assert!(error.contains("\nhint: ") && error.contains("--again"), "{error}");
    assert_eq!(std::fs::read(folder.join(OWN)).unwrap(), old, "nothing is touched");
    assert!(!folder.join("archive").exists() && !folder.join("asking").exists());
    let clients: Vec<_> = (0..2)
        .map(|client| JoinOptions { again: true, ..house.options(&address, client) })
        .map(|options| tokio::spawn(join(options, never())))
        .collect();
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (3, None));
    for (client, first) in clients.into_iter().zip(&first) {
        let second = within(client).await.unwrap().unwrap().unwrap();
        assert_eq!(second.fingerprint, first.fingerprint, "the same experiment, the same bits");
    }
    let archive: Vec<_> = std::fs::read_dir(folder.join("archive")).unwrap().flatten().collect();
    assert_eq!(archive.len(), 1);
    assert_eq!(std::fs::read(archive[0].path().join(OWN)).unwrap(), old);
    assert!(archive[0].path().join("run.json").exists() && folder.join(OWN).exists());
    assert!(!folder.join("asking").exists());
}
