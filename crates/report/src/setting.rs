//! What a run was: the facts that both reports open with, and how to get them again.

use formant_runtime::event::{ClientSize, Metric, RunStarted, Side};
use serde_json::Value;

use crate::quantity::{bytes, count, counted, duration, one_line};
use crate::{Models, RunLog};

/// Name and value, in reading order.
pub(crate) fn facts(log: &RunLog) -> Vec<(&'static str, String)> {
    let run = &log.started;
    let mut facts = vec![
        (
            "dataset",
            match (run.side, run.global_test) {
                (Side::Server, 0) => {
                    format!(
                        "{}, of which this server has none: no model is scored here",
                        run.dataset
                    )
                }
                (Side::Server, samples) => {
                    let samples = counted(samples, "sample");
                    format!(
                        "{}, of which this server has {samples} to score the GM on",
                        run.dataset
                    )
                }
                (_, samples) => {
                    let samples = match samples {
                        0 => "none".to_owned(),
                        samples => counted(samples, "sample"),
                    };
                    let split = &run.split;
                    format!("{}, scored on the {split} split ({samples} for the GM)", run.dataset)
                }
            },
        ),
        ("network", format!("{}, {} parameters", run.network, count(run.parameters as u64))),
        ("clients", clients(&run.clients)),
    ];
    // In a network everybody brings data of their own, whatever the experiment would draw.
    if let Some(partition) = partition(&run.config).filter(|_| run.side.is_simulation()) {
        facts.push(("partition", partition));
    }
    facts.push(("rounds", count(run.rounds as u64)));
    if !run.metrics.is_plain() {
        let titles: Vec<_> = run.metrics.iter().map(Metric::title).collect();
        facts.push(("metrics", titles.join(", ")));
    }
    facts.push(("seed", run.seed.to_string()));
    facts.push(("version", format!("Formant {}", run.formant)));
    if let Some(seconds) = log.seconds {
        facts.push(("wall time", duration(seconds)));
    }
    facts.extend(models(log).map(|models| ("models", models)));
    facts
}

/// What the run folder keeps of the models: `21 MB in models/, 60 of them personal`.
fn models(log: &RunLog) -> Option<String> {
    let kept: Vec<_> = log.methods.iter().filter_map(|method| method.models).collect();
    let sum = |of: fn(&Models) -> u64| kept.iter().map(of).sum::<u64>();
    let left_out = match sum(|models| models.left_out) {
        0 => String::new(),
        left_out => format!("; runtime.keep_limit has left out {}", bytes(left_out)),
    };
    let personal = counted(kept.iter().map(|models| models.personal).sum(), "personal model");
    let size = bytes(sum(|models| models.bytes));
    (!kept.is_empty()).then(|| {
        let methods = counted(kept.len(), "method");
        format!("{size} in models/: generic ones of {methods}, {personal}{left_out}")
    })
}

/// A hash by which two runs can be compared.
pub(crate) struct Fingerprint {
    /// The method's label, and what of it, unless all states.
    pub(crate) of: String,
    pub(crate) print: String,
}

/// The fingerprints of the methods that have ended. A server knows that of its own state alone.
pub(crate) fn fingerprints(log: &RunLog) -> Vec<Fingerprint> {
    let ended = log.methods.iter().filter_map(|method| {
        let (label, finish) = (method.info.label.clone(), method.finish.as_ref()?);
        if let Some(print) = finish.fingerprint.clone() {
            return Some(Fingerprint { of: label, print });
        }
        let print = finish.server_fingerprint.clone()?;
        Some(Fingerprint { of: format!("{label} (the server's state alone)"), print })
    });
    ended.collect()
}

/// What a reader must know before trusting the figures, if anything.
pub(crate) fn warnings(log: &RunLog) -> Vec<String> {
    let mut warnings = Vec::new();
    if log.seconds.is_none() {
        let ended = log.methods.iter().filter(|method| method.finish.is_some()).count();
        let methods = counted(log.methods.len(), "method");
        warnings.push(format!(
            "This run has not finished: {ended} of {methods} ended. Figures are of the rounds so far."
        ));
    }
    if log.truncated {
        warnings.push(
            "The log's last line is torn, as it is when a program is killed while it writes. \
             It was left out."
                .to_owned(),
        );
    }
    warnings
}

