//! The space of a search: for each key of a method, the values that may be tried and where to begin.

use formant_methods::schema::{Key, Kind};
use toml::{Table, Value};

/// Digits that a value keeps: settings are read by people, and equal ones must look equal.
const DIGITS: i32 = 3;

/// The keys of a method, each with its ladder of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Space(pub(super) Vec<Axis>);

/// One value for every key of a space.
pub(super) type Point = Vec<Value>;

/// One key and what it may be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Below the method, such as `["train", "learning_rate"]`.
    pub(super) path: Vec<String>,
    values: Values,
    start: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    /// Without an order: each is the neighbour of all others.
    Words(Vec<Value>),
    Numbers(Ladder),
}

/// Numbers in ascending order, which goes on beyond its ends by a factor if it has one.
#[derive(Debug, Clone, PartialEq)]
struct Ladder {
    rungs: Vec<f64>,
    whole: bool,
    times: Option<f64>,
    min: f64,
    max: f64,
    /// The range of the key itself, if that is known.
    limits: (f64, f64),
    /// Where the finer search stays: between these two, both excluded.
    within: Option<(f64, f64)>,
}

impl Space {
    /// Reads the keys of a method: `lambda = { start = 1.0, times = 3.0 }`, `tau = [0.02, 0.1, 1.0]`, and keys
    /// in sections as nested tables. `keys` is what is known of the method's own.
    pub(super) fn read(table: &Table, keys: &[Key]) -> Result<Self, String> {
        let mut axes = Vec::new();
        collect(table, &mut Vec::new(), keys, &mut axes)?;
        Ok(Self(axes))
    }

    /// Where a search begins.
    pub(super) fn start(&self) -> Point {
        self.0.iter().map(|axis| axis.start.clone()).collect()
    }

    /// A point as `key=value`s.
    pub(super) fn shown(&self, point: &Point) -> String {
        let pair = |(axis, value): (&Axis, &Value)| format!("{}={}", axis.key(), spelt(value));
        self.0.iter().zip(point).map(pair).collect::<Vec<_>>().join(" ")
    }

    /// A point as a method's table, sections nested.
    pub(super) fn table(&self, point: &Point) -> Table {
        let mut table = Table::new();
        for (axis, value) in self.0.iter().zip(point) {
            let Some((last, sections)) = axis.path.split_last() else { continue };
            let mut at = Some(&mut table);
            for section in sections {
                let empty = || Value::Table(Table::new());
                at = at
                    .and_then(|at| at.entry(section.clone()).or_insert_with(empty).as_table_mut());
            }
            if let Some(at) = at {
                at.insert(last.clone(), value.clone());
            }
        }
        table
    }

    /// Every value that the file itself names, each beside the start of the other keys.
    pub(super) fn named(&self) -> Vec<Point> {
        let mut all = vec![self.start()];
        for (place, axis) in self.0.iter().enumerate() {
            for value in axis.named() {
                let mut point = self.start();
                point[place] = value;
                all.push(point);
            }
        }
        all
    }

    /// Halves the steps of all numbers that have a factor, and leaves nothing but what lies between the
    /// neighbours of a point.
    pub(super) fn refine_around(&mut self, point: &Point) {
        for (axis, value) in self.0.iter_mut().zip(point) {
            match (&mut axis.values, number(value)) {
                (Values::Numbers(ladder), Some(value)) => ladder.refine_around(value),
                (Values::Words(words), _) => *words = vec![value.clone()],
                (Values::Numbers(_), None) => {}
            }
        }
    }
}

fn collect(
    table: &Table,
    path: &mut Vec<String>,
    keys: &[Key],
    axes: &mut Vec<Axis>,
) -> Result<(), String> {
    for (key, value) in table {
        path.push(key.clone());
        match value {
            Value::Table(inner)
                if !inner.contains_key("start") && !inner.contains_key("values") =>
            {
                collect(inner, path, keys, axes)?;
            }
            leaf => {
                let known = keys.iter().find(|known| path.len() == 1 && known.name == key);
                let axis = Axis::read(path, leaf, known.map(|key| key.kind));
                axes.push(axis.map_err(|why| format!("{}: {why}", path.join(".")))?);
            }
        }
        path.pop();
    }
    Ok(())
}

