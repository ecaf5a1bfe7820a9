//! Every key of an experiment file, section by section. Defaults, ranges, errors, `formant init` and
//! the documentation derive from these tables.

use formant_methods::schema::{Default, Key, Kind};

/// A section of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name; empty for the top of the file.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// All sections but `[[method]]`, whose keys come from the zoo.
pub const SECTIONS: &[Section] = &[
    Section { name: "", help: "", keys: TOP },
    Section {
        name: "data",
        help: "Which images, and how they are divided among the clients.",
        keys: DATA,
    },
    Section { name: "network", help: "Which model every client trains.", keys: NETWORK },
    Section {
        name: "train",
        help: "How clients train; a [[method]] may override any of these.",
        keys: TRAIN,
    },
    Section {
        name: "federation",
        help: "How a round proceeds: who waits for whom, and for how long.",
        keys: FEDERATION,
    },
    Section {
        name: "devices",
        help: "The clients' devices, for the virtual clock.",
        keys: DEVICES,
    },
    Section { name: "links", help: "The clients' links, for the virtual clock.", keys: LINKS },
    Section {
        name: "evaluation",
        help: "When and on what the models are scored.",
        keys: EVALUATION,
    },
    Section {
        name: "runtime",
        help: "How the machine is used; nothing here changes a result.",
        keys: RUNTIME,
    },
];

/// Where a key of this name stands, for somebody who left out the section.
pub(crate) fn elsewhere(name: &str) -> Option<String> {
    let sections = SECTIONS.iter().map(|s| (s.name, s.keys));
    let zoo = formant_methods::Zoo::standard();
    let methods = zoo.entries().iter().map(|e| ("method", e.keys));
    let (section, _) = sections
        .chain(methods)
        .filter(|(section, _)| !section.is_empty())
        .find(|(_, keys)| keys.iter().any(|key| key.name == name))?;
    Some(format!("did you mean `{section}.{name}`?"))
}

const fn key(name: &'static str, kind: Kind, default: Default, help: &'static str) -> Key {
    Key { name, symbol: "", kind, default, help }
}

const fn symbol(
    name: &'static str,
    symbol: &'static str,
    kind: Kind,
    default: Default,
    help: &'static str,
) -> Key {
    Key { name, symbol, kind, default, help }
}

const fn whole(min: i64) -> Kind {
    Kind::Integer { min, max: i64::MAX }
}

/// The top of the file.
pub const TOP: &[Key] = &[
    key(
        "name",
        Kind::Text,
        Default::Text("experiment"),
        "name of the run folder and of the report",
    ),
    key("seed", whole(0), Default::Integer(1), "keys all randomness: same seed, same bits"),
    symbol(
        "rounds",
        "T",
        Kind::Integer { min: 1, max: 1_000_000 },
        Default::Integer(40),
        "rounds of federated training",
    ),
];

/// `[data]`.
pub const DATA: &[Key] = &[
    key(
        "dataset",
        Kind::Choice(&["mnist-small", "mnist", "fashion-mnist", "cifar10", "cifar100"]),
        Default::Text("mnist-small"),
        "mnist-small is embedded in the program; the others are read from dir",
    ),
    key(
        "dir",
        Kind::Text,
        Default::Unset,
        "folder of the datasets, laid out as torchvision does; unset: --data-dir, FORMANT_DATA or the cache folder",
    ),
    key(
        "samples",
        whole(1),
        Default::Unset,
        "use only this many training images, balanced over the classes; unset: all",
    ),
    symbol(
        "clients",
        "N",
        Kind::Integer { min: 1, max: 1_000_000 },
        Default::Integer(20),
        "number of clients",
    ),
    key(
        "partition",
        Kind::Choice(&["dirichlet", "iid", "pathological"]),
        Default::Text("dirichlet"),
        "dirichlet: each class divided by a Dirichlet(alpha) draw; iid: evenly; pathological: classes_per_client classes each",
    ),
    symbol(
        "alpha",
        "α",
        Kind::Above { min: 0.0, max: 1e6 },
        Default::Unset,
        "concentration of the Dirichlet partition, 0.5 unless set; smaller is more heterogeneous",
    ),
    key(
        "classes_per_client",
        whole(1),
        Default::Unset,
        "classes of each client in the pathological partition, 2 unless set",
    ),
    key(
        "min_samples",
        whole(2),
        Default::Integer(20),
        "smallest number of images of a client, over all three splits",
    ),
    key(
        "seed",
        whole(0),
        Default::Unset,
        "keys the partition and the splits alone, so that several seeds share one division; unset: the experiment's seed",
    ),
    key(
        "train_fraction",
        Kind::Above { min: 0.0, max: 1.0 },
        Default::Number(0.75),
        "share of a client's images that it trains on",
    ),
    key(
        "validation_fraction",
        Kind::Number { min: 0.0, max: 1.0 },
        Default::Number(0.0),
        "share kept for choosing hyper-parameters; the rest is the local test set",
    ),
];

