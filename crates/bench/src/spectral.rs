//! What the spectral term adds to a training step.

use crate::client::{Client, Work, objective};
use crate::stopwatch::{Tally, together};
use anyhow::Context as _;
use clap::ValueEnum;
use formant_numerics::{
    Band, Differentiable, Form, Length, Objective, Part, Rng, Scope, Spectral, SpectralPlans,
    SpectralTerm, Stream, Term,
};
use serde_json::{Value, json};

/// A pull that is felt but does not move the weights far in the time of a measurement.
const LAMBDA: f32 = 1.0;
/// Turns between steps without and with the term, so that drift of the machine hits both.
const TURNS: u32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: Work,
    /// How two spectra are compared
    #[arg(long, value_enum, default_value_t = FormName::Normalized)]
    form: FormName,
    /// Over which vectors the transform runs
    #[arg(long, value_enum, default_value_t = ScopeName::Flat)]
    scope: ScopeName,
    /// As many frequencies as parameters, or zero-padded to a quick length
    #[arg(long, value_enum, default_value_t = LengthName::Exact)]
    length: LengthName,
    /// Share of the spectrum that is compared; 1 is what the personal phase does
    #[arg(long, default_value_t = 1.0)]
    tau: f64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormName {
    Normalized,
    Raw,
    Generalized,
    Complex,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    Flat,
    PerLayer,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LengthName {
    Exact,
    Fast,
}

impl From<LengthName> for Length {
    fn from(name: LengthName) -> Self {
        match name {
            LengthName::Exact => Self::Exact,
            LengthName::Fast => Self::Fast,
        }
    }
}

impl From<FormName> for Form {
    fn from(name: FormName) -> Self {
        match name {
            FormName::Normalized => Self::Normalized,
            FormName::Raw => Self::Raw,
            FormName::Generalized => Self::Generalized,
            FormName::Complex => Self::Complex,
        }
    }
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Flat => Self::Flat,
            ScopeName::PerLayer => Self::PerLayer,
        }
    }
}

/// A client that learns from a teacher.
struct Pupil<'t> {
    client: Client,
    data: Spectral<'t>,
    term: SpectralTerm,
    gradient: Vec<f32>,
}

impl Pupil<'_> {
    fn step_with_term(&mut self) {
        let terms = [LAMBDA * Term::Spectral(self.data)];
        let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
        self.client.step_on(&objective, std::slice::from_mut(&mut self.term));
    }

    fn term_alone(&mut self) {
        self.term.add(LAMBDA, &self.client.model.parameters, &mut self.gradient);
    }
}

pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    let work = &args.work;
    let network = work.network()?;
    let teacher = network.init(&mut Rng::new(2, Stream::Test, 0, 0));
    let (scope, length) = (args.scope.into(), args.length.into());
    let band = (args.tau, Band::Low);
    let plans = SpectralPlans::for_band(network.layout(), Part::All, scope, length, band);
    let mut pupils = Vec::new();
    for client in work.clients(&network) {
        let (form, tau, teacher) = (args.form.into(), args.tau, &teacher.parameters[..]);
        let data = Spectral { form, scope, length, tau, ..Spectral::towards(teacher) };
        let term = plans.term(form, tau, Band::Low, teacher).context("--tau")?;
        pupils.push(Pupil { client, data, term, gradient: vec![0.0; teacher.len()] });
    }
    let (mut plain, mut with, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let warm_up = if turn == 0 { work.warm_up } else { 0.0 };
        let times = (warm_up, work.seconds / f64::from(TURNS));
        plain.extend(together(&mut pupils, times, |pupil| pupil.client.step()));
        with.extend(together(&mut pupils, times, Pupil::step_with_term));
        alone.extend(together(&mut pupils, times, Pupil::term_alone));
    }
    let clients: Vec<_> = pupils.into_iter().map(|pupil| pupil.client).collect();
    let [plain, with, alone] = [&plain, &with, &alone].map(|t| 1e3 * Tally::seconds_each(t));
    Ok(json!({
        "parameters": teacher.parameters.len(),
        "step_ms": plain,
        "step_with_term_ms": with,
        "term_ms": alone,
        "overhead": with / plain - 1.0,
        "objective": objective(&clients)?,
    }))
}
