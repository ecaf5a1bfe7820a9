"""Experiments from keywords, TOML or both: all become the text and the changes that the core resolves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _formant, _toml
from ._errors import FormantError
from ._methods import settings
from ._names import nearest

#: Keywords by section; ``keyword`` means the key of the same name, ``keyword=key`` another one.
_SECTIONS = {
    "": "name seed rounds",
    "data": (
        "clients new_clients alpha partition classes_per_client shards_per_client class_probability partition_file "
        "part samples skew skew_strength min_samples repair train_fraction validation_fraction data_seed=seed "
        "data_dir=dir size skip_bad"
    ),
    "train": (
        "participation batch epochs personal_epochs learning_rate personal_learning_rate decay step_every floor warmup "
        "optimiser momentum nesterov beta1 beta2 epsilon weight_decay clip label_smoothing class_weights cost "
        "personal_cost"
    ),
    "federation": "buffer quorum deadline late staleness_exponent personal personal_until",
    "evaluation": (
        "evaluate_every=every split metrics guard patience spectra adapt_epochs adapt_learning_rate"
    ),
    "runtime": "threads memory checkpoint_every keep keep_limit",
}


def _keywords() -> dict[str, str]:
    found = {}
    for section, words in _SECTIONS.items():
        for word in words.split():
            keyword, _, key = word.partition("=")
            found[keyword] = f"{section}.{key or keyword}".lstrip(".")
    return found


#: The key of the experiment that a keyword sets.
KEYWORDS = _keywords()
#: Keywords that are whole sections, and where they stand in an experiment.
SECTIONS = {
    "train": "train",
    "federation": "federation",
    "evaluation": "evaluation",
    "privacy": "privacy",
    "runtime": "runtime",
    "devices": "devices",
    "links": "links",
    "augment": "data.augment",
}
#: Keywords of `formant.run` that are no keys of an experiment.
OTHERS = (
    "experiment data test methods network clients_of out engine progress set label image client exclude channels "
    "class_names normalisation test_fraction dataset_name"
).split()


@dataclass(frozen=True)
class Composed:
    """An experiment as the core takes it."""

    text: str
    sets: list[str]

    def resolved(self) -> dict[str, Any]:
        """Every key with its value; an error if something is wrong."""
        found: dict[str, Any] = json.loads(_formant.resolve(self.text, self.sets))
        return found


def compose(
    experiment: Any = None,
    *,
    data: Mapping[str, Any] | None = None,
    network: Any = None,
    methods: Any = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    keywords: Mapping[str, Any] | None = None,
) -> Composed:
    """Keywords laid over an experiment, if there is one.

    >>> compose(methods=["fedavg"], keywords={"rounds": 3, "train": {"momentum": 0.9}}).sets
    ['rounds=3', 'train.momentum=0.9', 'method=[{name = "fedavg"}]']
    """
    changes = _Changes()
    for section, values in (("data", data), ("network", _network(network))):
        changes.add(values or {}, section, f"{section}=")
    for keyword, value in (keywords or {}).items():
        if keyword in SECTIONS:
            if not isinstance(value, Mapping):
                hint = f'give a dictionary of its keys, such as {keyword}={{"…": …}}'
                raise FormantError(f"{keyword} is a {type(value).__name__}, and means a section", hint=hint)
            changes.add(value, SECTIONS[keyword], f"{keyword}=")
        elif keyword in KEYWORDS:
            if value is not None:
                changes.put(KEYWORDS[keyword], value, f"{keyword}=")
        else:
            raise FormantError(f"unknown keyword {keyword!r}", hint=_meant(keyword))
    if set is not None and not isinstance(set, Mapping):
        raise FormantError(f"set is {set!r}", hint='give a dictionary: set={"train.momentum": 0.9}')
    changes.add(set or {}, "", "set=")
    if methods is not None:
        changes.put("method", settings(methods), "methods=")
    return Composed(base(experiment), changes.sets())


def _meant(keyword: str) -> str:
    said = {"lr": "learning_rate", "batch_size": "batch", "optimizer": "optimiser", "method": "methods"}
    if keyword in said:
        return f"did you mean {said[keyword]}?"
    if keyword in ("schedule", "spread", "every"):
        return f'several sections have it: name one, such as train={{"{keyword}": …}} or set={{"train.{keyword}": …}}'
    hint = nearest(keyword, [*KEYWORDS, *SECTIONS, *OTHERS], "keywords")
    return f'{hint}\nany key of an experiment can be set by set={{"section.key": value}}'


class _Changes:
    """Changes by key, each with who said so."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[str, str]] = {}

    def add(self, values: Mapping[str, Any], below: str, whose: str) -> None:
        for name, value in values.items():
            path = f"{below}.{name}" if below else str(name)
            if path in ("method", "methods"):
                self.put("method", settings(value), whose)
            elif isinstance(value, Mapping) and value:
                self.add(value, path, whose)
            else:
                self.put(path, value, whose)

    def put(self, path: str, value: Any, whose: str) -> None:
        # Nothing as a value unsets a key.
        text = "" if value is None else _toml.value(value, path)
        before = self.values.get(path)
        if before is not None and before[0] != text:
            raise FormantError(
                f"{path} is set twice: {before[0] or None} by {before[1]} and {text or None} by {whose}",
                hint="leave one of them out",
            )
        self.values[path] = (text, whose)

    def sets(self) -> list[str]:
        return [f"{path}={text}" for path, (text, _) in self.values.items()]


def _network(network: Any) -> dict[str, Any] | None:
    if network is None or isinstance(network, Mapping):
        return None if network is None else dict(network)
    if isinstance(network, str):
        return {"name": network}
    if callable(getattr(network, "engine", None)):
        # A module of PyTorch's, as formant.torch.network has wrapped it.
        return {"name": "module", "module": str(getattr(network, "name", type(network).__name__))}
    raise FormantError(
        f"network is a {type(network).__name__}",
        hint='give a name ("cnn"), a dictionary ({"name": "mlp", "hidden": [64]}) or formant.torch.network(module)',
    )


def base(experiment: Any) -> str:
    """The TOML of an experiment: a path, a text, a dictionary, the word "quickstart", or nothing."""
    if experiment is None:
        return ""
    if isinstance(experiment, Mapping):
        table = dict(experiment)
        if "methods" in table:
            table["method"] = table.pop("methods")
        if "method" in table:
            table["method"] = settings(table["method"])
        return _toml.document(table)
    if not isinstance(experiment, (str, os.PathLike)):
        raise FormantError(
            f"experiment is a {type(experiment).__name__}", hint="give a path, TOML as text, or a dictionary"
        )
    if isinstance(experiment, str):
        if experiment == "quickstart":
            return _formant.quickstart()
        is_file = experiment.lower().endswith(".toml") or os.path.isfile(experiment)
        if "\n" in experiment or ("=" in experiment and not is_file):
            return experiment
    path = Path(experiment)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        hint = 'experiments are files ("experiment.toml"), TOML as text, dictionaries, or "quickstart"'
        raise FormantError(f"cannot read the experiment {os.fspath(path)}: {reason}", hint=hint) from error