/// `[network]`.
pub const NETWORK: &[Key] = &[
    key(
        "name",
        Kind::Choice(&["logistic", "mlp", "lenet5", "cnn", "resnet18", "resnet34", "resnet50"]),
        Default::Text("lenet5"),
        "see `formant networks`",
    ),
    key(
        "norm",
        Kind::Choice(&["batch", "group"]),
        Default::Unset,
        "resnet: normalisation, batch unless set",
    ),
    key(
        "stem",
        Kind::Choice(&["cifar", "imagenet"]),
        Default::Unset,
        "resnet: first layers, by the size of the images unless set",
    ),
    key("width", whole(1), Default::Unset, "resnet: channels of the first stage, 64 unless set"),
    key(
        "hidden",
        Kind::Integers,
        Default::Unset,
        "mlp: widths of the hidden layers, [200] unless set",
    ),
    key(
        "convolution",
        Kind::Choice(&["fast", "direct"]),
        Default::Unset,
        "cnn and resnet: fast (minimal filtering where it applies) unless set; direct: by the definition, to compare",
    ),
];

/// `[train]`.
pub const TRAIN: &[Key] = &[
    symbol(
        "participation",
        "|S_t|/N",
        Kind::Above { min: 0.0, max: 1.0 },
        Default::Number(1.0),
        "share of the clients that take part in a round",
    ),
    key(
        "batch",
        Kind::Integer { min: 1, max: 65_536 },
        Default::Integer(10),
        "samples in a training step",
    ),
    symbol(
        "epochs",
        "E_G",
        Kind::Integer { min: 1, max: 10_000 },
        Default::Integer(2),
        "epochs of the shared phase",
    ),
    symbol(
        "personal_epochs",
        "E_p",
        Kind::Integer { min: 1, max: 10_000 },
        Default::Integer(2),
        "epochs of the personal phase",
    ),
    symbol(
        "learning_rate",
        "η_G",
        Kind::Above { min: 0.0, max: 1e3 },
        Default::Number(0.05),
        "learning rate of the shared phase",
    ),
    symbol(
        "personal_learning_rate",
        "η_p",
        Kind::Above { min: 0.0, max: 1e3 },
        Default::Unset,
        "learning rate of the personal phase; unset: learning_rate",
    ),
    key(
        "decay",
        Kind::Above { min: 0.0, max: 1.0 },
        Default::Number(1.0),
        "factor on both learning rates from round to round",
    ),
    key(
        "momentum",
        Kind::Number { min: 0.0, max: 0.999_999 },
        Default::Number(0.0),
        "momentum of SGD; every phase starts at rest",
    ),
    key(
        "weight_decay",
        Kind::Number { min: 0.0, max: 1e3 },
        Default::Number(0.0),
        "weight decay of SGD",
    ),
    key(
        "clip",
        Kind::Above { min: 0.0, max: 1e9 },
        Default::Unset,
        "largest norm of a gradient; unset: no clipping",
    ),
    key(
        "cost",
        Kind::Number { min: 0.001, max: 1e6 },
        Default::Number(1.0),
        "device time of a sample in the shared phase, in units of plain training; `formant devices` measures it",
    ),
    key(
        "personal_cost",
        Kind::Number { min: 0.001, max: 1e6 },
        Default::Number(1.0),
        "the same of the personal phase",
    ),
];

/// `[evaluation]`.
pub const EVALUATION: &[Key] = &[
    key(
        "every",
        whole(1),
        Default::Integer(1),
        "rounds between evaluations; the last round is always scored",
    ),
    key(
        "split",
        Kind::Choice(&["test", "validation"]),
        Default::Text("test"),
        "test: local test sets and the global one; validation: what hyper-parameters are chosen on",
    ),
];

