//! Which logs are read, how, and which are refused.

use crate::synthetic::{
    comparison, early, evaluated, lines, log, method, parsed, plain, round, sealed, started,
};
use formant_report::{ReportError, RunLog, rows, table};
use formant_runtime::event::{ClientSize, Event, Phase};

fn refusal(text: &str) -> String {
    parsed(text).unwrap_err().to_string()
}

#[test]
fn every_event_of_the_vocabulary_leaves_its_trace() {
    let mut events = comparison();
    events.push(Event::RunFinished { seconds: 99.0 });
    let log = log(&events);
    assert_eq!(log.seconds, Some(99.0));
    assert!(!log.truncated);
    let ditto = &log.methods[2];
    assert_eq!(ditto.rounds.len(), 2);
    assert_eq!(ditto.failures().count(), 2);
    assert_eq!(ditto.uploaded_bytes(), 2 * 3 * 1_000);
    assert_eq!(ditto.rounds[&1].broadcast_bytes, Some(900));
    assert_eq!(ditto.rounds[&1].participants, 3);
    let shared = ditto.phases(Phase::Shared);
    assert_eq!((shared.phases, shared.samples, shared.steps), (6, 300, 30));
    assert_eq!(shared.seconds, 1.5);
    assert_eq!(ditto.rounds[&2].shared.mean_loss(), Some(1.0));
    let finish = ditto.finish.as_ref().unwrap();
    assert_eq!(finish.stopped.as_deref(), Some("every client diverged"));
    assert_eq!(finish.fingerprint.as_deref(), Some("print-of-ditto"));
}

#[test]
fn kinds_from_a_later_version_are_skipped() {
    let mut text = plain(&comparison());
    let without = parsed(&sealed(&text)).unwrap();
    let header = text.find('\n').unwrap() + 1;
    text.insert_str(header, "{\"event\":\"weather\",\"method\":\"nobody\",\"sky\":[1,null]}\n");
    // Blank lines are none.
    assert_eq!(parsed(&sealed(&text).replace('\n', "\r\n\n")).unwrap(), without);
}

#[test]
fn a_log_torn_at_any_byte_of_its_last_line_is_read_up_to_there() {
    let events = comparison();
    let kept = lines(&events[..events.len() - 1]);
    let whole = lines(&events);
    let expected = parsed(&kept).unwrap();
    for end in kept.len() + 1..whole.len() - 1 {
        let torn = RunLog::from_reader("e".as_ref(), &whole.as_bytes()[..end]).unwrap();
        assert!(torn.truncated, "cut at byte {end}");
        assert_eq!(torn.methods, expected.methods, "cut at byte {end}");
    }
    // Only the line feed is missing: the event is whole.
    let unterminated = parsed(whole.trim_end()).unwrap();
    assert!(!unterminated.truncated);
    assert_eq!(unterminated, parsed(&whole).unwrap());
}

#[test]
fn a_tail_of_zero_bytes_or_half_a_letter_is_torn_too() {
    let mut bytes = lines(&comparison()).into_bytes();
    bytes.extend([0; 17]);
    assert!(RunLog::from_reader("e".as_ref(), &bytes[..]).unwrap().truncated);
    let mut bytes = lines(&comparison()).into_bytes();
    bytes.extend(b"{\"event\":\"\xce");
    assert!(RunLog::from_reader("e".as_ref(), &bytes[..]).unwrap().truncated);
}

#[test]
fn a_resumed_round_replaces_what_an_earlier_session_wrote_of_it() {
    let mut events = vec![started(vec![method("a", "A", true, true)], 2, 3)];
    for done in 1..=3 {
        events.extend(round("a", done, 2, Some(9.0)));
        events.push(evaluated("a", done, 0.1, 0.1, 2));
    }
    let header = events[0].clone();
    events.push(header);
    events.extend(round("a", 2, 2, Some(1.0)));
    events.push(evaluated("a", 2, 0.5, 0.6, 2));
    let log = log(&events);
    let rounds = &log.methods[0].rounds;
    assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), [1, 2], "round 3 is still to be redone");
    assert_eq!(rounds[&2].shared.phases, 2, "not counted twice");
    assert_eq!(rounds[&2].shared.mean_loss(), Some(1.0));
    assert_eq!(log.methods[0].uploaded_bytes(), 4_000);
    assert_eq!(log.methods[0].last().map(|(round, e)| (round, e.gm)), Some((2, Some(0.5))));
}

