//! Keys of a configuration section: one table from which defaults, ranges, errors and help derive.

use toml::{Table, Value};

/// What a key may hold.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A number between two bounds, which belong to the range.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A number above a bound, which does not belong to the range, up to another, which does.
    Above {
        /// Must be exceeded.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A whole number.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// One of a few words; [`choice!`](crate::choice!) makes an enum of them.
    Choice(&'static [&'static str]),
    /// A list of some of a few words: one at least, none twice.
    Choices(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// Any text.
    Text,
    /// Text in a form of its own, such as a size with its unit.
    Form(&'static Form),
    /// Whole numbers from 1.
    Integers,
    /// Texts.
    Texts,
    /// A table whose content somebody else checks.
    Table,
    /// Numbers above 0, or a word that stands for some.
    Numbers {
        /// The word.
        word: &'static str,
    },
}

/// A way to write something as text.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What is written, with an example.
    pub description: &'static str,
    /// Whether a text has the form.
    pub accepts: fn(&str) -> bool,
}

/// The value a key has when nobody sets it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// A number.
    Number(f64),
    /// A whole number.
    Integer(i64),
    /// A word or text.
    Text(&'static str),
    /// A list of words.
    Texts(&'static [&'static str]),
    /// `true` or `false`.
    Flag(bool),
    /// Absent: the help says what that means.
    Unset,
    /// There is no sensible default.
    Required,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// The paper's symbol, or nothing.
    pub symbol: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// What it holds when nobody sets it.
    pub default: Default,
    /// One sentence.
    pub help: &'static str,
}

/// A wrong key or value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// A key that does not exist.
    #[error("unknown key `{path}`\nhint: {hint}")]
    Unknown {
        /// Section and key.
        path: String,
        /// The nearest known key, or the list.
        hint: String,
    },
    /// A value of another type.
    #[error("`{path} = {value}` is not {expected}\nhint: {help}")]
    Type {
        /// Section and key.
        path: String,
        /// What was given.
        value: String,
        /// What it should be.
        expected: String,
        /// What the key means.
        help: String,
    },
    /// A word that is not among the choices.
    #[error("`{path} = {value}` is none of the choices\nhint: {hint}")]
    Choice {
        /// Section and key.
        path: String,
        /// What was given.
        value: String,
        /// The nearest choice, and all of them.
        hint: String,
    },
    /// A value outside its range.
    #[error("`{path} = {value}` is outside its range\nhint: it must be {expected}; {help}")]
    Range {
        /// Section and key.
        path: String,
        /// What was given.
        value: String,
        /// What it should be.
        expected: String,
        /// What the key means.
        help: String,
    },
    /// A key without a default that nobody set.
    #[error("`{path}` is not set\nhint: it must be {expected}; {help}")]
    Missing {
        /// Section and key.
        path: String,
        /// What it should be.
        expected: String,
        /// What the key means.
        help: String,
    },
}

