"""The same network in both engines takes the same way: every method, twenty steps a phase.

Rates are small: one step agrees to the last digit or two, but sooner or later a unit is on at one engine and off at the
other, and from there on large rates drive any two computations apart.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import formant
import formant.torch
from formant import _formant

METHODS = [entry["name"] for entry in json.loads(_formant.methods()) if entry["citation"] != "a method of one's own"]

# Fine-tuning comes on top of a phase: half as many steps. pFedMe has rates and repetitions of its own.
STEPS = {
    "fedavg-ft": "finetune_epochs = 1",
    "fedbabu": "finetune_epochs = 1",
    "pfedme": "steps = 1\neta_p = 0.0001",
}

EXPERIMENT = """
rounds = 1
seed = 3
[data]
clients = 2
partition = "iid"
min_samples = 40
train_fraction = 0.8
validation_fraction = 0.1
[network]
{network}
[train]
epochs = 2
personal_epochs = 2
batch = 4
learning_rate = {rate}
personal_learning_rate = {rate}
momentum = 0.0
[evaluation]
spectra = 0
[runtime]
threads = 1
{methods}
"""


def _data() -> _formant.Dataset:
    draw = np.random.default_rng(7)
    y = (np.arange(100) % 10).astype(np.uint16)
    x = draw.standard_normal((100, 1, 28, 28), dtype=np.float32) + y.reshape(-1, 1, 1, 1).astype(np.float32) / 5
    return _formant.Dataset("noise", x, y, x[:20].copy(), y[:20].copy())


def _models(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    return {str(path.relative_to(folder)): formant.Model.load(path).state_dict() for path in folder.rglob("*.safetensors")}


@pytest.mark.parametrize(
    ("network", "rate"),
    [
        ('name = "cnn"', 0.005),
        ('name = "resnet18"\nwidth = 4', 0.0001),
        ('name = "resnet18"\nwidth = 4\nnorm = "group"', 0.0001),
    ],
)
def test_both_engines_take_the_same_way(network: str, rate: float, tmp_path: Path) -> None:
    methods = "\n".join(f'[[method]]\nname = "{name}"\n{STEPS.get(name, "")}' for name in METHODS)
    text = EXPERIMENT.format(network=network, rate=rate, methods=methods)
    torch = _formant.Engines(formant.torch.engine(device="cpu", deterministic=True), "torch cpu")
    assert _formant.run(text, [], str(tmp_path / "own"), resume=False, dataset=_data()) == "complete"
    assert _formant.run(text, [], str(tmp_path / "torch"), resume=False, dataset=_data(), engine=torch) == "complete"
    own, other = _models(tmp_path / "own" / "models"), _models(tmp_path / "torch" / "models")
    assert own.keys() == other.keys() and len(own) > len(METHODS)
    worst: dict[str, float] = {}
    for name, tensors in own.items():
        for key, values in tensors.items():
            apart = float(np.abs(values.astype(np.float64) - other[name][key]).max(initial=0.0))
            worst[name] = max(worst.get(name, 0.0), apart)
    far = {name: apart for name, apart in worst.items() if apart >= 1e-4}
    assert not far, json.dumps(far, indent=1)
