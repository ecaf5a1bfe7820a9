//! Descents and objectives as dictionaries: what an engine in Python reads.

use crate::error::raise;
use formant_numerics::{
    Band, Criterion, Descent, Form, Length, Loss, Moments, Objective, Optimiser, Part, Rule, Scope,
    Spectral, Term, Weight, Weighted,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::de::DeserializeOwned;
use std::num::NonZeroU32;

/// The word of a part.
pub(crate) fn part(part: Part) -> &'static str {
    match part {
        Part::All => "all",
        Part::Body => "body",
        Part::Head => "head",
    }
}

/// How steps go down.
pub(crate) fn descent<'py>(py: Python<'py>, of: &Descent) -> PyResult<Bound<'py, PyDict>> {
    let Optimiser { learning_rate, weight_decay, clip, rule } = of.optimiser;
    let told = PyDict::new(py);
    told.set_item("part", part(of.part))?;
    told.set_item("learning_rate", learning_rate)?;
    told.set_item("weight_decay", weight_decay)?;
    told.set_item("clip", clip)?;
    let by = PyDict::new(py);
    match rule {
        Rule::Sgd { momentum, nesterov } => {
            by.set_item("name", "sgd")?;
            by.set_item("momentum", momentum)?;
            by.set_item("nesterov", nesterov)?;
        }
        Rule::Adam(moments) | Rule::AdamW(moments) => {
            by.set_item("name", "adam")?;
            by.set_item("beta1", moments.mean)?;
            by.set_item("beta2", moments.square)?;
            by.set_item("epsilon", moments.epsilon)?;
            by.set_item("decoupled", matches!(rule, Rule::AdamW(_)))?;
        }
    }
    told.set_item("rule", by)?;
    Ok(told)
}

/// Labels as PyTorch wants them.
pub(crate) fn labels<'py>(py: Python<'py>, of: &[u32]) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_iter(py, of.iter().map(|label| i64::from(*label)))
}

/// Numbers in rows.
pub(crate) fn rows<'py>(
    py: Python<'py>,
    values: &[f32],
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let rows = values.len() / columns.max(1);
    PyArray1::from_slice(py, values).reshape([rows, columns])
}

/// Arrays for vectors as long as models, which serve phase after phase: new memory of that size costs more than filling it.
#[derive(Default)]
pub(crate) struct Vectors {
    kept: Vec<Py<PyArray1<f32>>>,
    used: usize,
}

impl Vectors {
    /// Whoever was told of the last objective is done with it.
    pub(crate) fn again(&mut self) -> &mut Self {
        self.used = 0;
        self
    }

    fn of<'py>(&mut self, py: Python<'py>, values: &[f32]) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let nth = self.used;
        self.used += 1;
        if let Some(kept) = self.kept.get(nth).map(|kept| kept.bind(py))
            && kept.len()? == values.len()
        {
            kept.try_readwrite()?.as_slice_mut()?.copy_from_slice(values);
            return Ok(kept.clone());
        }
        let made = PyArray1::from_slice(py, values);
        self.kept.truncate(nth);
        self.kept.push(made.clone().unbind());
        Ok(made)
    }
}

/// What steps minimise.
pub(crate) fn objective<'py>(
    py: Python<'py>,
    of: &Objective<'_>,
    (classes, features): (usize, usize),
    vectors: &mut Vectors,
) -> PyResult<Bound<'py, PyDict>> {
    let loss = PyDict::new(py);
    match of.loss {
        Loss::CrossEntropy => loss.set_item("name", "cross_entropy")?,
        Loss::Shifted { shift } => {
            loss.set_item("name", "shifted")?;
            loss.set_item("shift", PyArray1::from_slice(py, shift))?;
        }
        Loss::Guided { weight, targets } => {
            loss.set_item("name", "guided")?;
            loss.set_item("weight", weight)?;
            loss.set_item("targets", rows(py, targets, classes)?)?;
        }
    }
    let told = PyDict::new(py);
    told.set_item("loss", loss)?;
    told.set_item("smoothing", of.criterion.smoothing)?;
    told.set_item("weights", of.criterion.weights.map(|w| PyArray1::from_slice(py, w)))?;
    let terms = PyList::empty(py);
    for Weighted { weight, term: what } in of.terms.iter().filter(|t| !t.weight.is_zero()) {
        let told = PyDict::new(py);
        let by = PyDict::new(py);
        match *weight {
            Weight::Factor(factor) => by.set_item("factor", factor)?,
            Weight::Share(share) => by.set_item("share", share)?,
        }
        told.set_item("weight", by)?;
        told.set_item("term", term(py, what, features, vectors)?)?;
        terms.append(told)?;
    }
    told.set_item("terms", terms)?;
    Ok(told)
}

