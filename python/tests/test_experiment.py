"""Keywords, TOML and both: the same experiments. Everything else is refused with a remedy."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import refused

import formant
from formant import _toml
from formant._experiment import KEYWORDS, SECTIONS, base, compose

TOML = """
name = "same"
rounds = 7
seed = 3

[data]
source = "mnist-small"
clients = 8
partition = "pathological"
classes_per_client = 3

[network]
name = "mlp"
hidden = [32, 16]

[train]
learning_rate = 0.02
momentum = 0.9
batch = 16

[evaluation]
every = 2

[runtime]
threads = 2

[[method]]
name = "fedavg"

[[method]]
name = "ditto"
label = "D"
lambda = 0.5
train = { epochs = 3 }
"""

KEYWORDS_OF_IT: dict[str, Any] = {
    "name": "same", "rounds": 7, "seed": 3, "clients": 8, "partition": "pathological", "classes_per_client": 3,
    "learning_rate": 0.02, "batch": 16, "evaluate_every": 2, "threads": 2,
}  # fmt: skip
METHODS: list[Any] = ["fedavg", formant.ditto(lambda_=0.5, label="D", train={"epochs": 3})]
NETWORK = {"name": "mlp", "hidden": [32, 16]}


def test_keywords_and_toml_are_the_same(tmp_path: Path) -> None:
    expected = compose(TOML).resolved()
    assert expected["method"][1]["lambda"] == 0.5
    file = tmp_path / "same.toml"
    file.write_text(TOML)
    source = {"source": "mnist-small"}
    numbers = {**KEYWORDS_OF_IT, "rounds": np.int64(7), "learning_rate": np.float64(0.02)}
    same = [
        compose(file),
        compose(str(file)),
        compose(data=source, network=NETWORK, methods=METHODS, keywords={**KEYWORDS_OF_IT, "train": {"momentum": 0.9}}),
        compose(network=NETWORK, methods=METHODS, set={"train.momentum": 0.9}, keywords=numbers),
        compose(network=NETWORK, methods=METHODS, set={"train": {"momentum": 0.9}}, keywords=KEYWORDS_OF_IT),
        compose(TOML.replace("rounds = 7", "rounds = 99"), keywords={"rounds": 7}),
        compose(TOML.replace("0.9", "0.1"), set={"train.momentum": 0.9}),
        compose({"network": NETWORK, "methods": METHODS, "rounds": 7}, set={"train.momentum": 0.9}, keywords=KEYWORDS_OF_IT),
    ]
    for one in same:
        assert one.resolved() == expected


def test_dictionaries_are_experiments_too() -> None:
    table = {
        "name": 'a "b" \\ ü',
        "data": {"clients": 4, "augment": {"flip": 0.5}},
        "method": [{"name": "scd", "label": "two (b)"}],
    }
    found = compose(table).resolved()
    assert found["data"]["augment"]["flip"] == 0.5
    assert found["name"] == 'a "b" \\ ü' and found["method"][0]["label"] == "two (b)"


def test_a_keyword_for_another_partition_drops_what_no_longer_means_anything() -> None:
    found = compose(TOML, data={"partition": "iid"}, network="logistic").resolved()
    assert "classes_per_client" not in found["data"] and found["network"] == {"name": "logistic"}


def test_nothing_unsets() -> None:
    assert "classes_per_client" in compose(TOML).resolved()["data"]
    found = compose(TOML, set={"train.momentum": None}).resolved()
    assert found["train"]["momentum"] == 0.0


def test_every_keyword_is_a_key_of_the_template(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    done = subprocess.run([sys.executable, "-m", "formant", "init", str(file)], capture_output=True, check=False)
    assert done.returncode == 0
    there, section = set(), ""
    for line in file.read_text().splitlines():
        if head := re.fullmatch(r"\[([a-z.]+)\]", line):
            section = head[1] + "."
        elif line.startswith("[["):
            break
        elif key := re.fullmatch(r"(?:# )?([a-z0-9_]+) =.*", line):
            there.add(section + key[1])
    wrong = [key for key in KEYWORDS.values() if key not in there]
    assert not wrong
    # What has no keyword of its own is in a section that has one.
    sections = {*SECTIONS.values(), "data", "network"}
    assert {key.rpartition(".")[0] for key in there} - {""} <= sections


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"learning_rat": 1}, ["learning_rat", "learning_rate"]),
        ({"lr": 1}, ["did you mean learning_rate?"]),
        ({"batch_size": 1}, ["did you mean batch?"]),
        ({"method": ["scd"]}, ["did you mean methods?"]),
        ({"schedule": "cosine"}, ["schedule", "train="]),
        ({"qwertz": 1}, ["qwertz", "keywords are", "set="]),
        ({"train": 5}, ["train is a int", "section"]),
        ({"train": {"momentun": 1}, "rounds": 1}, ["momentun"]),
        ({"rounds": 0}, ["rounds"]),
        ({"rounds": object()}, ["rounds is a object"]),
        ({"partition": "dirichle"}, ["dirichle"]),
    ],
)
def test_what_is_no_key_is_refused(keywords: dict[str, Any], words: list[str]) -> None:
    refused(lambda: compose(methods=["fedavg"], keywords=keywords).resolved(), *words)


def test_contradictions_are_refused() -> None:
    refused(
        lambda: compose(set={"train.batch": 5}, keywords={"batch": 6}), "train.batch is set twice", "batch=", "set="
    )
    assert compose(set={"train.batch": 5}, keywords={"batch": 5}).sets == ["train.batch=5"]


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        ("nowhere.toml", ["nowhere.toml", "quickstart"]),
        (Path("nowhere.toml"), ["nowhere.toml"]),
        (5, ["experiment is a int"]),
    ],
)
def test_experiments_that_cannot_be_read_are_refused(experiment: Any, words: list[str]) -> None:
    refused(lambda: base(experiment), *words)


def test_broken_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(formant.FormantError, match="TOML"):
        compose("rounds = = 3").resolved()
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    refused(lambda: base(tmp_path / "binary.toml"), "no text")


@pytest.mark.parametrize("network", [5, ["cnn"]])
def test_what_is_no_network_is_refused(network: Any) -> None:
    refused(lambda: compose(network=network), "network is a", "formant.torch.network")


def test_networks_that_are_not_there_are_refused() -> None:
    refused(lambda: compose(network="cn", methods=["fedavg"]).resolved(), "cn")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (1, "1"), (0.1, "0.1"), (1e-8, "1e-08"), (float("inf"), "inf"), ("a\n\"\x7f", '"a\\n\\"\\u007f"'),
        ([1, "b"], '[1, "b"]'), ({"a b": {"c": 1}}, '{"a b" = {c = 1}}'), (np.float32(0.5), "0.5"), (np.array([1, 2]), "[1, 2]"),
        (Path("a"), '"a"'),
    ],
)  # fmt: skip
def test_values_are_written_as_toml(value: Any, text: str) -> None:
    assert _toml.value(value, "here") == text
