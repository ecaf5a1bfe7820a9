"""Kernels with their channels last in the replica's memory: nobody outside can tell."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch_kit import ORDER, SAMPLES, descent, objective, phase

import formant.torch as ft
from formant.torch._engine import Engine

ADAM = {"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3, "decoupled": False}


def workers() -> tuple[Any, Any, Any]:
    """One of each order, and a model."""
    draw = np.random.default_rng(3)
    x = draw.standard_normal((SAMPLES, 3, 32, 32)).astype(np.float32)
    y = draw.integers(0, 10, SAMPLES)
    turned = ft.engine().engine({"name": "lenet5"}, None, (3, 32, 32), 10)
    plain = Engine(turned.template, replace(turned.plan, channels_last=False), turned.settings)
    found = []
    for engine in (turned, plain):
        engine.put(0, x, y)
        found.append(engine.worker(8))
    kernels = [[p.is_contiguous() for p in w._replica.parameters if p.dim() == 4] for w in found]
    assert kernels == [[False, False], [True, True]]
    return found[0], found[1], plain.init(1)


def test_models_come_and_go_as_they_are() -> None:
    turned, _, (w, b) = workers()
    w = np.arange(w.size, dtype=np.float32)
    found = phase(turned, (w, b), descent(rate=0.0), objective())
    np.testing.assert_array_equal(found[0], w)
    turned.phase_begin(w, b, descent(rate=0.0), objective())
    turned.score(-w, b, 0, ORDER)
    back = np.zeros_like(w)
    turned.phase_end(back, b)
    np.testing.assert_array_equal(back, w)


@pytest.mark.parametrize("part", ["all", "body", "head"])
@pytest.mark.parametrize("rule", [{}, {"momentum": 0.9}, {"rule": ADAM, "rate": 0.001}], ids=["sgd", "momentum", "adam"])
def test_several_vectors_at_once_mean_what_they_mean_in_plain_order(part: str, rule: dict[str, Any]) -> None:
    turned, plain, model = workers()
    draw = np.random.default_rng(4)
    one, other, direction = (model[0] + 0.1 * draw.standard_normal(model[0].size).astype(np.float32) for _ in range(3))
    spectral = {
        "name": "spectral", "form": "normalized", "scope": "per-layer", "length": "exact", "tau": 0.5, "band": "low",
        "band_seed": None, "part": "all", "every": 1, "align": False, "teacher": one,
    }  # fmt: skip
    terms = (
        ({"factor": 0.3}, {"name": "proximal", "anchor": one}),
        ({"share": 0.5}, {"name": "proximal", "anchor": other}),
        ({"factor": 0.01}, {"name": "linear", "direction": direction}),
        ({"share": 0.5}, spectral),
    )
    down = descent(part, **{"rate": 0.01, **rule})
    alone = phase(plain, model, down, objective())
    found, wanted = (phase(worker, model, down, objective(*terms)) for worker in (turned, plain))
    assert np.abs(alone[0] - wanted[0]).max() > 1e-4
    np.testing.assert_allclose(found[0], wanted[0], atol=3e-6)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-5)
    np.testing.assert_allclose(found[3], wanted[3], rtol=1e-4)


@pytest.mark.skipif(
    not (os.environ.get("CXX") or any(shutil.which(name) for name in ("g++", "c++", "clang++"))),
    reason="torch.compile needs a C++ compiler",
)
def test_a_compiled_network_takes_the_same_way() -> None:
    plain, _, model = workers()
    engine = ft.engine(compile=True).engine({"name": "lenet5"}, None, (3, 32, 32), 10)
    draw = np.random.default_rng(3)
    engine.put(0, draw.standard_normal((SAMPLES, 3, 32, 32)).astype(np.float32), draw.integers(0, 10, SAMPLES))
    terms = ({"factor": 0.3}, {"name": "proximal", "anchor": model[0] + 0.1})
    found, wanted = (phase(w, model, descent(rate=0.01), objective(terms)) for w in (engine.worker(8), plain))
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-5)
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-4)
    assert np.abs(found[0] - model[0]).max() > 1e-3