impl Kind {
    /// The allowed values in words.
    pub fn describe(&self) -> String {
        match *self {
            Self::Number { min, max: f64::INFINITY } => format!("a number, at least {min}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Above { min, max: f64::INFINITY } => format!("a number above {min}"),
            Self::Above { min, max } => format!("a number above {min} and at most {max}"),
            Self::Integer { min, max: i64::MAX } => format!("a whole number, at least {min}"),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Choice(words) => format!("one of {}", quoted(words)),
            Self::Choices(words) => format!("a list of some of {}, none twice", quoted(words)),
            Self::Flag => "true or false".into(),
            Self::Text => "text in quotes".into(),
            Self::Form(form) => form.description.into(),
            Self::Integers => "a list of whole numbers, each at least 1, such as [200, 100]".into(),
            Self::Texts => "a list of texts in quotes".into(),
            Self::Table => "a table".into(),
            Self::Numbers { word } => {
                format!("\"{word}\", or a list of numbers above 0, such as [1, 2.5]")
            }
        }
    }

    /// The value in canonical form, `None` if it has another type, or whether it is in range.
    fn read(&self, value: &Value) -> Option<(Value, bool)> {
        let number = || number(value);
        Some(match *self {
            Self::Number { min, max } => {
                let x = number()?;
                (Value::Float(x), x.is_finite() && x >= min && x <= max)
            }
            Self::Above { min, max } => {
                let x = number()?;
                (Value::Float(x), x.is_finite() && x > min && x <= max)
            }
            Self::Integer { min, max } => {
                let x = value.as_integer()?;
                (Value::Integer(x), x >= min && x <= max)
            }
            Self::Choice(words) => {
                let word = value.as_str()?;
                (value.clone(), words.contains(&word))
            }
            Self::Choices(words) => {
                let list = value.as_array()?;
                let given = list.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
                let fits = |(i, word)| words.contains(word) && !given[..i].contains(word);
                (value.clone(), !given.is_empty() && given.iter().enumerate().all(fits))
            }
            Self::Flag => (Value::Boolean(value.as_bool()?), true),
            Self::Text => (Value::String(value.as_str()?.into()), true),
            Self::Form(form) => (value.clone(), (form.accepts)(value.as_str()?)),
            Self::Integers => {
                let list = value.as_array()?;
                let numbers = list.iter().map(Value::as_integer).collect::<Option<Vec<_>>>()?;
                (value.clone(), !numbers.is_empty() && numbers.iter().all(|x| *x >= 1))
            }
            Self::Texts => {
                let list = value.as_array()?;
                (value.clone(), list.iter().all(Value::is_str))
            }
            Self::Table => (Value::Table(value.as_table()?.clone()), true),
            Self::Numbers { word } => {
                if let Some(given) = value.as_str() {
                    return Some((value.clone(), given == word));
                }
                let list = value.as_array()?;
                let numbers = list.iter().map(self::number).collect::<Option<Vec<_>>>()?;
                let fine = !numbers.is_empty() && numbers.iter().all(|x| x.is_finite() && *x > 0.0);
                (Value::Array(numbers.into_iter().map(Value::Float).collect()), fine)
            }
        })
    }
}

impl Kind {
    /// The word of a value that is none of the choices, and these.
    fn stranger<'v>(&self, value: &'v Value) -> Option<(&'v str, &'static [&'static str])> {
        let (given, words) = match *self {
            Self::Choice(words) => (value.as_str(), words),
            Self::Choices(words) => {
                let list = value.as_array().into_iter().flatten();
                (list.filter_map(Value::as_str).find(|word| !words.contains(word)), words)
            }
            _ => return None,
        };
        Some((given?, words))
    }
}

/// Any number.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Integer(x) => Some(*x as f64),
        _ => None,
    }
}

impl Key {
    /// The default as a TOML value.
    pub fn default_value(&self) -> Option<Value> {
        match self.default {
            Default::Number(x) => Some(Value::Float(x)),
            Default::Integer(x) => Some(Value::Integer(x)),
            Default::Text(x) => Some(Value::String(x.into())),
            Default::Texts(words) => {
                let words = words.iter().map(|word| Value::String((*word).into()));
                Some(Value::Array(words.collect()))
            }
            Default::Flag(x) => Some(Value::Boolean(x)),
            Default::Unset | Default::Required => None,
        }
    }
}

/// Checks a section against its keys and fills in the defaults.
pub fn resolve(section: &str, keys: &[Key], given: &Table) -> Result<Table, SchemaError> {
    let path =
        |key: &str| if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    for key in given.keys() {
        if !keys.iter().any(|k| k.name == key) {
            let hint = suggest(key, keys.iter().map(|k| k.name), "keys");
            return Err(SchemaError::Unknown { path: path(key), hint });
        }
    }
    let mut resolved = Table::new();
    for key in keys {
        let (path, help) = (path(key.name), key.help.to_owned());
        let Some(value) = given.get(key.name) else {
            match key.default_value() {
                Some(value) => {
                    resolved.insert(key.name.into(), value);
                }
                None if key.default == Default::Required => {
                    return Err(SchemaError::Missing { path, expected: key.kind.describe(), help });
                }
                None => {}
            }
            continue;
        };
        let (shown, expected) = (value.to_string(), key.kind.describe());
        match key.kind.read(value) {
            None => return Err(SchemaError::Type { path, value: shown, expected, help }),
            Some((_, false)) => {
                if let Some((given, words)) = key.kind.stranger(value) {
                    let hint = suggest(given, words.iter().copied(), "choices");
                    return Err(SchemaError::Choice { path, value: shown, hint });
                }
                return Err(SchemaError::Range { path, value: shown, expected, help });
            }
            Some((value, true)) => {
                resolved.insert(key.name.into(), value);
            }
        }
    }
    Ok(resolved)
}

