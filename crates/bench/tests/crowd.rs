//! A small crowd at a real server: every round closes, every byte is counted, and the model is what it ought to
//! be, whoever loses its connection.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn crowd(folder: &Path, more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_formant-bench"))
        .args(["crowd", "--clients", "20", "--rounds", "2", "--model", "0.1MB", "--json"])
        .arg("--folder")
        .arg(folder)
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn a_crowd_gets_its_model_whoever_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let calm = crowd(folder.path(), &["--processes", "1"]);
    // The same certificates, other processes, and half of the clients lose their connection in each round.
    let restless = crowd(folder.path(), &["--processes", "3", "--churn", "0.5", "--seed", "1"]);
    for figures in [&calm, &restless] {
        assert_eq!(figures["end"], "2 of 2 rounds", "{figures}");
        assert_eq!(figures["latencies"]["join"]["count"], 20);
        // Every client has fetched every broadcast and the last model, and sent every upload.
        let rounds = figures["rounds"].as_array().unwrap();
        assert_eq!(number(&rounds.last().unwrap()["number"]), 2.0);
        let sum = |key: &str| rounds.iter().map(|round| number(&round[key])).sum::<f64>();
        // 31 hidden units.
        let models = 20.0 * 2.0 * 98_620.0;
        assert!(sum("received") > models && sum("sent") > models, "{figures}");
        assert!(number(&figures["peak"]) > number(&figures["empty"]));
        // Uploads are the broadcast moved by what is known.
        let (moved, to_move) = (number(&figures["moved"]), number(&figures["to_move"]));
        assert!((moved - to_move).abs() < 1e-7 && to_move > 0.0, "{moved} and {to_move}");
        assert_eq!(figures["counters"]["uploads_accepted_total"], 40.0);
        assert_eq!(figures["troubles"], serde_json::json!({}), "{figures}");
    }
    assert!(number(&restless["cuts"]) > 0.0);
    assert_eq!(restless["latencies"]["return"]["count"], restless["cuts"]);
    assert_eq!(calm["cuts"], 0);
    assert_eq!(calm["fingerprint"], restless["fingerprint"], "the same bits");
}

#[test]
fn what_makes_no_crowd_is_refused_with_a_hint() {
    for (option, value) in [("--model", "tiny"), ("--churn", "7"), ("--participation", "0")] {
        let output = Command::new(env!("CARGO_BIN_EXE_formant-bench"))
            .args(["crowd", option, value])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(option), "{said}");
        assert!(said.contains("\nhint: "), "{said}");
    }
}