#[test]
fn of_two_evaluations_of_a_round_the_later_one_stands() {
    let mut events = vec![started(vec![method("a", "A", true, true)], 2, 3)];
    events.push(evaluated("a", 1, 0.9, 0.9, 2));
    events.push(evaluated("a", 1, 0.4, 0.3, 2));
    let log = log(&events);
    assert_eq!(log.methods[0].evaluations.len(), 1);
    assert_eq!(log.methods[0].evaluations[&1].gm, Some(0.4));
}

#[test]
fn figures_that_are_not_numbers_mean_a_diverged_evaluation() {
    let log = log(&comparison());
    let diverged = &log.methods[2].evaluations[&2];
    assert!(diverged.diverged);
    assert_eq!((diverged.gm, diverged.gm_loss, diverged.pm), (None, None, Some(0.20)));
    assert!(!log.methods[2].evaluations[&1].diverged);
}

#[test]
fn a_client_without_test_samples_has_no_score_but_has_not_diverged() {
    let text =
        plain(&[started(vec![method("a", "A", true, true)], 2, 1), evaluated("a", 1, 0.5, 0.5, 2)]);
    let unscored = text.replace("\"per_client\":[0.5,", "\"per_client\":[null,");
    assert!(parsed(&sealed(&unscored)).unwrap().methods[0].evaluations[&1].diverged);
    let no_samples = unscored.replacen("\"test\":20", "\"test\":0", 1);
    let log = parsed(&sealed(&no_samples)).unwrap();
    assert_eq!(log.methods[0].evaluations[&1].per_client, [None, Some(0.5)]);
    assert!(!log.methods[0].evaluations[&1].diverged);
}

#[test]
fn a_loss_that_is_not_a_number_is_counted_but_not_averaged() {
    let mut events = vec![started(vec![method("a", "A", true, true)], 1, 2)];
    events.extend(round("a", 1, 1, Some(f64::NAN)));
    let log = log(&events);
    let shared = log.methods[0].rounds[&1].shared;
    assert_eq!((shared.diverged, shared.losses, shared.mean_loss()), (1, 0, None));
}

#[test]
fn an_absent_log_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let error = RunLog::read(&file).unwrap_err();
    assert!(matches!(error, ReportError::Absent { .. }));
    assert!(error.to_string().contains(&file.display().to_string()));
    assert!(error.to_string().contains("formant run"));
    // A file where a folder should be is the same mistake.
    std::fs::write(&file, "").unwrap();
    let below = RunLog::read(&file.join("events.jsonl")).unwrap_err();
    assert!(matches!(below, ReportError::Absent { .. }));
}

#[test]
fn empty_and_blank_logs_are_refused() {
    for text in ["", "\n \n"] {
        assert!(refusal(text).starts_with("runs/x/events.jsonl: the event log is empty"));
    }
}

#[test]
fn a_log_must_open_with_its_run() {
    let headless = lines(&comparison()[1..]);
    let message = refusal(&headless);
    assert!(message.contains("runs/x/events.jsonl, line 1"), "{message}");
    assert!(message.contains("method_started"), "says what is there: {message}");
    let torn = refusal("{\"event\":\"run_sta");
    assert!(torn.contains("run_started"), "{torn}");
    assert!(matches!(parsed("PK\u{3}\u{4}").unwrap_err(), ReportError::NotStarted { .. }));
}

