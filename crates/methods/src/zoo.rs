//! The methods that exist. Help, docs and the errors of experiments derive from a [`Zoo`].

use crate::schema::suggest;
use crate::{
    ALLOW_DEGENERATE, Built, Entry, MethodError, ditto, fedavg, fedavg_ft, fedavgm, fedbabu,
    feddyn, fedgen, fedprox, fedrep, fedrod, local_only, pfedme, scd,
};
use formant_numerics::Engines;
use std::sync::Arc;
use toml::Table;

/// Methods by name, in the order of tables.
///
/// ```
/// use formant_methods::Zoo;
///
/// let zoo = Zoo::standard();
/// let ditto = zoo.build("ditto", &toml::Table::new())?;
/// assert_eq!(ditto.method.entry().title, "Ditto");
/// assert!(ditto.parameters.contains_key("lambda"));
/// # Ok::<(), formant_methods::MethodError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Zoo {
    entries: Vec<Entry>,
    engines: Option<Arc<dyn Engines>>,
}

impl Zoo {
    /// The methods of this crate. A new one is a file and a line here.
    pub fn standard() -> Self {
        let entries = vec![
            local_only::ENTRY,
            fedavg::ENTRY,
            fedavg_ft::ENTRY,
            fedprox::ENTRY,
            feddyn::ENTRY,
            fedgen::ENTRY,
            fedavgm::ENTRY,
            pfedme::ENTRY,
            ditto::ENTRY,
            fedrep::ENTRY,
            fedrod::ENTRY,
            fedbabu::ENTRY,
            scd::ENTRY,
        ];
        Self { entries, engines: None }
    }

    /// The same with one more method.
    ///
    /// # Panics
    ///
    /// If the name cannot be one, or another method has it already: then what an experiment means by it
    /// would depend on who reads the file. If a key has the name of one that every method has.
    #[must_use]
    pub fn with(mut self, entry: Entry) -> Self {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        let name = entry.name;
        assert!(
            !name.is_empty() && name.chars().all(letter),
            "`{name}` cannot name a method: use lower-case letters, digits, - and _"
        );
        assert!(
            self.entries.iter().all(|other| other.name != name),
            "two methods are called `{name}`: give the new one another name"
        );
        for reserved in ["name", "label", "train", ALLOW_DEGENERATE.name] {
            assert!(
                entry.keys.iter().all(|key| key.name != reserved),
                "`{name}` has a key `{reserved}`, which every [[method]] has already: rename it"
            );
        }
        self.entries.push(entry);
        self
    }

    /// The same, with networks computed by others than this processor's own engine.
    #[must_use]
    pub fn with_engines(self, engines: Arc<dyn Engines>) -> Self {
        Self { engines: Some(engines), ..self }
    }

    /// Who computes networks, if not this processor's own engine.
    pub fn engines(&self) -> Option<&Arc<dyn Engines>> {
        self.engines.as_ref()
    }

    /// All methods.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The line of a method.
    pub fn entry(&self, name: &str) -> Result<&Entry, MethodError> {
        self.entries.iter().find(|e| e.name == name).ok_or_else(|| MethodError::Unknown {
            name: name.into(),
            hint: suggest(name, self.entries.iter().map(|e| e.name), "methods"),
        })
    }

