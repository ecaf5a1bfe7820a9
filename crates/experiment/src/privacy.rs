//! `[privacy]`: what uploads may reveal of their clients.

use crate::federation::combining;
use crate::section::{Decision, Section, key, symbol};
use crate::{ExperimentError, Rules, Settings};
use formant_federation::{Draw, Protocol};
use formant_methods::choice;
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::Network;
use formant_runtime::event::{NoiseSource, Place};
use formant_runtime::{Privacy as Plan, Rule};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) const SECTION: Section = Section {
    complete,
    decisions: &[Decision { key: WHERE, owners }],
    optional: true,
    ..Section::new(
        "privacy",
        "Client-level differential privacy: what uploads may reveal of their clients (docs/PRIVACY.md).",
        KEYS,
    )
};

const WHERE: &str = "where";
const SAMPLING: &str = "sampling";

const KEYS: &[Key] = &[
    key(
        WHERE,
        Kind::Choice(Whereabouts::WORDS),
        Preset::Text(Whereabouts::Off.word()),
        "off; server: it clips every upload's change and adds noise to their sum once, so that the models it gives away reveal little, and clients trust it; client: each clips and adds noise itself before it sends, so that nobody need be trusted",
    ),
    symbol(
        "C",
        key(
            "clip",
            Kind::Above { min: 0.0, max: 1e9 },
            Preset::Unset,
            "norm to which the change of an upload is clipped: all that it may be longer is lost",
        ),
    ),
    symbol(
        "z",
        key(
            "noise_multiplier",
            Kind::Number { min: 1e-3, max: 1e6 },
            Preset::Unset,
            "standard deviation of the noise in each parameter, as a multiple of clip",
        ),
    ),
    symbol(
        "ε",
        key(
            "target_epsilon",
            Kind::Above { min: 0.0, max: 1e6 },
            Preset::Unset,
            "what all rounds together may cost, in place of noise_multiplier, which is then found",
        ),
    ),
    symbol(
        "δ",
        key(
            "delta",
            Kind::Above { min: 0.0, max: 0.5 },
            Preset::Unset,
            "chance with which more than ε may be revealed; unset: 1e-5, or N^-1.1 for clients N of whom that is less",
        ),
    ),
    key(
        SAMPLING,
        Kind::Choice(Sampling::WORDS),
        Preset::Unset,
        "fixed: as many clients a round as train.participation says, and everybody may know who, unless set; poisson: each with that probability, of which nobody may know: costs less, and only simulations have it",
    ),
];

choice! {
    enum Whereabouts {
        Off = "off",
        Server = "server",
        Client = "client",
    }
}

choice! {
    /// How the clients of a round are drawn, and who may know.
    pub enum Sampling {
        /// A fixed number. Whoever has the seed knows who took part, so no privacy follows from it but that a
        /// client is not drawn in every round.
        Fixed = "fixed",
        /// Each by a toss of its own, which nobody knows: privacy is amplified by it.
        Poisson = "poisson",
    }
}

/// The keys of the section.
#[derive(Serialize, Deserialize)]
pub(crate) struct Keys {
    #[serde(rename = "where", default = "nowhere", skip_serializing_if = "is_nowhere")]
    place: Whereabouts,
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
}

fn nowhere() -> Whereabouts {
    Whereabouts::Off
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_nowhere(place: &Whereabouts) -> bool {
    *place == Whereabouts::Off
}

/// An experiment without it says nothing of it, so that logs and keys of results stay what they were.
fn complete(table: &mut Table) {
    let is_off = table.get(WHERE).and_then(Value::as_str) == Some(Whereabouts::Off.word());
    if is_off && table.len() == 1 {
        table.clear();
    }
    if table.get(SAMPLING).and_then(Value::as_str) == Some(Sampling::Fixed.word()) && !is_off {
        table.remove(SAMPLING);
    }
}

/// For which values of `where` a key means something.
fn owners(key: &str) -> Option<Vec<&'static str>> {
    match key {
        WHERE => None,
        SAMPLING => Some(vec![Whereabouts::Server.word()]),
        _ => Some(vec![Whereabouts::Server.word(), Whereabouts::Client.word()]),
    }
}

