//! The registry: every method that exists. Help, docs and config errors derive from it.

use crate::erased::Erased;
use crate::schema::{Default, Key, Kind, resolve, suggest};
use crate::{
    Ditto, ErasedMethod, FedAvg, FedAvgM, FedBabu, FedDyn, FedGen, FedProx, FedRep, FedRod,
    LocalOnly, Method, MethodError, PFedMe, Scd, ditto, fedavgm, fedbabu, feddyn, fedgen, fedprox,
    fedrep, fedrod, pfedme, scd,
};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// One line of the zoo.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name in a config.
    pub name: &'static str,
    /// How tables call it.
    pub title: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// Whether it trains a generic model.
    pub generic: bool,
    /// Whether it trains personal models.
    pub personal: bool,
    /// Whether it divides a network into body and head, so that a network without a body makes no
    /// sense.
    pub needs_body: bool,
    /// Its hyper-parameters.
    pub keys: &'static [Key],
    /// The file that it is written in.
    source: &'static str,
    /// Fills in defaults that depend on other keys.
    complete: fn(&mut Table),
    /// Settings that make it another method.
    degenerate: &'static [Degenerate],
    build: Build,
}

/// Values of some keys that, together, make a method another one.
#[derive(Debug, Clone, Copy)]
struct Degenerate {
    values: &'static [(&'static str, f64)],
    becomes: &'static str,
}

