"""Every method keeps its contract on this engine too: threads, disk, interruptions, evaluation, buffers."""

from __future__ import annotations

import json

import pytest

import formant.testing
import formant.torch
from formant import _formant

METHODS = [entry["name"] for entry in json.loads(_formant.methods()) if entry["citation"] != "a method of one's own"]


@pytest.mark.parametrize("method", METHODS)
def test_methods_keep_their_contract(method: str, device: str) -> None:
    engine = formant.torch.engine(device, deterministic=True)
    assert len(formant.testing.check(method, engine=engine, quiet=True)) == 10
