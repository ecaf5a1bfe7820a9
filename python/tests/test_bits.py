"""The same experiment gives the same bits, however it is said and whoever runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import SHORT, Arrays, blobs

import formant

TOML = """
name = "bits"
rounds = 2
seed = 5
[data]
source = "mnist-small"
clients = 4
samples = 300
alpha = 0.3
min_samples = 10
[network]
name = "mlp"
hidden = [16]
[train]
epochs = 1
learning_rate = 0.05
momentum = 0.5
[[method]]
name = "fedavg"
[[method]]
name = "scd"
lambda_p = 3.0
"""

KEYWORDS: dict[str, Any] = {
    "data": "mnist-small", "name": "bits", "rounds": 2, "seed": 5, "clients": 4, "samples": 300, "alpha": 0.3,
    "min_samples": 10, "network": {"name": "mlp", "hidden": [16]}, "epochs": 1, "learning_rate": 0.05, "momentum": 0.5,
    "methods": ["fedavg", formant.scd(lambda_p=3.0)], "progress": False,
}  # fmt: skip


def by_command_line(*args: str) -> dict[str, str]:
    """Fingerprints of a run of the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "formant", "run", *args, "--json", "--quiet"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)["fingerprints"]
    return found


def test_keywords_toml_and_the_command_line_give_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "bits.toml"
    file.write_text(TOML)
    expected = by_command_line(str(file), "--out", str(tmp_path / "cli"))
    assert set(expected) == {"fedavg", "scd"} and len(set(expected.values())) == 2
    assert formant.Run.load(tmp_path / "cli").fingerprints == expected
    assert formant.run(**KEYWORDS, out=tmp_path / "a").fingerprints == expected
    assert formant.run(TOML, out=tmp_path / "b", progress=False).fingerprints == expected
    assert formant.run(file, seed=6, out=tmp_path / "c", progress=False).fingerprints != expected


@pytest.mark.skipif(not os.environ.get("FORMANT_BINARY"), reason="FORMANT_BINARY names the binary to compare with")
def test_the_binary_gives_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "bits.toml"
    file.write_text(TOML)
    asked = [os.environ["FORMANT_BINARY"], "run", str(file), "--json", "--quiet", "--out", str(tmp_path / "binary")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)["fingerprints"]
    assert formant.run(**KEYWORDS, out=tmp_path / "a").fingerprints == expected
    assert formant.run(TOML, out=tmp_path / "b", progress=False).fingerprints == expected
    # Either reads the other's folder.
    assert formant.Run.load(tmp_path / "binary").fingerprints == expected


def test_threads_do_not_change_bits(tmp_path: Path) -> None:
    one, two = (formant.run(**KEYWORDS, threads=n, out=tmp_path / str(n)).fingerprints for n in (1, 2))
    assert one == two


def test_arrays_give_the_bits_of_the_same_arrays_in_a_file(tmp_path: Path) -> None:
    kinds: list[tuple[Arrays, Arrays | None]] = [
        (blobs(200, 1), blobs(80, 2)),
        (blobs(200, 1, (8, 8, 3)), None),
        ((blobs(200, 1, (6,))[0].astype(np.float64) / 3, blobs(200, 1)[1]), None),
        (blobs(200, 1, (6,)), blobs(80, 2, (6,))),
    ]
    for i, (train, test) in enumerate(kinds):
        parts = {"x": train[0], "y": train[1]}
        if test is not None:
            parts = {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]}
        file = tmp_path / f"{i}.npz"
        np.savez(file, **parts)
        given: dict[str, Any] = {**SHORT, "methods": ["fedavg", "scd"]}
        by_file = formant.run(**given, data=file, out=tmp_path / f"file{i}")
        by_array = formant.run(**given, data=train, test=test, out=tmp_path / f"array{i}")
        assert by_array.fingerprints == by_file.fingerprints, i
        assert [r["gm"] for r in by_array.history] == [r["gm"] for r in by_file.history]


def test_layouts_do_not_change_bits(short: Callable[..., formant.Run]) -> None:
    (x, y), (xt, yt) = blobs(200, 1, (3, 8, 8)), blobs(80, 2, (3, 8, 8))
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(xt.transpose(0, 2, 3, 1))
    first = short(data=(x, y), test=(xt, yt)).fingerprints
    assert short(data=(last[0], y), test=(last[1], yt)).fingerprints == first
    assert short(data=(np.asfortranarray(x), y.astype(float)), test=(xt[::-1][::-1], yt)).fingerprints == first


def test_a_client_column_is_a_natural_partition(short: Callable[..., formant.Run], train: Arrays, tmp_path: Path) -> None:
    who = np.arange(400) % 4
    by_column = short(clients_of=who, clients=None, alpha=None)
    by_name = short(clients_of=np.array(["a", "b", "c", "d"])[who], clients=None, alpha=None)
    by_lists = short(partition=[np.flatnonzero(who == i) for i in range(4)], clients=None, alpha=None)
    assert by_column.fingerprints == by_name.fingerprints
    assert by_lists.complete and by_lists.log["clients"] == 4
