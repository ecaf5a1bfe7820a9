"""What both sides of a federation are given, and the task that it makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _formant
from .._errors import FormantError
from .._experiment import Composed, compose
from .._methods import settings
from .._run import core_engine

try:
    import flwr.app as flwr
except ImportError as error:  # pragma: no cover
    raise FormantError(
        "Flower is not installed", hint='install it: pip install "formant[flower]", or pip install flwr'
    ) from error

Tensors = dict[str, npt.NDArray[np.float32]]
Model = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Agreement:
    """All that a server and its nodes must have in common."""

    composed: Composed
    shape: tuple[int, int, int]
    class_names: list[str]
    pixels: bool
    normalisation: list[tuple[float, float]]
    engine: Any = None
    #: Known by these few letters.
    mark: str = field(init=False)

    def __post_init__(self) -> None:
        resolved = self.composed.resolved()
        # What a machine of one's own computes with is nobody else's business.
        for section in ("runtime", "devices", "links", "evaluation"):
            resolved.pop(section, None)
        told = [resolved, self.shape, self.class_names, self.pixels, self.normalisation]
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "mark", digest[:16])

    @property
    def rounds(self) -> int:
        """Rounds of the federation."""
        return int(self.composed.resolved()["rounds"])

    @property
    def seed(self) -> int:
        """The seed of everything that is drawn."""
        return int(self.composed.resolved()["seed"])

    def task(self, place: int | None = None, dataset: _formant.Dataset | None = None) -> _formant.Task:
        """The server's task, or that of the client at a place."""
        return _formant.Task(
            self.composed.text,
            self.composed.sets,
            shape=self.shape,
            class_names=self.class_names,
            pixels=self.pixels,
            normalisation=self.normalisation,
            place=place,
            dataset=dataset,
            engine=self.engine,
        )


def agreement(
    method: Any,
    *,
    shape: Sequence[int],
    classes: int | Sequence[str],
    network: Any,
    pixels: bool,
    normalisation: Sequence[tuple[float, float]] | None,
    engine: Any,
    keywords: dict[str, Any],
) -> Agreement:
    """Checks what was given, on the machine where it was."""
    chosen = settings(method)
    if len(chosen) != 1:
        raise FormantError(f"method is {len(chosen)} methods", hint="a federation trains one: give its name")
    extents = tuple(shape)
    if len(extents) != 3 or not all(isinstance(extent, int) and extent > 0 for extent in extents):
        raise FormantError(f"shape = {shape!r}", hint="give (channels, height, width), or (features, 1, 1) for rows of numbers")
    names = [str(i) for i in range(classes)] if isinstance(classes, int) else [str(name) for name in classes]
    if len(names) < 2:
        raise FormantError(f"classes = {classes!r}", hint="give their number, or a list of their names")
    usual = (0.5, 0.5) if pixels else (0.0, 1.0)
    pairs = [usual] * extents[0] if normalisation is None else [(float(m), float(s)) for m, s in normalisation]
    if len(pairs) != extents[0] or not all(std > 0 for _, std in pairs):
        raise FormantError(
            f"normalisation = {normalisation!r}", hint=f"give (mean, deviation) for each of {extents[0]} channels"
        )
    network, engines = core_engine(network, engine)
    composed = compose(network=network, methods=chosen, keywords=keywords)
    made = Agreement(composed, (extents[0], extents[1], extents[2]), names, bool(pixels), pairs, engines)
    if engines is None:
        _check(made, network)
    return made


def _check(made: Agreement, network: Any) -> None:
    """Refuses a network of Formant's that does not go with the samples: here, and not when nodes wait for it."""
    try:
        made.task()
    except FormantError as error:
        raise FormantError(
            f"shape = {made.shape} with network = {network!r}: {error.message}",
            hint=error.hint or 'give another network, such as "mlp", or samples of another shape',
        ) from error


def tensors(task: _formant.Task, model: Model) -> Tensors:
    """A model as arrays with PyTorch's names."""
    layout, found = task.layout(), {}
    for kind, values in zip(("parameters", "buffers"), model, strict=True):
        at = 0
        for name, shape, *_ in layout[kind]:
            count = int(np.prod(shape, dtype=np.int64))
            found[str(name)] = values[at : at + count].reshape(shape)
            at += count
    return found


def array_record(data: bytes) -> flwr.ArrayRecord:
    """Bytes as an array: Flower sends arrays in pieces, however large they are."""
    return flwr.ArrayRecord({"bytes": flwr.Array(np.frombuffer(data, dtype=np.uint8))})


def bytes_of(content: flwr.RecordDict, name: str) -> bytes | None:
    """The bytes under a name, if they are there and are some; whoever sent them may have sent anything."""
    record = content.array_records.get(name)
    found = record.get("bytes") if record is not None else None
    if found is None:
        return None
    if found.dtype != "uint8" or found.stype != "numpy.ndarray":
        raise FormantError(f"{name} is an array of {found.dtype}", hint="both sides must run formant.flower")
    return found.numpy().astype(np.uint8, copy=False).tobytes()
