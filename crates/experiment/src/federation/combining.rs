//! The keys of `[federation]` that say how uploads become one, and who is believed.

use crate::section::{key, whole};
use crate::{ExperimentError, Settings};
use formant_federation::{Protocol, Schedule};
use formant_methods::choice;
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_runtime::{Rule, krum_fault};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The key on which the others depend.
pub(crate) const KEY: &str = "combine";

/// No client outvotes all others together.
pub(crate) const SHARE: f64 = 0.5;

const CLIP_DEFAULT: f64 = 1.0;
const TRIM_DEFAULT: f64 = 0.2;
const ATTACKERS_DEFAULT: usize = 1;
const SELECTED_DEFAULT: usize = 1;
const STEPS_DEFAULT: usize = 10;

pub(super) const COMBINE: Key = key(
    KEY,
    Kind::Choice(Word::WORDS),
    Preset::Text(Word::Mean.word()),
    "how uploads become one: mean: weighted by samples; clipped: the mean of updates that are not much longer than the median one; \
     median, trimmed-mean: of each coordinate, without weights; krum: of the uploads nearest to their neighbours, without weights; \
     geometric-median: weighted by samples",
);

pub(super) const CLIP: Key = key(
    "clip",
    Kind::Above { min: 0.0, max: 1e6 },
    Preset::Unset,
    "with combine = \"clipped\": the longest update, as a multiple of the round's median norm; 1 unless set",
);

pub(super) const TRIM: Key = key(
    "trim",
    Kind::Number { min: 0.0, max: 0.49 },
    Preset::Unset,
    "with combine = \"trimmed-mean\": share of the uploads left out at either end of each coordinate; 0.2 unless set",
);

pub(super) const ATTACKERS: Key = key(
    "krum_attackers",
    whole(0),
    Preset::Unset,
    "with combine = \"krum\": f, the attackers withstood, for which a round needs 2f + 3 uploads; 1 unless set",
);

pub(super) const SELECTED: Key = key(
    "krum_selected",
    whole(1),
    Preset::Unset,
    "with combine = \"krum\": m, the uploads that are averaged, more than 1 for Multi-Krum; 1 unless set",
);

pub(super) const STEPS: Key = key(
    "weiszfeld_steps",
    Kind::Integer { min: 1, max: 1_000 },
    Preset::Unset,
    "with combine = \"geometric-median\": steps of Weiszfeld's algorithm; 10 unless set",
);

pub(super) const MAX_SHARE: Key = key(
    "max_share",
    Kind::Number { min: 0.01, max: 1.0 },
    Preset::Number(SHARE),
    "the greatest share of a round's weight that one upload may have, whatever samples its client claims; 1: any",
);

choice! {
    enum Word {
        Mean = "mean",
        Clipped = "clipped",
        Median = "median",
        TrimmedMean = "trimmed-mean",
        Krum = "krum",
        GeometricMedian = "geometric-median",
    }
}

/// The ways of combining for which a key means something.
pub(super) fn owners(key: &str) -> Option<Vec<&'static str>> {
    let word = if key == CLIP.name {
        Word::Clipped
    } else if key == TRIM.name {
        Word::TrimmedMean
    } else if key == ATTACKERS.name || key == SELECTED.name {
        Word::Krum
    } else if key == STEPS.name {
        Word::GeometricMedian
    } else {
        return None;
    };
    Some(vec![word.word()])
}

/// What the rule that is chosen needs and nobody has set. What everybody has need not be written, so that
/// logs and keys of results stay what they were.
pub(super) fn complete(table: &mut Table) {
    let chosen = table.get(KEY).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (key, preset) in [
        (CLIP, Value::Float(CLIP_DEFAULT)),
        (TRIM, Value::Float(TRIM_DEFAULT)),
        (ATTACKERS, Value::Integer(ATTACKERS_DEFAULT as i64)),
        (SELECTED, Value::Integer(SELECTED_DEFAULT as i64)),
        (STEPS, Value::Integer(STEPS_DEFAULT as i64)),
    ] {
        if owners(key.name).is_some_and(|owners| owners.contains(&&*chosen)) {
            table.entry(key.name).or_insert(preset);
        }
    }
    // A mean with a key of another rule is about to be refused.
    let alone = !table.keys().any(|key| owners(key).is_some());
    table.retain(|key, value| match key {
        KEY => !(alone && value.as_str() == Some(Word::Mean.word())),
        "max_share" => *value != Value::Float(SHARE),
        _ => true,
    });
}

