//! From an experiment to a plan that the simulator can run: data loaded and divided, network and
//! methods built. Whatever can fail fails here, before any work.

use crate::experiment::{integer, number, text};
use crate::{Experiment, ExperimentError, MethodSetting, room};
use formant_data::{Dataset, Federation, Partition, PartitionPlan, Split};
use formant_federation::Protocol;
use formant_methods::{PhaseSettings, Zoo};
use formant_model::Card;
use formant_numerics::{Cpu, NetworkSpec, Part, Sgd};
use formant_runtime::event::{ClientSize, FORMAT, MethodInfo, RunStarted};
use formant_runtime::{Evaluation, Keep, MethodPlan, PhasePlan, RunPlan};
use std::path::Path;
use std::sync::Arc;
use toml::{Table, Value};

impl Experiment {
    /// Loads the data and divides it among the clients.
    pub fn federation(&self) -> Result<Federation, ExperimentError> {
        let dir = self.data.get("dir").and_then(Value::as_str).map(Path::new);
        let dataset = Dataset::load(text(&self.data, "dataset"), dir)?;
        let optional = |key: &str| self.data.get(key).and_then(Value::as_integer);
        let partition = match text(&self.data, "partition") {
            "iid" => Partition::Iid,
            "pathological" => Partition::Pathological {
                classes_per_client: integer(&self.data, "classes_per_client") as usize,
            },
            _ => Partition::Dirichlet { alpha: number(&self.data, "alpha") },
        };
        let plan = PartitionPlan {
            clients: integer(&self.data, "clients") as usize,
            partition,
            samples: optional("samples").map(|s| s as usize),
            min_samples: integer(&self.data, "min_samples") as usize,
            train_fraction: number(&self.data, "train_fraction"),
            validation_fraction: number(&self.data, "validation_fraction"),
            seed: optional("seed").map_or(self.seed(), |seed| seed as u64),
        };
        Ok(Federation::new(Arc::new(dataset), &plan)?)
    }

    /// Wires everything up.
    pub fn plan(&self) -> Result<RunPlan, ExperimentError> {
        self.plan_on(self.federation()?)
    }

    /// Wires everything up over data that are there already: what [`Experiment::federation`] gave
    /// for the same `[data]` and seed, or a federation made by hand.
    pub fn plan_on(&self, federation: Federation) -> Result<RunPlan, ExperimentError> {
        self.plan_with(federation, formant_runtime::available())
    }

    /// [`Experiment::plan_on`] a machine with so much memory, if that is known.
    pub(crate) fn plan_with(
        &self,
        federation: Federation,
        memory: Option<u64>,
    ) -> Result<RunPlan, ExperimentError> {
        let spec = self.network_spec()?;
        let network = spec.build(federation.dataset.shape, federation.dataset.classes)?;
        let parameters = network.layout().parameters();
        let card = self.card(&spec, &federation.dataset);
        let split = match text(&self.evaluation, "split") {
            "validation" => Split::Validation,
            _ => Split::Test,
        };
        let methods = self.methods.iter().map(method_plan).collect::<Result<Vec<_>, _>>()?;
        let lacking = methods.iter().map(|plan| plan.method.entry()).find(|entry| entry.needs_body);
        if let Some(entry) = lacking
            && network.layout().range(Part::Body).is_empty()
        {
            let (network, title) = (text(&self.network, "name"), entry.title);
            return Err(ExperimentError::combination(
                format!("{title} shares the body of a network, and `{network}` is all head"),
                "choose a network with hidden layers, such as mlp or lenet5",
            ));
        }
        let header = self.header(&federation, parameters, split, &methods);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = self.runtime.get("threads").and_then(Value::as_integer);
        let clients = federation.clients.len();
        let plan = RunPlan {
            header,
            engine: Box::new(Cpu::new(network)),
            federation,
            methods,
            seed: self.seed(),
            rounds: self.rounds(),
            protocol: Protocol { clients, ..self.protocol()? },
            profile: self.profile()?,
            evaluation: Evaluation { every: integer(&self.evaluation, "every") as usize, split },
            checkpoint_every: integer(&self.runtime, "checkpoint_every") as usize,
            threads: threads.map_or(cores, |t| t as usize),
            memory: self.memory()?,
            keep: match text(&self.runtime, "keep") {
                "none" => Keep::None,
                "generic" => Keep::Generic,
                _ => Keep::All,
            },
            keep_limit: self.keep_limit()?,
            card,
        };
        room::check(&plan, memory)?;
        Ok(plan)
    }