/// Makes a method from hyper-parameters that its keys have checked; an error says why not.
type Build = fn(&'static Entry, Table) -> Result<Box<dyn ErasedMethod>, String>;

/// The key that admits a setting that makes a method another one.
pub const ALLOW_DEGENERATE: Key = Key {
    name: "allow_degenerate",
    symbol: "",
    kind: Kind::Flag,
    default: Default::Flag(false),
    help: "accept a setting that makes the method another one",
};

/// Every method, in the order of tables.
pub const ZOO: &[Entry] = &[
    Entry {
        name: "local",
        title: "Local",
        summary: "each client trains alone: the floor that every table needs",
        citation: "no federation",
        generic: false,
        personal: true,
        needs_body: false,
        keys: &[],
        source: include_str!("local_only.rs"),
        complete: |_| {},
        degenerate: &[],
        build: erase::<LocalOnly>,
    },
    Entry {
        name: "fedavg",
        title: "FedAvg",
        summary: "local SGD from the global model, averaged by sample counts",
        citation: "McMahan et al., AISTATS 2017",
        generic: true,
        personal: false,
        needs_body: false,
        keys: &[],
        source: include_str!("fedavg.rs"),
        complete: |_| {},
        degenerate: &[],
        build: erase::<FedAvg>,
    },
    Entry {
        name: "fedprox",
        title: "FedProx",
        summary: "FedAvg with a proximal pull of each client's copy towards the received model",
        citation: "Li et al., MLSys 2020",
        generic: true,
        personal: false,
        needs_body: false,
        keys: fedprox::KEYS,
        source: include_str!("fedprox.rs"),
        complete: |_| {},
        degenerate: &[Degenerate { values: &[("mu", 0.0)], becomes: "FedAvg" }],
        build: erase::<FedProx>,
    },
    Entry {
        name: "feddyn",
        title: "FedDyn",
        summary: "dynamic regularisation: local optima are made to agree with the global one",
        citation: "Acar et al., ICLR 2021",
        generic: true,
        personal: false,
        needs_body: false,
        keys: feddyn::KEYS,
        source: include_str!("feddyn.rs"),
        complete: |_| {},
        degenerate: &[],
        build: erase::<FedDyn>,
    },
    Entry {
        name: "fedgen",
        title: "FedGen",
        summary: "FedAvg beside a generator of features that the clients' heads teach",
        citation: "Zhu et al., ICML 2021",
        generic: true,
        personal: false,
        needs_body: false,
        keys: fedgen::KEYS,
        source: include_str!("fedgen.rs"),
        complete: |_| {},
        degenerate: &[Degenerate { values: &[("a", 0.0), ("b", 0.0)], becomes: "FedAvg" }],
        build: erase::<FedGen>,
    },
    Entry {
        name: "fedavgm",
        title: "FedAvgM",
        summary: "FedAvg with momentum on the server",
        citation: "Hsu et al., 2019",
        generic: true,
        personal: false,
        needs_body: false,
        keys: fedavgm::KEYS,
        source: include_str!("fedavgm.rs"),
        complete: |_| {},
        degenerate: &[Degenerate { values: &[("beta", 0.0), ("eta", 1.0)], becomes: "FedAvg" }],
        build: erase::<FedAvgM>,
    },
    Entry {
        name: "pfedme",
        title: "pFedMe",
        summary: "personal models at the bottom of Moreau envelopes around the generic one",
        citation: "Dinh et al., NeurIPS 2020",
        generic: true,
        personal: true,
        needs_body: false,
        keys: pfedme::KEYS,
        source: include_str!("pfedme.rs"),
        complete: |_| {},
        degenerate: &[Degenerate {
            values: &[("lambda", 0.0)],
            becomes: "Local with several steps on each batch, and its generic model never moves",
        }],
        build: erase::<PFedMe>,
    },
    Entry {
        name: "ditto",
        title: "Ditto",
        summary: "FedAvg, and a personal model with a proximal pull towards the received one",
        citation: "Li et al., ICML 2021",
        generic: true,
        personal: true,
        needs_body: false,
        keys: ditto::KEYS,
        source: include_str!("ditto.rs"),
        complete: |_| {},
        degenerate: &[Degenerate {
            values: &[("lambda", 0.0)],
            becomes: "FedAvg with Local beside it",
        }],
        build: erase::<Ditto>,
    },
    Entry {
        name: "fedrep",
        title: "FedRep",
        summary: "a shared body and a head of each client's own, trained in turns",
        citation: "Collins et al., ICML 2021",
        generic: false,
        personal: true,
        needs_body: true,
        keys: fedrep::KEYS,
        source: include_str!("fedrep.rs"),
        complete: |_| {},
        degenerate: &[],
        build: erase::<FedRep>,
    },
    Entry {
        name: "fedrod",
        title: "FedRoD",
        summary: "a generic head on a balanced loss, and a personal head on top of it",
        citation: "Chen and Chao, ICLR 2022",
        generic: true,
        personal: true,
        needs_body: false,
        keys: fedrod::KEYS,
        source: include_str!("fedrod.rs"),
        complete: |_| {},
        degenerate: &[],
        build: erase::<FedRod>,
    },
    Entry {
        name: "fedbabu",
        title: "FedBABU",
        summary: "only the body is trained and averaged; a copy is fine-tuned for each client",
        citation: "Oh et al., ICLR 2022",
        generic: true,
        personal: true,
        needs_body: true,
        keys: fedbabu::KEYS,
        source: include_str!("fedbabu.rs"),
        complete: |_| {},
        degenerate: &[Degenerate {
            values: &[("finetune_epochs", 0.0)],
            becomes: "a method without personal models",
        }],
        build: erase::<FedBabu>,
    },
    Entry {
        name: "scd",
        title: "SCD",
        summary: "spectral co-distillation: each model teaches the other through its Fourier spectrum",
        citation: "Chen et al., NeurIPS 2023",
        generic: true,
        personal: true,
        needs_body: false,
        keys: scd::KEYS,
        source: include_str!("scd.rs"),
        complete: scd::complete,
        degenerate: &[Degenerate {
            values: &[("lambda_g", 0.0), ("lambda_p", 0.0)],
            becomes: "FedAvg with Local beside it",
        }],
        build: erase::<Scd>,
    },
];

impl Entry {
    /// What the method's file opens with: title, citation, update rules and departures, as Markdown.
    pub fn documentation(&self) -> String {
        let lines = self.source.lines().take_while(|line| line.starts_with("//!"));
        let lines =
            lines.map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or(""));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether there is a setting that makes it another method.
    pub fn can_degenerate(&self) -> bool {
        !self.degenerate.is_empty()
    }

    /// The setting that makes it another method, if the table has it, and which one.
    fn degeneration(&self, table: &Table) -> Option<(String, &'static str)> {
        let number = |key: &str| match table.get(key) {
            Some(Value::Float(x)) => Some(*x),
            Some(Value::Integer(x)) => Some(*x as f64),
            _ => None,
        };
        let case = self.degenerate.iter().find(|case| {
            // As the method sees it: a number too small for an f32 is zero.
            let same = |key: &str, value: f64| number(key).map(|x| x as f32) == Some(value as f32);
            case.values.iter().all(|(key, value)| same(key, *value))
        })?;
        let shown: Vec<_> = case.values.iter().map(|(key, x)| format!("`{key} = {x}`")).collect();
        Some((shown.join(" with "), case.becomes))
    }
}

fn erase<M: Method + DeserializeOwned>(
    entry: &'static Entry,
    table: Table,
) -> Result<Box<dyn ErasedMethod>, String> {
    let method: M = table.try_into().map_err(|error| error.to_string())?;
    Ok(Box::new(Erased { method, entry }))
}

/// The line of a method.
pub fn entry(name: &str) -> Result<&'static Entry, MethodError> {
    ZOO.iter().find(|e| e.name == name).ok_or_else(|| MethodError::Unknown {
        name: name.into(),
        hint: suggest(name, ZOO.iter().map(|e| e.name), "methods"),
    })
}

