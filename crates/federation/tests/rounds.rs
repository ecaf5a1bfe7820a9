//! Rounds without accidents, event by event.

use core::time::Duration;
use formant_federation::{
    Action, Event, Late, Protocol, Refusal, Role, Schedule, Server, Session, SessionAction,
    SessionEvent, Time, Until,
};

const NOW: Time = Time::ZERO;

fn at(seconds: f64) -> Time {
    Time::from_seconds(seconds)
}

/// A server whose first round is open and whose clients are all there.
fn open(protocol: Protocol) -> Server {
    let clients = protocol.clients;
    let mut server = Server::new(protocol);
    server.start(NOW);
    for client in 0..clients {
        server.handle(NOW, Event::Joined { client });
    }
    server
}

fn upload(server: &mut Server, client: usize, round: u64) -> Vec<Action> {
    server.handle(NOW, Event::Uploaded { client, round })
}

fn asked(actions: &[Action]) -> Vec<(usize, u64)> {
    let told = |action: &Action| match action {
        Action::Broadcast { client, round, role: Role::Participant } => Some((*client, *round)),
        _ => None,
    };
    actions.iter().filter_map(told).collect()
}

#[test]
fn a_whole_run_of_two_clients() {
    let mut server = Server::new(Protocol::synchronous(2, 2));
    assert_eq!(server.start(NOW), []);
    for client in 0..2 {
        let actions = server.handle(NOW, Event::Joined { client });
        assert_eq!(asked(&actions), [(client, 1)]);
    }
    for round in 1..=2 {
        assert_eq!(server.round(), round);
        // In any order; the aggregation is in client order.
        assert_eq!(upload(&mut server, 1, round), [Action::Accept { client: 1, round }]);
        let uploads = vec![(0, round), (1, round)];
        assert_eq!(
            upload(&mut server, 0, round),
            [Action::Accept { client: 0, round }, Action::Aggregate { round, uploads }]
        );
        let actions = server.handle(NOW, Event::Aggregated { round });
        if round == 1 {
            assert_eq!(asked(&actions), [(0, 2), (1, 2)]);
        } else {
            let told = [0, 1].map(|client| Action::Dismiss { client });
            assert_eq!(actions, [&[Action::Finish], &told[..]].concat());
        }
    }
    assert!(server.is_over());
    assert_eq!(upload(&mut server, 0, 2), [Action::Acknowledge { client: 0, round: 2 }]);
}

#[test]
fn what_was_not_asked_for_is_refused() {
    let protocol = Protocol { participation: 0.5, ..Protocol::synchronous(4, 3) };
    let mut server = open(protocol.clone());
    let chosen = protocol.participants(1);
    let other = (0..4).find(|client| !chosen.contains(client)).unwrap();
    let refused = |client, round, reason| vec![Action::Refuse { client, round, reason }];
    assert_eq!(upload(&mut server, other, 1), refused(other, 1, Refusal::NotAsked));
    assert_eq!(upload(&mut server, chosen[0], 2), refused(chosen[0], 2, Refusal::NotAsked));
    assert_eq!(upload(&mut server, 9, 1), refused(9, 1, Refusal::Unknown));
    assert_eq!(upload(&mut server, chosen[0], 1), [Action::Accept { client: chosen[0], round: 1 }]);
    // A second time it is confirmed and does not count again.
    let again = upload(&mut server, chosen[0], 1);
    assert_eq!(again, [Action::Acknowledge { client: chosen[0], round: 1 }]);
}

#[test]
fn a_quorum_closes_a_round_and_the_late_are_dropped_or_weighed() {
    for late in [Late::Drop, Late::Weigh { exponent: 0.5 }] {
        let protocol = Protocol { quorum: 0.6, late, ..Protocol::synchronous(3, 3) };
        let mut server = open(protocol);
        upload(&mut server, 0, 1);
        let actions = upload(&mut server, 2, 1);
        assert_eq!(actions[1], Action::Aggregate { round: 1, uploads: vec![(0, 1), (2, 1)] });
        server.handle(NOW, Event::Aggregated { round: 1 });
        let actions = upload(&mut server, 1, 1);
        if late == Late::Drop {
            let refused = Action::Refuse { client: 1, round: 1, reason: Refusal::Late };
            assert_eq!(actions, [refused]);
        } else {
            assert_eq!(actions, [Action::Accept { client: 1, round: 1 }]);
            assert_eq!(server.staleness(1), 1);
        }
        // It does not stand in for a fresh one.
        assert_eq!(upload(&mut server, 0, 2).len(), 1);
        let actions = upload(&mut server, 1, 2);
        let mut uploads = vec![(0, 2), (1, 2)];
        if late != Late::Drop {
            uploads.insert(1, (1, 1));
        }
        assert_eq!(actions[1], Action::Aggregate { round: 2, uploads });
    }
}