impl Axis {
    fn read(path: &[String], leaf: &Value, kind: Option<Kind>) -> Result<Self, String> {
        let empty = Table::new();
        let (list, options) = match leaf {
            Value::Array(list) => (list.clone(), &empty),
            Value::Table(options) => {
                let known = ["start", "values", "times", "min", "max"];
                if let Some(other) = options.keys().find(|key| !known.contains(&&***key)) {
                    return Err(format!("`{other}` is none of {}", known.join(", ")));
                }
                match options.get("values") {
                    Some(Value::Array(list)) => (list.clone(), options),
                    Some(other) => return Err(format!("`values = {other}` is no list")),
                    None => (options.get("start").cloned().into_iter().collect(), options),
                }
            }
            other => return Err(format!("{other} is neither a list nor a start with a factor")),
        };
        let path = path.to_vec();
        let given = options.get("start").cloned();
        let numbers: Option<Vec<f64>> = list.iter().map(number).collect();
        let Some(mut rungs) = numbers.filter(|numbers| !numbers.is_empty()) else {
            let start = given.or_else(|| list.first().cloned()).ok_or("it has no values")?;
            if options.keys().any(|key| ["times", "min", "max"].contains(&&**key)) {
                return Err("only numbers have a factor and bounds".into());
            }
            if !list.contains(&start) {
                return Err(format!("the start {start} is not among its values"));
            }
            return Ok(Self { path, values: Values::Words(list), start });
        };
        let option = |key: &str| match options.get(key) {
            None => Ok(None),
            Some(value) => number(value).map(Some).ok_or(format!("`{key} = {value}` is no number")),
        };
        let times = option("times")?;
        if times.is_some_and(|times| !(times.is_finite() && times > 1.0)) {
            return Err("`times` must be a factor above 1".into());
        }
        rungs.sort_by(f64::total_cmp);
        rungs.dedup();
        let whole = list.iter().all(Value::is_integer);
        let middle = rungs[(rungs.len() - 1) / 2];
        let start = option("start")?.unwrap_or(middle);
        if !rungs.contains(&start) {
            return Err(format!("the start {start} is not among its values"));
        }
        let limits = match kind {
            Some(Kind::Number { min, max } | Kind::Above { min, max }) => (min, max),
            Some(Kind::Integer { min, max }) => (min as f64, max as f64),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let (min, max) =
            (option("min")?.unwrap_or(f64::NEG_INFINITY), option("max")?.unwrap_or(f64::INFINITY));
        if min > max || rungs.iter().any(|rung| *rung < min || *rung > max) {
            return Err(format!("its values do not lie between {min} and {max}"));
        }
        let ladder = Ladder { rungs, whole, times, min, max, limits, within: None };
        let start = ladder.value(start);
        Ok(Self { path, values: Values::Numbers(ladder), start })
    }

    /// The key with dots.
    pub(super) fn key(&self) -> String {
        self.path.join(".")
    }

    /// In how many directions there may be neighbours.
    pub(super) fn directions(&self) -> usize {
        match &self.values {
            Values::Words(all) => all.len(),
            Values::Numbers(_) => 2,
        }
    }

    /// The neighbour of a value in a direction: of numbers the next one up or down, of words each of the others.
    pub(super) fn next(&mut self, value: &Value, direction: usize) -> Option<Value> {
        match &mut self.values {
            Values::Words(all) => all.get(direction).filter(|other| *other != value).cloned(),
            Values::Numbers(ladder) => {
                let next = ladder.next(number(value)?, direction == 0)?;
                Some(ladder.value(next))
            }
        }
    }

    /// Whether a value is the last of its list, though the key could be more, or less.
    pub(super) fn is_edge(&self, value: &Value) -> bool {
        match (&self.values, number(value)) {
            (Values::Numbers(ladder), Some(value)) => ladder.is_edge(value),
            _ => false,
        }
    }

    fn named(&self) -> Vec<Value> {
        match &self.values {
            Values::Words(all) => all.clone(),
            Values::Numbers(ladder) => ladder.rungs.iter().map(|x| ladder.value(*x)).collect(),
        }
    }
}

impl Ladder {
    fn value(&self, number: f64) -> Value {
        if self.whole { Value::Integer(number as i64) } else { Value::Float(number) }
    }

    fn next(&mut self, value: f64, up: bool) -> Option<f64> {
        let at = self.rungs.iter().position(|rung| *rung == value)?;
        let neighbour = if up { at.checked_add(1) } else { at.checked_sub(1) };
        let next = match neighbour.and_then(|at| self.rungs.get(at)) {
            Some(rung) => *rung,
            None => self.beyond(value, up)?,
        };
        let is_within = self.within.is_none_or(|(low, high)| low < next && next < high);
        is_within.then_some(next)
    }

    /// Another rung at one of the ends.
    fn beyond(&mut self, value: f64, up: bool) -> Option<f64> {
        let times = self.times.filter(|_| value > 0.0)?;
        let next = self.rounded(if up { value * times } else { value / times });
        let (low, high) = (self.min.max(self.limits.0), self.max.min(self.limits.1));
        // A step that would pass a bound ends there.
        let next = next.clamp(low, high);
        if next == value || next <= 0.0 || !next.is_finite() {
            return None;
        }
        let at = if up { self.rungs.len() } else { 0 };
        self.rungs.insert(at, next);
        Some(next)
    }

    fn rounded(&self, number: f64) -> f64 {
        if self.whole {
            return number.round();
        }
        let text = format!("{number:.*e}", (DIGITS - 1) as usize);
        text.parse().unwrap_or(number)
    }

    fn is_edge(&self, value: f64) -> bool {
        if self.times.is_some() && value > 0.0 {
            return false;
        }
        let (low, high) = (self.min.max(self.limits.0), self.max.min(self.limits.1));
        let first = self.rungs.first().is_some_and(|rung| *rung == value);
        let last = self.rungs.last().is_some_and(|rung| *rung == value);
        // Nothing is less than nothing: strengths and rates end at 0.
        first && value > low && value != 0.0
            || last && value < high && (self.rungs.len() > 1 || !first)
    }

    fn refine_around(&mut self, value: f64) {
        let Some(at) = self.rungs.iter().position(|rung| *rung == value) else { return };
        let below = at.checked_sub(1).map(|at| self.rungs[at]);
        let above = self.rungs.get(at + 1).copied();
        self.within = Some((below.unwrap_or(f64::NEG_INFINITY), above.unwrap_or(f64::INFINITY)));
        if self.times.is_none() {
            return;
        }
        for neighbour in [below, above].into_iter().flatten().filter(|x| *x > 0.0 && value > 0.0) {
            let half = self.rounded((neighbour * value).sqrt());
            if !self.rungs.contains(&half) {
                self.rungs.push(half);
            }
        }
        self.rungs.sort_by(f64::total_cmp);
    }
}

/// A number of either kind.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}

/// A value as the command line takes it.
pub(super) fn spelt(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => format!("{number}"),
        other => other.to_string(),
    }
}
