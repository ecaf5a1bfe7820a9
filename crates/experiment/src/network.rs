//! `[network]`: which model every client trains. It fills a [`NetworkSpec`].

use crate::section::{Decision, Section, key, whole};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::{CATALOGUE, Convolution, MODULE, NetworkSpec, Norm, Stem};

pub(crate) const SECTION: Section = Section {
    decisions: &[Decision { key: "name", owners }],
    ..Section::new("network", "Which model every client trains.", KEYS)
};

const KEYS: &[Key] = &[
    key("name", Kind::Choice(&NETWORKS), Preset::Text("lenet5"), "see `formant networks`"),
    key(
        "norm",
        Kind::Choice(Norm::WORDS),
        Preset::Unset,
        "resnet: normalisation, batch unless set",
    ),
    key(
        "stem",
        Kind::Choice(Stem::WORDS),
        Preset::Unset,
        "resnet: first layers, by the size of the images unless set",
    ),
    key("width", whole(1), Preset::Unset, "resnet: channels of the first stage, 64 unless set"),
    key(
        "hidden",
        Kind::Integers,
        Preset::Unset,
        "mlp: widths of the hidden layers, [200] unless set",
    ),
    key(
        "convolution",
        Kind::Choice(Convolution::WORDS),
        Preset::Unset,
        "cnn and resnet: fast (minimal filtering where it applies) unless set; direct: by the definition, to compare",
    ),
    key(
        "module",
        Kind::Text,
        Preset::Unset,
        "module: which PyTorch module it is; from Python only",
    ),
];

/// The names of the catalogue, and that of networks that Python brings along.
const NETWORKS: [&str; CATALOGUE.len() + 1] = {
    let (mut names, mut i) = ([MODULE; CATALOGUE.len() + 1], 0);
    while i < CATALOGUE.len() {
        names[i] = CATALOGUE[i].name;
        i += 1;
    }
    names
};

/// The networks that take an option.
fn owners(key: &str) -> Option<Vec<&'static str>> {
    if key == "name" {
        return None;
    }
    if key == MODULE {
        return Some(vec![MODULE]);
    }
    let takers = CATALOGUE.iter().filter(|entry| entry.family.takes(key));
    Some(takers.map(|entry| entry.name).collect())
}

/// The network of an experiment that names none.
pub(crate) fn preset() -> NetworkSpec {
    SECTION.defaults()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_an_option_is_a_value_of_it() {
        for key in KEYS {
            let Kind::Choice(words) = key.kind else { continue };
            for word in words.iter().filter(|_| key.name != "name") {
                let text = format!("name = \"resnet18\"\n{} = \"{word}\"", key.name);
                let table = SECTION.resolve(&text.parse().unwrap()).unwrap();
                let spec: NetworkSpec = SECTION.read(table.clone()).unwrap();
                assert_eq!(SECTION.write(&spec).unwrap(), table);
            }
        }
    }
}
