"""Does a device compute what the CPU does? The first thing to run on a new machine."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Iterator

import numpy as np
import torch

from .._errors import FormantError
from ._device import Device, Settings, settings
from ._engine import Catalogue, Engine, Network
from ._processes import Remote
from ._worker import Floats, Worker

SAMPLES, BATCH, KEY = 64, 8, 1
TOLERANCE = 1e-4
PLAIN = "plain"
"""The first kind of phase: of everything the least."""
SGD = {"name": "sgd", "momentum": 0.0}
Model = tuple[Floats, Floats]


@dataclass(frozen=True)
class Row:
    """One kind of training: how far apart two engines are when it is over."""

    kind: str
    against: str
    parameters: float
    """Largest difference of a parameter."""
    buffers: float
    objective: float
    """Largest difference of a step's objective, as a share of it."""
    seconds: float
    """What the phase took on the device."""
    parted: int | None = None
    """The first step whose objectives differ by more than rounding, counted from 0."""

    @property
    def ok(self) -> bool:
        """Whether that is rounding. Not so with numbers that are none."""
        return self.parameters <= TOLERANCE and self.buffers <= 10 * TOLERANCE and self.objective <= 10 * TOLERANCE


@dataclass(frozen=True)
class Check:
    """All kinds of training; prints as a table."""

    title: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether all agree."""
        return all(row.ok for row in self.rows)

    def __str__(self) -> str:
        lines = [self.title, f"{'phase':<28}{'against':<10}{'parameters':>12}{'buffers':>10}{'objective':>11}{'s':>8}"]
        for r in self.rows:
            verdict = "" if r.ok else "  DIFFERS" if r.parted is None else f"  DIFFERS from step {r.parted}"
            lines.append(
                f"{r.kind:<28}{r.against:<10}{r.parameters:>12.1e}{r.buffers:>10.1e}{r.objective:>11.1e}"
                f"{r.seconds:>8.2f}{verdict}"
            )
        lines.append("all agree" if self.ok else f"some differ by more than {TOLERANCE:.0e}")
        return "\n".join(lines)


def check(
    network: Network | Catalogue | None = None,
    *,
    device: Device | Sequence[Device] | None = None,
    shape: Sequence[int] = (3, 32, 32),
    classes: int = 10,
    spec: dict[str, Any] | None = None,
    steps: int = 20,
    rate: float | None = None,
    verbose: bool = True,
) -> Check:
    """Trains a phase of each kind that methods have on the device, on the CPU and on Formant's own engine, and compares.

    ``network`` is what :func:`formant.torch.network` or :func:`formant.torch.engine` gave; without, Formant's ``cnn`` (or
    what ``spec`` says). The same batches of noise go through all, without TF32, autocast and dropout, which devices
    have each in their own way. It prints a table and returns it; ``.ok`` says whether all differences are rounding.

    Where engines differ, look at the step from which they do. From step 0 or 1, something is wrong. Later and all at
    once is what it looks like when a unit near zero is on here and off there: deep networks with ReLU do that
    within a few steps at large rates, between any two correct engines. A smaller ``rate`` or fewer ``steps`` tells.
    Without a ``rate``, networks of more than eight linear layers and convolutions are compared at 0.0001, others at 0.003.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    >>> net = Network(net, None, settings("cpu", False, None, False, 1), False, "net")
    >>> check(net, shape=(1, 2, 2), classes=3, steps=2, verbose=False).ok
    True
    """
    if network is not None and not isinstance(network, (Network, Catalogue)):
        raise FormantError(
            f"network is a {type(network).__name__}",
            hint="give what formant.torch.network(module) or formant.torch.engine() gave, or nothing for Formant's cnn",
        )
    _refuse(shape, classes, spec, steps, rate)
    source = network or Catalogue(settings("cpu", False, None, False, 1))
    here = source.settings if device is None else settings(device, False, None, source.settings.deterministic, 1)
    if all(one.type == "cpu" for one in here.devices):
        here = replace(here, processes=source.settings.processes)
    here = replace(here, autocast=None)
    there = settings("cpu", False, None, False, 1)
    spec = {"name": "module"} if isinstance(source, Network) else spec or {"name": "cnn"}
    title = f"{spec['name'] if source.kind == 'catalogue' else source.name} {tuple(shape)}, {steps} steps: {here.label}"
    with _full_precision():
        layout, start = _start(spec, shape, classes)
        on_device = _engine(source, here, spec, layout, shape, classes)
        on_cpu = _engine(source, there, spec, layout, shape, classes)
        data = _noise(on_cpu, classes)
        workers = []
        for engine in (on_device, on_cpu):
            engine.put(KEY, *data)
            workers.append(engine.worker(BATCH))
        start = start or on_cpu.init(1)
        rate = _usual_rate(on_cpu) if rate is None else rate
        rows: list[Row] = []
        for kind, descent, objective in kinds(on_cpu, classes, start[0], rate):
            began = time.perf_counter()
            found = _phase(workers[0], start, descent, objective, steps)
            seconds = time.perf_counter() - began
            rows.append(_row(kind, "torch cpu", found, _phase(workers[1], start, descent, objective, steps), seconds))
            oracle = _oracle(spec, classes, data, start, descent, objective, steps)
            if oracle is not None:
                rows.append(_row(kind, "formant", found, oracle, seconds))
            if verbose:
                if kind == PLAIN:
                    print("\n".join(str(Check(title, ())).splitlines()[:2]), flush=True)
                for row in rows[-1 if oracle is None else -2 :]:
                    print(str(Check(title, (row,))).splitlines()[2], flush=True)
    found_all = Check(title, tuple(rows))
    if verbose:
        print(str(found_all).splitlines()[-1])
    return found_all


def _refuse(shape: Any, classes: Any, spec: Any, steps: Any, rate: Any) -> None:
    """What nothing can be compared with."""
    if not isinstance(shape, (tuple, list)) or len(shape) != 3 or not all(_counts(one) for one in shape):
        raise FormantError(f"shape is {shape!r}", hint="give channels, height and width, such as (3, 32, 32)")
    if not _counts(classes):
        raise FormantError(f"classes is {classes!r}", hint="give the number of classes, such as 10")
    if spec is not None and not (isinstance(spec, dict) and isinstance(spec.get("name"), str)):
        raise FormantError(f"spec is {spec!r}", hint='give a network of Formant\'s as a dict, such as {"name": "cnn"}')
    if not _counts(steps):
        raise FormantError(f"steps is {steps!r}", hint="give how many steps to compare, 1 or more")
    number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if rate is not None and not (number and 0.0 < rate < float("inf")):
        raise FormantError(f"rate is {rate!r}", hint="give a learning rate above 0, such as 0.01, or None")


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _usual_rate(engine: Engine) -> float:
    """Small for deep networks, whose units near zero part any two correct engines at larger rates."""
    kinds = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
    return 1e-4 if sum(isinstance(layer, kinds) for layer in engine.template.modules()) > 8 else 0.003


def _own() -> Any:
    """Formant's own engine, if the package is complete."""
    try:
        from formant import _formant
    except ImportError:
        return None
    return _formant


