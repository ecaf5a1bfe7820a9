//! What a client does that joins when training is over, wherever it does it.
//!
//! It has no state that anybody keeps. Everything that it draws is keyed by `(seed, epoch, newcomer)`, and both
//! approaches see their batches in the same order. Training is in epochs of one pass each, which begin at rest, at the
//! learning rate that the schedule is a share of: where a schedule has ended, a newcomer only begins.

use super::client::{figures_of, tally_on};
use super::{Adaptation, Adapting, Figures, Progress};
use crate::{Hand, MethodPlan, PhasePlan, RunPlan, RuntimeError};
use formant_data::ClientData;
use formant_methods::{Loan, Local, MethodError, Moment, Newcomer as Rule, Training, Value};
use formant_numerics::{Model, Part, Patience, Pulse, Rng, Stream};
use std::time::Instant;

/// A newcomer of a run and the method whose models it gets.
#[derive(Clone, Copy)]
pub struct Newcomer<'p> {
    plan: &'p RunPlan,
    method: &'p MethodPlan,
    data: &'p ClientData,
    /// Its number, which follows those of the clients.
    number: usize,
    /// Who waits for what it does.
    pulse: Pulse<'p>,
}

/// What draws randomness in an epoch.
#[derive(Clone, Copy)]
enum Turn {
    Shared,
    /// Fine-tuning too, so that a rule which comes to the same draws the same.
    Personal,
    Look,
}

impl Turn {
    /// Numbers of one epoch.
    const ALL: u64 = 4;
}

impl<'p> Newcomer<'p> {
    /// The newcomer at a place among the newcomers of a plan, and a method's place in it. Panics when there is no
    /// such place, as a slice does.
    pub fn new(plan: &'p RunPlan, method: usize, place: usize) -> Self {
        let federation = &plan.federation;
        Self {
            plan,
            method: &plan.methods[method],
            data: &federation.newcomers.clients[place],
            number: federation.clients.len() + place,
            pulse: Pulse::NONE,
        }
    }

    /// Makes a personal model in each way that there is, and scores it after every epoch.
    pub fn adapt(&self, asked: &Adapting<'_>, hand: &mut Hand) -> Result<Adaptation, RuntimeError> {
        Newcomer { pulse: asked.pulse, ..*self }.make_both(asked, hand)
    }

    fn make_both(&self, asked: &Adapting<'_>, hand: &mut Hand) -> Result<Adaptation, RuntimeError> {
        let rate = self.plan.evaluation.adapt_learning_rate;
        let fine_tuned = self.train_part(asked, asked.model, (Part::All, rate), hand)?;
        let own = match asked.broadcast {
            None => None,
            Some(got) => match self.method.method.newcomer(got)? {
                Rule::FineTuning => None,
                Rule::Phases => Some(self.take_phases(asked, got, asked.epochs, hand)?),
                Rule::Part { of, part } => Some(self.train_part(asked, of, (part, None), hand)?),
                Rule::AtOnce => {
                    let mut at_once = self.take_phases(asked, got, 0, hand)?;
                    let figures = at_once.figures[0].clone();
                    at_once.figures.resize(asked.epochs + 1, figures);
                    Some(at_once)
                }
            },
        };
        Ok(Adaptation { fine_tuned, own })
    }

    /// Plain training of a part of a model, at the rate of the personal phase unless another one is given.
    fn train_part(
        &self,
        asked: &Adapting<'_>,
        of: &Model,
        (part, rate): (Part, Option<f32>),
        hand: &mut Hand,
    ) -> Result<Progress, RuntimeError> {
        let started = Instant::now();
        let mut model = of.clone();
        let mut figures = vec![self.score(Some(&model), hand)?];
        let mut failed = false;
        for epoch in 1..=asked.epochs {
            let mut next = model.clone();
            let done = self.epoch(epoch, Turn::Personal, rate, hand, |local| {
                local.train(&mut next, Training { part, ..local.training() })
            })?;
            match done {
                Some(()) => model = next,
                None => failed = true,
            }
            figures.push(self.score(Some(&model), hand)?);
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Progress { figures, failed, seconds, model: asked.keep.then_some(model) })
    }

