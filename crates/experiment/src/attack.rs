//! `[[attack]]`: clients of a simulation that attack it, so that a defence can be measured.

use crate::section::{Decision, Section, given, key, whole};
use crate::{ExperimentError, Settings};
use formant_data::Federation;
use formant_methods::choice;
use formant_methods::schema::{Default as Preset, Key, Kind, SchemaError};
use formant_runtime::event::AttackInfo;
use formant_runtime::{Attack, AttackKind, Attacks, drawn};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// What one of them may say, besides `clients`.
pub(crate) const SECTION: Section = Section {
    complete,
    decisions: &[Decision { key: "kind", owners }],
    ..Section::new("attack", "Clients of a simulation that attack it.", KEYS)
};

/// How `formant init` shows it.
pub(crate) const EXAMPLE: &str = "\
# Clients that attack the simulation, one [[attack]] for each group of them; docs/FEDERATION.md has more.
# [[attack]]
# kind = \"sign-flip\"  # none, label-flip, sign-flip, scale, noise, little-is-enough or zeros
# share = 0.2         # of the clients, drawn by the seed; or clients = [3, 7]
# strength = 10.0     # how strong, in a measure of its own
# samples = 10000000  # the training samples that each claims to have
# from = 5            # the first round

";

const KEYS: &[Key] = &[
    key(
        "kind",
        Kind::Choice(Word::WORDS),
        Preset::Text(Word::SignFlip.word()),
        "what is sent in place of what was trained",
    ),
    key(
        SHARE,
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Unset,
        "share of the clients that attack, drawn by the seed",
    ),
    key(
        "strength",
        Kind::Above { min: 0.0, max: 1e6 },
        Preset::Unset,
        "how often as long an update is (sign-flip, 1 unless set; scale, 10), or how many deviations it is off \
         (noise, 1; little-is-enough, 1.5)",
    ),
    key(
        "samples",
        whole(1),
        Preset::Unset,
        "the training samples that each attacker claims; unset: those that it has",
    ),
    key("from", whole(1), Preset::Integer(1), "the first round in which they attack"),
];

const SHARE: &str = "share";
const CLIENTS: &str = "clients";

choice! {
    enum Word {
        None = "none",
        LabelFlip = "label-flip",
        SignFlip = "sign-flip",
        Scale = "scale",
        Noise = "noise",
        LittleIsEnough = "little-is-enough",
        Zeros = "zeros",
    }
}

impl Word {
    /// How strong it is unless somebody says otherwise.
    fn strength(self) -> Option<f64> {
        match self {
            Self::None | Self::LabelFlip | Self::Zeros => None,
            Self::SignFlip | Self::Noise => Some(1.0),
            Self::Scale => Some(10.0),
            Self::LittleIsEnough => Some(1.5),
        }
    }
}

/// The attacks for which a key means something.
fn owners(key: &str) -> Option<Vec<&'static str>> {
    let strong =
        [Word::SignFlip, Word::Scale, Word::Noise, Word::LittleIsEnough].map(Word::word).to_vec();
    (key == "strength").then_some(strong)
}

/// The strength that the attack has unless somebody says otherwise.
fn complete(table: &mut Table) {
    let kind = table.get("kind").cloned().and_then(|kind| kind.try_into::<Word>().ok());
    if let Some(strength) = kind.and_then(Word::strength) {
        table.entry("strength").or_insert(Value::Float(strength));
    }
}

/// One `[[attack]]` of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct AttackSetting {
    /// What they send.
    pub kind: AttackKind,
    /// Who they are.
    pub attackers: Attackers,
    /// The training samples that each claims.
    pub samples: Option<u64>,
    /// The first round.
    pub from: usize,
}

/// Who attacks.
#[derive(Debug, Clone, PartialEq)]
pub enum Attackers {
    /// These clients, ascending.
    Clients(Vec<usize>),
    /// A share of all, drawn by the seed.
    Share(f64),
}

#[derive(Serialize, Deserialize)]
struct Keys {
    kind: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strength: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    from: usize,
}

impl AttackSetting {
    fn parts(&self) -> (Word, Option<f64>) {
        match self.kind {
            AttackKind::None => (Word::None, None),
            AttackKind::LabelFlip => (Word::LabelFlip, None),
            AttackKind::SignFlip { strength } => (Word::SignFlip, Some(strength)),
            AttackKind::Scale { strength } => (Word::Scale, Some(strength)),
            AttackKind::Noise { strength } => (Word::Noise, Some(strength)),
            AttackKind::LittleIsEnough { strength } => (Word::LittleIsEnough, Some(strength)),
            AttackKind::Zeros => (Word::Zeros, None),
        }
    }

