"""Vectors of a method: flat ``float32``, from NumPy or PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import FormantError

Vector = npt.NDArray[np.float32]


def _numpy(given: object) -> npt.NDArray[Any]:
    """An array of whatever is given, without a copy where that can be; PyTorch is not imported for it."""
    detach = getattr(given, "detach", None)
    if callable(detach):
        tensor = detach().cpu()
        # NumPy has no bfloat16; single precision holds every value of it.
        given = (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    return np.asarray(given)


def vector(given: object, name: str) -> Vector:
    """A flat, contiguous vector of ``float32``; the same memory where it is one already."""
    found = _numpy(given)
    if found.dtype == object or not (np.issubdtype(found.dtype, np.floating) or np.issubdtype(found.dtype, np.integer)):
        raise FormantError(
            f"{name} is an array of {found.dtype}", hint="give a flat vector of float32, from NumPy or PyTorch"
        )
    # Aligned too: the core reads whole numbers of four bytes.
    return np.require(found, np.float32, ["C", "A"]).reshape(-1)


def in_place(given: object, name: str) -> tuple[Vector, bool]:
    """The vector to train, and whether it is the memory that was given."""
    found = vector(given, name)
    original = _numpy(given)
    if original.dtype.kind != "f" and "bfloat16" not in str(getattr(given, "dtype", "")):
        raise FormantError(
            f"{name} is an array of {original.dtype}, in which what is learnt would be cut to whole numbers",
            hint=f'train {name}.astype("float32")',
        )
    if not found.flags.writeable:
        raise FormantError(f"{name} is read-only", hint=f"train a copy: {name}.copy()")
    return found, bool(np.shares_memory(found, original))


# A state is packed as a line of JSON and the bytes of its arrays, in the order of its keys: the same state gives the
# same bytes, and nothing that can run code is ever read.


def pack(state: Mapping[str, object]) -> bytes:
    """The bytes of a state."""
    if not isinstance(state, Mapping):
        raise FormantError(f"a state is {type(state).__name__}", hint="keep a dict of arrays, numbers and texts")
    head: list[dict[str, object]] = []
    body: list[bytes] = []
    for key in sorted(state):
        value = state[key]
        if isinstance(value, (bool, int, float, str)) or value is None:
            head.append({"key": key, "value": value})
            continue
        if isinstance(value, (list, tuple, set, dict)):
            raise FormantError(
                f"state[{key!r}] is a {type(value).__name__}",
                hint="keep an array: numpy.array(…); what is kept comes back as it was, and this would not",
            )
        found = np.asarray(_numpy(value), order="C")
        if found.dtype.hasobject or found.dtype.kind not in "biuf":
            raise FormantError(
                f"state[{key!r}] is {type(value).__name__} of {found.dtype}",
                hint="keep arrays of numbers, numbers, texts or None: they are written to disk between rounds",
            )
        found = found.astype(found.dtype.newbyteorder("<"), copy=False)
        scalar = {"scalar": True} if isinstance(value, np.generic) else {}
        head.append({"key": key, "dtype": found.dtype.str, "shape": list(found.shape), **scalar})
        body.append(found.tobytes())
    return json.dumps(head).encode() + b"\n" + b"".join(body)


def unpack(packed: bytes) -> dict[str, Any]:
    """The state of some bytes; its arrays can be changed."""
    line, _, rest = packed.partition(b"\n")
    state: dict[str, Any] = {}
    at = 0
    for entry in json.loads(line):
        if "dtype" not in entry:
            state[entry["key"]] = entry["value"]
            continue
        dtype, shape = np.dtype(entry["dtype"]), entry["shape"]
        count = int(np.prod(shape, dtype=np.int64))
        found = np.frombuffer(rest, dtype=dtype, count=count, offset=at).reshape(shape).copy()
        at += found.nbytes
        state[entry["key"]] = found[()] if entry.get("scalar") else found
    return state
