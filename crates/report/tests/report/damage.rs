//! No table comes from a log that is not as it was written.

use crate::synthetic::{comparison, early, lines, parsed, plain, sealed};
use formant_report::{ReportError, RunLog};
use formant_runtime::event::{Event, FORMAT};

/// A finished comparison as it was written.
fn whole() -> String {
    let mut events = comparison();
    events.push(Event::RunFinished { seconds: 99.0 });
    lines(&events)
}

#[test]
fn every_changed_digit_is_refused() {
    let log = whole().into_bytes();
    let digits: Vec<usize> = (0..log.len()).filter(|at| log[*at].is_ascii_digit()).collect();
    assert!(digits.len() > 1_000);
    let mut changed = log.clone();
    for at in digits {
        for digit in [b'0', b'9', b'0' + (log[at] - b'0' + 1) % 10] {
            changed[at] = digit;
            let read = RunLog::from_reader("events.jsonl".as_ref(), &changed[..]);
            assert_eq!(read.is_ok(), digit == log[at], "byte {at} as {}", char::from(digit));
        }
        changed[at] = log[at];
    }
}

#[test]
fn lines_that_are_gone_moved_or_repeated_are_refused_with_their_number() {
    let text = whole();
    let log: Vec<&str> = text.lines().collect();
    let refusal = |lines: &[&str]| parsed(&(lines.join("\n") + "\n")).unwrap_err();
    for at in 1..log.len() - 1 {
        let mut gone = log.clone();
        gone.remove(at);
        let mut swapped = log.clone();
        swapped.swap(at, at + 1);
        let mut repeated = log.clone();
        repeated.insert(at, log[at]);
        for (changed, number) in [(gone, at + 1), (swapped, at + 1), (repeated, at + 2)] {
            match refusal(&changed) {
                ReportError::Damaged { line, .. } => assert_eq!(line, number),
                other => panic!("another error: {other}"),
            }
        }
    }
}

#[test]
fn a_damaged_line_is_told_with_file_line_and_remedy() {
    let text = whole();
    let told = |text: &str| parsed(text).unwrap_err().to_string();
    let changed = text.replacen("\"bytes\":1000", "\"bytes\":1001", 1);
    let line = changed.lines().position(|line| line.contains("\"bytes\":1001")).unwrap() + 1;
    let place = format!("runs/x/events.jsonl, line {line}: ");
    assert!(
        told(&changed).starts_with(&(place + "its check does not match")),
        "{}",
        told(&changed)
    );
    assert!(told(&changed).contains("restore the log from a copy"));
    // A line that somebody has written without a check.
    let stray = text.replacen('\n', "\n{\"event\":\"run_finished\",\"seconds\":1.0}\n", 1);
    assert!(told(&stray).contains("line 2: it does not end with its check"), "{}", told(&stray));
}

#[test]
fn another_format_does_not_switch_the_checks_off() {
    let events = comparison();
    let format = format!("\"format\":{FORMAT},");
    let earlier = lines(&events).replacen(&format, "\"format\":1,", 1);
    assert!(matches!(parsed(&earlier), Err(ReportError::Damaged { line: 1, .. })));
    let unsealed = parsed(&plain(&events));
    assert!(matches!(unsealed, Err(ReportError::Damaged { line: 1, .. })));
    // In an early log, a check that is there must be right.
    let resealed = sealed(&early(&events));
    assert!(parsed(&resealed).is_ok());
    assert!(parsed(&resealed.replacen("\"round\":1", "\"round\":2", 1)).is_err());
}

#[test]
fn logs_from_before_there_were_checks_are_read() {
    let events = comparison();
    let (before, now) = (parsed(&early(&events)).unwrap(), parsed(&lines(&events)).unwrap());
    assert_eq!((before.started.format, now.started.format), (1, FORMAT));
    assert_eq!(before.methods, now.methods);
}

#[test]
fn a_last_line_that_was_ended_is_not_torn() {
    let text = whole();
    let (seconds, nines) = ("\"seconds\":99.0", "\"seconds\":00.0");
    let broken = text.replacen(seconds, nines, 1);
    assert!(matches!(parsed(&broken), Err(ReportError::Damaged { .. })), "not JSON, but ended");
    assert!(parsed(broken.trim_end()).unwrap().truncated, "still being written");
}

/// What a reader makes of a log that is not one: an error that names it, or a log.
#[test]
fn no_log_makes_a_reader_stumble() {
    let begun = include_bytes!("../../../../fuzz/seeds/event_log/begun.jsonl").to_vec();
    // Without checks, more of it is believed.
    let early = early(&comparison()).into_bytes();
    formant_testing::mutate("event_log", &[begun, early], 1_000, &|bytes| {
        drop(RunLog::from_reader("events.jsonl".as_ref(), bytes));
    });
}