    /// What it is called in a file.
    pub(crate) fn word(&self) -> &'static str {
        self.parts().0.word()
    }
}

/// The `[[attack]]` entries of a file; one `[attack]` is a list of one.
pub(crate) fn read(file: &Table) -> Result<Vec<AttackSetting>, ExperimentError> {
    let entries = match file.get(SECTION.name) {
        Some(Value::Array(many)) if many.iter().all(Value::is_table) => {
            many.iter().filter_map(Value::as_table).cloned().collect()
        }
        Some(_) => vec![given(file, SECTION.name)?],
        None => Vec::new(),
    };
    entries.into_iter().map(one).collect()
}

fn one(mut entry: Table) -> Result<AttackSetting, ExperimentError> {
    let clients = entry.remove(CLIENTS).map(listed).transpose()?;
    let keys: Keys = SECTION.read(SECTION.resolve(&entry)?)?;
    let attackers = match (clients, keys.share) {
        (Some(clients), None) => Attackers::Clients(clients),
        (None, Some(share)) => Attackers::Share(share),
        (clients, _) => {
            let both = if clients.is_some() { "both" } else { "neither" };
            return Err(ExperimentError::combination(
                format!(
                    "an attack needs to know who attacks, and has {both} of `attack.clients` and `attack.share`"
                ),
                "set clients = [3, 7] or share = 0.2 in every [[attack]]",
            ));
        }
    };
    let strength = keys.strength.unwrap_or(1.0);
    let kind = match keys.kind {
        Word::None => AttackKind::None,
        Word::LabelFlip => AttackKind::LabelFlip,
        Word::SignFlip => AttackKind::SignFlip { strength },
        Word::Scale => AttackKind::Scale { strength },
        Word::Noise => AttackKind::Noise { strength },
        Word::LittleIsEnough => AttackKind::LittleIsEnough { strength },
        Word::Zeros => AttackKind::Zeros,
    };
    Ok(AttackSetting { kind, attackers, samples: keys.samples, from: keys.from })
}

/// Clients by their numbers.
fn listed(value: Value) -> Result<Vec<usize>, ExperimentError> {
    let shown = value.to_string();
    let mut clients: Vec<usize> = value.try_into().unwrap_or_default();
    clients.sort_unstable();
    clients.dedup();
    if clients.is_empty() {
        return Err(SchemaError::Type {
            path: format!("{}.{CLIENTS}", SECTION.name),
            value: shown,
            expected: "a list of clients by their numbers from 0, such as [3, 7]".into(),
            help: "`formant data show` lists the clients".into(),
        }
        .into());
    }
    Ok(clients)
}

/// Puts them into a file, if there are any.
pub(crate) fn put(attacks: &[AttackSetting], file: &mut Table) -> Result<(), ExperimentError> {
    let entries = attacks.iter().map(|attack| {
        let (kind, strength) = attack.parts();
        let share = match attack.attackers {
            Attackers::Share(share) => Some(share),
            Attackers::Clients(_) => None,
        };
        let keys = Keys { kind, share, strength, samples: attack.samples, from: attack.from };
        let mut entry = SECTION.write(&keys)?;
        if let Attackers::Clients(clients) = &attack.attackers {
            let clients = clients.iter().map(|client| Value::Integer(*client as i64));
            entry.insert(CLIENTS.into(), Value::Array(clients.collect()));
        }
        Ok(Value::Table(entry))
    });
    let entries = entries.collect::<Result<Vec<_>, ExperimentError>>()?;
    if !entries.is_empty() {
        file.insert(SECTION.name.into(), Value::Array(entries));
    }
    Ok(())
}

