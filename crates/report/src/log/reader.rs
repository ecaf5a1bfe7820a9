//! Line by line from bytes to a [`RunLog`].

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use formant_runtime::event::{ABSENT_SINCE, Event, FORMAT, Phase, RunStarted, SEALED_SINCE};
use formant_runtime::seal::{self, Broken, Check};
use serde::Deserialize;
use serde_json::Value;

use super::loose::LooseEvaluated;
use super::{Activity, Failure, Finish, MethodLog, Models, RefusedUpload, RoundLog, RunLog};
use crate::ReportError;

/// The kinds of [`Event`] that are read as such. Any other is from a later Formant and skipped.
const KINDS: [&str; 16] = [
    "run_started",
    "method_started",
    "round_started",
    "phase_done",
    "received",
    "uploaded",
    "refused",
    "client_failed",
    "round_finished",
    "spectra",
    "detailed",
    "adapted",
    "ranks",
    "models_kept",
    "method_finished",
    "run_finished",
];

/// Beginnings of lines that say nothing about scores, or how far a run is.
const CLIENTS_OWN: [&[u8]; 5] = [
    br#"{"event":"phase_done""#,
    br#"{"event":"received""#,
    br#"{"event":"uploaded""#,
    br#"{"event":"spectra""#,
    br#"{"event":"detailed""#,
];

/// How much of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything.
    All,
    /// What tables are made of.
    Scores,
}

/// How much of an offending line an error quotes.
const QUOTED: usize = 60;

/// Reads a log whose first `whole` bytes are whole lines, as far as anybody knows: a torn line is the end of what comes
/// behind them.
pub(super) fn read(
    file: &Path,
    mut lines: impl BufRead,
    depth: Depth,
    whole: u64,
) -> Result<RunLog, ReportError> {
    let mut bytes = Vec::new();
    let (mut number, mut end) = (0, 0);
    let mut reading: Option<Reading> = None;
    let mut check = Check::default();
    // In a log without checks, a line that is not JSON is torn if it is the last one and malformed if
    // another follows.
    let mut torn: Option<ReportError> = None;
    let mut truncated = false;
    loop {
        bytes.clear();
        number += 1;
        let length = lines.read_until(b'\n', &mut bytes).map_err(|source| {
            ReportError::Unreadable { file: file.to_owned(), line: number, source }
        })?;
        if length == 0 {
            break;
        }
        end += length as u64;
        let line = Line { file, number, bytes: bytes.trim_ascii() };
        if line.bytes.is_empty() {
            continue;
        }
        if let Some(error) = torn {
            return Err(error);
        }
        match seal::verify(line.bytes, check) {
            Ok(found) => check = found,
            Err(broken) if line.may_lack(broken, reading.as_ref()) => {}
            // The last line was still being written.
            Err(_) if reading.is_some() && !bytes.ends_with(b"\n") && end > whole => {
                truncated = true;
                break;
            }
            Err(broken) => return Err(line.damaged(broken)),
        }
        if depth == Depth::Scores && line.is_a_clients_own() {
            continue;
        }
        match (serde_json::from_slice::<Value>(line.bytes), &mut reading) {
            (Ok(value), None) => reading = Some(Reading::start(&line, value)?),
            (Ok(value), Some(reading)) => reading.take(&line, value)?,
            (Err(_), None) => return Err(line.not_started()),
            (Err(error), Some(_)) => torn = Some(line.malformed(format!("not JSON ({error})"))),
        }
    }
    let mut log = reading.ok_or_else(|| ReportError::Empty { file: file.to_owned() })?.log;
    log.truncated = truncated || torn.is_some();
    Ok(log)
}

fn opens_a_run(value: &Value) -> bool {
    value.get("event").and_then(Value::as_str) == Some("run_started")
}

/// A line with all that an error says of it.
struct Line<'a> {
    file: &'a Path,
    number: usize,
    bytes: &'a [u8],
}