#[test]
fn a_newer_format_is_refused_before_its_fields_are_looked_at() {
    let message = refusal("{\"event\":\"run_started\",\"format\":4,\"formant\":\"3.1.4\"}\n");
    for part in ["line 1", "format 4", "up to 3", "3.1.4"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn a_malformed_line_in_the_middle_is_refused_with_its_number() {
    let events = comparison();
    let (before, after) = (early(&events[..4]), plain(&events[4..]));
    for (broken, complaint) in [
        ("{\"event\":\"eva", "not JSON"),
        ("[1, 2]", "no `event`"),
        ("{\"event\":\"uploaded\",\"method\":\"scd\",\"round\":1,\"client\":0}", "bytes"),
        ("{\"event\":\"evaluated\",\"method\":\"scd\",\"round\":1}", "seconds"),
        ("{\"event\":\"round_started\",\"method\":\"scd\",\"round\":-1,\"participants\":[]}", "-1"),
    ] {
        let message = refusal(&format!("{before}{broken}\n{after}"));
        assert!(message.contains("runs/x/events.jsonl, line 5: "), "{message}");
        assert!(message.contains(complaint), "{complaint} in {message}");
        assert!(message.contains("run the experiment again"), "{message}");
    }
}

#[test]
fn a_missing_figure_is_an_error_where_a_null_is_not() {
    let text = plain(&comparison());
    let without = text.replacen("\"worst_decile\":0.89,", "", 1);
    assert_ne!(text, without);
    assert!(refusal(&sealed(&without)).contains("worst_decile"));
}

#[test]
fn a_stray_method_and_a_second_run_are_refused() {
    let mut events = comparison();
    events.push(evaluated("fedprox", 1, 0.5, 0.5, 3));
    let message = refusal(&lines(&events));
    assert!(message.contains("\"fedprox\"") && message.contains("fedavg, local, ditto, scd"));
    let mut events = comparison();
    events.push(started(vec![method("fedavg", "FedAvg", true, false)], 3, 3));
    assert!(matches!(parsed(&lines(&events)).unwrap_err(), ReportError::SecondRun { .. }));
}

#[test]
fn errors_quote_no_more_than_the_beginning_of_a_line() {
    let long = format!("{{\"event\":\"run_started\",\"junk\":\"{}\"}}", "ü".repeat(5_000));
    assert!(refusal(&long).chars().count() < 400);
}

#[test]
fn what_earlier_formats_wrote_for_what_is_not_known_is_read_as_absent() {
    let mut run = started(vec![method("a", "A", true, true)], 2, 1);
    if let Event::RunStarted(run) = &mut run {
        run.format = 2;
        run.clients.fill(Some(ClientSize { train: 0, test: 0 }));
    }
    // As a server of format 2 wrote it.
    let evaluated = r#"{"event":"evaluated","method":"a","round":1,"gm":{"accuracy":0.5,"loss":1.5},"pm":{"weighted":null,"mean":null,"worst_decile":null,"per_client":[]},"seconds":0.1}"#;
    let ended = r#"{"event":"method_finished","method":"a","rounds":1,"seconds":2.0,"fingerprint":"","server_fingerprint":"5e4","stopped":null}"#;
    let refused = r#"{"event":"refused","method":"a","round":1,"client":1,"reason":"late"}"#;
    let text = format!("{}{evaluated}\n{refused}\n{ended}\n", plain(&[run]));
    let early = parsed(&sealed(&text)).unwrap();
    assert_eq!(early.started.clients, [None, None]);
    let method = &early.methods[0];
    assert!(!method.evaluations[&1].diverged && method.evaluations[&1].pm.is_none());
    let finish = method.finish.as_ref().unwrap();
    assert_eq!((&finish.fingerprint, finish.server_fingerprint.as_deref()), (&None, Some("5e4")));
    assert_eq!((method.refusals.len(), method.refusals[0].bytes), (1, None));
    // The same in the words of format 3.
    let text = text
        .replace("\"format\":2", "\"format\":3")
        .replace(r#"{"train":0,"test":0}"#, "null")
        .replace(r#","pm":{"weighted":null,"mean":null,"worst_decile":null,"per_client":[]}"#, "")
        .replace(r#","fingerprint":"""#, "")
        .replace(r#","stopped":null"#, "");
    assert!(!text.contains(":null") && !text.contains("\"\""), "{text}");
    let now = parsed(&sealed(&text)).unwrap();
    assert_eq!((now.methods, now.started.clients), (early.methods, early.started.clients));
}

#[test]
fn a_refusal_of_a_round_that_never_was_makes_no_round() {
    let mut events = vec![started(vec![method("a", "A", true, true)], 2, 1)];
    events.extend(round("a", 1, 2, Some(1.0)));
    for (round, reason) in [(usize::MAX, "wrong-round"), (1, "late"), (1, "late")] {
        events.push(Event::Refused {
            method: "a".into(),
            round,
            client: 0,
            bytes: Some(u64::MAX),
            reason: reason.into(),
            detail: None,
        });
    }
    let log = log(&events);
    assert_eq!((log.methods[0].rounds.len(), log.methods[0].completed()), (1, 1));
    let row = rows(&log).remove(0);
    assert_eq!((row.refused, row.refused_bytes), (3, u64::MAX));
    let shown = table(&rows(&log), false);
    assert!(shown.contains("3 uploads were refused and did not count (2 × late, 1 × wrong-round)"));
}
