//! Event files for TensorBoard.
//!
//! A file is a sequence of framed records, each a protocol buffer `Event`. There is one folder per method, which
//! TensorBoard calls a run. The log knows no date, so that a record's time is the seconds since the method began, as if
//! that had been in 1970; TensorBoard's relative axis shows them.

mod frame;
mod message;

use std::path::{Path, PathBuf};

use formant_model::folder::method_folders;
use prost::Message;

use super::scalars::scalars;
use super::{ExportFile, plain_name};
use crate::{MethodLog, RunLog};
use message::{Event, Summary, Value};

/// What TensorBoard finds event files by; a time and a host usually follow.
const NAME: &str = "events.out.tfevents.0000000000.formant";

/// One event file per method and run: `NAME-seed-SEED/METHOD/events.out.tfevents…`.
pub fn tensorboard(logs: &[RunLog]) -> Vec<ExportFile> {
    let mut files = Vec::new();
    for log in logs {
        let run = format!("{}-seed-{}", plain_name(&log.started.name), log.started.seed);
        let labels =
            log.methods.iter().map(|method| plain_name(&method.info.label)).collect::<Vec<_>>();
        let folders = method_folders(labels.iter().map(String::as_str));
        for (method, folder) in log.methods.iter().zip(folders) {
            let path: PathBuf = Path::new(&run).join(folder).join(NAME);
            files.push(ExportFile::new(path, events(log, method)));
        }
    }
    files
}

/// The content of a method's file.
fn events(log: &RunLog, method: &MethodLog) -> Vec<u8> {
    let mut file = Vec::new();
    let mut put = |event: Event| frame::append(&mut file, &event.encode_to_vec());
    // The version comes first, or readers take the file for an older one.
    put(Event { file_version: Some("brain.Event:2".to_owned()), ..Event::default() });
    let info = &method.info;
    let config = &log.started.config;
    for (tag, text) in [
        ("method", format!("{} ({}), seed {}", info.title, info.name, log.started.seed)),
        ("hyper_parameters", format!("```json\n{:#}\n```", info.hyper_parameters)),
        ("experiment", format!("```json\n{config:#}\n```")),
    ] {
        let summary = Some(Summary { value: vec![Value::text(tag, &text)] });
        put(Event { summary, ..Event::default() });
    }
    // By round, then by tag, as if they had been written while the run went on.
    let mut points: Vec<(String, super::scalars::Point)> = Vec::new();
    for (tag, series) in scalars(log, method) {
        points.extend(series.into_iter().map(|point| (tag.clone(), point)));
    }
    points.sort_by(|(a, one), (b, other)| {
        one.round.cmp(&other.round).then(one.seconds.total_cmp(&other.seconds)).then(a.cmp(b))
    });
    for (tag, point) in points {
        put(Event {
            wall_time: point.seconds,
            step: point.round as i64,
            summary: Some(Summary { value: vec![Value::scalar(&tag, point.value)] }),
            ..Event::default()
        });
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"event":"run_started","format":1,"formant":"0.1.0","name":"a/b","seed":7,"rounds":1,"config":{"rounds":1},"network":"lenet5","parameters":44426,"dataset":"mnist","split":"test","global_test":100,"clients":[{"train":80,"test":20}],"methods":[{"label":"x","name":"fedavg","title":"FedAvg","generic":true,"personal":false,"hyper_parameters":{}},{"label":"X","name":"fedavg","title":"FedAvg","generic":true,"personal":false,"hyper_parameters":{}}]}
{"event":"evaluated","method":"x","round":0,"gm":{"accuracy":0.1,"loss":2.5},"pm":{"weighted":0.1,"mean":0.1,"worst_decile":0.1,"per_client":[0.1]},"seconds":0.5}
{"event":"round_started","method":"x","round":1,"participants":[0]}
{"event":"phase_done","method":"x","round":1,"client":0,"phase":"shared","seconds":1.0,"samples":80,"steps":8,"loss":1.5}
{"event":"round_finished","method":"x","round":1,"seconds":2.0,"broadcast_bytes":10}
{"event":"evaluated","method":"x","round":1,"gm":{"accuracy":null,"loss":null},"pm":{"weighted":0.75,"mean":0.5,"worst_decile":0.25,"per_client":[0.75]},"seconds":0.25}
"#;

    #[test]
    fn what_was_written_is_read_back() {
        let log = RunLog::from_reader("events.jsonl".as_ref(), LOG.as_bytes()).unwrap();
        let files = tensorboard(std::slice::from_ref(&log));
        let paths: Vec<_> = files.iter().map(|file| file.path.to_str().unwrap()).collect();
        // Where names differ by case alone, some systems would take one for the other.
        assert_eq!(paths, [format!("a-b-seed-7/x/{NAME}"), format!("a-b-seed-7/X-2/{NAME}")]);
        let records = frame::records(&files[0].bytes);
        let events: Vec<Event> =
            records.iter().map(|one| Event::decode(&one[..]).unwrap()).collect();
        assert_eq!(events[0].file_version.as_deref(), Some("brain.Event:2"));
        let mut scalars = Vec::new();
        let mut texts = Vec::new();
        for event in &events[1..] {
            let value = &event.summary.as_ref().unwrap().value[0];
            match value.number {
                Some(figure) => scalars.push((event.step, event.wall_time, &*value.tag, figure)),
                None => texts.push(&*value.tag),
            }
        }
        assert_eq!(texts, ["method", "hyper_parameters", "experiment"]);
        assert_eq!(
            scalars,
            [
                (0, 0.5, "GM/accuracy", 0.1),
                (0, 0.5, "GM/loss", 2.5),
                (0, 0.5, "PM/accuracy", 0.1),
                (0, 0.5, "PM_mean/accuracy", 0.1),
                (0, 0.5, "PM_worst_tenth/accuracy", 0.1),
                (1, 2.5, "cost/round_seconds", 2.0),
                (1, 2.5, "cost/uploaded_bytes", 0.0),
                (1, 2.5, "train/shared_loss", 1.5),
                (1, 2.75, "PM/accuracy", 0.75),
                (1, 2.75, "PM_mean/accuracy", 0.5),
                (1, 2.75, "PM_worst_tenth/accuracy", 0.25),
            ],
            "a diverged model leaves a gap"
        );
    }

    #[test]
    fn an_event_has_the_bytes_of_tensorflows_own() {
        let event = Event {
            wall_time: 1.5,
            step: 3,
            summary: Some(Summary { value: vec![Value::scalar("GM/accuracy", 0.25)] }),
            ..Event::default()
        };
        let hex: Vec<String> =
            event.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex.concat(),
            "09000000000000f83f10032a140a120a0b474d2f6163637572616379150000803e"
        );
    }
}