/// Who attacks whom, now that the clients are there.
pub(crate) fn plan(
    settings: &Settings,
    federation: &Federation,
) -> Result<Attacks, ExperimentError> {
    let count = federation.clients.len();
    let mut list: Vec<Attack> = Vec::new();
    for (place, attack) in settings.attacks.iter().enumerate() {
        let clients = match &attack.attackers {
            Attackers::Clients(clients) => clients.clone(),
            Attackers::Share(share) => drawn(settings.seed, place, *share, count),
        };
        if let Some(stranger) = clients.iter().find(|client| **client >= count) {
            return Err(ExperimentError::combination(
                format!("`attack.clients` names client {stranger}, and there are {count} clients"),
                format!("name clients from 0 to {}", count.saturating_sub(1)),
            ));
        }
        if let AttackKind::LittleIsEnough { .. } = attack.kind
            && clients.len() < 2
        {
            return Err(ExperimentError::combination(
                "`attack.kind = \"little-is-enough\"` takes the deviation of what its attackers train, and there is one attacker",
                "name two clients or more, or set a larger attack.share",
            ));
        }
        list.push(Attack {
            kind: attack.kind,
            clients,
            samples: attack.samples,
            from: attack.from,
        });
    }
    let dataset = &federation.dataset;
    let attacks = Attacks::new(list, &dataset.train, dataset.classes);
    if !settings.attacks.is_empty() && (0..count).all(|client| attacks.has(client)) {
        return Err(ExperimentError::combination(
            format!("all {count} clients attack, and nobody is left whose models could be scored"),
            "name fewer attack.clients, or set a smaller attack.share",
        ));
    }
    Ok(attacks)
}

/// What the log says of them.
pub(crate) fn told(settings: &[AttackSetting], attacks: &Attacks) -> Vec<AttackInfo> {
    let of = |(setting, attack): (&AttackSetting, &Attack)| AttackInfo {
        kind: setting.word().into(),
        clients: attack.clients.clone(),
        from: attack.from,
    };
    settings.iter().zip(attacks.list()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, OneMethod};
    use formant_methods::Zoo;

    fn parse(text: &str) -> Result<Experiment, String> {
        let text = format!("[data]\nclients = 5\n{text}\n[[method]]\nname = \"fedavg\"");
        let parsed = Experiment::parse(&text.parse().unwrap(), &[], &Zoo::standard());
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn attacks_are_written_as_they_are_read() {
        let text = "[[attack]]\nkind = \"scale\"\nclients = [3, 1, 3]\n\
            [[attack]]\nkind = \"zeros\"\nshare = 0.2\nsamples = 10000000\nfrom = 3";
        let experiment = parse(text).unwrap();
        let file = toml::to_string(&experiment.to_table()).unwrap();
        let again = Experiment::parse(&file.parse().unwrap(), &[], &Zoo::standard()).unwrap();
        assert_eq!(experiment, again);
        assert_eq!(Experiment::new(experiment.settings().clone()).unwrap(), experiment);
        let plan = experiment.plan().unwrap();
        let attacks = &plan.header.attacks;
        assert_eq!((attacks[0].kind.as_str(), &*attacks[0].clients), ("scale", &[1, 3][..]));
        assert_eq!((attacks[1].clients.len(), attacks[1].from), (1, 3));
        // Nobody who does not ask for it finds it in his file.
        assert!(!parse("").unwrap().to_table().contains_key("attack"));
        assert!(parse("").unwrap().plan().unwrap().header.attacks.is_empty());
    }

    #[test]
    fn an_attack_that_cannot_be_meant_is_refused() {
        for (text, expected) in [
            ("kind = \"scale\"", "an attack needs to know who attacks, and has neither"),
            ("share = 0.2\nclients = [1]", "an attack needs to know who attacks, and has both"),
            ("share = 0.2\nkind = \"bite\"", "`attack.kind = \"bite\"` is none of the choices"),
            (
                "clients = [1]\nkind = \"zeros\"\nstrength = 3",
                "`attack.strength = 3.0` does nothing",
            ),
            ("clients = []", "`attack.clients = []`"),
            ("clients = [7]", "`attack.clients` names client 7, and there are 5"),
            ("share = 1", "all 5 clients attack"),
            ("clients = [1]\nkind = \"little-is-enough\"", "`attack.kind = \"little-is-enough\"`"),
            ("clients = [1]\nkind = \"noise\"\nstrngth = 1", "unknown key `attack.strngth`"),
        ] {
            let parsed = parse(&format!("[[attack]]\n{text}"));
            let planned = parsed.and_then(|e| e.plan().map_err(|error| error.to_string()));
            let Err(error) = planned else { panic!("{text} is accepted") };
            assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn a_server_serves_no_experiment_with_attacks() {
        let experiment = parse("[[attack]]\nclients = [1]").unwrap();
        let error = OneMethod::new(experiment).unwrap_err().to_string();
        assert!(error.starts_with("`[[attack]]` with `kind = \"sign-flip\"` works in simulations"));
        assert!(error.contains("\nhint: remove [[attack]]"), "{error}");
    }
}