impl Line<'_> {
    fn is_a_clients_own(&self) -> bool {
        CLIENTS_OWN.iter().any(|beginning| self.bytes.starts_with(beginning))
    }

    fn quote(&self) -> String {
        let text = String::from_utf8_lossy(self.bytes);
        match text.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{:?}…", &text[..end]),
            None => format!("{text:?}"),
        }
    }

    fn malformed(&self, reason: String) -> ReportError {
        ReportError::Malformed {
            file: self.file.to_owned(),
            line: self.number,
            found: self.quote(),
            reason,
        }
    }

    fn damaged(&self, broken: Broken) -> ReportError {
        ReportError::Damaged { file: self.file.to_owned(), line: self.number, broken }
    }

    /// Whether a line without a right check is read all the same: those of an early format have none,
    /// and of a first line it matters more that it opens no run or one in a later format.
    fn may_lack(&self, broken: Broken, reading: Option<&Reading>) -> bool {
        let format = match reading {
            Some(reading) => Some(u64::from(reading.log.started.format)),
            None => match serde_json::from_slice::<Value>(self.bytes) {
                Ok(value) if opens_a_run(&value) => value.get("format").and_then(Value::as_u64),
                _ => return true,
            },
        };
        let is_later = format > Some(u64::from(FORMAT));
        let is_early = format < Some(u64::from(SEALED_SINCE));
        is_later || is_early && broken == Broken::Missing
    }

    fn not_started(&self) -> ReportError {
        ReportError::NotStarted {
            file: self.file.to_owned(),
            line: self.number,
            found: self.quote(),
        }
    }

    fn parse<T: for<'de> Deserialize<'de>>(
        &self,
        kind: &str,
        value: Value,
    ) -> Result<T, ReportError> {
        T::deserialize(value)
            .map_err(|error| self.malformed(format!("no valid `{kind}` ({error})")))
    }

    /// The header, after a look at its format: a later one may have other fields.
    fn header(&self, value: Value) -> Result<RunStarted, ReportError> {
        let format = value.get("format").and_then(Value::as_u64);
        if let Some(found) = format.filter(|&format| format > u64::from(FORMAT)) {
            let writer = value.get("formant").and_then(Value::as_str).unwrap_or("unknown");
            return Err(ReportError::Newer {
                file: self.file.to_owned(),
                line: self.number,
                found,
                known: FORMAT,
                writer: writer.to_owned(),
            });
        }
        let mut started: RunStarted = self.parse("run_started", value)?;
        if started.format < ABSENT_SINCE {
            // A server wrote 0 for the samples of its clients, which it does not know.
            for size in &mut started.clients {
                *size = size.filter(|size| size.train > 0);
            }
        }
        Ok(started)
    }
}

/// The log so far, and where in it each label is.
struct Reading {
    log: RunLog,
    places: BTreeMap<String, usize>,
}

impl Reading {
    fn start(line: &Line<'_>, value: Value) -> Result<Self, ReportError> {
        if !opens_a_run(&value) {
            return Err(line.not_started());
        }
        let started = line.header(value)?;
        let mut places = BTreeMap::new();
        for (place, info) in started.methods.iter().enumerate() {
            if places.insert(info.label.clone(), place).is_some() {
                return Err(line.malformed(format!("the method label {:?} twice", info.label)));
            }
        }
        let methods = started.methods.iter().cloned().map(MethodLog::new).collect();
        let log = RunLog { started, methods, seconds: None, truncated: false };
        Ok(Self { log, places })
    }

    fn take(&mut self, line: &Line<'_>, value: Value) -> Result<(), ReportError> {
        let Some(kind) = value.get("event").and_then(Value::as_str).map(str::to_owned) else {
            return Err(line.malformed("no `event` that says which kind it is".to_owned()));
        };
        match kind.as_str() {
            "evaluated" => {
                let evaluated: LooseEvaluated = line.parse(&kind, value)?;
                let (place, round) = (self.place(line, &evaluated.method)?, evaluated.round);
                let evaluation = evaluated.evaluation(&self.log.started);
                // A resumed session may score a round again; what it finds stands.
                self.log.methods[place].evaluations.insert(round, evaluation);
                Ok(())
            }
            "run_started" => self.resume(line, value),
            known if KINDS.contains(&known) => {
                let event = line.parse(&kind, value)?;
                self.record(line, event)
            }
            _ => Ok(()),
        }
    }

