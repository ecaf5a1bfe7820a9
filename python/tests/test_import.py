"""Importing needs NumPy alone; what is promised to type checkers is there."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import formant

HEAVY = ["torch", "pandas", "tqdm", "flwr", "datasets", "IPython"]


def test_nothing_heavy_is_imported() -> None:
    program = f"import sys, json, formant; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_whole_run_needs_numpy_alone(tmp_path: Path) -> None:
    program = f"""
import sys
for name in {HEAVY}:
    sys.modules[name] = None
import formant, numpy as np
x = np.random.default_rng(1).normal(size=(80, 5))
run = formant.run(data=(x, x[:, 0] > 0), clients=2, network="logistic", methods=["fedavg", "ditto"], rounds=1,
                  min_samples=4, out={str(tmp_path / "run")!r}, progress=True)
print(run.table())
print(run["ditto"].personal[1].predict(x)[:3])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| method |" in done.stdout and "round 1 of 1" in done.stderr


def test_parts_that_need_more_come_when_they_are_asked_for() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        formant.nothing  # noqa: B018
    assert {"torch", "flower", "run", "scd"} <= set(dir(formant))
    for name in formant.__all__:
        if name not in ("torch", "flower"):
            assert getattr(formant, name) is not None


def test_the_package_is_typed() -> None:
    folder = Path(formant.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_formant.pyi").exists()


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(formant.FormantError("a", hint="b")))
    assert (error.message, error.hint, str(error)) == ("a", "b", "a\nhint: b")
    assert formant.FormantError("a\nhint: b").hint == "b" and formant.FormantError("a").hint is None