/// The commands that lead here again, each with what it does.
pub(crate) fn commands(run: &RunStarted) -> [(String, String); 2] {
    [
        (
            "formant run experiment.toml".to_owned(),
            format!(
                "with Formant {} and the experiment file of this run; its seed is {}",
                one_line(&run.formant),
                run.seed
            ),
        ),
        (
            "formant report FOLDER".to_owned(),
            "with the folder of the run, to write this report again from its events.jsonl"
                .to_owned(),
        ),
    ]
}

/// How many clients there are, and how much they hold.
pub(crate) fn clients(sizes: &[Option<ClientSize>]) -> String {
    let number = count(sizes.len() as u64);
    let known: Vec<ClientSize> = sizes.iter().copied().flatten().collect();
    let unknown = sizes.len() - known.len();
    if known.is_empty() {
        return if unknown > 0 { format!("{number}, whose data only they know") } else { number };
    }
    let range = |size: fn(&ClientSize) -> usize| {
        let low = known.iter().map(size).min().unwrap_or(0);
        let high = known.iter().map(size).max().unwrap_or(0);
        let [low_text, high_text] = [low, high].map(|size| count(size as u64));
        if low == high { low_text } else { format!("{low_text} to {high_text}") }
    };
    let samples = format!("{} training and {} test samples", range(|s| s.train), range(|s| s.test));
    match (unknown, known.len()) {
        (0, _) => format!("{number}, with {samples}"),
        (_, known) => {
            format!("{number}, {} of them known here, with {samples}", count(known as u64))
        }
    }
}

/// How the data is divided, with the parameter that goes with it: `dirichlet, alpha 0.5`.
pub(crate) fn partition(config: &Value) -> Option<String> {
    let data = config.get("data")?;
    let mut text = data.get("partition")?.as_str()?.to_owned();
    for (key, words) in [
        ("class_probability", "class probability"),
        ("alpha", "alpha"),
        ("classes_per_client", "classes per client"),
        ("shards_per_client", "shards per client"),
        ("partition_file", "from"),
    ] {
        if let Some(value) = data.get(key) {
            text = format!("{text}, {words} {value}");
        }
    }
    let skew = data.get("skew").and_then(Value::as_str).filter(|skew| *skew != "none");
    if let (Some(skew), Some(strength)) = (skew, data.get("skew_strength")) {
        text = format!("{text}; {skew} up to {strength}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_partition_is_shown_with_its_parameter() {
        let shown = |data: Value| partition(&json!({ "data": data }));
        let dirichlet = shown(json!({"partition": "dirichlet", "alpha": 0.5}));
        assert_eq!(dirichlet.as_deref(), Some("dirichlet, alpha 0.5"));
        let pathological = shown(json!({"partition": "pathological", "classes_per_client": 2}));
        assert_eq!(pathological.as_deref(), Some("pathological, classes per client 2"));
        let tossed = shown(json!({"partition": "bernoulli", "alpha": 1, "class_probability": 0.5}));
        assert_eq!(tossed.as_deref(), Some("bernoulli, class probability 0.5, alpha 1"));
        let skew = json!({"partition": "natural", "skew": "rotation", "skew_strength": 45});
        assert_eq!(shown(skew).as_deref(), Some("natural; rotation up to 45"));
        assert_eq!(shown(json!({"partition": "iid", "skew": "none"})).as_deref(), Some("iid"));
        assert_eq!(partition(&json!({})), None);
    }

    #[test]
    fn client_sizes_are_a_range_only_if_they_differ() {
        let even = [Some(ClientSize { train: 1200, test: 30 }); 3];
        assert_eq!(clients(&even), "3, with 1,200 training and 30 test samples");
        let uneven = [even[0], Some(ClientSize { train: 8, test: 31 })];
        assert_eq!(clients(&uneven), "2, with 8 to 1,200 training and 30 to 31 test samples");
        assert_eq!(clients(&[None, None]), "2, whose data only they know");
        let own = "2, 1 of them known here, with 1,200 training and 30 test samples";
        assert_eq!(clients(&[None, even[0]]), own);
        assert_eq!(clients(&[]), "0");
    }
}