    /// Builds a method from its hyper-parameters.
    pub fn build(&self, name: &str, given: &Table) -> Result<Built, MethodError> {
        self.entry(name)?.build(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Needs;

    #[test]
    fn every_entry_builds_from_its_defaults_alone() {
        for entry in Zoo::standard().entries() {
            let Built { method, parameters: resolved, .. } = entry.build(&Table::new()).unwrap();
            assert_eq!(method.entry().name, entry.name);
            for key in entry.keys {
                // Of two keys for one thing, one has a value.
                let is_told =
                    resolved.contains_key(key.name) || key.help.starts_with("in place of");
                assert!(is_told, "{}: {} has no default", entry.name, key.name);
            }
            assert!(entry.generic || entry.personal);
        }
    }

    #[test]
    fn every_file_opens_alike() {
        for entry in Zoo::standard().entries() {
            let text = entry.documentation();
            let (first, name) = (text.lines().next().unwrap(), entry.name);
            assert!(first.contains(entry.title) && first.ends_with('.'), "{name}: {first}");
            assert!(text.contains("\n- "), "{name}: no update rule");
            assert!(text.contains("Departures"), "{name}: no word on departures");
            assert!(text.contains("GM = ") || text.contains("PM = ") || text.contains("GM logits"));
            for key in entry.keys {
                assert!(!key.help.is_empty() && !key.help.ends_with('.'), "{name}: {}", key.name);
            }
        }
    }

    #[test]
    fn a_setting_that_makes_a_method_another_one_has_to_be_admitted() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let zoo = Zoo::standard();
        for (name, setting, becomes) in [
            ("fedprox", "mu = 0", "FedAvg"),
            ("fedavgm", "beta = 0", "FedAvg"),
            ("fedgen", "a = 0\nb = 0", "FedAvg"),
            ("ditto", "lambda = 0", "Local"),
            ("pfedme", "lambda = 0.0", "Local"),
            ("fedbabu", "finetune_epochs = 0", "without personal models"),
            ("scd", "lambda_g = 0\nlambda_p = 0", "Local"),
        ] {
            let error = zoo.build(name, &table(setting)).unwrap_err().to_string();
            assert!(error.contains(becomes) && error.contains("= 0`"), "{error}");
            assert!(
                error.contains("hint: ") && error.contains("allow_degenerate = true"),
                "{error}"
            );
            let admitted = table(&format!("{setting}\nallow_degenerate = true"));
            let built = zoo.build(name, &admitted).unwrap();
            assert!(built.degenerate.as_ref().unwrap().contains(becomes));
            // What it resolved to is accepted again, and an explicit no is a no.
            assert_eq!(zoo.build(name, &built.parameters).unwrap(), built);
            let no = table(&format!("{setting}\nallow_degenerate = false"));
            assert!(zoo.build(name, &no).is_err());
        }
        assert!(zoo.build("fedavg", &table("allow_degenerate = true")).is_err());
        assert_eq!(zoo.build("ditto", &Table::new()).unwrap().degenerate, None);
    }

    #[test]
    fn what_a_server_needs_of_uploads_is_said_by_its_type() {
        let zoo = Zoo::standard();
        for entry in zoo.entries() {
            let expected = match entry.name {
                "local" => Needs::Nothing,
                "fedgen" => Needs::Uploads,
                _ => Needs::Sums,
            };
            let method = zoo.build(entry.name, &Table::new()).unwrap().method;
            assert_eq!((method.needs(), entry.needs), (expected, expected), "{}", entry.name);
            assert_eq!(method.combines(), entry.name != "local", "{}", entry.name);
        }
    }

    #[test]
    fn names_are_unique_and_errors_suggest() {
        let zoo = Zoo::standard();
        let mut names: Vec<_> = zoo.entries().iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), zoo.entries().len());
        let error = zoo.build("dito", &Table::new()).unwrap_err().to_string();
        assert!(error.contains("did you mean `ditto`?"), "{error}");
    }

    #[test]
    fn a_method_of_somebody_else_stands_beside_the_others() {
        let other = Entry { name: "mine", title: "Mine", ..fedavg::ENTRY };
        let zoo = Zoo::standard().with(other);
        assert_eq!(zoo.build("mine", &Table::new()).unwrap().method.entry().title, "Mine");
        assert!(zoo.build("fedavg", &Table::new()).is_ok());
        for name in ["ditto", "Mine", "", "a b"] {
            let again = Entry { name, ..fedavg::ENTRY };
            let outcome = std::panic::catch_unwind(|| Zoo::standard().with(again));
            assert!(outcome.is_err(), "{name}");
        }
    }
}
