//! `[[method]]`: the methods to compare.

use crate::ExperimentError;
use crate::section::given;
use crate::training::{self, PARTICIPATION, Train, Training};
use formant_methods::schema::SchemaError;
use formant_methods::{Built, Zoo};
use formant_numerics::Augmentation;
use formant_runtime::MethodPlan;
use toml::{Table, Value};

/// One `[[method]]` of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodSetting {
    /// Unique in the experiment.
    pub label: String,
    /// The method with its hyper-parameters.
    pub method: Built,
    /// How it is trained, if not like all others.
    pub training: Option<Training>,
}

impl MethodSetting {
    /// A method of the zoo under its own name, trained like all others.
    ///
    /// ```
    /// use formant_experiment::MethodSetting;
    /// use formant_methods::Zoo;
    ///
    /// let ditto = MethodSetting::new(&Zoo::standard(), "ditto", &toml::toml! { lambda = 0.5 })?;
    /// assert_eq!((ditto.label.as_str(), ditto.name()), ("ditto", "ditto"));
    /// # Ok::<(), formant_experiment::ExperimentError>(())
    /// ```
    pub fn new(zoo: &Zoo, name: &str, parameters: &Table) -> Result<Self, ExperimentError> {
        let method = zoo.build(name, parameters)?;
        Ok(Self { label: name.into(), method, training: None })
    }

    /// The same under another label.
    #[must_use]
    pub fn labelled(self, label: &str) -> Self {
        Self { label: label.into(), ..self }
    }

    /// The method's name in the zoo.
    pub fn name(&self) -> &'static str {
        self.method.method.entry().name
    }

    /// How it is trained, where all others are trained like this.
    pub fn training_beside<'t>(&'t self, all: &'t Training) -> &'t Training {
        self.training.as_ref().unwrap_or(all)
    }

    pub(crate) fn plan(&self, all: &Training, augment: Augmentation) -> MethodPlan {
        let training = self.training_beside(all);
        let [shared, personal] = [training.shared(), training.personal()].map(|mut phase| {
            phase.base.augment = augment;
            phase
        });
        let (label, method) = (self.label.clone(), self.method.method.clone());
        MethodPlan { label, method, shared, personal }
    }

    /// The same as a file would give it, if it can be written into one.
    pub(crate) fn checked(self, all: &Training) -> Result<Self, ExperimentError> {
        let own = given(&self.write(all)?, "train")?;
        let read = resolve_training(&laid_over(training::SECTION.write(all)?, own))?;
        if self.training_beside(all) != &read {
            return Err(ExperimentError::combination(
                format!("`{}` unsets what is set for the training of all methods", self.label),
                "set it for the other methods instead: a method can only set what it trains with",
            ));
        }
        // Built anew of what a file would say, so that the two cannot differ.
        let method = self.method.method.entry().build(&self.method.parameters)?;
        Ok(Self { training: (read != *all).then_some(read), method, ..self })
    }

    /// The section that says it.
    pub(crate) fn write(&self, all: &Training) -> Result<Table, ExperimentError> {
        let mut entry = Table::new();
        entry.insert("name".into(), Value::String(self.name().into()));
        entry.insert("label".into(), Value::String(self.label.clone()));
        entry.extend(self.method.parameters.clone());
        if let Some(own) = &self.training {
            let all = training::SECTION.write(all)?;
            let own = training::SECTION.write(own)?;
            let own = own.into_iter().filter(|(key, value)| all.get(key) != Some(value));
            entry.insert("train".into(), Value::Table(own.collect()));
        }
        Ok(entry)
    }
}

/// The `[[method]]` entries of a file; one `[method]` is a list of one.
pub(crate) fn entries(file: &Table) -> Result<Vec<Table>, ExperimentError> {
    match file.get("method") {
        None => Ok(Vec::new()),
        Some(Value::Table(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(many)) if many.iter().all(Value::is_table) => {
            Ok(many.iter().filter_map(Value::as_table).cloned().collect())
        }
        Some(other) => Err(SchemaError::Type {
            path: "method".into(),
            value: other.to_string(),
            expected: "a section; write [[method]] and name = \"scd\" below it".into(),
            help: LISTED.into(),
        }
        .into()),
    }
}

const LISTED: &str = "`formant methods` lists what exists";

/// Reads one entry. What it says of training lies over what the file says for all.
pub(crate) fn read(
    mut entry: Table,
    all: &Table,
    zoo: &Zoo,
) -> Result<MethodSetting, ExperimentError> {
    let name = word(&mut entry, "name")?.ok_or_else(|| SchemaError::Missing {
        path: "method.name".into(),
        expected: "the name of a method in quotes".into(),
        help: LISTED.into(),
    })?;
    let label = word(&mut entry, "label")?.unwrap_or_else(|| name.clone());
    check_label(&label)?;
    let own = given(&entry, "train")?;
    entry.remove("train");
    if let Some(value) = own.get(PARTICIPATION) {
        return Err(ExperimentError::combination(
            format!(
                "`method.train.participation = {value}` would compare methods on different clients"
            ),
            "set train.participation for all methods",
        ));
    }
    let (own, all) = (resolve_training(&laid_over(all.clone(), own))?, resolve_training(all)?);
    let training = (own != all).then_some(own);
    Ok(MethodSetting { label, method: zoo.build(&name, &entry)?, training })
}

/// What a method says of training over what is said for all. What all say of an optimiser or schedule that
/// is not the method's does not concern it.
fn laid_over(mut all: Table, own: Table) -> Table {
    for decision in training::SECTION.decisions {
        decision.drop_idle(&mut all, &own);
    }
    all.extend(own);
    all
}

fn resolve_training(given: &Table) -> Result<Training, ExperimentError> {
    let section = training::SECTION;
    Ok(section.read::<Train>(section.resolve(given)?)?.training)
}

fn word(entry: &mut Table, key: &str) -> Result<Option<String>, ExperimentError> {
    match entry.remove(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word)),
        Some(other) => Err(SchemaError::Type {
            path: format!("method.{key}"),
            value: other.to_string(),
            expected: "text in quotes".into(),
            help: LISTED.into(),
        }
        .into()),
    }
}

fn check_label(label: &str) -> Result<(), ExperimentError> {
    // Folders are named after labels by `formant_model::folder::method_folders`, which replaces what is no
    // part of a file's name.
    let valid = |c: char| c.is_alphanumeric() || "-_. ()=,/+:".contains(c);
    if label.trim().is_empty() || label.len() > 80 || !label.chars().all(valid) {
        return Err(ExperimentError::combination(
            format!("`method.label = \"{label}\"` cannot name a method"),
            "use letters, digits, spaces and -_.()=,/+: and at most 80 of them",
        ));
    }
    Ok(())
}

/// Refuses a list in which labels do not tell the methods apart, or that is empty.
pub(crate) fn check(methods: &[MethodSetting]) -> Result<(), ExperimentError> {
    if methods.is_empty() {
        return Err(ExperimentError::combination(
            "the experiment has no method",
            "add a section [[method]] with name = \"scd\"; `formant methods` lists what exists",
        ));
    }
    for (i, setting) in methods.iter().enumerate() {
        check_label(&setting.label)?;
        if methods[..i].iter().any(|other| other.label == setting.label) {
            return Err(ExperimentError::combination(
                format!("two methods are called `{}`", setting.label),
                "give each [[method]] a label of its own, e.g. label = \"scd-complex\"",
            ));
        }
    }
    Ok(())
}
