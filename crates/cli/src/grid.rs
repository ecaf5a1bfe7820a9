//! The grid of a sweep: axes such as `method.lambda=0.1,1`, and all their combinations.

use anyhow::bail;

/// Every combination of the axes, as `KEY=VALUE` lists; the last axis varies fastest.
pub(crate) fn combinations(axes: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut keys: Vec<&str> = Vec::new();
    for axis in axes {
        let (key, values) = parse(axis)?;
        if keys.contains(&key) {
            bail!(
                "`--grid {axis}`: `{key}` has an axis already\nhint: name all its values in one --grid {key}=V1,V2"
            );
        }
        keys.push(key);
        all = all
            .iter()
            .flat_map(|base| {
                values.iter().map(move |value| {
                    let mut next = base.clone();
                    next.push(format!("{key}={value}"));
                    next
                })
            })
            .collect();
    }
    Ok(all)
}

fn parse(axis: &str) -> anyhow::Result<(&str, Vec<&str>)> {
    let example = "hint: write --grid KEY=V1,V2, e.g. --grid method.lambda=0.1,1";
    let Some((key, values)) = axis.split_once('=') else {
        bail!("`--grid {axis}` has no `=`\n{example}");
    };
    let values = split(values);
    if values.is_empty() {
        bail!("`--grid {axis}` has no values\n{example}");
    }
    if let Some((i, twice)) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
        bail!("`--grid {axis}` names {twice} twice\nhint: remove value {} of it", i + 1);
    }
    Ok((key.trim(), values))
}

/// The parts between commas that stand outside brackets and quotes: lists are values too.
fn split(values: &str) -> Vec<&str> {
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
        let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
        let all = combinations(&axes).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|c| c.join(" ")).collect())
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