/// Builds a method from its hyper-parameters; returns it with every default filled in.
///
/// ```
/// let (method, resolved) = formant_methods::build("ditto", &toml::Table::new())?;
/// assert_eq!(method.entry().title, "Ditto");
/// assert!(resolved.contains_key("lambda"));
/// # Ok::<(), formant_methods::MethodError>(())
/// ```
pub fn build(name: &str, given: &Table) -> Result<(Box<dyn ErasedMethod>, Table), MethodError> {
    let entry = entry(name)?;
    let mut given = given.clone();
    let allowed = admits(entry, &mut given)?;
    let mut resolved = resolve("method", entry.keys, &given)?;
    (entry.complete)(&mut resolved);
    if let Some((setting, becomes)) = entry.degeneration(&resolved)
        && !allowed
    {
        return Err(MethodError::Degenerate { title: entry.title, setting, becomes });
    }
    let method = (entry.build)(entry, resolved.clone()).map_err(|reason| MethodError::Decode {
        method: entry.name,
        what: "hyper-parameters",
        reason,
    })?;
    if allowed {
        // Kept, so that what a run resolved to can be built again.
        resolved.insert(ALLOW_DEGENERATE.name.into(), Value::Boolean(true));
    }
    Ok((method, resolved))
}

/// Takes the key that admits a degenerate setting out of a table; a method that has no such setting
/// does not know it.
fn admits(entry: &Entry, given: &mut Table) -> Result<bool, MethodError> {
    if !entry.can_degenerate() {
        return Ok(false);
    }
    let Some(value) = given.remove(ALLOW_DEGENERATE.name) else { return Ok(false) };
    let own = Table::from_iter([(ALLOW_DEGENERATE.name.to_owned(), value)]);
    let resolved = resolve("method", &[ALLOW_DEGENERATE], &own)?;
    Ok(resolved.get(ALLOW_DEGENERATE.name) == Some(&Value::Boolean(true)))
}

/// What resolved hyper-parameters make of a method, if that is another method: a sentence for logs
/// and tables.
pub fn degenerate(name: &str, resolved: &Table) -> Option<String> {
    let entry = entry(name).ok()?;
    let (setting, becomes) = entry.degeneration(resolved)?;
    Some(format!("{setting} turns {} into {becomes}", entry.title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_builds_from_its_defaults_alone() {
        for entry in ZOO {
            let (method, resolved) = build(entry.name, &Table::new()).unwrap();
            assert_eq!(method.entry().name, entry.name);
            assert_eq!(resolved.len(), entry.keys.len(), "{}: a key without a default", entry.name);
            assert!(entry.generic || entry.personal);
        }
    }

    #[test]
    fn every_file_opens_alike() {
        for entry in ZOO {
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
        for (name, setting, becomes) in [
            ("fedprox", "mu = 0", "FedAvg"),
            ("fedavgm", "beta = 0", "FedAvg"),
            ("fedgen", "a = 0\nb = 0", "FedAvg"),
            ("ditto", "lambda = 0", "Local"),
            ("pfedme", "lambda = 0.0", "Local"),
            ("fedbabu", "finetune_epochs = 0", "without personal models"),
            ("scd", "lambda_g = 0\nlambda_p = 0", "Local"),
        ] {
            let error = build(name, &table(setting)).err().unwrap().to_string();
            assert!(error.contains(becomes) && error.contains("= 0`"), "{error}");
            assert!(
                error.contains("hint: ") && error.contains("allow_degenerate = true"),
                "{error}"
            );
            let (_, resolved) =
                build(name, &table(&format!("{setting}\nallow_degenerate = true"))).unwrap();
            assert!(degenerate(name, &resolved).unwrap().contains(becomes));
            // What it resolved to is accepted again, and an explicit no is a no.
            build(name, &resolved).unwrap();
            let no = table(&format!("{setting}\nallow_degenerate = false"));
            assert!(build(name, &no).is_err());
        }
        assert!(build("fedavg", &table("allow_degenerate = true")).is_err());
        assert_eq!(degenerate("ditto", &build("ditto", &Table::new()).unwrap().1), None);
    }

    #[test]
    fn names_are_unique_and_errors_suggest() {
        let mut names: Vec<_> = ZOO.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ZOO.len());
        let error = build("dito", &Table::new()).err().unwrap().to_string();
        assert!(error.contains("did you mean `ditto`?"), "{error}");
    }
}
