//! What an experiment consists of.

use crate::section::{Section, key, symbol, whole};
use crate::training::Train;
use crate::{
    AttackSetting, Data, Devices, Evaluation, ExperimentError, Links, MethodSetting, Privacy,
    Rules, Runtime, Training, attack, augment, data, evaluation, federation, fleet, network,
    privacy, runtime, training,
};
use formant_federation::{Draw, Personal, Protocol};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::NetworkSpec;
use formant_runtime::{Combination, Profile};
use serde::{Deserialize, Serialize};
use toml::Table;

pub(crate) const TOP: Section = Section::new("", "", KEYS);

const KEYS: &[Key] = &[
    key("name", Kind::Text, Preset::Text("experiment"), "name of the run folder and of the report"),
    key("seed", whole(0), Preset::Integer(1), "keys all randomness: same seed, same bits"),
    symbol(
        "T",
        key(
            "rounds",
            Kind::Integer { min: 1, max: 1_000_000 },
            Preset::Integer(40),
            "rounds of federated training",
        ),
    ),
];

/// All settings of an experiment, by section. They may contradict each other or lie outside their
/// ranges until an [`Experiment`](crate::Experiment) is made of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name of the run folder and of the report.
    pub name: String,
    /// Keys all randomness.
    pub seed: u64,
    /// `T`: rounds of each method.
    pub rounds: usize,
    /// Which images, and how they are divided among the clients.
    pub data: Data,
    /// Which model every client trains.
    pub network: NetworkSpec,
    /// How clients train.
    pub training: Training,
    /// How a round proceeds.
    pub federation: Rules,
    /// The clients' devices, for the virtual clock.
    pub devices: Devices,
    /// The clients' links, for the virtual clock.
    pub links: Links,
    /// What uploads may reveal of their clients; without it, as much as they do.
    pub privacy: Option<Privacy>,
    /// When and on what the models are scored.
    pub evaluation: Evaluation,
    /// How the machine is used.
    pub runtime: Runtime,
    /// Who attacks a simulation.
    pub attacks: Vec<AttackSetting>,
    /// The methods to compare.
    pub methods: Vec<MethodSetting>,
}

/// The top of the file.
#[derive(Serialize, Deserialize)]
struct Top {
    name: String,
    seed: u64,
    rounds: usize,
}

