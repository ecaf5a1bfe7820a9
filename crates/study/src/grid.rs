//! The grid of a sweep: axes such as `method.lambda=0.1,1`, and all their combinations.

use crate::StudyError;
use formant_experiment::{ExperimentError, Override};
use std::fmt;

/// Keys, each with the values to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid(Vec<Axis>);

/// One key and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Axis {
    key: String,
    values: Vec<String>,
}

/// One value for every key of a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Combination(Vec<String>);

impl Grid {
    /// Reads axes such as `method.lambda=0.1,1`. Lists and texts in quotes are values too.
    pub fn parse(axes: &[impl AsRef<str>]) -> Result<Self, StudyError> {
        let mut all: Vec<Axis> = Vec::new();
        for text in axes.iter().map(AsRef::as_ref) {
            let axis = Axis::parse(text)?;
            if all.iter().any(|other| other.key == axis.key) {
                return Err(StudyError::KeyTwice { axis: text.into(), key: axis.key });
            }
            all.push(axis);
        }
        Ok(Self(all))
    }

    /// Every combination of the axes; the last axis varies fastest.
    pub fn combinations(&self) -> Vec<Combination> {
        let mut all = vec![Combination(Vec::new())];
        for Axis { key, values } in &self.0 {
            let with = |base: &Combination, value: &String| {
                let mut next = base.clone();
                next.0.push(format!("{key}={value}"));
                next
            };
            all = all.iter().flat_map(|base| values.iter().map(move |v| with(base, v))).collect();
        }
        all
    }
}

impl Combination {
    /// The combination as changes to an experiment.
    pub fn changes(&self) -> Result<Vec<Override>, ExperimentError> {
        self.0.iter().map(|change| Override::parse(change)).collect()
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Axis {
    fn parse(axis: &str) -> Result<Self, StudyError> {
        let Some((key, values)) = axis.split_once('=') else {
            return Err(StudyError::NoKey { axis: axis.into() });
        };
        let values = split(values);
        if values.is_empty() {
            return Err(StudyError::NoValues { axis: axis.into() });
        }
        let again = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value));
        if let Some((i, value)) = again {
            let (axis, value) = (axis.into(), (*value).into());
            return Err(StudyError::ValueTwice { axis, value, place: i + 1 });
        }
        Ok(Self { key: key.trim().into(), values: values.into_iter().map(Into::into).collect() })
    }
}

/// The parts between commas that stand outside brackets and quotes: lists are values too.
pub(crate) fn split(values: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut from) = (0usize, None, 0);
    let mut parts = Vec::new();
    for (at, c) in values.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&values[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&values[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(axes: &[&str]) -> Result<Vec<String>, String> {
        let grid = Grid::parse(axes).map_err(|error| error.to_string())?;
        Ok(grid.combinations().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn all_combinations_in_order() {
        assert_eq!(
            of(&[" a = 1, 2,", "b=x,y"]).unwrap(),
            ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]
        );
        assert_eq!(
            of(&["network.hidden=[200,100],[50]", "name='a,b',\"c\""]).unwrap(),
            [
                "network.hidden=[200,100] name='a,b'",
                "network.hidden=[200,100] name=\"c\"",
                "network.hidden=[50] name='a,b'",
                "network.hidden=[50] name=\"c\"",
            ]
        );
    }

    #[test]
    fn a_bad_axis_is_quoted() {
        for (axes, expected) in [
            (&["lambda"][..], "`--grid lambda` has no `=`"),
            (&["lambda="], "`--grid lambda=` has no values"),
            (&["lambda=1,2,1"], "`--grid lambda=1,2,1` names 1 twice"),
            (&["a=1", "a=2"], "`--grid a=2`: `a` has an axis already"),
        ] {
            let error = of(axes).unwrap_err();
            assert!(error.starts_with(expected) && error.contains("\nhint: "), "{error}");
        }
    }
}