/// Client-level differential privacy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Privacy {
    /// Who clips and adds noise.
    pub place: Place,
    /// `C`: the norm to which the change of an upload is clipped.
    pub clip: f64,
    /// How much noise.
    pub strength: Strength,
    /// `δ`; without it, [`Privacy::DELTA`] or less.
    pub delta: Option<f64>,
    /// How the clients of a round are drawn.
    pub sampling: Sampling,
}

/// How much noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strength {
    /// `z`: its standard deviation, as a multiple of the clip.
    NoiseMultiplier(f64),
    /// `ε`: as much as it takes for all rounds together.
    TargetEpsilon(f64),
}

impl Privacy {
    /// `δ` unless somebody says otherwise; smaller where there are so many clients that it would be likely to
    /// hit one of them.
    pub const DELTA: f64 = 1e-5;

    pub(crate) fn of(keys: &Keys) -> Result<Option<Self>, ExperimentError> {
        let place = match keys.place {
            Whereabouts::Off => return Ok(None),
            Whereabouts::Server => Place::Server,
            Whereabouts::Client => Place::Client,
        };
        let shown = format!("`privacy.where = \"{}\"`", place.word());
        let Some(clip) = keys.clip else {
            return Err(ExperimentError::combination(
                format!("{shown} needs `privacy.clip`, the norm to which changes are clipped"),
                "set privacy.clip, e.g. to 1; docs/PRIVACY.md says how to choose it",
            ));
        };
        let strength = match (keys.noise_multiplier, keys.target_epsilon) {
            (Some(z), None) => Strength::NoiseMultiplier(z),
            (None, Some(epsilon)) => Strength::TargetEpsilon(epsilon),
            (None, None) => {
                return Err(ExperimentError::combination(
                    format!("{shown} does not say how much noise there is to be"),
                    "set privacy.target_epsilon, e.g. to 8, or privacy.noise_multiplier",
                ));
            }
            (Some(z), Some(epsilon)) => {
                return Err(ExperimentError::combination(
                    format!(
                        "`privacy.noise_multiplier = {z}` and `privacy.target_epsilon = {epsilon}` both say how much noise there is to be"
                    ),
                    "remove one of them",
                ));
            }
        };
        let sampling = keys.sampling.unwrap_or(Sampling::Fixed);
        Ok(Some(Self { place, clip, strength, delta: keys.delta, sampling }))
    }

    pub(crate) fn draw(&self) -> Draw {
        match self.sampling {
            Sampling::Fixed => Draw::Number,
            Sampling::Poisson => Draw::Tosses,
        }
    }

    /// What it comes to among the clients of some rules.
    pub(crate) fn plan(
        &self,
        rules: &Protocol,
        noise: NoiseSource,
    ) -> Result<Plan, ExperimentError> {
        let Self { place, clip, .. } = *self;
        let few = (rules.clients as f64).powf(-1.1);
        let delta = self.delta.unwrap_or_else(|| Self::DELTA.min(few));
        let noise_multiplier = match self.strength {
            Strength::NoiseMultiplier(z) => z,
            Strength::TargetEpsilon(epsilon) => {
                Plan::multiplier_for(epsilon, delta, place, rules).ok_or_else(|| {
                    ExperimentError::combination(
                        format!(
                            "`privacy.target_epsilon = {epsilon}` cannot be had in {} rounds with any noise that leaves something to learn",
                            rules.rounds
                        ),
                        "set a larger target_epsilon, or fewer rounds",
                    )
                })?
            }
        };
        Ok(Plan { place, clip, noise_multiplier, delta, noise })
    }
}

