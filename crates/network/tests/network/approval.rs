//! A site approves an experiment once, and what it keeps is its own.

use crate::house::{House, never, within};
use formant_methods::Zoo;
use formant_network::NetworkError;
use formant_network::client::{Accept, JoinOptions, Policy, Proposal, join};
use std::path::Path;

/// What a client that asks first is shown.
async fn shown(options: JoinOptions) -> Proposal {
    match within(join(options, never())).await {
        Err(NetworkError::Unapproved { proposal }) => *proposal,
        other => panic!("{other:?}"),
    }
}

fn asking(options: JoinOptions) -> JoinOptions {
    JoinOptions { accept: Accept::Nothing, ..options }
}

fn accepting(options: JoinOptions, hash: &str) -> JoinOptions {
    JoinOptions { accept: Accept::Hash(hash.into()), ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_is_shown_first_and_approved_once() {
    let mut house = House::new(1, "ditto", "upload_precision = \"f16\"");
    let server = house.serve().await;
    let address = server.address().to_string();
    let options = || house.options(&address, 0);
    let proposal = shown(asking(options())).await;
    // The hash that the operator sees, too.
    assert_eq!(proposal.hash, server.experiment_hash());
    assert_eq!(proposal.hash, server.status().await.unwrap().experiment);
    assert_eq!((&*proposal.method, &*proposal.network, proposal.rounds), ("Ditto", "mlp", 3));
    assert_eq!((proposal.epochs, proposal.personal_epochs), (1, Some(2)));
    assert_eq!((proposal.batch, proposal.steps), (10, proposal.samples.div_ceil(10)));
    assert_eq!(proposal.upload_bytes, 2 * proposal.parameters);
    assert!(proposal.broadcast_bytes > 4 * proposal.parameters);
    let all = 3 * (proposal.broadcast_bytes + proposal.upload_bytes) + proposal.broadcast_bytes;
    assert_eq!(proposal.run_bytes, all);
    let table = proposal.table();
    for part in
        [&*proposal.hash, "Ditto", "mlp, ", "what they train stays here", "how many training"]
    {
        assert!(table.contains(part), "{part} in {table}");
    }
    assert!(!house.client_folder(0).join("run.json").exists(), "nothing was begun");
    // The hash of something else approves nothing.
    let other = format!("sha256:{}", "0".repeat(64));
    shown(accepting(options(), &other)).await;
    // Stopped in the middle, it goes on without being asked again, and so does the server.
    let approved = accepting(options(), &proposal.hash);
    let stopped = join(approved, server.wait_for_round(2));
    assert!(within(stopped).await.unwrap().is_none());
    let client = tokio::spawn(join(asking(options()), never()));
    assert_eq!(within(server.finish(never())).await.unwrap().unwrap().rounds, 3);
    within(client).await.unwrap().unwrap().unwrap();

    // A new run of the same experiment was approved; another experiment was not, and changes nothing.
    let again = |address: &str| JoinOptions { again: true, ..asking(house.options(address, 0)) };
    std::fs::rename(house.folder.path().join("server"), house.folder.path().join("old")).unwrap();
    let server = house.serve().await;
    let client = tokio::spawn(join(again(&server.address().to_string()), never()));
    assert_eq!(within(server.finish(never())).await.unwrap().unwrap().rounds, 3);
    within(client).await.unwrap().unwrap().unwrap();
    std::fs::remove_dir_all(house.folder.path().join("server")).unwrap();
    house.table.insert("rounds".into(), 4.into());
    let archive = house.client_folder(0).join("archive");
    let archived = || std::fs::read_dir(&archive).unwrap().count();
    let server = house.serve().await;
    let again =
        JoinOptions { again: true, ..asking(house.options(&server.address().to_string(), 0)) };
    let proposal = shown(again).await;
    assert_eq!((proposal.rounds, archived()), (4, 1));
    let again = JoinOptions { again: true, ..house.options(&server.address().to_string(), 0) };
    let client = tokio::spawn(join(accepting(again, &proposal.hash), never()));
    assert_eq!(within(server.finish(never())).await.unwrap().unwrap().rounds, 4);
    within(client).await.unwrap().unwrap().unwrap();
    assert_eq!(archived(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_approves_what_it_names_and_refuses_all_else() {
    let house = House::new(1, "fedavg", "");
    let server = house.serve().await;
    let address = server.address().to_string();
    let with = |rule: &str| {
        let rules = format!("min_steps = 1\nmin_batch = 1\nmax_batch_share = 1\n{rule}");
        let policy = Policy::parse(&rules.parse().unwrap(), &Zoo::standard()).unwrap();
        JoinOptions { policy, ..asking(house.options(&address, 0)) }
    };
    let other = format!("experiment = \"sha256:{}\"", "0".repeat(64));
    let error = within(join(with(&other), never())).await.unwrap_err().to_string();
    assert!(
        error.contains(server.experiment_hash()) && error.contains("policy.experiment"),
        "{error}"
    );
    let this = format!("experiment = \"{}\"", server.experiment_hash());
    let client = tokio::spawn(join(with(&this), never()));
    within(server.finish(never())).await.unwrap().unwrap();
    within(client).await.unwrap().unwrap().unwrap();
    // Rules are asked again, also of a run that was begun under others.
    let server = house.serve().await;
    let address = server.address().to_string();
    let policy = Policy { max_rounds: 2, ..Policy::default() };
    let strict = JoinOptions { policy, ..asking(house.options(&address, 0)) };
    let error = within(join(strict, never())).await.unwrap_err().to_string();
    assert!(error.contains("`policy.max_rounds = 2`: the server asks for 3 rounds"), "{error}");
    server.finish(std::future::ready(())).await.unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_can_read_what_a_client_keeps() {
    fn check(folder: &Path, seen: &mut usize) {
        use std::os::unix::fs::PermissionsExt;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, seen);
            } else if path.file_name().is_some_and(|name| name != "lock") {
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{}", path.display());
                *seen += 1;
            }
        }
    }
    let house = House::new(1, "scd", "");
    house.run().await;
    let mut seen = 0;
    check(&house.client_folder(0), &mut seen);
    // Run, manifest, approval, log, two models, a state, a broadcast.
    assert!(seen >= 8, "{seen} files");
}
