//! From an experiment to a plan that can be run: data loaded and divided, the network built. Whatever
//! can fail fails here, before any work.

use crate::federation::combining;
use crate::{Experiment, ExperimentError, OneMethod, attack, combination, privacy, room, training};
use formant_data::{ClientData, Dataset, Federation, Repaired, Split};
use formant_federation::Protocol;
use formant_methods::Combine;
use formant_model::Card;
use formant_numerics::{Cpu, Detail, Engine, Part};
use formant_runtime::event::{
    self, ClientSize, Division, FORMAT, MethodInfo, NoiseSource, Place, RunStarted,
};
use formant_runtime::{Footprint, Load, Privacy, PrivateMean, RunPlan, Scored, Task};
use std::sync::Arc;
use toml::{Table, Value};

impl Experiment {
    /// Wires everything up.
    pub fn plan(&self) -> Result<RunPlan, ExperimentError> {
        self.plan_on(self.federation()?)
    }

    /// Wires everything up over data that are there already: what [`Experiment::federation`] gave
    /// for the same `[data]` and seed, or a federation made by hand.
    pub fn plan_on(&self, federation: Federation) -> Result<RunPlan, ExperimentError> {
        self.plan_with(federation, formant_runtime::available())
    }

    /// The plan of a process that shares the run with others. How many worker threads it has is settled among them: until
    /// then it has one, and asks for no more memory than that takes.
    pub fn plan_among_others(&self, federation: Federation) -> Result<RunPlan, ExperimentError> {
        self.plan_of(federation, formant_runtime::available(), 1)
    }

    /// [`Experiment::plan_on`] a machine with so much memory, if that is known.
    pub(crate) fn plan_with(
        &self,
        federation: Federation,
        memory: Option<u64>,
    ) -> Result<RunPlan, ExperimentError> {
        self.plan_of(federation, memory, self.runtime.threads())
    }

    fn plan_of(
        &self,
        federation: Federation,
        memory: Option<u64>,
        threads: usize,
    ) -> Result<RunPlan, ExperimentError> {
        combination::check_clock(self)?;
        let engine = self.engine(&federation.dataset)?;
        let sizes = federation.clients.iter().map(|data| Some(self.size_of(data))).collect();
        let protocol = self.protocol(federation.clients.len());
        combination::check_protocol(&protocol)?;
        combining::check(self, &protocol)?;
        combination::check_scored(self, &federation)?;
        let privacy = self.private(&protocol, NoiseSource::Keyed)?;
        let methods = self.methods.iter();
        let methods = methods.map(|method| method.plan(&self.training, self.data.augment));
        let attacks = attack::plan(self, &federation)?;
        let header = RunStarted {
            attacks: attack::told(&self.attacks, &attacks),
            names: federation.names.clone().unwrap_or_default(),
            remarks: federation.dataset.remarks.clone(),
            division: Some(division(&federation)),
            ..self.header(&federation.dataset, &*engine, sizes)
        };
        let plan = RunPlan {
            header,
            card: self.card(&federation.dataset),
            engine,
            federation,
            methods: methods.collect(),
            combine: self.combining(privacy.as_ref(), &protocol),
            privacy,
            attacks,
            seed: self.seed,
            rounds: self.rounds,
            protocol,
            profile: self.profile(),
            evaluation: self.evaluation.plan(),
            checkpoint_every: self.runtime.checkpoint_every,
            threads,
            memory: self.runtime.memory.0,
            keep: self.runtime.keep,
            keep_limit: self.runtime.keep_limit.0,
        };
        room::check(&plan.header, &Footprint::of(&plan), memory)?;
        Ok(plan)
    }

    /// What trains the network on the samples of a dataset, if all methods can have it trained.
    fn engine(&self, dataset: &Dataset) -> Result<Box<dyn Engine>, ExperimentError> {
        self.check_augmentation(dataset)?;
        training::check_classes(self, dataset.classes)?;
        let engine: Box<dyn Engine> = match &self.engines {
            Some(engines) => engines.engine(&self.network, dataset.shape, dataset.classes)?,
            None => Box::new(Cpu::new(self.network.build(dataset.shape, dataset.classes)?)),
        };
        privacy::check_network(self, engine.network())?;
        let entries = self.methods.iter().map(|setting| setting.method.method.entry());
        if let Some(entry) = entries.into_iter().find(|entry| entry.needs_body)
            && engine.network().layout().range(Part::Body).is_empty()
        {
            let (network, title) = (&self.network.name, entry.title);
            return Err(ExperimentError::combination(
                format!("{title} shares the body of a network, and `{network}` is all head"),
                "choose a network with hidden layers, such as mlp or lenet5",
            ));
        }
        Ok(engine)
    }

    /// What uploads may reveal, among the clients of some rules.
    fn private(
        &self,
        rules: &Protocol,
        noise: NoiseSource,
    ) -> Result<Option<Privacy>, ExperimentError> {
        self.privacy.map(|privacy| privacy.plan(rules, noise)).transpose()
    }

    /// How a server combines uploads that may reveal so much.
    fn combining(&self, privacy: Option<&Privacy>, rules: &Protocol) -> Arc<dyn Combine> {
        match privacy {
            Some(privacy) if privacy.place == Place::Server => {
                Arc::new(PrivateMean::new(*privacy, rules.clone()))
            }
            _ => Arc::new(self.combination()),
        }
    }