impl Keys {
    pub(crate) fn of(privacy: Option<&Privacy>) -> Self {
        let strength = privacy.map(|privacy| privacy.strength);
        let sampling = privacy.map(|privacy| privacy.sampling);
        Self {
            place: match privacy.map(|privacy| privacy.place) {
                None => Whereabouts::Off,
                Some(Place::Server) => Whereabouts::Server,
                Some(Place::Client) => Whereabouts::Client,
            },
            clip: privacy.map(|privacy| privacy.clip),
            noise_multiplier: match strength {
                Some(Strength::NoiseMultiplier(z)) => Some(z),
                _ => None,
            },
            target_epsilon: match strength {
                Some(Strength::TargetEpsilon(epsilon)) => Some(epsilon),
                _ => None,
            },
            delta: privacy.and_then(|privacy| privacy.delta),
            sampling: sampling.filter(|sampling| *sampling != Sampling::Fixed),
        }
    }
}

/// Refuses what the guarantee does not cover.
pub(crate) fn check(settings: &Settings, protocol: &Protocol) -> Result<(), ExperimentError> {
    let Some(privacy) = &settings.privacy else { return Ok(()) };
    let shown = format!("`privacy.where = \"{}\"`", privacy.place.word());
    if !protocol.is_synchronous() {
        return Err(ExperimentError::combination(
            format!(
                "{shown} counts what each round reveals, and with late or buffered uploads one may count in several"
            ),
            "set federation.late = \"drop\" and another federation.schedule than buffered",
        ));
    }
    if privacy.place == Place::Server && settings.federation.quorum < 1.0 {
        return Err(ExperimentError::combination(
            format!(
                "{shown} does not go with `federation.quorum = {}`: which uploads a round has would depend on how fast others are, and so on their data",
                settings.federation.quorum
            ),
            "set federation.quorum = 1, and federation.deadline for clients that do not answer",
        ));
    }
    let Rules { combine, max_share, .. } = settings.federation;
    if privacy.place == Place::Server && (combine, max_share) != (Rule::Mean, combining::SHARE) {
        return Err(ExperimentError::combination(
            format!(
                "{shown} takes a noisy mean of clipped changes that all weigh the same: `federation.combine` and `federation.max_share` do nothing beside it"
            ),
            "remove them, or set privacy.where = \"client\"",
        ));
    }
    for setting in &settings.methods {
        let (label, method) = (&setting.label, &*setting.method.method);
        if !method.sends_only_vectors() {
            return Err(ExperimentError::combination(
                format!(
                    "`{label}` sends more than what is clipped and noised, such as label counts, so {shown} would not hold"
                ),
                "leave out that method, or set privacy.where = \"off\"",
            ));
        }
        if privacy.place == Place::Server && !method.needs().sums_only() {
            return Err(ExperimentError::combination(
                format!(
                    "the server of `{label}` looks at every upload, and {shown} gives it their noisy sum alone"
                ),
                "leave out that method, or set privacy.where = \"client\"",
            ));
        }
    }
    Ok(())
}