/// "did you mean …?" for the nearest name, or the list of all.
///
/// ```
/// use formant_methods::schema::suggest;
/// let hint = suggest("sdc", ["local", "scd"].into_iter(), "methods");
/// assert_eq!(hint, "did you mean `scd`? the methods are `local`, `scd`");
/// assert_eq!(suggest("x", ["tau", "blend", "blend"].into_iter(), "keys"), "the keys are `tau`, `blend`");
/// ```
pub fn suggest<'n>(
    given: &str,
    known: impl Iterator<Item = &'n str> + Clone,
    what: &str,
) -> String {
    let nearest = known
        .clone()
        .map(|name| (likeness(given, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.75);
    let mut all = Vec::new();
    for name in known {
        // Several methods may have a key of one name.
        if !all.contains(&name) {
            all.push(name);
        }
    }
    match nearest {
        Some((_, name)) => format!("did you mean `{name}`? the {what} are {}", quoted(&all)),
        None => format!("the {what} are {}", quoted(&all)),
    }
}

/// How alike two names are, from 0 to 1: a slip of the keyboard counts little, and so does a part
/// left out (`rate` for `learning_rate`).
fn likeness(given: &str, name: &str) -> f64 {
    let (given, name) = (given.to_lowercase(), name.to_lowercase());
    let slip = if given.len() > 2 && strsim::osa_distance(&given, &name) == 1 { 0.9 } else { 0.0 };
    let share = 0.2 * given.len() as f64 / name.len().max(1) as f64;
    let part = if given.len() > 2 && name.contains(&given) { 0.75 + share } else { 0.0 };
    strsim::jaro_winkler(&given, &name).max(slip).max(part)
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] = &[
        Key {
            name: "lambda_p",
            symbol: "λ_p",
            kind: Kind::Number { min: 0.0, max: f64::INFINITY },
            default: Default::Number(1.0),
            help: "strength",
        },
        Key {
            name: "form",
            symbol: "",
            kind: Kind::Choice(&["raw", "complex"]),
            default: Default::Text("raw"),
            help: "form",
        },
        Key {
            name: "tau",
            symbol: "τ",
            kind: Kind::Above { min: 0.0, max: 1.0 },
            default: Default::Required,
            help: "ratio",
        },
    ];

    fn error(text: &str) -> String {
        resolve("method", KEYS, &text.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_filled_in_and_integers_become_numbers() {
        let table = resolve("method", KEYS, &"tau = 1\nlambda_p = 3".parse().unwrap()).unwrap();
        assert_eq!(table.to_string(), "lambda_p = 3.0\nform = \"raw\"\ntau = 1.0\n");
    }

    #[test]
    fn slips_parts_and_case_are_recognised() {
        let nearest = |given| {
            suggest(
                given,
                ["learning_rate", "personal_learning_rate", "SCD", "tau"].into_iter(),
                "keys",
            )
        };
        assert!(nearest("rate").starts_with("did you mean `learning_rate`?"));
        assert!(nearest("sdc").starts_with("did you mean `SCD`?"));
        assert!(nearest("lerning_rate").starts_with("did you mean `learning_rate`?"));
        assert!(nearest("gamma").starts_with("the keys are"));
        assert!(nearest("").starts_with("the keys are"));
    }

    #[test]
    fn errors_name_the_key_the_value_the_range_and_the_nearest_key() {
        assert_eq!(
            error("lamda_p = 1\ntau = 1"),
            "unknown key `method.lamda_p`\nhint: did you mean `lambda_p`? the keys are `lambda_p`, `form`, `tau`"
        );
        assert_eq!(
            error("tau = 0"),
            "`method.tau = 0` is outside its range\nhint: it must be a number above 0 and at most 1; ratio"
        );
        assert_eq!(
            error("tau = 1\nlambda_p = \"a\""),
            "`method.lambda_p = \"a\"` is not a number, at least 0\nhint: strength"
        );
        assert_eq!(
            error("tau = 1\nlambda_p = nan"),
            "`method.lambda_p = nan` is outside its range\nhint: it must be a number, at least 0; strength"
        );
        assert_eq!(
            error("tau = 1\nform = \"rav\""),
            "`method.form = \"rav\"` is none of the choices\nhint: did you mean `raw`? the choices are `raw`, `complex`"
        );
        assert_eq!(
            error(""),
            "`method.tau` is not set\nhint: it must be a number above 0 and at most 1; ratio"
        );
    }
}