    /// What all model files of the run say alike.
    fn card(&self, spec: &NetworkSpec, dataset: &Dataset) -> Card {
        Card {
            network: spec.complete(dataset.shape),
            input: dataset.shape,
            normalisation: dataset.train.normalisation().to_vec(),
            classes: dataset.class_names.clone(),
            dataset: dataset.name.clone(),
            experiment: self.name().into(),
            seed: self.seed(),
            ..Card::default()
        }
    }

    fn network_spec(&self) -> Result<NetworkSpec, ExperimentError> {
        self.network.clone().try_into().map_err(|error: toml::de::Error| ExperimentError::Syntax {
            origin: "section [network]".into(),
            reason: error.to_string(),
        })
    }

    fn header(
        &self,
        federation: &Federation,
        parameters: usize,
        split: Split,
        methods: &[MethodPlan],
    ) -> RunStarted {
        let sizes: Vec<ClientSize> = federation
            .clients
            .iter()
            .map(|c| ClientSize { train: c.train.len(), test: c.size(split) })
            .collect();
        let global_test = match split {
            Split::Validation => sizes.iter().map(|s| s.test).sum(),
            _ => federation.dataset.test.len(),
        };
        RunStarted {
            format: FORMAT,
            formant: env!("CARGO_PKG_VERSION").into(),
            name: self.name().into(),
            seed: self.seed(),
            rounds: self.rounds(),
            config: json(&self.to_table()),
            network: text(&self.network, "name").into(),
            parameters,
            dataset: federation.dataset.name.clone(),
            split: text(&self.evaluation, "split").into(),
            global_test,
            clients: sizes.into_iter().map(Some).collect(),
            methods: self
                .methods
                .iter()
                .zip(methods)
                .map(|(setting, plan)| {
                    let entry = plan.method.entry();
                    let own_label = setting.label == setting.name;
                    MethodInfo {
                        label: setting.label.clone(),
                        name: setting.name.clone(),
                        title: if own_label { entry.title.into() } else { setting.label.clone() },
                        generic: entry.generic,
                        personal: entry.personal,
                        hyper_parameters: json(&setting.parameters),
                        degenerate: degenerate(setting),
                    }
                })
                .collect(),
        }
    }
}

fn method_plan(setting: &MethodSetting) -> Result<MethodPlan, ExperimentError> {
    let method = Zoo::standard().build(&setting.name, &setting.parameters)?.method;
    let train = &setting.train;
    let rate = number(train, "learning_rate");
    let personal_rate =
        train.get("personal_learning_rate").and_then(Value::as_float).unwrap_or(rate);
    let phase = |epochs: &str, rate: f64, cost: &str| PhasePlan {
        first: PhaseSettings {
            epochs: integer(train, epochs) as usize,
            batch: integer(train, "batch") as usize,
            sgd: Sgd {
                learning_rate: rate as f32,
                momentum: number(train, "momentum") as f32,
                weight_decay: number(train, "weight_decay") as f32,
                clip: train.get("clip").and_then(Value::as_float).map(|c| c as f32),
            },
        },
        decay: number(train, "decay"),
        cost: number(train, cost),
    };
    Ok(MethodPlan {
        label: setting.label.clone(),
        method,
        shared: phase("epochs", rate, "cost"),
        personal: phase("personal_epochs", personal_rate, "personal_cost"),
    })
}

fn degenerate(setting: &MethodSetting) -> Option<String> {
    Zoo::standard().build(&setting.name, &setting.parameters).ok()?.degenerate
}

/// TOML has no null and JSON no dates; nothing else is lost.
fn json(table: &Table) -> serde_json::Value {
    serde_json::to_value(table).unwrap_or_default()
}