    /// A resumed session may open the log again, for the same experiment or for more of it: more rounds, and
    /// methods behind those that there were.
    fn resume(&mut self, line: &Line<'_>, value: Value) -> Result<(), ReportError> {
        let started = line.header(value)?;
        let before = &self.log.started;
        let same = started.methods.starts_with(&before.methods)
            && started.clients == before.clients
            && started.seed == before.seed;
        if !same {
            return Err(ReportError::SecondRun {
                file: line.file.to_owned(),
                line: line.number,
                found: started.name,
            });
        }
        for (place, info) in started.methods.iter().enumerate().skip(self.log.methods.len()) {
            if self.places.insert(info.label.clone(), place).is_some() {
                return Err(line.malformed(format!("the method label {:?} twice", info.label)));
            }
            self.log.methods.push(MethodLog::new(info.clone()));
        }
        self.log.started = started;
        self.log.seconds = None;
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of event")]
    fn record(&mut self, line: &Line<'_>, event: Event) -> Result<(), ReportError> {
        match event {
            Event::RoundStarted { method, round, participants } => {
                self.log.seconds = None;
                let method = self.method(line, &method)?;
                method.rewind(round);
                let participants = participants.len();
                method.rounds.insert(round, RoundLog { participants, ..RoundLog::default() });
            }
            Event::PhaseDone {
                method,
                round,
                client,
                phase,
                seconds,
                samples,
                steps,
                loss,
                terms,
                clock,
                privacy,
            } => {
                let kind = match phase {
                    Phase::Shared => Activity::Shared,
                    Phase::Personal => Activity::Personal,
                };
                let round = self.round(line, &method, round)?;
                round.activities.extend(clock.map(|span| (client, kind, span)));
                round.privacy = privacy.or(round.privacy);
                let totals = round.phase_mut(phase);
                totals.phases += 1;
                totals.seconds += seconds;
                totals.samples = totals.samples.saturating_add(samples);
                totals.steps = totals.steps.saturating_add(steps);
                if let Some(terms) = terms {
                    totals.terms_sum += terms;
                    totals.with_terms += 1;
                }
                match loss {
                    Some(loss) => {
                        totals.loss_sum += loss;
                        totals.losses += 1;
                    }
                    None => totals.diverged += usize::from(steps > 0),
                }
            }
            Event::Received { method, round, client, bytes, clock } => {
                let round = self.round(line, &method, round)?;
                round.downloaded_bytes = round.downloaded_bytes.saturating_add(bytes);
                round.activities.push((client, Activity::Download, clock));
            }
            // Not part of a round: it may answer one that there never was.
            Event::Refused { method, round, client, bytes, reason, .. } => {
                let refused = RefusedUpload { round, client, bytes, reason };
                self.method(line, &method)?.refusals.push(refused);
            }
            Event::Uploaded { method, round, client, bytes, clock } => {
                let round = self.round(line, &method, round)?;
                round.activities.extend(clock.map(|span| (client, Activity::Upload, span)));
                round.uploaded_bytes = round.uploaded_bytes.saturating_add(bytes);
                round.uploads.push((client, bytes));
            }
            Event::ClientFailed { method, round, client, phase, error } => {
                let failure = Failure { round, client, phase, error };
                self.round(line, &method, round)?.failures.push(failure);
            }
            Event::RoundFinished { method, round, seconds, broadcast_bytes, clock, privacy } => {
                let round = self.round(line, &method, round)?;
                round.seconds = Some(seconds);
                round.broadcast_bytes = Some(broadcast_bytes);
                round.clock = clock;
                round.privacy = privacy;
            }
            Event::Spectra(spectra) => {
                let method = self.method(line, &spectra.method)?;
                method.spectra.insert(spectra.round, spectra);
            }
            Event::Detailed(detail) => {
                let method = self.method(line, &detail.method)?;
                method.detail = Some(detail);
            }
            Event::Adapted(adapted) => {
                let newcomers = &mut self.method(line, &adapted.method)?.newcomers;
                newcomers.retain(|before| before.approach != adapted.approach);
                newcomers.push(adapted);
            }
            Event::Ranks(ranks) => {
                let method = self.method(line, &ranks.method)?;
                method.ranks = Some(ranks);
            }
            Event::ModelsKept { method, personal, bytes, beyond_limit, .. } => {
                let left_out = beyond_limit.unwrap_or(0);
                self.method(line, &method)?.models = Some(Models { personal, bytes, left_out });
            }
            Event::MethodFinished {
                method,
                rounds,
                seconds,
                fingerprint,
                server_fingerprint,
                clock,
                stopped,
                best_round,
            } => {
                self.method(line, &method)?.finish = Some(Finish {
                    rounds,
                    seconds,
                    fingerprint,
                    server_fingerprint,
                    clock,
                    stopped,
                    best_round,
                });
            }
            Event::RunFinished { seconds } => self.log.seconds = Some(seconds),
            Event::MethodStarted { method } => {
                self.place(line, &method)?;
            }
            // `take` has dealt with both, each in its own way.
            Event::RunStarted(_) | Event::Evaluated(_) => {}
        }
        Ok(())
    }

    fn place(&self, line: &Line<'_>, label: &str) -> Result<usize, ReportError> {
        self.places.get(label).copied().ok_or_else(|| {
            let known: Vec<_> = self.log.methods.iter().map(|m| m.info.label.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            ReportError::UnknownMethod {
                file: line.file.to_owned(),
                line: line.number,
                label: label.to_owned(),
                known,
            }
        })
    }

    fn method(&mut self, line: &Line<'_>, label: &str) -> Result<&mut MethodLog, ReportError> {
        let place = self.place(line, label)?;
        Ok(&mut self.log.methods[place])
    }

    fn round(
        &mut self,
        line: &Line<'_>,
        label: &str,
        round: usize,
    ) -> Result<&mut RoundLog, ReportError> {
        Ok(self.method(line, label)?.rounds.entry(round).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails to compile when the vocabulary grows, so that the new kind gets its line in `KINDS`.
    fn kind(event: &Event) -> &'static str {
        match event {
            Event::RunStarted(_) => "run_started",
            Event::MethodStarted { .. } => "method_started",
            Event::RoundStarted { .. } => "round_started",
            Event::PhaseDone { .. } => "phase_done",
            Event::Received { .. } => "received",
            Event::Uploaded { .. } => "uploaded",
            Event::Refused { .. } => "refused",
            Event::ClientFailed { .. } => "client_failed",
            Event::RoundFinished { .. } => "round_finished",
            Event::Spectra(_) => "spectra",
            Event::Detailed(_) => "detailed",
            Event::Adapted(_) => "adapted",
            Event::Ranks(_) => "ranks",
            Event::ModelsKept { .. } => "models_kept",
            Event::Evaluated(_) => "evaluated",
            Event::MethodFinished { .. } => "method_finished",
            Event::RunFinished { .. } => "run_finished",
        }
    }

    #[test]
    fn the_kinds_are_those_of_the_vocabulary() {
        for known in KINDS.into_iter().chain(["evaluated"]) {
            // A kind that exists complains of a missing field, another one of the kind.
            let line = serde_json::json!({ "event": known });
            let complaint = Event::deserialize(line).unwrap_err().to_string();
            assert!(complaint.starts_with("missing field"), "{known}: {complaint}");
        }
        let event = Event::RunFinished { seconds: 1.0 };
        assert_eq!(serde_json::to_value(&event).unwrap()["event"], kind(&event));
    }
}
