//! What a client does with its state, wherever that lives.

use super::{Figures, JobRecord, Shared, Step, Trained};
use crate::event::Phase;
use crate::files::faults::{Call, pass};
use crate::{Desk, Hand, Lasting, MethodPlan, RunPlan, RuntimeError, Served};
use formant_federation::Until;
use formant_methods::{MethodError, Value};
use formant_model::{Role, encode, folder};
use formant_numerics::{Detail, Metric, Model, Patience, Pulse, Rng, Stream, Tally};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A client while a method runs.
#[derive(Clone, Copy)]
pub struct Client<'p> {
    /// The run.
    pub plan: &'p RunPlan,
    /// The method under way.
    pub method: &'p MethodPlan,
    /// Who it is.
    pub id: usize,
    /// Who waits for what it does.
    pub pulse: Pulse<'p>,
}

/// What a job has left besides the state.
pub struct Done {
    /// What was done.
    pub record: JobRecord,
    /// The upload of its shared phase, if there was one and it went well.
    pub upload: Option<Value>,
    /// Whether the state may have changed.
    pub changed: bool,
}

impl RunPlan {
    /// The initial values of every model of the run.
    pub fn init(&self) -> Model {
        self.engine.network().init(&mut Rng::new(self.seed, Stream::Init, 0, 0))
    }

    /// Whether clients have to keep copies of their newest uploads, because a personal phase may come
    /// that does not follow its shared phase at once.
    pub fn keeps_sent(&self, method: &MethodPlan) -> bool {
        let personal = self.rules(method).personal;
        personal.exists && (personal.everyone || personal.until == Until::Broadcast)
    }
}

impl<'p> Client<'p> {
    fn desk(&self) -> Desk<'p> {
        Desk { pulse: self.pulse, ..self.plan.desk(self.method, self.id) }
    }

    /// Computes a job. `sent` gives the copy of the newest upload of earlier jobs, if one was kept.
    pub fn work(
        &self,
        steps: &[Step],
        broadcasts: &BTreeMap<u64, Arc<Value>>,
        state: &mut Value,
        sent: &dyn Fn() -> Result<Option<Value>, RuntimeError>,
        hand: &mut Hand,
    ) -> Result<Done, RuntimeError> {
        let desk = self.desk();
        let mut record = JobRecord { client: self.id, phases: Vec::new(), shared: None };
        let (mut upload, mut changed): (Option<Value>, bool) = (None, false);
        for step in steps {
            let round = step.round as usize;
            let got = broadcasts.get(&step.round).ok_or_else(|| {
                MethodError::Storage(format!("the broadcast of round {round} is missing"))
            })?;
            let done = match step.phase {
                Phase::Shared => {
                    let (made, done) = desk.shared(round, state, got, hand)?;
                    let bytes = made.as_ref().map(Value::encoded_len).transpose()?;
                    let bytes = bytes.map(|bytes| bytes as u64);
                    record.shared = Some(Shared { round: step.round, bytes });
                    changed |= made.is_some();
                    upload = made;
                    done
                }
                Phase::Personal => {
                    let after = record.shared.is_some_and(|shared| shared.round == step.round);
                    let before = if after { None } else { sent()? };
                    // Without a shared phase that went well there is nothing to train beside.
                    let Some(beside) = before.as_ref().or(upload.as_ref()) else { continue };
                    let patience = step.batches.map_or(Patience::Epochs, Patience::Batches);
                    changed = true;
                    desk.personal(Lasting { round, patience }, state, got, beside, hand)?
                }
            };
            record.phases.push(Trained { step: *step, record: done });
        }
        Ok(Done { record, upload, changed })
    }

    /// Lends the personal model that the state holds after a round, and the one that it serves in its place.
    /// The state cannot change.
    pub fn with_personal_model<T>(
        &self,
        round: usize,
        state: &Value,
        broadcast: &Value,
        hand: &mut Hand,
        look: impl FnOnce(Served<'_>, &mut Hand) -> T,
    ) -> Result<T, RuntimeError> {
        let federation = &self.plan.federation;
        let samples = &*federation.dataset.train;
        let guarding = self.plan.evaluation.guarding(&federation.clients[self.id], samples);
        self.desk().with_served_model(round, (state, broadcast), &guarding, hand, look)
    }

    /// A model on the client's own samples, with its answers if that is wanted. A model that diverged while it
    /// was fine-tuned gets nothing right.
    pub fn tally(
        &self,
        model: Option<&Model>,
        answers: bool,
        hand: &mut Hand,
    ) -> Result<Tally, RuntimeError> {
        tally_on(self.plan, &self.plan.scored(self.id), model, answers, hand, self.pulse)
    }

    /// What the plan wants to know of such a tally.
    pub fn figures(&self, tally: &Tally) -> Figures {
        figures_of(self.plan, tally)
    }

    /// Writes its personal model after a round into a folder; gives the bytes of the file, none for a
    /// model that diverged and is left out.
    pub fn write_model(
        &self,
        round: usize,
        model: &Model,
        into: &Path,
    ) -> Result<Option<u64>, RuntimeError> {
        if !model.is_finite() {
            return Ok(None);
        }
        let role = Role::Personal { client: self.id, name: None };
        let card = self.plan.card_of(self.method, role, round);
        let file = encode(self.plan.engine.network().layout(), &card, model)?;
        let path = into.join(folder::personal(self.id));
        // Neither renamed nor synced one by one: the folder is renamed, and a checksum is in each.
        let written = pass(Call::Write, &path).and_then(|()| std::fs::write(&path, &file));
        written.map_err(|error| RuntimeError::file("write", &path, error))?;
        Ok(Some(file.len() as u64))
    }
}

/// A model on somebody's own samples; one that diverged gets nothing right.
pub(super) fn tally_on(
    plan: &RunPlan,
    indices: &[u32],
    model: Option<&Model>,
    answers: bool,
    hand: &mut Hand,
    pulse: Pulse<'_>,
) -> Result<Tally, RuntimeError> {
    let samples = &*plan.federation.dataset.train;
    let detail = Detail::of(&plan.evaluation.metrics).with_confusion(answers);
    if let Some(model) = model {
        Ok(hand.score(model, samples, indices, detail, pulse)?)
    } else {
        Ok(Tally::lost(samples, indices, plan.engine.network().classes(), detail))
    }
}

/// What a plan wants to know of a tally.
pub(super) fn figures_of(plan: &RunPlan, tally: &Tally) -> Figures {
    let metrics = [Metric::Accuracy].into_iter().chain(plan.evaluation.metrics.further());
    metrics.filter_map(|metric| Some((metric, tally.figure(metric)?))).collect()
}