    /// What all model files of the run say alike.
    fn card(&self, dataset: &Dataset) -> Card {
        Card {
            network: self.network.complete(dataset.shape),
            input: dataset.shape,
            normalisation: dataset.train.normalisation().to_vec(),
            values: dataset.values,
            schema: dataset.schema.clone(),
            classes: dataset.class_names.clone(),
            dataset: dataset.name.clone(),
            experiment: self.name.clone(),
            seed: self.seed,
            ..Card::default()
        }
    }

    fn size_of(&self, data: &ClientData) -> ClientSize {
        let test = self.evaluation.plan().scored_samples(data);
        ClientSize { train: data.train.len(), test }
    }

    fn header(
        &self,
        dataset: &Dataset,
        engine: &dyn Engine,
        clients: Vec<Option<ClientSize>>,
    ) -> RunStarted {
        let methods = self.methods.iter().map(|setting| {
            let entry = setting.method.method.entry();
            let own_label = setting.label == entry.name;
            MethodInfo {
                label: setting.label.clone(),
                name: entry.name.into(),
                title: if own_label { entry.title.into() } else { setting.label.clone() },
                generic: entry.generic,
                personal: entry.personal,
                hyper_parameters: json(&setting.method.parameters),
                degenerate: setting.method.degenerate.clone(),
            }
        });
        RunStarted {
            format: FORMAT,
            formant: env!("CARGO_PKG_VERSION").into(),
            name: self.name.clone(),
            seed: self.seed,
            rounds: self.rounds,
            config: json(&self.to_table()),
            network: self.network.name.clone(),
            parameters: engine.network().layout().parameters(),
            dataset: dataset.name.clone(),
            data_check: dataset.check(),
            split: self.evaluation.split.word().into(),
            metrics: self.evaluation.metrics.clone(),
            global_test: match self.evaluation.split {
                Scored::Validation => clients.iter().flatten().map(|size| size.test).sum(),
                Scored::Test => dataset.test.len(),
            },
            clients,
            names: Vec::new(),
            remarks: Vec::new(),
            side: event::Side::Simulation,
            division: None,
            attacks: Vec::new(),
            engine: self.engine_name(),
            methods: methods.collect(),
        }
    }
}

/// Who holds what.
fn division(federation: &Federation) -> Division {
    let (clients, classes) = (federation.clients.len(), federation.dataset.classes);
    let counts = (clients.saturating_mul(classes) <= Division::MOST).then(|| {
        let of = |client| federation.label_counts(client, Split::Train);
        let narrow = |counts: Vec<usize>| counts.into_iter().map(|count| count as u32).collect();
        (0..clients).map(of).map(narrow).collect()
    });
    let (moved, drawn_concentration) = match federation.repaired {
        Some(Repaired::Moved { samples, drawn }) => (samples, drawn),
        Some(Repaired::Redrawn { .. }) | None => (0, None),
    };
    Division {
        classes: federation.dataset.class_names.clone(),
        counts,
        moved,
        divided: federation.clients.iter().map(|client| client.size(Split::All)).sum(),
        concentration: federation.concentration(),
        drawn_concentration,
    }
}

/// Who on a network wires an experiment up.
#[derive(Debug, Clone, Copy)]
pub enum Side<'a> {
    /// The server: it has no client's data.
    Server,
    /// A client: it has its own.
    Client {
        /// Its place among the clients.
        place: usize,
        /// Its samples.
        data: &'a ClientData,
    },
}

impl OneMethod {
    /// Wires up what a server or a client of the network computes, with the first line of its log. The
    /// dataset has the images that are there, if any.
    pub fn task(
        &self,
        dataset: &Dataset,
        side: Side<'_>,
    ) -> Result<(Task, RunStarted), ExperimentError> {
        let engine = self.engine(dataset)?;
        // Nobody knows what others hold.
        let mut sizes = vec![None; self.clients()];
        if let Side::Client { place, data } = side
            && let Some(own) = sizes.get_mut(place)
        {
            *own = Some(self.size_of(data));
        }
        let whose = match side {
            Side::Server => event::Side::Server,
            Side::Client { .. } => event::Side::Client,
        };
        let header = RunStarted { side: whose, ..self.header(dataset, &*engine, sizes) };
        let method = self.method().plan(&self.training, self.data.augment);
        let held = match side {
            Side::Server => 0,
            Side::Client { data, .. } => data.train.len(),
        };
        let own = header.clients.iter().flatten().map(|size| size.test);
        let load = Load {
            engine: &*engine,
            methods: if held > 0 { std::slice::from_ref(&method) } else { &[] },
            held,
            scored: own.fold(header.global_test, usize::max),
            detail: Detail::of(&self.evaluation.metrics),
            workers: 1,
        };
        room::check(&header, &Footprint::under(&load), formant_runtime::available())?;
        let rules = method.rules(&self.protocol(self.clients()));
        let privacy = self.private(&rules, NoiseSource::System)?;
        let task = Task {
            method,
            engine,
            combine: self.combining(privacy.as_ref(), &rules),
            privacy,
            rules,
            seed: self.seed,
            rounds: self.rounds,
            evaluation: self.evaluation.plan(),
            card: self.card(dataset),
        };
        Ok((task, header))
    }
}

/// A table of an experiment as JSON; it holds no dates, and no number that is not finite.
fn json(table: &Table) -> serde_json::Value {
    table.iter().map(|(key, value)| (key.clone(), json_value(value))).collect()
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(flag) => (*flag).into(),
        Value::Datetime(date) => date.to_string().into(),
        Value::Array(values) => values.iter().map(json_value).collect(),
        Value::Table(table) => json(table),
    }
}
