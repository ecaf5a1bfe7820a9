//! What a client's log says.

use super::Mind;
use crate::error::NetworkError;
use crate::wire::proto;
use formant_runtime::PhaseRecord;
use formant_runtime::event::{Event as Line, Phase, finite};
use tracing::info;

/// Characters of a server's words that go into the log.
const TOLD: usize = 500;

impl Mind {
    /// A phase is over.
    pub(super) fn log_phase(
        &mut self,
        round: u64,
        phase: Phase,
        record: &PhaseRecord,
        is_answered: bool,
    ) -> Result<(), NetworkError> {
        let privacy = if is_answered { self.spent(round) } else { None };
        let epsilon = privacy.map(|privacy| privacy.epsilon);
        let (method, client) = (self.method().label.clone(), self.terms.client);
        let (round, meter) = (round as usize, &record.meter);
        let line = match &record.error {
            None => Line::PhaseDone {
                method,
                round,
                client,
                phase,
                seconds: record.seconds,
                samples: meter.samples,
                steps: meter.steps,
                loss: meter.mean_objective().and_then(finite),
                terms: meter.mean_terms().and_then(finite),
                clock: None,
                privacy,
            },
            Some(error) => {
                Line::ClientFailed { method, round, client, phase, error: error.clone() }
            }
        };
        info!(round, ?phase, seconds = record.seconds, error = record.error, epsilon, "phase done");
        Ok(self.journal.record_now(&line)?)
    }

    /// The line that the server's log has of it, too. A verdict on a failure speaks of no upload.
    pub(super) fn log_refusal(
        &mut self,
        round: u64,
        verdict: &proto::Verdict,
    ) -> Result<(), NetworkError> {
        if !self.manifest.session.unconfirmed().any(|unconfirmed| unconfirmed == round) {
            return Ok(());
        }
        // Whatever the server says, it says it briefly.
        let brief = |text: &str| text.chars().take(TOLD).collect::<String>();
        Ok(self.journal.record_now(&Line::Refused {
            method: self.method().label.clone(),
            round: round as usize,
            client: self.terms.client,
            bytes: self.manifest.uploads.get(&round).map(|named| named.bytes),
            reason: brief(&verdict.reason),
            detail: Some(brief(&verdict.detail)).filter(|detail| !detail.is_empty()),
        })?)
    }

    /// Closes the log: once, also if a folder whose run is over is asked again.
    pub(super) fn log_end(&mut self, round: u64) -> Result<(), NetworkError> {
        if self.manifest.ended {
            return Ok(());
        }
        let seconds = self.seconds();
        self.manifest.before_end = self.journal.end();
        self.journal.record(&Line::MethodFinished {
            method: self.method().label.clone(),
            rounds: round as usize,
            seconds,
            // Nobody has the states of all clients, and only the server has its own.
            fingerprint: None,
            server_fingerprint: None,
            clock: None,
            best_round: None,
            stopped: self.manifest.abandoned.then(|| "the server has given the run up".into()),
        })?;
        self.journal.record_now(&Line::RunFinished { seconds })?;
        self.manifest.ended = true;
        Ok(())
    }
}
