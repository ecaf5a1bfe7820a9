"""Model files: names, predictions, formats, and files that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import Arrays, blobs, refused

import formant


@pytest.fixture
def model(made: formant.Run) -> formant.Model:
    found = made["scd"].generic
    assert found is not None
    return found


def by_hand(model: formant.Model, x: Any) -> Any:
    """Probabilities of a logistic regression."""
    state, card = model.state_dict(), model.card
    (one,) = card["normalisation"]
    flat = ((x / 255 - one["mean"]) / one["std"]).reshape(len(x), -1)
    logits = flat @ state["fc.weight"].T.astype(float) + state["fc.bias"]
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def test_parameters_have_pytorchs_names(model: formant.Model) -> None:
    state = model.state_dict()
    assert {name: values.shape for name, values in state.items()} == {"fc.weight": (4, 64), "fc.bias": (4,)}
    assert all(values.dtype == np.float32 and values.flags.writeable for values in state.values())
    state["fc.bias"][:] = 9
    assert not np.array_equal(model.state_dict()["fc.bias"], state["fc.bias"])
    assert model.classes == ["0", "1", "2", "3"] and "scd" in repr(model)
    refused(lambda: model.state_dict("jax"), "jax", "torch")


def test_predictions_are_those_of_the_formula(model: formant.Model, test: Arrays) -> None:
    x, y = test
    found = model.predict_proba(x)
    assert found.shape == (120, 4) and np.allclose(found, by_hand(model, x), atol=1e-5)
    assert np.array_equal(model.predict(x), found.argmax(1)) and (model.predict(x) == y).mean() > 0.5
    # Whatever says the same is the same.
    for same in (x[:, 0], x.astype(int), x.tolist(), x.transpose(0, 2, 3, 1)):
        assert np.array_equal(model.predict_proba(same), found)
    assert model.predict(x[:0]).shape == (0,)


def test_the_accuracy_is_that_of_the_table(made: formant.Run, model: formant.Model, test: Arrays) -> None:
    accuracy = (model.predict(test[0]) == test[1]).mean()
    assert accuracy == pytest.approx(made["scd"].history[-1]["gm"])


def test_samples_that_do_not_fit_are_refused(model: formant.Model, test: Arrays) -> None:
    x = test[0]
    refused(lambda: model.predict(x / 255), "float64", "pixels", "astype")
    refused(lambda: model.predict(x[:, :, :4]), "(1, 4, 8)", "(1, 8, 8)")
    refused(lambda: model.predict(x[0, 0, 0]), "x has the shape (8,)")
    refused(lambda: model.predict(x.astype(int) - 300), "pixels")
    refused(lambda: model.predict(np.zeros((2, 3, 8, 8), np.uint8)), "(3, 8, 8)", "(1, 8, 8)")


def test_models_of_numbers_take_numbers(short: Callable[..., formant.Run]) -> None:
    data, test = (blobs(count, seed, (12,)) for count, seed in ((200, 1), (80, 2)))
    run = short(data=data, test=test)
    model = run["fedavg"].generic
    assert model is not None and model.card["values"] == "floats"
    x = test[0]
    assert np.array_equal(model.predict_proba(x), model.predict_proba(x.astype(np.float32)))
    refused(lambda: model.predict(np.full((1, 12), np.nan)), "x[0] has nan")


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".onnx"])
def test_models_are_saved(model: formant.Model, tmp_path: Path, ending: str) -> None:
    path = model.save(tmp_path / f"model{ending}")
    assert path.stat().st_size > 0
    model.save(path)
    if ending == ".safetensors":
        again = formant.Model.load(path)
        assert again.card == model.card and np.array_equal(again.state_dict()["fc.bias"], model.state_dict()["fc.bias"])
        again.save(path)
    elif ending == ".npz":
        with np.load(path) as archive:
            assert np.array_equal(archive["fc.weight"], model.state_dict()["fc.weight"])
            assert json.loads(archive["formant.json"]) == model.card


def test_what_cannot_be_saved_is_refused(model: formant.Model, tmp_path: Path) -> None:
    refused(lambda: model.save(tmp_path / "model.bin"), "model.bin", ".safetensors")
    refused(lambda: model.save(tmp_path / "no" / "model.npz"), "is not there")


def test_files_that_are_no_models_are_refused(model: formant.Model, tmp_path: Path) -> None:
    whole = model.path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    contents = {
        "empty": b"",
        "text": b"hello world, this is a text",
        "huge": (1 << 60).to_bytes(8, "little") + b"{}",
        "header": whole[: 8 + length // 2],
        "foreign": (2).to_bytes(8, "little") + b"{}",
        "list": (2).to_bytes(8, "little") + b"[]",
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        refused(lambda path=path: formant.Model.load(path), name, "not a model")
    cut = tmp_path / "cut"
    cut.write_bytes(whole[:-4])
    refused(lambda: formant.Model.load(cut), "damaged", "another copy")
    refused(lambda: formant.Model.load(tmp_path / "none"), "none")
    refused(lambda: formant.Model.load(tmp_path), "cannot read")


def test_torch_gets_tensors(model: formant.Model, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = model.state_dict("torch")
    assert all(isinstance(values, torch.Tensor) for values in state.values())

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int = 64) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(inputs, 4)

    loaded = model.to_module(Net())
    assert np.array_equal(loaded.fc.weight.detach().numpy(), model.state_dict()["fc.weight"])
    refused(lambda: model.to_module(Net(32)), "Net is not the module", "(4, 32)")
    refused(lambda: model.to_module(torch.nn.Linear(64, 4)), "lacks fc")
    saved = torch.load(model.save(tmp_path / "model.pt"), weights_only=True)
    assert set(saved) == {"fc.weight", "fc.bias"}