fn term<'py>(
    py: Python<'py>,
    of: &Term<'_>,
    columns: usize,
    vectors: &mut Vectors,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    match *of {
        Term::Proximal { anchor } => {
            told.set_item("name", "proximal")?;
            told.set_item("anchor", vectors.of(py, anchor)?)?;
        }
        Term::Linear { direction } => {
            told.set_item("name", "linear")?;
            told.set_item("direction", vectors.of(py, direction)?)?;
        }
        Term::Head { features, labels: of } => {
            told.set_item("name", "head")?;
            told.set_item("features", rows(py, features, columns)?)?;
            told.set_item("labels", labels(py, of))?;
        }
        Term::Spectral(Spectral {
            form,
            scope,
            length,
            tau,
            band,
            part: of,
            every,
            align,
            teacher,
        }) => {
            let word = |value: serde_json::Result<serde_json::Value>| match value {
                Ok(serde_json::Value::String(word)) => word,
                _ => String::new(),
            };
            told.set_item("name", "spectral")?;
            told.set_item("form", word(serde_json::to_value(form)))?;
            told.set_item("scope", word(serde_json::to_value(scope)))?;
            told.set_item("length", word(serde_json::to_value(length)))?;
            told.set_item("tau", tau)?;
            let (name, seed) = match band {
                Band::Low => ("low", None),
                Band::High => ("high", None),
                Band::Random(seed) => ("random", Some(seed)),
            };
            told.set_item("band", name)?;
            told.set_item("band_seed", seed)?;
            told.set_item("part", part(of))?;
            told.set_item("every", every.get())?;
            told.set_item("align", align)?;
            told.set_item("teacher", vectors.of(py, teacher)?)?;
        }
    }
    Ok(told)
}

/// The part that a word names.
pub(crate) fn read_part(py: Python<'_>, word: &str) -> PyResult<Part> {
    match word {
        "all" => Ok(Part::All),
        "body" => Ok(Part::Body),
        "head" => Ok(Part::Head),
        _ => Err(raise(
            py,
            format!("part = {word:?} is none\nhint: it is \"all\", \"body\" or \"head\""),
        )),
    }
}

/// The same of a dictionary from Python, for Formant's own engine.
pub(crate) fn read_descent(told: &Bound<'_, PyAny>) -> PyResult<Descent> {
    let get = |key: &str| told.get_item(key);
    let by = get("rule")?;
    let rule = if by.get_item("name")?.extract::<String>()? == "sgd" {
        Rule::Sgd {
            momentum: by.get_item("momentum")?.extract()?,
            nesterov: by.get_item("nesterov").and_then(|x| x.extract()).unwrap_or(false),
        }
    } else {
        let moments = Moments {
            mean: by.get_item("beta1")?.extract()?,
            square: by.get_item("beta2")?.extract()?,
            epsilon: by.get_item("epsilon")?.extract()?,
        };
        if by.get_item("decoupled")?.extract()? {
            Rule::AdamW(moments)
        } else {
            Rule::Adam(moments)
        }
    };
    let optimiser = Optimiser {
        learning_rate: get("learning_rate")?.extract()?,
        weight_decay: get("weight_decay")?.extract()?,
        clip: get("clip")?.extract()?,
        rule,
    };
    let part = read_part(told.py(), &get("part")?.extract::<String>()?)?;
    Ok(Descent { optimiser, part })
}

/// An objective whose vectors came from Python.
pub(crate) struct Owned {
    loss: OwnedLoss,
    smoothing: f32,
    weights: Option<Vec<f32>>,
    terms: Vec<(Weight, OwnedTerm)>,
}

enum OwnedLoss {
    CrossEntropy,
    Shifted(Vec<f32>),
    Guided(f32, Vec<f32>),
}

enum OwnedTerm {
    Proximal(Vec<f32>),
    Linear(Vec<f32>),
    Head(Vec<f32>, Vec<u32>),
    Spectral(Box<OwnedSpectral>),
}

struct OwnedSpectral {
    form: Form,
    scope: Scope,
    length: Length,
    tau: f64,
    band: Band,
    part: Part,
    every: NonZeroU32,
    align: bool,
    teacher: Vec<f32>,
}

