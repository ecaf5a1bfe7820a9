"""Small federations for tests of methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import formant
from formant import _formant

BASE = """
rounds = 3
[data]
clients = 4
samples = 400
[train]
epochs = 1
personal_epochs = 1
batch = 10
learning_rate = 0.05
[evaluation]
every = 1
[network]
name = "mlp"
hidden = [12]
"""


def entry(method: Any) -> str:
    """A `[[method]]` of an experiment."""
    if isinstance(method, str):
        return f'[[method]]\nname = "{method}"\n'
    if isinstance(method, type):
        formant.register(method)
        return f'[[method]]\nname = "{method.name}"\n'
    pairs = "".join(f"{key} = {json.dumps(value)}\n" for key, value in method.items())
    return f"[[method]]\n{pairs}"


def run(out: Path, *methods: Any, sets: tuple[str, ...] = ()) -> Path:
    """Runs methods side by side."""
    text = BASE + "".join(entry(method) for method in methods)
    assert _formant.run(text, list(sets), str(out), resume=False) == "complete"
    return out


def scores(folder: Path, label: str) -> list[tuple[Any, ...]]:
    """All that was measured of a method, without clocks."""
    rows = [row for row in json.loads(_formant.history(str(folder))) if row["method"] == label]
    assert rows
    return [(row["round"], row["gm"], row["gm_loss"], row["pm"], tuple(row["clients"])) for row in rows]


def tensors(path: Path) -> dict[str, bytes]:
    """The bits of a model file's tensors, by name."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    head.pop("__metadata__", None)
    body = data[8 + length :]
    return {name: body[slice(*about["data_offsets"])] for name, about in head.items()}


def models(folder: Path, label: str) -> dict[str, dict[str, bytes]]:
    """Tensors of all models that a method has left."""
    at = folder / "models" / json.loads(_formant.log(str(folder)))["folders"][label]
    return {str(path.relative_to(at)): tensors(path) for path in sorted(at.rglob("*.safetensors"))}


def weights(folder: Path, label: str) -> npt.NDArray[np.float32]:
    """The generic model as one vector."""
    found = models(folder, label)["generic.safetensors"]
    return np.concatenate([np.frombuffer(found[name], dtype="<f4") for name in sorted(found)])