def _oracle(
    spec: dict[str, Any], classes: int, data: tuple[Floats, Any], start: Model, descent: Any, objective: Any, steps: int
) -> tuple[Model, Any] | None:
    """The same phase on Formant's own engine, for networks of its catalogue."""
    own = _own()
    if own is None or spec["name"] == "module":
        return None
    w, b = (part.copy() for part in start)
    order = _order(steps)
    x, y = data[0][order], data[1][order].astype(np.uint16)
    values = own.oracle(json.dumps(spec), classes, w, b, x, y, [BATCH] * steps, descent, objective)
    return (w, b), np.array(values)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Without TF32, whose products have ten bits."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [*_switches([matmul], [matmul]), *_switches([cudnn], [getattr(cudnn, "conv", None), getattr(cudnn, "rnn", None)])]
    try:
        for owner, name, value in before:
            setattr(owner, name, False if isinstance(value, bool) else "ieee")
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _switches(old: list[Any], new: list[Any]) -> list[tuple[Any, str, Any]]:
    """Switches and how they are set: PyTorch's old ones raise for whoever has used its new ones."""
    try:
        return [(owner, "allow_tf32", owner.allow_tf32) for owner in old]
    except RuntimeError:
        return [(owner, "fp32_precision", owner.fp32_precision) for owner in new if owner is not None]


def _start(spec: dict[str, Any], shape: Sequence[int], classes: int) -> tuple[Any, Model | None]:
    """The order of tensors and the first model, as Formant has them for its own networks."""
    own = _own()
    if own is None or spec["name"] == "module":
        return None, None
    layout, w, b = own.initial(json.dumps(spec), tuple(shape), classes, 1)
    return layout, (w, b)


def _engine(
    source: Network | Catalogue, where: Settings, spec: dict[str, Any], layout: Any, shape: Sequence[int], classes: int
) -> Engine:
    engine = source.on(where).engine(spec, layout, shape, classes)
    for layer in engine.template.modules():
        if isinstance(layer, torch.nn.modules.dropout._DropoutNd):
            layer.p = 0.0
        elif isinstance(layer, (torch.nn.MultiheadAttention, torch.nn.RNNBase)):
            layer.dropout = 0.0
        elif isinstance(layer, torch.nn.RReLU):
            layer.lower = layer.upper = (layer.lower + layer.upper) / 2
    return engine


def _noise(engine: Engine, classes: int) -> tuple[Floats, Any]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((SAMPLES, *engine.plan.input)).astype(np.float32)
    return x, rng.integers(0, classes, SAMPLES)


