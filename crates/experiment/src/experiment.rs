//! An experiment that can be run.

use crate::overrides::Override;
use crate::section::{SECTIONS, elsewhere};
use crate::training::Train;
use crate::{
    ExperimentError, MethodSetting, Settings, attack, combination, method, origin, settings,
    training,
};
use formant_methods::Zoo;
use formant_methods::schema::{SchemaError, suggest};
use formant_numerics::Engines;
use formant_runtime::seal::{Broken, seal_text, verify_text};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use toml::{Table, Value};

/// [`Settings`] that are in range and go together. There is no other way to a plan, and no way to
/// change one: take its settings, change those, and make another of them.
///
/// ```
/// use formant_data::Partition;
/// use formant_experiment::{Data, Experiment, MethodSetting, Settings, Training};
/// use formant_methods::Zoo;
///
/// let zoo = Zoo::standard();
/// let ditto = MethodSetting::new(&zoo, "ditto", &toml::toml! { lambda = 0.5 })?;
/// let experiment = Experiment::new(Settings {
///     rounds: 5,
///     data: Data { clients: Some(8), partition: Partition::Iid, ..Data::default() },
///     training: Training { learning_rate: 0.1, ..Training::default() },
///     methods: vec![
///         MethodSetting { training: Some(Training { epochs: 1, ..Training::default() }), ..ditto },
///         MethodSetting::new(&zoo, "scd", &toml::Table::new())?.labelled("mine"),
///     ],
///     ..Settings::default()
/// })?;
///
/// let file = toml::toml! {
///     rounds = 5
///     data = { clients = 8, partition = "iid" }
///     train = { learning_rate = 0.1 }
///     [[method]]
///     name = "ditto"
///     lambda = 0.5
///     train = { epochs = 1, learning_rate = 0.05 }
///     [[method]]
///     name = "scd"
///     label = "mine"
/// };
/// assert_eq!(experiment, Experiment::parse(&file, &[], &zoo)?);
/// assert_eq!(experiment, Experiment::parse(&experiment.to_table(), &[], &zoo)?);
///
/// let nobody = Data { clients: Some(0), ..experiment.data.clone() };
/// let error = Experiment::new(Settings { data: nobody, ..experiment.settings().clone() });
/// assert!(error.unwrap_err().to_string().starts_with("`data.clients = 0` is outside its range"));
/// # Ok::<(), formant_experiment::ExperimentError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Experiment {
    settings: Settings,
    /// The file, checked and filled in, with sizes and times as they were written.
    resolved: Table,
    /// Who computes networks, if not this processor's own engine.
    pub(crate) engines: Option<Arc<dyn Engines>>,
}

impl Experiment {
    /// Checks settings. What is wrong is named as it would be in a file.
    pub fn new(settings: Settings) -> Result<Self, ExperimentError> {
        let file = settings.write()?;
        let Settings { methods, training, .. } = settings;
        let methods = methods.into_iter().map(|method| method.checked(&training));
        let methods = methods.collect::<Result<Vec<_>, _>>()?;
        let experiment = Self::assemble(Settings::read(&file)?, methods)?;
        combination::check_clock(&experiment)?;
        Ok(experiment)
    }

    /// Reads an experiment file and lays overrides over it.
    pub fn read(path: &Path, overrides: &[Override], zoo: &Zoo) -> Result<Self, ExperimentError> {
        Self::parse(&Self::read_table(path)?, overrides, zoo)
    }

