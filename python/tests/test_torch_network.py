"""Modules of PyTorch's as networks of a run: what the folder does not hold must be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit import Arrays, refused

import formant

torch = pytest.importorskip("torch")


def net() -> Any:
    torch.manual_seed(1)
    layers = torch.nn
    return layers.Sequential(
        layers.Flatten(), layers.Linear(64, 8), layers.BatchNorm1d(8), layers.ReLU(), layers.Linear(8, 4)
    )


def test_a_module_is_a_network(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    module = net()
    run = short(network=formant.torch.network(module), methods=["fedavg", "ditto"])
    assert run.complete and run.log["network"] == "module" and "torch" in run.log["engine"]
    model = run["ditto"].personal[1]
    assert {"1.weight", "2.running_mean", "4.bias"} <= set(model.state_dict())
    before = module[1].weight.clone()
    refused(lambda: model.predict(test[0]), "Sequential", "module=net")
    generic = run["fedavg"].generic
    assert generic is not None
    accuracy = (generic.predict(test[0], module=module) == test[1]).mean()
    assert accuracy == pytest.approx(run["fedavg"].history[-1]["gm"])
    assert torch.equal(before, module[1].weight)
    loaded = generic.to_module(module)
    assert loaded is module and not torch.equal(before, module[1].weight)
    assert np.array_equal(module[4].bias.detach().numpy(), generic.state_dict()["4.bias"])
    refused(lambda: generic.save(run.folder / "a.onnx"), "torch.onnx.export")


def test_a_run_with_a_module_goes_on_with_it(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    whole, half = (short(network=net(), rounds=rounds) for rounds in (2, 1))
    refused(lambda: formant.resume(half.folder, data=train, test=test, rounds=2), "PyTorch module", "network=")
    more = formant.resume(half.folder, data=train, test=test, rounds=2, network=net(), progress=False)
    assert more.fingerprints == whole.fingerprints


def test_the_catalogue_by_pytorch(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    run = short(engine=formant.torch.engine(), rounds=1)
    assert "torch" in run.log["engine"]
    refused(lambda: formant.resume(run.folder, data=train, test=test, rounds=2), "computed by torch", "engine=")
    more = formant.resume(run.folder, data=train, test=test, rounds=2, engine="torch", progress=False)
    assert more.complete
    refused(lambda: short(network=formant.torch.network(net()), engine="torch"), "engine is given beside")
