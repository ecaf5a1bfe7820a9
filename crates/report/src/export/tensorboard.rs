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
pub(super) mod tests {
    pub(crate) use super::frame::records;
    pub(crate) use super::message::Event;
}
