"""Every test of the PyTorch engine runs on every device that is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_kit import CLASSES, SAMPLES, SHAPE  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


@pytest.fixture
def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((SAMPLES, *SHAPE)).astype(np.float32)
    return x, rng.integers(0, CLASSES, SAMPLES)
