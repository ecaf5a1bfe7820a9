"""Whose samples are whose: lists of indices, or the client of each sample."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt

from ._arrays import array
from ._errors import FormantError


def owners(value: Any, count: int, name: str = "clients_of") -> tuple[npt.NDArray[np.uint32], list[str]]:
    """The client of each training sample as a number, and the clients' names.

    >>> numbers, names = owners(["b", "a", "b"], 3)
    >>> numbers.tolist(), names
    ([1, 0, 1], ['a', 'b'])
    """
    found = array(value, name)
    if found.ndim != 1 or len(found) != count:
        raise FormantError(
            f"{name} has the shape {found.shape} for {count} training samples",
            hint="give the client of every training sample, as a number or a text",
        )
    if found.dtype.kind == "f" and not bool(np.isfinite(found).all()):
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise FormantError(f"{name}[{row}] is {found[row]}", hint="give the client of every training sample")
    if found.dtype.kind == "f" and bool((found == np.floor(found)).all()):
        found = found.astype(np.int64)
    if found.dtype.kind == "O":
        texts = found.tolist()
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, (str, bytes, int))), None)
        if wrong is not None:
            kind = type(texts[wrong]).__name__
            raise FormantError(f"{name}[{wrong}] is a {kind}", hint="give numbers or texts")
        found = np.array([t.decode() if isinstance(t, bytes) else str(t) for t in texts], dtype=np.str_)
    if found.dtype.kind == "S":
        found = np.char.decode(found, "utf-8")
    if found.dtype.kind not in "uiUT":
        raise FormantError(f"{name} has the type {found.dtype}", hint="give whole numbers or texts")
    # Numbers are sorted as numbers, so that client 10 comes after client 9.
    names, numbers = np.unique(found, return_inverse=True)
    return numbers.astype(np.uint32).reshape(-1), [str(one) for one in names.tolist()]


def is_lists(partition: Any) -> bool:
    """Whether a partition is given by its samples, not by its name."""
    return partition is not None and not isinstance(partition, (str, os.PathLike))


def division(partition: Any, count: int | None) -> str:
    """The JSON of a division file: who holds which training samples. ``count`` is how many there are, if known.

    >>> print(division([[0, 2], [1]], 3))
    [
    [0,2],
    [1]
    ]
    """
    names: list[str] | None = None
    if isinstance(partition, Mapping):
        names, partition = [str(name) for name in partition], list(partition.values())
    try:
        lists = list(partition)
    except TypeError:
        raise FormantError(
            f"partition is a {type(partition).__name__}",
            hint='give a list of indices for each client, or a name such as "dirichlet"',
        ) from None
    if not lists:
        raise FormantError("partition lists no clients", hint="give a list of indices for each client")
    whose = [f"client {names[i]!r}" if names else f"client {i}" for i in range(len(lists))]
    checked = [_indices(one, who, count) for one, who in zip(lists, whose)]
    _check_disjoint(checked, whose)
    texts = [json.dumps(one.tolist(), separators=(",", ":")) for one in checked]
    if names is None:
        return "[\n" + ",\n".join(texts) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(n)}: {t}" for n, t in zip(names, texts)) + "\n}"


def _indices(value: Any, who: str, count: int | None) -> npt.NDArray[np.int64]:
    if isinstance(value, (range, set, frozenset)):
        value = sorted(value)
    if isinstance(value, (list, tuple)) and not value:
        found = np.zeros(0, np.int64)
    else:
        found = array(value, f"partition of {who}")
    if found.dtype.kind == "b":
        raise FormantError(f"{who} has a mask in partition", hint="give indices: numpy.flatnonzero(mask)")
    if found.ndim != 1 or found.dtype.kind not in "ui":
        raise FormantError(
            f"{who} has {found.dtype} of the shape {found.shape} in partition",
            hint="give a flat list of whole numbers: indices into the training samples",
        )
    if len(found) == 0:
        raise FormantError(f"{who} has no samples in partition", hint="leave out clients without samples")
    lowest, highest = int(found.min()), int(found.max())
    if lowest < 0 or (count is not None and highest >= count):
        wrong = lowest if lowest < 0 else highest
        there = "" if count is None else f" to {count - 1}"
        raise FormantError(
            f"{who} has sample {wrong} in partition, which is not there",
            hint=f"indices go from 0{there}, into the training samples",
        )
    return found.astype(np.int64)


def _check_disjoint(lists: list[npt.NDArray[np.int64]], whose: list[str]) -> None:
    every = np.concatenate(lists)
    distinct, times = np.unique(every, return_counts=True)
    if len(distinct) == len(every):
        return
    twice = int(distinct[times > 1][0])
    who = [whose[i] for i, one in enumerate(lists) for _ in range(int((one == twice).sum()))]
    raise FormantError(
        f"sample {twice} is listed twice in partition: by {who[0]} and {who[1]}",
        hint="give every sample to one client at most, and once",
    )


def write_division(text: str, folder: Path) -> Path:
    """Writes a division beside a run folder. The name follows from the content: no file is ever changed."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = folder.with_name(f"{folder.name}.partition-{digest}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