/// Every key at its default, and no method.
impl Default for Settings {
    fn default() -> Self {
        let Top { name, seed, rounds } = TOP.defaults();
        Self {
            name,
            seed,
            rounds,
            data: Data::default(),
            network: network::preset(),
            training: Training::default(),
            federation: Rules::default(),
            devices: Devices::default(),
            links: Links::default(),
            privacy: None,
            evaluation: Evaluation::default(),
            runtime: Runtime::default(),
            attacks: Vec::new(),
            methods: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads the sections of a file, and gives them checked and filled in.
    pub(crate) fn read(file: &Table) -> Result<(Self, Table), ExperimentError> {
        let mut resolved = Table::new();
        let mut section = |section: Section| -> Result<Table, ExperimentError> {
            let table = section.resolve(&section.given(file)?)?;
            section.put(&mut resolved, table.clone());
            Ok(table)
        };
        let Top { name, seed, rounds } = TOP.read(section(TOP)?)?;
        let data: Data = data::SECTION.read(section(data::SECTION)?)?;
        let augment = augment::SECTION.read(section(augment::SECTION)?)?;
        let network = network::SECTION.read(section(network::SECTION)?)?;
        let Train { participation, training } =
            training::SECTION.read(section(training::SECTION)?)?;
        let rules = federation::SECTION.read(section(federation::SECTION)?)?;
        let settings = Self {
            name,
            seed,
            rounds,
            data: Data { augment, ..data },
            network,
            training,
            federation: Rules::of(&rules, participation),
            devices: fleet::DEVICES.read(section(fleet::DEVICES)?)?,
            links: fleet::LINKS.read(section(fleet::LINKS)?)?,
            privacy: Privacy::of(&privacy::SECTION.read(section(privacy::SECTION)?)?)?,
            evaluation: evaluation::SECTION.read(section(evaluation::SECTION)?)?,
            runtime: runtime::SECTION.read(section(runtime::SECTION)?)?,
            attacks: attack::read(file)?,
            methods: Vec::new(),
        };
        attack::put(&settings.attacks, &mut resolved)?;
        Ok((settings, resolved))
    }

    /// The file that says it, without the methods.
    pub(crate) fn write(&self) -> Result<Table, ExperimentError> {
        let top = Top { name: self.name.clone(), seed: self.seed, rounds: self.rounds };
        let train =
            Train { participation: self.federation.participation, training: self.training.clone() };
        let mut file = TOP.write(&top)?;
        for (section, table) in [
            (data::SECTION, data::SECTION.write(&self.data)?),
            (augment::SECTION, augment::SECTION.write(&self.data.augment)?),
            (network::SECTION, network::SECTION.write(&self.network)?),
            (training::SECTION, training::SECTION.write(&train)?),
            (federation::SECTION, federation::SECTION.write(&self.federation.keys())?),
            (fleet::DEVICES, fleet::DEVICES.write(&self.devices)?),
            (fleet::LINKS, fleet::LINKS.write(&self.links)?),
            (privacy::SECTION, privacy::SECTION.write(&privacy::Keys::of(self.privacy.as_ref()))?),
            (evaluation::SECTION, evaluation::SECTION.write(&self.evaluation)?),
            (runtime::SECTION, runtime::SECTION.write(&self.runtime)?),
        ] {
            section.put(&mut file, table);
        }
        attack::put(&self.attacks, &mut file)?;
        Ok(file)
    }

    /// The rules of a round among so many clients, as if every method had a personal phase.
    pub(crate) fn protocol(&self, clients: usize) -> Protocol {
        let rules = &self.federation;
        Protocol {
            clients,
            rounds: self.rounds as u64,
            schedule: rules.schedule,
            personal: Personal {
                exists: true,
                until: rules.personal_until,
                everyone: rules.personal == crate::Whose::Everyone,
            },
            participation: rules.participation,
            quorum: rules.quorum,
            min_success: rules.min_success,
            deadline: rules.deadline.map(|span| span.0),
            late: rules.late,
            seed: self.seed,
            draw: self.privacy.as_ref().map_or(Draw::Number, crate::Privacy::draw),
        }
    }

    /// How the server combines uploads.
    pub(crate) fn combination(&self) -> Combination {
        Combination {
            rule: self.federation.combine,
            max_share: self.federation.max_share,
            // Clients' states and uploads that wait share the rest.
            memory: self.runtime.memory.0 / 4,
        }
    }

    /// The devices and links of the virtual clock.
    pub(crate) fn profile(&self) -> Profile {
        fleet::profile(&self.devices, &self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use crate::section::SECTIONS;
    use crate::units::{Pixels, Rate, Span};
    use crate::{ClassWeights, Moments, Optimiser, Sampling, Strength};
    use core::time::Duration;
    use formant_data::{Partition, Repair, Skew};
    use formant_numerics::{Augmentation, Convolution, Measures, Metric, Norm, Size, Stem};
    use formant_runtime::event::Place;
    use formant_runtime::{Curve, Rule};
    use std::collections::HashSet;

    /// Settings in which nothing is left out that can be said, as far as they go together.
    fn outspoken() -> [Settings; 7] {
        let mut residual = Settings::default();
        residual.data.origin = Origin {
            source: "photos".into(),
            dir: Some("data".into()),
            label: Some("kind".into()),
            features: Some("pixels".into()),
            exclude: Some(vec!["id".into()]),
            client: Some("folder".into()),
            size: Some(Pixels(Size { width: 3, height: 4 })),
            normalisation: Some("cifar10".into()),
            test_fraction: Some(0.3),
            skip_bad: Some(true),
            description: Some(formant_data::description("cifar10").unwrap()),
        };
        residual.data.part = Some("2-5/5".parse().unwrap());
        residual.data.samples = Some(3);
        residual.data.seed = Some(4);
        residual.data.augment = Augmentation {
            crop: 4,
            flip: 0.5,
            rotation: 15.0,
            brightness: 0.1,
            contrast: 0.2,
            saturation: 0.3,
            cutout: 16,
            mixup: 1.0,
        };
        residual.network = NetworkSpec {
            norm: Some(Norm::Group),
            stem: Some(Stem::Cifar),
            width: Some(8),
            convolution: Some(Convolution::Direct),
            ..NetworkSpec::named("resnet18")
        };
        residual.training.personal_learning_rate = Some(0.1);
        residual.training.clip = Some(1.0);
        residual.federation.deadline = Some(Span(Duration::from_secs(3)));
        residual.devices.samples_per_second = Some(5.0);
        (residual.links.up, residual.links.down) = (Some(Rate(1.0)), Some(Rate(2.0)));
        residual.runtime.threads = Some(2);
        residual.evaluation.metrics = Measures::new(vec![Metric::MacroF1]).unwrap();
        residual.privacy = Some(Privacy {
            place: Place::Server,
            clip: 0.5,
            strength: Strength::NoiseMultiplier(2.0),
            delta: Some(1e-6),
            sampling: Sampling::Poisson,
        });
        residual.evaluation.patience = Some(5);
        residual.evaluation.spectra = 1;
        residual.evaluation.guard = formant_runtime::Guard::Blend;
        residual.evaluation.adapt_epochs = Some(2);
        residual.evaluation.adapt_learning_rate = Some(0.02);
        residual.data.new_clients = Some(2);
        residual.data.repair = Repair::Redraw;
        let mut dense = Settings::default();
        dense.data.partition = Partition::Pathological { classes_per_client: 2 };
        dense.data.skew = Skew::Rotation { skew_strength: 30.0 };
        dense.network = NetworkSpec { hidden: Some(vec![3]), ..NetworkSpec::named("mlp") };
        let mut tossed = Settings::default();
        tossed.data.partition = Partition::Bernoulli { class_probability: 0.5, alpha: 1.0 };
        tossed.network = NetworkSpec { module: Some("Net".into()), ..NetworkSpec::named("module") };
        let mut dealt = Settings::default();
        dealt.data.partition = Partition::Shards { shards_per_client: 3 };
        let mut replayed = Settings::default();
        replayed.data.clients = None;
        replayed.data.partition = Partition::File {
            partition_file: "split.json".into(),
            partition_hash: Some("0123456789abcdef0123456789abcdef".into()),
        };
        dense.privacy = Some(Privacy {
            place: Place::Client,
            clip: 2.0,
            strength: Strength::TargetEpsilon(8.0),
            delta: None,
            sampling: Sampling::Fixed,
        });
        dense.training.class_weights = Some(ClassWeights::Given(vec![1.0, 2.0]));
        dense.training.schedule = Curve::Step { decay: 0.5, step_every: 3 };
        let [mut adaptive, mut decoupled] = [Settings::default(), Settings::default()];
        adaptive.training.optimiser = Optimiser::Adam(Moments::default());
        adaptive.training.schedule = Curve::Cosine { floor: 0.25 };
        adaptive.training.class_weights = Some(ClassWeights::Balanced);
        decoupled.training.optimiser = Optimiser::AdamW(Moments::default());
        decoupled.training.schedule = Curve::Constant;
        tossed.federation.combine = Rule::Clipped { clip: 2.0 };
        dealt.federation.combine = Rule::TrimmedMean { trim: 0.2 };
        adaptive.federation.combine = Rule::Krum { attackers: 1, selected: 2 };
        decoupled.federation.combine = Rule::GeometricMedian { steps: 9 };
        decoupled.federation.max_share = 0.3;
        [residual, dense, tossed, dealt, replayed, adaptive, decoupled]
    }

    #[test]
    fn every_key_has_a_field_and_every_field_a_key() {
        let written = outspoken().map(|settings| settings.write().unwrap());
        for section in SECTIONS {
            let tables = written.iter().map(|file| section.given(file).unwrap());
            let fields: HashSet<String> =
                tables.flat_map(|table| table.into_iter().map(|(key, _)| key)).collect();
            let keys: HashSet<String> = section.keys.iter().map(|key| key.name.into()).collect();
            assert_eq!(fields, keys, "[{}]", section.name);
        }
        for (settings, file) in outspoken().iter().zip(&written) {
            assert_eq!(&Settings::read(file).unwrap().0, settings);
        }
    }
}