/// `[federation]`.
pub const FEDERATION: &[Key] = &[
    key(
        "schedule",
        Kind::Choice(&["wait-free", "compute-and-wait", "buffered"]),
        Default::Text("wait-free"),
        "wait-free: the personal phase runs while the upload and the next broadcast travel; compute-and-wait: both phases, then the upload; buffered: asynchronous (FedBuff), no rounds to wait for",
    ),
    key(
        "buffer",
        whole(1),
        Default::Integer(10),
        "K: uploads in one aggregation of the buffered schedule",
    ),
    key(
        "quorum",
        Kind::Above { min: 0.0, max: 1.0 },
        Default::Number(1.0),
        "share of the asked clients whose uploads close a round",
    ),
    key(
        "deadline",
        Kind::Text,
        Default::Unset,
        "after this long a round closes with what is there, e.g. \"60s\" or \"5min\"; unset: never",
    ),
    key(
        "late",
        Kind::Choice(&["drop", "weigh"]),
        Default::Text("drop"),
        "uploads for a round that has closed: drop refuses them; weigh adds their change to the next round, (1 + rounds late)^-staleness_exponent of it",
    ),
    key(
        "staleness_exponent",
        Kind::Number { min: 0.0, max: 100.0 },
        Default::Number(0.5),
        "how fast a late or asynchronous upload loses weight; 0: not at all",
    ),
    key(
        "personal",
        Kind::Choice(&["participants", "everyone"]),
        Default::Text("participants"),
        "whose personal models are trained in a round",
    ),
    key(
        "personal_until",
        Kind::Choice(&["epochs", "broadcast"]),
        Default::Text("epochs"),
        "how long a personal phase lasts: train.personal_epochs, or until the next broadcast comes",
    ),
];

/// `[devices]`.
pub const DEVICES: &[Key] = &[
    key(
        "samples_per_second",
        Kind::Above { min: 0.0, max: 1e12 },
        Default::Unset,
        "samples that the median device trains on in a second; unset: training takes no time",
    ),
    key(
        "spread",
        Kind::Number { min: 0.0, max: 5.0 },
        Default::Number(0.0),
        "standard deviation of the logarithm of the devices' speeds; 0: all alike",
    ),
];

/// `[links]`.
pub const LINKS: &[Key] = &[
    key(
        "up",
        Kind::Text,
        Default::Unset,
        "bytes a second from the median client, e.g. \"1MB\" or \"8Mbit\"; unset: no limit",
    ),
    key("down", Kind::Text, Default::Unset, "bytes a second to the median client; unset: no limit"),
    key(
        "spread",
        Kind::Number { min: 0.0, max: 5.0 },
        Default::Number(0.0),
        "standard deviation of the logarithm of the links' rates; 0: all alike",
    ),
    key("latency", Kind::Text, Default::Text("0ms"), "until the first byte arrives"),
    key("jitter", Kind::Text, Default::Text("0ms"), "most that is added to the latency at random"),
    key(
        "loss",
        Kind::Number { min: 0.0, max: 0.99 },
        Default::Number(0.0),
        "share of the packets that have to be sent again",
    ),
];

/// `[runtime]`.
pub const RUNTIME: &[Key] = &[
    key(
        "threads",
        Kind::Integer { min: 1, max: 4_096 },
        Default::Unset,
        "worker threads; unset: one per core",
    ),
    key(
        "memory",
        Kind::Text,
        Default::Text("512MiB"),
        "client states beyond this are kept on disk, e.g. \"1GiB\" or \"512MiB\"",
    ),
    key("checkpoint_every", whole(1), Default::Integer(10), "rounds between checkpoints"),
    key(
        "keep",
        Kind::Choice(&["all", "generic", "none"]),
        Default::Text("all"),
        "models that the run folder keeps: generic and personal ones, generic ones, or none",
    ),
    key(
        "keep_limit",
        Kind::Text,
        Default::Text("4GiB"),
        "models beyond this are not kept, e.g. \"10GiB\"; generic ones come first, then the personal ones of one method after the other",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(keys: &[Key], name: &str) -> Vec<&'static str> {
        match keys.iter().find(|k| k.name == name).map(|k| k.kind) {
            Some(Kind::Choice(words)) => words.to_vec(),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn choices_are_the_catalogues() {
        let datasets: Vec<_> = formant_data::CATALOGUE.iter().map(|e| e.name).collect();
        assert_eq!(choices(DATA, "dataset"), datasets);
        let networks: Vec<_> = formant_numerics::CATALOGUE.iter().map(|e| e.name).collect();
        assert_eq!(choices(NETWORK, "name"), networks);
    }
}