/// The keys of the section that are written here.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Keys {
    #[serde(skip_serializing_if = "Option::is_none")]
    combine: Option<Word>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trim: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    krum_attackers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    krum_selected: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weiszfeld_steps: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_share: Option<f64>,
}

impl Keys {
    pub(super) fn rule(&self) -> Rule {
        match self.combine.unwrap_or(Word::Mean) {
            Word::Mean => Rule::Mean,
            Word::Clipped => Rule::Clipped { clip: self.clip.unwrap_or(CLIP_DEFAULT) },
            Word::Median => Rule::Median,
            Word::TrimmedMean => Rule::TrimmedMean { trim: self.trim.unwrap_or(TRIM_DEFAULT) },
            Word::Krum => Rule::Krum {
                attackers: self.krum_attackers.unwrap_or(ATTACKERS_DEFAULT),
                selected: self.krum_selected.unwrap_or(SELECTED_DEFAULT),
            },
            Word::GeometricMedian => {
                Rule::GeometricMedian { steps: self.weiszfeld_steps.unwrap_or(STEPS_DEFAULT) }
            }
        }
    }

    pub(super) fn max_share(&self) -> f64 {
        self.max_share.unwrap_or(SHARE)
    }

    pub(super) fn of(rule: Rule, max_share: f64) -> Self {
        let max_share = (max_share != SHARE).then_some(max_share);
        let combine = (rule != Rule::Mean).then_some(word(rule));
        let keys = Self { combine, max_share, ..Self::default() };
        match rule {
            Rule::Mean | Rule::Median => keys,
            Rule::Clipped { clip } => Self { clip: Some(clip), ..keys },
            Rule::TrimmedMean { trim } => Self { trim: Some(trim), ..keys },
            Rule::Krum { attackers, selected } => {
                Self { krum_attackers: Some(attackers), krum_selected: Some(selected), ..keys }
            }
            Rule::GeometricMedian { steps } => Self { weiszfeld_steps: Some(steps), ..keys },
        }
    }
}

fn word(rule: Rule) -> Word {
    match rule {
        Rule::Mean => Word::Mean,
        Rule::Clipped { .. } => Word::Clipped,
        Rule::Median => Word::Median,
        Rule::TrimmedMean { .. } => Word::TrimmedMean,
        Rule::Krum { .. } => Word::Krum,
        Rule::GeometricMedian { .. } => Word::GeometricMedian,
    }
}

/// Refuses a rule that cannot work with so many uploads, and methods that would not ask for it.
pub(crate) fn check(settings: &Settings, protocol: &Protocol) -> Result<(), ExperimentError> {
    let rule = settings.federation.combine;
    if rule == Rule::Mean {
        return Ok(());
    }
    let word = word(rule).word();
    // A baseline that never uploads, such as Local, may stand beside the others.
    let combines = settings.methods.iter().any(|setting| setting.method.method.combines());
    if let Some(setting) = settings.methods.first().filter(|_| !combines) {
        return Err(ExperimentError::combination(
            format!(
                "`federation.combine = \"{word}\"` does nothing to `{}`, whose server does not average uploads",
                setting.label
            ),
            "compare methods whose server does, or remove federation.combine",
        ));
    }
    let uploads = match protocol.schedule {
        Schedule::Buffered { size } => size,
        _ => protocol.needed(protocol.participants_a_round()),
    };
    if let Rule::Krum { attackers, selected } = rule
        && let Some(fault) = krum_fault(attackers, selected, uploads)
    {
        return Err(ExperimentError::combination(
            format!(
                "`federation.combine = \"krum\"` with `krum_attackers = {attackers}` and `krum_selected = {selected}` {fault}"
            ),
            "set federation.krum_attackers or federation.krum_selected lower, have more clients take part (train.participation, federation.quorum, federation.buffer), or choose another federation.combine",
        ));
    }
    Ok(())
}
