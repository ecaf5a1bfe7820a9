"""Small data that can be learnt, and runs of moments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import SHORT, Arrays, blobs

import formant


@pytest.fixture(scope="session")
def train() -> Arrays:
    return blobs(400, 1)


@pytest.fixture(scope="session")
def test() -> Arrays:
    return blobs(120, 2)


@pytest.fixture
def short(train: Arrays, test: Arrays, tmp_path: Path) -> Callable[..., formant.Run]:
    """A run on the small data, each in a folder of its own."""
    counter = iter(range(100))

    def run(**keywords: Any) -> formant.Run:
        given = {"data": train, "test": test, "methods": ["fedavg"], "out": tmp_path / f"run{next(counter)}"}
        return formant.run(**{**SHORT, **given, **keywords})

    return run


@pytest.fixture(scope="session")
def made(train: Arrays, test: Arrays, tmp_path_factory: pytest.TempPathFactory) -> formant.Run:
    """A finished run of three methods, to look at."""
    out = tmp_path_factory.mktemp("runs") / "made"
    return formant.run(
        **SHORT, data=train, test=test, out=out, name="made",
        methods=["local", "fedavg", formant.scd(lambda_p=30), formant.scd(label="Blend", lambda_p=0, lambda_g=0, blend=0.5)],
    )  # fmt: skip
