//! Events in words, for whoever follows them.

use formant_runtime::event::{Event, Phase};

/// The last so many bytes of a log are read for its latest events.
pub(crate) const TAIL: u64 = 64 << 10;
/// So many events are shown.
const SHOWN: usize = 14;

/// The latest events of a log's end, newest first. The first line may be cut, and so may the last.
pub(crate) fn recent(tail: &[u8], names: &[String]) -> Vec<String> {
    let text = String::from_utf8_lossy(tail);
    let events = text.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
    events.filter_map(|event| words(&event, names)).take(SHOWN).collect()
}

/// What is worth saying of an event. Phases and uploads come by the thousand and are left out.
fn words(event: &Event, names: &[String]) -> Option<String> {
    let name = |client: &usize| match names.get(*client) {
        Some(name) => name.clone(),
        None => format!("client {client}"),
    };
    let percent = |figure: f64| format!("{:.1}", 100.0 * figure);
    Some(match event {
        Event::RunStarted(run) => format!("{} begins", run.name),
        Event::MethodStarted { method } => format!("{method} begins"),
        Event::RoundStarted { method, round, participants } => {
            let count = participants.len();
            let clients = if count == 1 { "client" } else { "clients" };
            format!("{method}: round {round} opens with {count} {clients}")
        }
        Event::RoundFinished { method, round, seconds, .. } => {
            format!("{method}: round {round} closed after {seconds:.1} s")
        }
        Event::Evaluated(scores) => {
            let gm = scores.gm.as_ref().map(|gm| format!(" GM {}", percent(gm.accuracy)));
            let pm = scores.pm.as_ref().map(|pm| format!(" PM {}", percent(pm.weighted)));
            let figures: String = [gm, pm].into_iter().flatten().collect();
            format!("{}: scored after round {}:{figures}", scores.method, scores.round)
        }
        Event::Refused { method, round, client, reason, .. } => {
            format!("{method}: upload of {} for round {round} refused: {reason}", name(client))
        }
        Event::ClientFailed { method, round, client, phase, error } => {
            let phase = match phase {
                Phase::Shared => "shared",
                Phase::Personal => "personal",
            };
            let error = error.lines().next().unwrap_or_default();
            format!("{method}: {} failed in round {round}, {phase} phase: {error}", name(client))
        }
        Event::MethodFinished { method, rounds, stopped, .. } => match stopped {
            Some(why) => format!("{method} stopped after round {rounds}: {why}"),
            None => format!("{method} is done after {rounds} rounds"),
        },
        Event::RunFinished { .. } => "the run is over".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_event_comes_first_and_clients_have_their_names() {
        let lines = r#"torn line"}
{"event":"round_started","method":"scd","round":2,"participants":[0,1]}
{"event":"uploaded","method":"scd","round":2,"client":1,"bytes":10}
{"event":"refused","method":"scd","round":2,"client":1,"reason":"late"}
{"event":"run_fin"#;
        let told = recent(lines.as_bytes(), &["alice".into(), "bob".into()]);
        let expected =
            ["scd: upload of bob for round 2 refused: late", "scd: round 2 opens with 2 clients"];
        assert_eq!(told, expected);
        assert!(recent(lines.as_bytes(), &[])[0].contains("client 1"));
    }
}