#[test]
fn a_deadline_closes_a_round_with_what_is_there_and_waits_while_there_is_nothing() {
    let deadline = Some(Duration::from_secs(60));
    let mut server = open(Protocol { deadline, ..Protocol::synchronous(3, 1) });
    assert_eq!(server.handle(at(59.0), Event::Tick), []);
    assert_eq!(server.handle(at(60.0), Event::Tick), [Action::Wake { at: at(120.0) }]);
    server.handle(at(70.0), Event::Uploaded { client: 1, round: 1 });
    assert_eq!(server.handle(at(119.0), Event::Tick), []);
    let actions = server.handle(at(120.0), Event::Tick);
    assert_eq!(actions, [Action::Aggregate { round: 1, uploads: vec![(1, 1)] }]);
}

#[test]
fn a_client_that_comes_back_gets_the_current_broadcast() {
    let mut server = open(Protocol { quorum: 0.5, ..Protocol::synchronous(2, 3) });
    server.handle(NOW, Event::Left { client: 1 });
    upload(&mut server, 0, 1);
    let actions = server.handle(NOW, Event::Aggregated { round: 1 });
    assert_eq!(asked(&actions), [(0, 2)], "who is not there is not told");
    let actions = server.handle(NOW, Event::Joined { client: 1 });
    assert_eq!(asked(&actions), [(1, 2)]);
}

#[test]
fn a_round_goes_on_without_those_who_failed() {
    let mut server = open(Protocol::synchronous(3, 1));
    let known = server.handle(NOW, Event::Failed { client: 0, round: 1 });
    assert_eq!(known, [Action::Acknowledge { client: 0, round: 1 }]);
    upload(&mut server, 1, 1);
    let actions = upload(&mut server, 2, 1);
    assert_eq!(actions[1], Action::Aggregate { round: 1, uploads: vec![(1, 1), (2, 1)] });
    let mut server = open(Protocol::synchronous(2, 5));
    server.handle(NOW, Event::Failed { client: 0, round: 1 });
    let actions = server.handle(NOW, Event::Failed { client: 1, round: 1 });
    assert_eq!(actions[1], Action::Abandon { round: 1 });
    assert!(server.is_over());
}

#[test]
fn a_quorum_counts_successes_and_not_those_who_are_left() {
    let ten = || Protocol { quorum: 0.8, ..Protocol::synchronous(10, 1) };
    let fail = |server: &mut Server, client| server.handle(NOW, Event::Failed { client, round: 1 });
    // Three have failed: eight cannot succeed, so all seven must.
    let mut server = open(ten());
    for client in 0..3 {
        fail(&mut server, client);
    }
    for client in 3..9 {
        assert_eq!(upload(&mut server, client, 1).len(), 1, "client {client} closes nothing");
    }
    assert_eq!(upload(&mut server, 9, 1).len(), 2);
    // Nobody closes a round alone whose others have failed: not at once and not at a deadline.
    for deadline in [None, Some(Duration::from_secs(60))] {
        let mut server = open(Protocol { deadline, quorum: 1.0, ..ten() });
        upload(&mut server, 9, 1);
        for client in 0..5 {
            assert_eq!(fail(&mut server, client).len(), 1);
        }
        assert_eq!(fail(&mut server, 5)[1], Action::Abandon { round: 1 });
        let why = server.shortage().unwrap();
        assert!(why.starts_with("only 4 of 10") && why.contains("= 0.5 needs 5"), "{why}");
        assert_eq!(server.handle(at(60.0), Event::Tick), []);
    }
    // Unless that is what somebody wants.
    let mut server = open(Protocol { min_success: 0.0, ..ten() });
    for client in 0..9 {
        fail(&mut server, client);
    }
    let uploads = vec![(9, 1)];
    assert_eq!(upload(&mut server, 9, 1)[1], Action::Aggregate { round: 1, uploads });
}

