"""What ``check`` says of networks and arguments that are not those it was made for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_kit import CLASSES, SHAPE, Net

import formant.torch as ft
from formant._errors import FormantError
from formant.torch._check import _full_precision


class Draws(nn.Module):
    """Layers that draw in training, each in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.3, batch_first=True)
        self.recurrent = nn.GRU(6, 6, 2, dropout=0.3, batch_first=True)
        self.act = nn.RReLU()
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.fc(self.act(self.recurrent(self.attention(x.mean(1)))[0][:, -1]))


def test_what_draws_is_compared_without_drawing() -> None:
    found = ft.check(ft.network(Draws()), shape=SHAPE, classes=CLASSES, steps=2, verbose=False)
    assert found.ok, str(found)


def test_deep_networks_are_compared_at_a_small_rate() -> None:
    deep = ft.engine().engine({"name": "resnet18", "width": 4}, None, (3, 32, 32), 10)
    plain = ft.engine().engine({"name": "cnn"}, None, (3, 32, 32), 10)
    from formant.torch._check import _usual_rate

    assert (_usual_rate(deep), _usual_rate(plain)) == (1e-4, 0.003)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": 5}, {"shape": "abc"}, {"shape": (1, 2)}, {"classes": "x"}, {"classes": 0}, {"rate": "x"}, {"rate": True},
        {"rate": float("nan")}, {"rate": 0}, {"steps": True}, {"steps": 0}, {"spec": "cnn"}, {"spec": {}},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(FormantError) as error:
        ft.check(ft.network(Net()), **{"shape": SHAPE, "classes": CLASSES, "verbose": False, **wrong})
    assert f"{next(iter(wrong))} is " in error.value.message and error.value.hint


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="an older PyTorch")
def test_the_new_switches_of_precision_are_left_as_they_were() -> None:
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = matmul.fp32_precision, conv.fp32_precision
    try:
        matmul.fp32_precision, conv.fp32_precision = "tf32", "ieee"
        with _full_precision():
            assert matmul.fp32_precision != "tf32" and conv.fp32_precision == "ieee"
        assert (matmul.fp32_precision, conv.fp32_precision) == ("tf32", "ieee")
    finally:
        matmul.fp32_precision, conv.fp32_precision = before