fn vector(from: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    Ok(from.extract::<PyReadonlyArray1<'_, f32>>()?.as_slice()?.to_vec())
}

fn word<T: DeserializeOwned>(of: &Bound<'_, PyAny>, key: &str) -> PyResult<T> {
    let given: String = of.get_item(key)?.extract()?;
    serde_json::from_value(given.clone().into())
        .map_err(|error| raise(of.py(), format!("{key} = {given:?}: {error}")))
}

impl Owned {
    /// Reads what an engine in Python would get.
    pub(crate) fn read(told: &Bound<'_, PyAny>) -> PyResult<Self> {
        let loss = told.get_item("loss")?;
        let loss = match loss.get_item("name")?.extract::<String>()?.as_str() {
            "shifted" => OwnedLoss::Shifted(vector(&loss.get_item("shift")?)?),
            "guided" => {
                let targets: PyReadonlyArray2<'_, f32> = loss.get_item("targets")?.extract()?;
                OwnedLoss::Guided(loss.get_item("weight")?.extract()?, targets.as_slice()?.to_vec())
            }
            _ => OwnedLoss::CrossEntropy,
        };
        let weights: Option<PyReadonlyArray1<'_, f32>> = told.get_item("weights")?.extract()?;
        let weights = weights.map(|w| w.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let smoothing = told.get_item("smoothing")?.extract()?;
        Ok(Self { loss, smoothing, weights, terms: read_terms(&told.get_item("terms")?)? })
    }

    /// Nothing but terms, beside a loss that somebody else knows.
    pub(crate) fn of_terms(terms: &Bound<'_, PyAny>) -> PyResult<Self> {
        let terms = read_terms(terms)?;
        Ok(Self { loss: OwnedLoss::CrossEntropy, smoothing: 0.0, weights: None, terms })
    }

    /// Its terms.
    pub(crate) fn terms(&self) -> Vec<Weighted<'_>> {
        let terms = self.terms.iter().map(|(weight, term)| {
            weight.of(match term {
                OwnedTerm::Proximal(anchor) => Term::Proximal { anchor },
                OwnedTerm::Linear(direction) => Term::Linear { direction },
                OwnedTerm::Head(features, labels) => Term::Head { features, labels },
                OwnedTerm::Spectral(s) => Term::Spectral(Spectral {
                    form: s.form,
                    scope: s.scope,
                    length: s.length,
                    tau: s.tau,
                    band: s.band,
                    part: s.part,
                    every: s.every,
                    align: s.align,
                    teacher: &s.teacher,
                }),
            })
        });
        terms.collect()
    }

    /// The lengths of the vectors that belong to models, for whoever must check them.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.terms.iter().filter_map(|(_, term)| match term {
            OwnedTerm::Proximal(vector) | OwnedTerm::Linear(vector) => Some(vector.len()),
            OwnedTerm::Spectral(spectral) => Some(spectral.teacher.len()),
            OwnedTerm::Head(..) => None,
        })
    }

    /// All of it, with terms that were asked for before.
    pub(crate) fn objective<'a>(&'a self, terms: &'a [Weighted<'a>]) -> Objective<'a> {
        let loss = match &self.loss {
            OwnedLoss::CrossEntropy => Loss::CrossEntropy,
            OwnedLoss::Shifted(shift) => Loss::Shifted { shift },
            OwnedLoss::Guided(weight, targets) => Loss::Guided { weight: *weight, targets },
        };
        let criterion = Criterion { smoothing: self.smoothing, weights: self.weights.as_deref() };
        Objective { loss, criterion, terms }
    }
}

fn read_terms(terms: &Bound<'_, PyAny>) -> PyResult<Vec<(Weight, OwnedTerm)>> {
    terms.try_iter()?.map(|told| read_term(&told?)).collect()
}

fn read_term(told: &Bound<'_, PyAny>) -> PyResult<(Weight, OwnedTerm)> {
    let (weight, term) = (told.get_item("weight")?, told.get_item("term")?);
    let weight = match weight.get_item("factor") {
        Ok(factor) => Weight::Factor(factor.extract()?),
        Err(_) => Weight::Share(weight.get_item("share")?.extract()?),
    };
    let get = |key: &str| term.get_item(key);
    let read = match get("name")?.extract::<String>()?.as_str() {
        "proximal" => OwnedTerm::Proximal(vector(&get("anchor")?)?),
        "linear" => OwnedTerm::Linear(vector(&get("direction")?)?),
        "head" => {
            let features: PyReadonlyArray2<'_, f32> = get("features")?.extract()?;
            let labels: PyReadonlyArray1<'_, i64> = get("labels")?.extract()?;
            let labels = labels.as_slice()?.iter().map(|label| *label as u32).collect();
            OwnedTerm::Head(features.as_slice()?.to_vec(), labels)
        }
        _ => {
            let band = match get("band")?.extract::<String>()?.as_str() {
                "low" => Band::Low,
                "high" => Band::High,
                "random" => Band::Random(get("band_seed")?.extract()?),
                other => {
                    return Err(raise(
                        told.py(),
                        format!(
                            "band = {other:?} is none\nhint: it is \"low\", \"high\" or \"random\""
                        ),
                    ));
                }
            };
            let every = NonZeroU32::new(get("every")?.extract()?).unwrap_or(NonZeroU32::MIN);
            OwnedTerm::Spectral(Box::new(OwnedSpectral {
                form: word(&term, "form")?,
                scope: word(&term, "scope")?,
                length: word(&term, "length")?,
                tau: get("tau")?.extract()?,
                band,
                part: read_part(told.py(), &get("part")?.extract::<String>()?)?,
                every,
                align: get("align")?.extract()?,
                teacher: vector(&get("teacher")?)?,
            }))
        }
    };
    Ok((weight, read))
}
