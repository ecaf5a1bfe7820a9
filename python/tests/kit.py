"""What the tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import formant

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]

#: What makes a run short.
SHORT: dict[str, Any] = {
    "clients": 4,
    "alpha": 0.5,
    "network": "logistic",
    "rounds": 2,
    "epochs": 1,
    "min_samples": 4,
    "threads": 1,
    "progress": False,
}


def blobs(count: int, seed: int, shape: tuple[int, ...] = (1, 8, 8), classes: int = 4) -> Arrays:
    """Pictures of classes that differ in where they are bright."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % classes
    means = np.random.default_rng(0).uniform(0, 200, (classes, *shape))
    x = np.clip(means[y] + random.normal(0, 30, (count, *shape)), 0, 255).astype(np.uint8)
    return x, y.astype(np.int64)


def refused(call: Callable[[], Any], *words: str) -> formant.FormantError:
    """The error of a call that must not work; it has a hint, and these words."""
    with pytest.raises(formant.FormantError) as caught:
        call()
    error = caught.value
    assert error.hint, f"no hint: {error}"
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"
    return error
