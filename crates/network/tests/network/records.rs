//! What the logs of a server and its clients say, and what a report makes of it.

use crate::house::{House, never, within};
use formant_network::audit;
use formant_network::client::{Source, join};
use formant_report::{RunLog, html_of, markdown, rows};
use formant_runtime::EVENTS_FILE;
use formant_runtime::event::{Event, Metric, RunStarted};
use std::path::Path;

fn events(folder: &Path) -> Vec<Event> {
    let log = std::fs::read_to_string(folder.join(EVENTS_FILE)).unwrap();
    // What is not known is absent: `null` stands only for clients whose data is not known.
    let placeholder = |line: &&str| line.contains(":null") || line.contains(":\"\"");
    assert_eq!(log.lines().find(placeholder), None);
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refusals(folder: &Path) -> Vec<Event> {
    let mut events = events(folder);
    events.retain(|event| matches!(event, Event::Refused { .. }));
    events
}

fn header(events: &[Event]) -> &RunStarted {
    let Event::RunStarted(header) = &events[0] else { panic!("{:?}", events[0]) };
    header
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reports_what_it_knows_and_nothing_else() {
    let mut house = House::new(3, "scd", "");
    house.set("evaluation", "metrics", vec!["accuracy", "macro_f1", "auroc"]);
    let (end, summaries) = house.run().await;
    let folder = house.folder.path().join("server");
    let events = events(&folder);
    assert_eq!(header(&events).clients, [None; 3]);
    let log = RunLog::read(&folder.join(EVENTS_FILE)).unwrap();
    let method = &log.methods[0];
    let finish = method.finish.as_ref().unwrap();
    assert_eq!((&finish.fingerprint, finish.rounds), (&None, 3));
    assert_eq!(finish.server_fingerprint.as_deref(), Some(&*end.fingerprint));
    assert!(log.seconds.unwrap() > 0.0);
    assert!(method.evaluations.values().all(|evaluation| evaluation.pm.is_none()));
    assert!(method.rounds.values().all(|round| round.participants == 3));
    let row = rows(&log).remove(0);
    assert_eq!((row.diverged_evaluations, row.refused, row.failed_phases), (0, 0, 0));
    assert!(row.finished && row.gm_last.is_some() && row.pm_last.is_none());
    // Whoever scores a model scores it by all metrics.
    let [f1, auroc] = &*row.further else { panic!("{:?}", row.further) };
    assert!(f1.gm_last.is_some() && auroc.gm_last.is_some() && auroc.pm_last.is_none());
    let personal = summaries.iter().flat_map(|summary| &summary.personal);
    assert!(personal.clone().count() > 0);
    assert!(personal.clone().all(|score| score.further.contains_key(&Metric::MacroF1)));
    let text = markdown(&log);
    for part in ["3, whose data only they know", "the server's state alone", &end.fingerprint] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let page = html_of(&log);
    for wrong in ["NaN", "diverged", "not finished", "0 training"] {
        assert!(!text.contains(wrong) && !page.contains(wrong), "{wrong} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_knows_its_own_data_and_how_long_it_took() {
    let house = House::new(3, "scd", "");
    house.run().await;
    let folder = house.client_folder(1);
    let known: Vec<bool> = header(&events(&folder)).clients.iter().map(Option::is_some).collect();
    assert_eq!(known, [false, true, false]);
    let log = RunLog::read(&folder.join(EVENTS_FILE)).unwrap();
    let row = rows(&log).remove(0);
    assert!(row.finished && row.rounds == 3 && row.stopped.is_none());
    // All phases are in it, and they took their time.
    let phases = log.methods[0].phases(formant_runtime::event::Phase::Shared);
    assert_eq!(phases.phases, 3);
    assert!(log.seconds.unwrap() >= phases.seconds && phases.seconds > 0.0);
    assert_eq!(log.methods[0].finish.as_ref().unwrap().seconds, log.seconds.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_record_a_refusal_in_the_same_words() {
    let mut house = House::new(2, "fedavg", "");
    let sizes = [0, 1].map(|client| match house.share(client) {
        Source::Share(share) => share.train().len(),
        Source::Own { .. } | Source::Rehearse { .. } => 0,
    });
    assert_ne!(sizes[0], sizes[1]);
    let (most, refused) = (sizes[0].min(sizes[1]), usize::from(sizes[1] > sizes[0]));
    house.set("server", "max_samples", most as i64);
    let (end, _) = house.run().await;
    assert_eq!((end.rounds, end.stopped), (3, None));
    let server = house.folder.path().join("server");
    let recorded = refusals(&server);
    assert_eq!(recorded.len(), 3, "once a round: {recorded:?}");
    let own = refusals(&house.client_folder(refused));
    // In the last round, the run may be over before it hears of it.
    assert!((2..=3).contains(&own.len()), "{own:?}");
    for (round, line) in own.iter().enumerate() {
        assert_eq!(line, &recorded[round]);
        let Event::Refused { client, round: answered, bytes, reason, detail, .. } = line else {
            panic!("{line:?}")
        };
        assert_eq!((*client, *answered, &**reason), (refused, round + 1, "samples"));
        let plausible = format!("from 1 to {most} are plausible");
        assert!(bytes.is_some() && detail.as_ref().unwrap().contains(&plausible), "{detail:?}");
    }
    assert!(refusals(&house.client_folder(1 - refused)).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_refused_is_not_a_phase_that_failed() {
    // No client may move at all, so no upload counts, and the run is given up.
    let house = House::new(2, "fedavg", "max_norm_ratio = 1e-9");
    let (end, _) = house.run().await;
    assert_eq!(end.rounds, 0);
    let server = house.folder.path().join("server");
    assert_eq!(refusals(&server).len(), 2);
    let log = RunLog::read(&server.join(EVENTS_FILE)).unwrap();
    let row = rows(&log).remove(0);
    assert_eq!((row.failed_phases, row.refused, row.refused_by_reason["norm"]), (0, 2, 2));
    assert!(markdown(&log).contains("2 uploads were refused and did not count (2 × norm)"));
    let log = RunLog::read(&house.client_folder(0).join(EVENTS_FILE)).unwrap();
    let stopped = rows(&log).remove(0).stopped;
    assert_eq!(stopped.as_deref(), Some("the server has given the run up"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_names_whom_a_rule_leaves_out() {
    let mut house = House::new(4, "fedavg", "");
    house.set("federation", "combine", "krum");
    house.set("federation", "krum_attackers", 0);
    let (end, _) = house.run().await;
    assert_eq!((end.rounds, end.stopped), (3, None));
    let records = audit::records(&house.folder.path().join("server")).unwrap();
    let mut rounds = 0;
    for record in &records {
        let audit::Entry::Aggregated { clients, verdicts, .. } = &record.entry else { continue };
        rounds += 1;
        assert_eq!((clients.len(), verdicts.len()), (4, 3), "one is chosen: {verdicts:?}");
        for audit::Verdict { client, verdict, share } in verdicts {
            assert!(clients.contains(client) && record.entry.concerns(client));
            assert_eq!((&**verdict, *share), ("left-out", 0.0));
        }
    }
    assert_eq!(rounds, 3);
}

/// What operators see of uploads: the loss only of whoever lets it be sent.
async fn losses(house: &House, sends: bool) -> Vec<Option<f64>> {
    let server = house.serve().await;
    let address = server.address().to_string();
    let clients: Vec<_> = (0..house.clients)
        .map(|client| {
            let mut options = house.options(&address, client);
            options.policy.send_loss = sends;
            tokio::spawn(join(options, never()))
        })
        .collect();
    within(server.finish(never())).await.unwrap().unwrap();
    for client in clients {
        within(client).await.unwrap().unwrap().unwrap();
    }
    let records = audit::records(&house.folder.path().join("server")).unwrap();
    let kept = records.iter().filter_map(|record| match &record.entry {
        audit::Entry::Kept { loss, .. } => Some(*loss),
        _ => None,
    });
    kept.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_told_only_if_the_site_lets_it_and_never_beside_noise() {
    let house = House::new(2, "fedavg", "");
    assert_eq!(losses(&house, false).await, [None; 6]);
    let house = House::new(2, "fedavg", "");
    let told = losses(&house, true).await;
    assert_eq!(told.len(), 6);
    let own = RunLog::read(&house.client_folder(0).join(EVENTS_FILE)).unwrap();
    let own = own.methods[0].phases(formant_runtime::event::Phase::Shared);
    assert!(own.losses == 3 && told.iter().all(|loss| loss.is_some_and(|loss| loss > 0.0)));
    let mut house = House::new(2, "fedavg", "");
    house.set("privacy", "where", "server");
    house.set("privacy", "clip", 1.0);
    house.set("privacy", "noise_multiplier", 0.5);
    assert_eq!(losses(&house, true).await, [None; 6]);
}
