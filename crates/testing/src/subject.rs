//! What the contracts are about: a method, its settings, and the networks it is tested on.

use crate::problem::{DENSE, WITH_BUFFERS, plan};
use formant_methods::{Entry, Zoo};
use formant_runtime::RunPlan;
use std::fmt;

/// A method of a zoo with the settings in which it is tested.
#[derive(Debug, Clone)]
pub struct Subject {
    zoo: Zoo,
    entry: Entry,
    cases: Vec<Case>,
    learns_with: String,
    separate_with: Option<String>,
}

/// Training that is as far as it gets from plain SGD: two moments that every phase forgets, a rate that
/// follows from the round, a loss that follows from a client's labels.
const ADAPTIVE: &str = "optimiser = \"adamw\", weight_decay = 0.1, learning_rate = 0.005, clip = 1.0, \
    schedule = \"cosine\", warmup = 1, label_smoothing = 0.1, class_weights = \"balanced\"";

impl Subject {
    /// A method with its defaults, on a network without buffers and on one with batch normalisation, and
    /// on the first with AdamW and all else that changes a step.
    ///
    /// # Panics
    ///
    /// If the zoo has no such method.
    pub fn of(zoo: &Zoo, name: &str) -> Self {
        let entry = *zoo.entry(name).unwrap_or_else(|error| panic!("{error}"));
        let case = |network| Case::new(zoo, format!("name = \"{name}\""), network);
        let adaptive = format!("name = \"{name}\"\ntrain = {{ {ADAPTIVE} }}");
        Self {
            zoo: zoo.clone(),
            entry,
            cases: vec![case(DENSE), case(WITH_BUFFERS), Case::new(zoo, adaptive, DENSE)],
            learns_with: String::new(),
            separate_with: Some(String::new()),
        }
    }

    /// Tests it also with these hyper-parameters, as lines of an experiment file, on a network:
    /// [`DENSE`], [`WITH_BUFFERS`], [`AUGMENTED`](crate::AUGMENTED) or the lines of any section `[network]`.
    #[must_use]
    pub fn with_setting(mut self, network: &'static str, hyper_parameters: &str) -> Self {
        let method = format!("name = \"{}\"\n{hyper_parameters}", self.entry.name);
        self.cases.push(Case::new(&self.zoo, method, network));
        self
    }

    /// The hyper-parameters with which it learns within twelve rounds on few images; the defaults may be
    /// for longer runs.
    #[must_use]
    pub fn learns_with(mut self, hyper_parameters: &str) -> Self {
        self.learns_with = hyper_parameters.into();
        self
    }

    /// The hyper-parameters with which its generic model learns nothing from the personal ones, where
    /// with the defaults it does.
    #[must_use]
    pub fn separate_with(mut self, hyper_parameters: &str) -> Self {
        self.separate_with = Some(hyper_parameters.into());
        self
    }

    /// Its generic model always learns from the personal ones: that is the method.
    #[must_use]
    pub fn never_separate(mut self) -> Self {
        self.separate_with = None;
        self
    }

    /// Its line in the zoo.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// All settings in which it is tested.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The case for learning, on another network.
    pub(crate) fn learning(&self, network: &'static str) -> Case {
        self.case(&self.learns_with, network)
    }

    /// The cases in which the generic model is on its own.
    pub(crate) fn separate(&self) -> Vec<Case> {
        let Some(setting) = &self.separate_with else { return Vec::new() };
        [DENSE, WITH_BUFFERS].map(|network| self.case(setting, network)).into()
    }

    fn case(&self, hyper_parameters: &str, network: &'static str) -> Case {
        let method = format!("name = \"{}\"\n{hyper_parameters}", self.entry.name);
        Case::new(&self.zoo, method, network)
    }
}

/// One method with its hyper-parameters on one network.
#[derive(Clone)]
pub struct Case {
    zoo: Zoo,
    method: String,
    network: &'static str,
}

impl Case {
    /// The lines of a `[[method]]` and of a `[network]`.
    pub fn new(zoo: &Zoo, method: impl Into<String>, network: &'static str) -> Self {
        Self { zoo: zoo.clone(), method: method.into(), network }
    }

    /// Its zoo.
    pub fn zoo(&self) -> &Zoo {
        &self.zoo
    }

    /// The lines of its `[[method]]`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The lines of its `[network]`.
    pub fn network(&self) -> &'static str {
        self.network
    }

    /// Three rounds of it on the tiny problem.
    pub fn plan(&self) -> RunPlan {
        plan(&self.zoo, &[&self.method], self.network)
    }

    /// The plan with something changed.
    pub fn plan_with(&self, change: impl FnOnce(&mut RunPlan)) -> RunPlan {
        let mut plan = self.plan();
        change(&mut plan);
        plan
    }
}

/// What a failing contract prints: method, hyper-parameters, network.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_one_line = |text: &str| text.trim().replace('\n', ", ");
        write!(f, "{{ {} }} on {{ {} }}", on_one_line(&self.method), on_one_line(self.network))
    }
}
