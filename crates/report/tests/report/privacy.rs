//! What differential privacy has cost, below tables and in reports.

use crate::synthetic::{evaluated, finished, log, method, round, started};
use formant_report::{RunLog, html_of, markdown, over_seeds, rows, seed_table, table};
use formant_runtime::event::{Event, NoiseSource, Place, Spent};
use serde_json::json;

/// A run of one private method and one that uploads nothing, of which the second round costs so much.
fn spending(seed: u64, epsilon: f64) -> RunLog {
    let methods = vec![method("a", "Alpha", true, true), method("local", "Local", false, true)];
    let Event::RunStarted(mut run) = started(methods, 2, 2) else { unreachable!("a RunStarted") };
    (run.seed, run.config) = (seed, json!({ "seed": seed }));
    let mut events = vec![Event::RunStarted(run)];
    for label in ["a", "local"] {
        for number in 1..=2 {
            for mut event in round(label, number, 2, Some(1.0)) {
                if let Event::RoundFinished { privacy, .. } = &mut event
                    && label == "a"
                {
                    *privacy = Some(Spent {
                        epsilon: epsilon * number as f64 / 2.0,
                        delta: 1e-5,
                        place: Place::Server,
                        clip: 1.0,
                        noise_multiplier: 4.0,
                        noise: NoiseSource::Keyed,
                    });
                }
                events.push(event);
            }
        }
        events.push(evaluated(label, 2, 0.5, 0.6, 2));
        events.push(finished(label, 2, 9.0, None));
    }
    log(&events)
}

#[test]
fn the_last_round_says_what_all_have_cost() {
    let run = spending(1, 3.0);
    let rows = rows(&run);
    assert_eq!(rows[0].privacy.map(|spent| spent.epsilon), Some(3.0));
    assert_eq!(rows[1].privacy, None);
    let told =
        "Alpha: ε = 3.00 at δ = 1e-5 for each client against whoever sees the generic models";
    for text in [table(&rows, true), table(&rows, false), markdown(&run), html_of(&run)] {
        assert!(text.contains(told) && !text.contains("Local: ε"), "{text}");
    }
}

#[test]
fn of_several_seeds_the_one_that_has_spent_most_is_told() {
    let rows = over_seeds(&[spending(1, 3.0), spending(2, 4.0), spending(3, 2.0)]).unwrap();
    assert!(seed_table(&rows).contains("Alpha: ε = 4.00 at δ = 1e-5"), "{}", seed_table(&rows));
}