def _order(steps: int) -> Any:
    return np.random.default_rng(6).integers(0, SAMPLES, steps * BATCH).astype(np.uint32)


def _phase(
    worker: Worker | Remote, start: Model, descent: dict[str, Any], objective: dict[str, Any], steps: int
) -> tuple[Model, Any]:
    """Trains a copy of a model, and gives it with the objective of each step."""
    w, b = (part.copy() for part in start)
    order = _order(steps)
    worker.phase_begin(w, b, descent, objective)
    values, _ = worker.phase_run(KEY, order, np.full(steps, BATCH, np.uint32))
    worker.phase_end(w, b)
    return (w, b), values


def _row(kind: str, against: str, found: tuple[Model, Any], wanted: tuple[Model, Any], seconds: float) -> Row:
    def apart(a: Any, b: Any, unit: Any = 1.0) -> float:
        return float(np.max(np.abs(a - b) / unit, initial=0.0))

    (w, b), values = found
    (v, c), others = wanted
    size = np.maximum(np.abs(others), 1.0)
    # Turned round, so that what is no number counts as far.
    far = np.nonzero(~(np.abs(values - others) <= 1e-5 * size))[0]
    parted = int(far[0]) if len(far) else None
    buffers = apart(b, c, np.maximum(np.abs(c), 1.0))
    return Row(kind, against, apart(w, v), buffers, apart(values, others, size), seconds, parted)


def kinds(engine: Engine, classes: int, w: Floats, rate: float = 0.01) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every kind of phase that a method of Formant has: its name, its descent and its objective."""
    plan, rng = engine.plan, np.random.default_rng(7)
    other = (w + 0.02 * rng.standard_normal(plan.size)).astype(np.float32)
    direction = (0.01 * rng.standard_normal(plan.size)).astype(np.float32)
    features = np.abs(rng.standard_normal((2 * classes, plan.features))).astype(np.float32)
    targets = rng.dirichlet(np.ones(classes), BATCH).astype(np.float32)
    shift = np.log(rng.integers(1, 50, classes)).astype(np.float32)
    weights = rng.uniform(0.5, 2.0, classes).astype(np.float32)
    plain = {"loss": {"name": "cross_entropy"}, "smoothing": 0.0, "weights": None, "terms": []}

    def descent(part: str = "all", **changed: Any) -> dict[str, Any]:
        return {"part": part, "learning_rate": rate, "weight_decay": 0.0, "clip": None, "rule": SGD, **changed}

    def term(factor: float, **what: Any) -> dict[str, Any]:
        return {**plain, "terms": [{"weight": {"factor": factor}, "term": what}]}

    def spectral(factor: float, **changed: Any) -> dict[str, Any]:
        usual = {
            "name": "spectral", "form": "normalized", "scope": "flat", "length": "fast", "tau": 0.1, "band": "low",
            "band_seed": None, "part": "all", "every": 1, "align": False, "teacher": other,
        }  # fmt: skip
        return term(factor, **{**usual, **changed})

    def loss(**what: Any) -> dict[str, Any]:
        return {**plain, "loss": what}

    adam = {"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3, "decoupled": False}
    share = {**plain, "terms": [{"weight": {"share": 0.2}, "term": {"name": "proximal", "anchor": other}}]}
    found = [
        (PLAIN, descent(), plain),
        ("momentum, decay, clip", descent(rule={**SGD, "momentum": 0.9}, weight_decay=1e-3, clip=1.0), plain),
        ("adam", descent(learning_rate=rate / 10, rule=adam, weight_decay=1e-3), plain),
        ("adamw", descent(learning_rate=rate / 10, rule={**adam, "decoupled": True}, weight_decay=0.1), plain),
        ("body", descent("body"), plain),
        ("head", descent("head"), plain),
        ("smoothing and weights", descent(), {**plain, "smoothing": 0.1, "weights": weights}),
        ("shifted", descent(), loss(name="shifted", shift=shift)),
        ("guided", descent(), loss(name="guided", weight=2.0, targets=targets)),
        ("proximal", descent(), term(0.5, name="proximal", anchor=other)),
        ("proximal by share", descent(), share),
        ("linear", descent(), term(1.0, name="linear", direction=direction)),
        ("head term", descent(), term(0.3, name="head", features=features, labels=np.arange(2 * classes) % classes)),
        ("spectral normalized", descent(), spectral(0.5)),
        ("spectral raw", descent(), spectral(1e-6, form="raw")),
        ("spectral generalized", descent(), spectral(1e-6, form="generalized", band="high")),
        ("spectral complex", descent(), spectral(0.5, form="complex", length="exact")),
        ("spectral plain", descent(), spectral(0.5, scope="plain", every=2)),
        ("spectral per layer, head", descent("head"), spectral(0.5, scope="per-layer", tau=0.6, part="head")),
    ]
    return [one for one in found if one[0] != "body" or plan.body > 0]