    /// Reads a file without judging it. One that ends with a check, as those in run folders do, must be as it was written.
    pub fn read_table(path: &Path) -> Result<Table, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ExperimentError::Unreadable { path: path.into(), source })?;
        if verify_text(&text) == Err(Broken::Wrong) {
            return Err(ExperimentError::Changed { path: path.into() });
        }
        text.parse().map_err(|error: toml::de::Error| ExperimentError::Syntax {
            origin: path.display().to_string(),
            reason: error.to_string().trim_end().replacen("TOML parse error at", "at", 1),
        })
    }

    /// What a run folder keeps of it: its file with everything filled in, and a check as the last line, since a digit that
    /// changes on a disk would make it another run.
    pub fn to_kept(&self) -> String {
        let mut text = self.to_table().to_string();
        seal_text(&mut text);
        text
    }

    /// Checks a table and lays overrides over it.
    pub fn parse(
        table: &Table,
        overrides: &[Override],
        zoo: &Zoo,
    ) -> Result<Self, ExperimentError> {
        let experiment = Self::parse_for_network(table, overrides, zoo)?;
        combination::check_clock(&experiment)?;
        Ok(experiment)
    }

    /// The same for a real network, where time passes without devices that say how fast they are.
    pub fn parse_for_network(
        table: &Table,
        overrides: &[Override],
        zoo: &Zoo,
    ) -> Result<Self, ExperimentError> {
        let mut table = table.clone();
        // What a server needs besides the experiment: simulated, it is the same experiment.
        if table.get("server").is_some_and(Value::is_table) {
            table.remove("server");
        }
        // Where `formant tune` looks for other values of its keys.
        if table.get("tune").is_some_and(Value::is_table) {
            table.remove("tune");
        }
        origin::rename(&mut table);
        // What decides which other keys make sense comes first, whatever the order it was given in.
        let (first, then): (Vec<_>, Vec<_>) = overrides.iter().partition(|o| o.is_decisive());
        for change in first.into_iter().chain(then) {
            change.apply(&mut table, zoo)?;
        }
        check_names(&table, zoo)?;
        let read = Settings::read(&table)?;
        let train = training::SECTION.given(&table)?;
        let methods = method::entries(&table)?.into_iter();
        let methods = methods.map(|entry| method::read(entry, &train, zoo));
        let experiment = Self::assemble(read, methods.collect::<Result<Vec<_>, _>>()?)?;
        Ok(Self { engines: zoo.engines().cloned(), ..experiment })
    }

    /// Settings and methods, each right by itself.
    fn assemble(
        (settings, mut resolved): (Settings, Table),
        methods: Vec<MethodSetting>,
    ) -> Result<Self, ExperimentError> {
        method::check(&methods)?;
        let settings = Settings { methods, ..settings };
        combination::check(&settings)?;
        let methods = settings.methods.iter().map(|method| method.write(&settings.training));
        let methods = methods.map(|table| table.map(Value::Table));
        let methods = methods.collect::<Result<Vec<_>, _>>()?;
        resolved.insert("method".into(), Value::Array(methods));
        Ok(Self { settings, resolved, engines: None })
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// `[train]` as it is for one of the methods.
    pub fn train_of(&self, method: &MethodSetting) -> Result<Table, ExperimentError> {
        training::SECTION.write(&Train {
            participation: self.federation.participation,
            training: method.training_beside(&self.training).clone(),
        })
    }

    /// What computes, if not Formant's own engine.
    pub fn engine_name(&self) -> Option<String> {
        self.engines.as_ref().map(|engines| engines.name())
    }

    /// The resolved experiment as a table: reading it again gives the same experiment.
    pub fn to_table(&self) -> Table {
        self.resolved.clone()
    }
}

/// An experiment can be read like its settings.
impl Deref for Experiment {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Two experiments are the same if their settings are, however they were written down.
impl PartialEq for Experiment {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

/// Refuses what is neither a section nor a key of the top.
fn check_names(table: &Table, zoo: &Zoo) -> Result<(), ExperimentError> {
    let top = settings::TOP.keys.iter().map(|key| key.name);
    let is_own = |name: &&str| !name.is_empty() && !name.contains('.');
    let sections = SECTIONS.iter().map(|section| section.name).filter(is_own);
    let known = top.chain(sections).chain([attack::SECTION.name, "method"]);
    for name in table.keys() {
        if !known.clone().any(|known| known == name) {
            let hint =
                elsewhere(name, zoo).unwrap_or_else(|| suggest(name, known, "keys and sections"));
            return Err(SchemaError::Unknown { path: name.clone(), hint }.into());
        }
    }
    Ok(())
}