#[test]
fn what_was_taken_out_does_not_count_and_its_client_has_failed() {
    let mut server = open(Protocol { quorum: 0.5, ..Protocol::synchronous(4, 2) });
    upload(&mut server, 0, 1);
    server.handle(NOW, Event::Withdrawn { client: 0 });
    assert_eq!(server.kept().count(), 0);
    assert_eq!(upload(&mut server, 1, 1).len(), 1, "it alone is no quorum");
    let uploads = vec![(1, 1), (2, 1)];
    assert_eq!(upload(&mut server, 2, 1)[1], Action::Aggregate { round: 1, uploads });
    // An aggregation that nobody has begun yet is ordered anew, once there are enough again.
    assert_eq!(server.handle(NOW, Event::Withdrawn { client: 1 }), []);
    let uploads = vec![(2, 1), (3, 1)];
    assert_eq!(upload(&mut server, 3, 1)[1], Action::Aggregate { round: 1, uploads });
    server.handle(NOW, Event::Aggregated { round: 1 });
    // It may come back.
    assert_eq!(upload(&mut server, 1, 2)[0], Action::Accept { client: 1, round: 2 });
}

#[test]
fn nobody_has_answered_a_round_that_there_is_not() {
    let mut server = open(Protocol::synchronous(2, 2));
    let refused = Action::Refuse { client: 0, round: 0, reason: Refusal::NotAsked };
    assert_eq!(upload(&mut server, 0, 0), [refused]);
}