/// Refuses networks whose uploads hold statistics of what their clients saw: these are no change that a
/// clip could bound in a useful way, and a variance with noise may be negative.
pub(crate) fn check_network(
    settings: &Settings,
    network: &dyn Network,
) -> Result<(), ExperimentError> {
    let Some(privacy) = &settings.privacy else { return Ok(()) };
    if network.layout().buffers().is_empty() {
        return Ok(());
    }
    Err(ExperimentError::combination(
        format!(
            "`privacy.where = \"{}\"` does not go with the batch norm of `{}`, whose statistics are of its clients' samples",
            privacy.place.word(),
            settings.network.name
        ),
        "set network.norm = \"group\" (ResNets), or choose a network without batch norm, such as mlp, cnn or lenet5",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, OneMethod, Override};
    use formant_methods::Zoo;

    const SERVER: [&str; 3] =
        ["privacy.where=server", "privacy.clip=1", "privacy.noise_multiplier=2"];
    const CLIENT: [&str; 3] =
        ["privacy.where=client", "privacy.clip=1", "privacy.target_epsilon=8"];

    fn parse(method: &str, text: &str, set: &[&str]) -> Result<Experiment, String> {
        let text = format!("{text}\n[[method]]\nname = \"{method}\"");
        let overrides: Vec<_> = set.iter().map(|set| Override::parse(set).unwrap()).collect();
        let parsed = Experiment::parse(&text.parse().unwrap(), &overrides, &Zoo::standard());
        parsed.map_err(|error| error.to_string())
    }

    fn refused(method: &str, set: &[&str], expected: &str) {
        let error = match parse(method, "", set) {
            Err(error) => error,
            Ok(experiment) => match experiment.plan() {
                Err(error) => error.to_string(),
                Ok(_) => panic!("{set:?} is accepted"),
            },
        };
        assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
    }

    #[test]
    fn what_would_not_be_private_is_refused() {
        let server = |more: &'static str| [&SERVER[..], &[more]].concat();
        refused("fedavg", &SERVER[..1], "needs `privacy.clip`");
        refused("fedavg", &SERVER[..2], "does not say how much noise");
        refused("fedavg", &server("privacy.target_epsilon=3"), "both say how much noise");
        refused("fedavg", &["privacy.clip=1"], "does nothing with `privacy.where = \"off\"`");
        refused("fedavg", &server("federation.quorum=0.5"), "`federation.quorum = 0.5`");
        refused("fedavg", &server("federation.late=weigh"), "late or buffered uploads");
        refused("fedavg", &server("federation.combine=median"), "do nothing beside it");
        refused("fedavg", &server("network.name=resnet18"), "batch norm of `resnet18`");
        refused("fedgen", &SERVER, "`fedgen` sends more than what is clipped and noised");
        refused("fedgen", &CLIENT, "`fedgen` sends more than what is clipped and noised");
        let poisson = [&CLIENT[..], &["privacy.sampling=poisson"]].concat();
        refused("fedavg", &poisson, "does nothing with `privacy.where = \"client\"`");
        let little = [
            "privacy.where=server",
            "privacy.clip=1",
            "privacy.target_epsilon=1e-9",
            "privacy.delta=1e-12",
        ];
        refused("fedavg", &little, "cannot be had in 40 rounds");
        // Each client's noise is there before anybody combines, or leaves somebody out.
        let robust = ["federation.combine=median", "federation.quorum=0.5"];
        parse("fedavg", "", &[&CLIENT[..], &robust].concat()).unwrap();
        let grouped = [&SERVER[..], &["network.name=resnet18", "network.norm=group"]].concat();
        parse("fedavg", "", &grouped).unwrap();
    }

    #[test]
    fn an_experiment_without_it_does_not_speak_of_it() {
        let silent = parse("fedavg", "", &[]).unwrap();
        assert!(silent.privacy.is_none() && !silent.to_table().contains_key("privacy"));
        let file = "[privacy]\nwhere = \"server\"\nclip = 1\nnoise_multiplier = 2";
        assert_eq!(parse("fedavg", file, &["privacy.where=off"]).unwrap(), silent);
        let fixed = parse("fedavg", file, &["privacy.sampling=fixed"]).unwrap();
        assert_eq!(fixed, parse("fedavg", file, &[]).unwrap());
    }

    #[test]
    fn noise_of_a_deployment_comes_from_the_system_and_nobody_counts_on_secret_draws() {
        let experiment = parse("fedavg", "", &SERVER).unwrap();
        let plan = experiment.plan().unwrap().privacy.unwrap();
        assert_eq!(
            (plan.noise, plan.noise_multiplier, plan.delta),
            (NoiseSource::Keyed, 2.0, 1e-5)
        );
        let data =
            |experiment: &Experiment| experiment.data.origin.load(1, &mut |_, _| {}).unwrap();
        let counted = [&SERVER[..], &["data.clients=4"]].concat();
        let one = OneMethod::new(parse("fedavg", "", &counted).unwrap()).unwrap();
        let (task, _) = one.task(&data(&one), crate::Side::Server).unwrap();
        assert_eq!(task.privacy.unwrap().noise, NoiseSource::System);
        let poisson = [&counted[..], &["privacy.sampling=poisson"]].concat();
        let error = OneMethod::new(parse("fedavg", "", &poisson).unwrap()).unwrap_err().to_string();
        assert!(
            error.starts_with("`privacy.sampling = \"poisson\"` works in simulations"),
            "{error}"
        );
    }
}