    /// The phases of a round, again and again, with the same broadcast.
    fn take_phases(
        &self,
        asked: &Adapting<'_>,
        got: &Value,
        epochs: usize,
        hand: &mut Hand,
    ) -> Result<Progress, RuntimeError> {
        let started = Instant::now();
        let method = &*self.method.method;
        let mut state = if method.entry().generic {
            method.start_client(asked.model)
        } else {
            method.start_client(&self.plan.init())
        };
        let mut kept = None;
        let mut figures = vec![self.look(0, &state, got, hand, asked.keep.then_some(&mut kept))?];
        let mut failed = false;
        for epoch in 1..=epochs {
            let before = state.encode()?;
            if self.round(epoch, &mut state, got, hand)?.is_none() {
                (state, failed) = (method.decode_client(&before)?, true);
            }
            figures.push(self.look(epoch, &state, got, hand, asked.keep.then_some(&mut kept))?);
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Progress { figures, failed, seconds, model: kept })
    }

    /// Both phases, if the method has both; nothing if one of them diverged.
    fn round(
        &self,
        epoch: usize,
        state: &mut Value,
        got: &Value,
        hand: &mut Hand,
    ) -> Result<Option<()>, RuntimeError> {
        let method = &*self.method.method;
        let sent = self.epoch(epoch, Turn::Shared, None, hand, |local| {
            method.train_shared(state, got, local)
        })?;
        let Some(sent) = sent else { return Ok(None) };
        if !method.hints(self.moment()).personal_phase {
            return Ok(Some(()));
        }
        self.epoch(epoch, Turn::Personal, None, hand, |local| {
            method.train_personal(state, got, &sent, local)
        })
    }

    /// Scores the personal model that a state gives, and keeps it if that is wanted. One that diverged while it was
    /// made gets nothing right.
    fn look(
        &self,
        epoch: usize,
        state: &Value,
        got: &Value,
        hand: &mut Hand,
        keep: Option<&mut Option<Model>>,
    ) -> Result<Figures, RuntimeError> {
        let loan = self.loan(epoch, Turn::Look);
        let network = self.plan.engine.network();
        let mut local = Local::new(network, &mut *hand.worker, loan).watched(self.pulse);
        let model = match self.method.method.personal_model(state, got, &mut local) {
            Ok(model) => Some(model),
            Err(MethodError::Numerics(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let figures = self.score(model.as_deref(), hand)?;
        if let (Some(keep), Some(model)) = (keep, model) {
            *keep = Some(model.into_owned());
        }
        Ok(figures)
    }

    fn score(&self, model: Option<&Model>, hand: &mut Hand) -> Result<Figures, RuntimeError> {
        let own = self.plan.evaluation.split.of(self.data);
        Ok(figures_of(self.plan, &tally_on(self.plan, own, model, false, hand, self.pulse)?))
    }

    /// Lends its data to one epoch. A divergence is an outcome, any other failure an error.
    fn epoch<T>(
        &self,
        epoch: usize,
        turn: Turn,
        rate: Option<f32>,
        hand: &mut Hand,
        train: impl FnOnce(&mut Local<'_>) -> Result<T, MethodError>,
    ) -> Result<Option<T>, RuntimeError> {
        let mut loan = self.loan(epoch, turn);
        loan.settings.epochs = 1;
        if let Some(rate) = rate {
            loan.settings.optimiser.learning_rate = rate;
        }
        let network = self.plan.engine.network();
        let mut local = Local::new(network, &mut *hand.worker, loan).watched(self.pulse);
        match train(&mut local) {
            Ok(value) => Ok(Some(value)),
            Err(MethodError::Numerics(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn loan(&self, epoch: usize, turn: Turn) -> Loan<'p> {
        let phase: &PhasePlan = match turn {
            Turn::Shared => &self.method.shared,
            Turn::Personal | Turn::Look => &self.method.personal,
        };
        let address = epoch as u64 * Turn::ALL + turn as u64;
        Loan {
            samples: &*self.plan.federation.dataset.train,
            train: &self.data.train,
            rng: Rng::new(self.plan.seed, Stream::Adaptation, address, self.number as u64),
            settings: phase.base.clone(),
            at: self.moment(),
            patience: Patience::Epochs,
        }
    }

    /// Methods that change over the rounds are where they end.
    fn moment(&self) -> Moment {
        Moment { round: self.plan.rounds, rounds: self.plan.rounds }
    }
}