#[test]
fn a_run_goes_on_after_a_round_without_some() {
    let protocol = Protocol { participation: 0.5, ..Protocol::synchronous(4, 9) };
    let mut server = Server::after(protocol, 3, [0, 2]);
    let draws: std::collections::BTreeSet<usize> = (4..=9)
        .flat_map(|round| {
            if round == 4 {
                server.start(NOW);
            } else {
                server.handle(NOW, Event::Aggregated { round: round - 1 });
            }
            assert_eq!(server.round(), round);
            let asked: Vec<usize> = server.asked().collect();
            assert_eq!(asked.len(), 1, "half of the two who are left");
            server.handle(NOW, Event::Uploaded { client: asked[0], round });
            asked
        })
        .collect();
    assert_eq!(draws.into_iter().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_buffer_is_aggregated_when_it_is_full_and_nobody_answers_a_model_twice() {
    let schedule = Schedule::Buffered { size: 2 };
    let mut server = open(Protocol { schedule, ..Protocol::synchronous(3, 3) });
    assert_eq!(upload(&mut server, 0, 1), [Action::Accept { client: 0, round: 1 }]);
    let actions = upload(&mut server, 1, 1);
    assert_eq!(actions[1], Action::Aggregate { round: 1, uploads: vec![(0, 1), (1, 1)] });
    // Both are free, the third is still at work with the model before.
    let actions = server.handle(NOW, Event::Aggregated { round: 1 });
    let mut told = asked(&actions);
    told.sort_unstable();
    assert_eq!(told, [(0, 2), (1, 2)]);
    // Its upload is not late; it is stale.
    let actions = upload(&mut server, 2, 1);
    assert_eq!(actions[0], Action::Accept { client: 2, round: 1 });
    assert_eq!(asked(&actions), [(2, 2)]);
    assert_eq!(server.staleness(1), 1);
    let actions = upload(&mut server, 2, 2);
    assert_eq!(actions[1], Action::Aggregate { round: 2, uploads: vec![(2, 1), (2, 2)] });
}

#[test]
fn a_straggler_may_be_many_rounds_behind() {
    let late = Late::Weigh { exponent: 0.5 };
    let mut server = open(Protocol { quorum: 0.5, late, ..Protocol::synchronous(2, 50) });
    for round in 1..=30 {
        upload(&mut server, 0, round);
        server.handle(NOW, Event::Aggregated { round });
    }
    // It has been at work with the first round all the time.
    assert!(server.open_rounds().contains(&1));
    assert!(server.open_rounds().len() <= 10, "{:?}", server.open_rounds());
    assert_eq!(upload(&mut server, 1, 1), [Action::Accept { client: 1, round: 1 }]);
    // It goes on with the newest, and that counts too; what it has passed over is forgotten.
    assert_eq!(upload(&mut server, 1, 31)[0], Action::Accept { client: 1, round: 31 });
    server.handle(NOW, Event::Aggregated { round: 31 });
    // The other one has not answered the last round, and may.
    assert_eq!(server.open_rounds().into_iter().collect::<Vec<_>>(), [31, 32]);
}

#[test]
fn others_are_asked_if_all_who_were_asked_have_failed() {
    let protocol = Protocol { participation: 0.25, ..Protocol::synchronous(4, 1) };
    let mut server = open(protocol.clone());
    let mut failed = protocol.participants(1);
    for _ in 0..3 {
        let client = *failed.last().unwrap();
        let actions = server.handle(NOW, Event::Failed { client, round: 1 });
        let told = asked(&actions);
        assert_eq!(told.len(), 1, "{actions:?}");
        assert!(!failed.contains(&told[0].0), "{actions:?}");
        failed.push(told[0].0);
    }
    let last = *failed.last().unwrap();
    let actions = server.handle(NOW, Event::Failed { client: last, round: 1 });
    assert_eq!(actions[1], Action::Abandon { round: 1 });
}

#[test]
fn whoever_is_gone_keeps_nobody_from_work() {
    let schedule = Schedule::Buffered { size: 1 };
    let mut server = open(Protocol { schedule, participation: 0.5, ..Protocol::synchronous(4, 9) });
    let at_work: Vec<usize> = server.asked().collect();
    server.handle(NOW, Event::Left { client: at_work[0] });
    upload(&mut server, at_work[1], 1);
    server.handle(NOW, Event::Aggregated { round: 1 });
    assert!(
        !server.asked().any(|client| client == at_work[0]),
        "{:?}",
        server.asked().collect::<Vec<_>>()
    );
    assert_eq!(server.asked().count(), 2);
    // If it was at work all the time, its upload counts.
    assert_eq!(
        upload(&mut server, at_work[0], 1)[0],
        Action::Accept { client: at_work[0], round: 1 }
    );
}

#[test]
fn a_room_of_failed_clients_is_left_only_after_some_deadlines() {
    let deadline = Some(Duration::from_secs(10));
    let mut server = open(Protocol { deadline, ..Protocol::synchronous(2, 1) });
    server.handle(NOW, Event::Left { client: 1 });
    server.handle(NOW, Event::Failed { client: 0, round: 1 });
    for round in [10.0, 20.0] {
        let actions = server.handle(at(round), Event::Tick);
        assert!(
            !actions.contains(&Action::Abandon { round: 1 }),
            "the other may be on its way back"
        );
    }
    assert_eq!(server.handle(at(30.0), Event::Tick)[0], Action::Abandon { round: 1 });
}

fn run(session: &mut Session, events: &[SessionEvent]) -> Vec<SessionAction> {
    events.iter().flat_map(|event| session.handle(*event)).collect()
}

const FIRST: SessionEvent = SessionEvent::Broadcast { round: 1, role: Role::Participant };
const SECOND: SessionEvent = SessionEvent::Broadcast { round: 2, role: Role::Participant };

#[test]
fn the_two_schedules_differ_in_when_the_upload_goes() {
    let mut protocol = Protocol::synchronous(1, 2);
    let train = SessionAction::TrainPersonal { round: 1, until: Until::Epochs };
    let send = SessionAction::Upload { round: 1 };
    for (schedule, at_once) in [(Schedule::WaitFree, true), (Schedule::ComputeAndWait, false)] {
        protocol.schedule = schedule;
        let mut session = Session::new(&protocol);
        let actions = run(&mut session, &[SessionEvent::Connected, FIRST]);
        assert_eq!(actions, [SessionAction::TrainShared { round: 1 }]);
        let actions = session.handle(SessionEvent::SharedDone { round: 1 });
        assert_eq!(actions, if at_once { vec![send, train] } else { vec![train] });
        let actions = session.handle(SessionEvent::PersonalDone { round: 1 });
        assert_eq!(actions, if at_once { vec![] } else { vec![send] });
        assert_eq!(session.handle(SECOND), [SessionAction::TrainShared { round: 2 }]);
    }
}

#[test]
fn a_personal_phase_that_lasts_until_the_broadcast_ends_with_it() {
    let mut protocol = Protocol::synchronous(1, 2);
    protocol.personal.until = Until::Broadcast;
    let mut session = Session::new(&protocol);
    let done = SessionEvent::SharedDone { round: 1 };
    run(&mut session, &[SessionEvent::Connected, FIRST, done]);
    assert_eq!(session.handle(SECOND), [SessionAction::StopPersonal]);
    assert_eq!(session.handle(SECOND), [], "the same broadcast again");
    let actions = session.handle(SessionEvent::PersonalDone { round: 1 });
    assert_eq!(actions, [SessionAction::TrainShared { round: 2 }]);
    // The end of the run ends it too.
    session.handle(SessionEvent::SharedDone { round: 2 });
    assert_eq!(session.handle(SessionEvent::Finished), [SessionAction::StopPersonal]);
    let actions = session.handle(SessionEvent::PersonalDone { round: 2 });
    assert_eq!(actions, [SessionAction::End]);
    assert!(session.is_over());
}

#[test]
fn an_upload_is_sent_again_until_it_is_confirmed() {
    let mut session = Session::new(&Protocol::synchronous(1, 2));
    let send = SessionAction::Upload { round: 1 };
    let done = SessionEvent::SharedDone { round: 1 };
    let actions = run(&mut session, &[FIRST, done]);
    assert!(!actions.contains(&send), "there is no connection");
    assert_eq!(session.handle(SessionEvent::Connected), [send]);
    session.handle(SessionEvent::Disconnected);
    assert_eq!(session.handle(SessionEvent::Connected), [send]);
    session.handle(SessionEvent::Acknowledged { round: 1 });
    session.handle(SessionEvent::Disconnected);
    assert_eq!(session.handle(SessionEvent::Connected), []);
}

#[test]
fn a_bystander_trains_its_personal_model_once_it_has_something_to_train_beside() {
    let mut protocol = Protocol::synchronous(2, 5);
    protocol.personal.everyone = true;
    let mut session = Session::new(&protocol);
    let idle = |round| SessionEvent::Broadcast { round, role: Role::Bystander };
    assert_eq!(session.handle(idle(1)), []);
    let second = SessionEvent::SharedDone { round: 2 };
    run(&mut session, &[SECOND, second, SessionEvent::PersonalDone { round: 2 }]);
    let train = SessionAction::TrainPersonal { round: 3, until: Until::Epochs };
    assert_eq!(session.handle(idle(3)), [train]);
}

#[test]
fn after_a_restart_the_work_at_hand_is_begun_again() {
    let mut session = Session::new(&Protocol::synchronous(1, 2));
    run(&mut session, &[SessionEvent::Connected, FIRST]);
    assert_eq!(session.restart(), [SessionAction::TrainShared { round: 1 }]);
    session.handle(SessionEvent::SharedDone { round: 1 });
    let train = SessionAction::TrainPersonal { round: 1, until: Until::Epochs };
    assert_eq!(session.restart(), [train]);
    assert_eq!(session.handle(SessionEvent::Connected), [SessionAction::Upload { round: 1 }]);
}

#[test]
fn a_session_goes_back_with_its_run_and_sends_nothing_of_what_was() {
    let protocol = Protocol::synchronous(1, 9);
    let back_at_two = SessionEvent::Broadcast { round: 2, role: Role::Participant };
    let third = SessionEvent::Broadcast { round: 3, role: Role::Participant };
    for crash in [false, true] {
        let mut session = Session::new(&protocol);
        let done = SessionEvent::SharedDone { round: 3 };
        run(&mut session, &[SessionEvent::Connected, third]);
        // In the middle of a phase of round 3, the run is what it was after round 1.
        assert_eq!(session.go_back(1, false), []);
        assert!(session.is_void());
        assert_eq!(run(&mut session, &[back_at_two]), [], "one thing at a time");
        let actions = if crash { session.restart() } else { run(&mut session, &[done]) };
        assert_eq!(actions, [SessionAction::TrainShared { round: 2 }]);
        assert_eq!(session.unconfirmed().count(), 0);
    }
    // At rest, with an answer that nobody has confirmed, or at the end of the run.
    let mut session = Session::new(&protocol);
    let shared = SessionEvent::SharedDone { round: 3 };
    let personal = SessionEvent::PersonalDone { round: 3 };
    run(&mut session, &[SessionEvent::Connected, third, shared, personal, SessionEvent::Finished]);
    assert!(session.is_over());
    assert_eq!(session.go_back(1, true), []);
    assert!(!session.is_over() && session.unconfirmed().count() == 0);
    assert_eq!(run(&mut session, &[back_at_two]), [SessionAction::TrainShared { round: 2 }]);
    let again = run(&mut session, &[SessionEvent::SharedDone { round: 2 }]);
    assert_eq!(again[0], SessionAction::Upload { round: 2 });
}
