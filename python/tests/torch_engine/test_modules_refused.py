"""Modules that would train something else than they compute with, or carry something from client to client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_kit import CLASSES, SHAPE, Net, descent, made, objective, phase

import formant.torch as ft
from formant._errors import FormantError

FLAT = SHAPE[0] * SHAPE[1] * SHAPE[2]


def built(module: Any, **options: Any) -> Any:
    return ft.network(module, **options).engine({"name": "module"}, None, SHAPE, CLASSES)


class Base(nn.Module):
    """With something to do in every pass, from the ``late``-th on."""

    late = 0

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(FLAT, 5)
        self.fc = nn.Linear(5, CLASSES)
        self.passes = 0

    def forward(self, x: Any) -> Any:
        self.passes += 1
        if self.passes > self.late:
            self.do(x)
        return self.fc(self.hidden(x))

    def hidden(self, x: Any) -> Any:
        return self.a(x.flatten(1))

    def do(self, x: Any) -> None:
        pass


class ReplacesData(Base):
    def do(self, x: Any) -> None:
        self.a.weight.data = self.a.weight.data / self.a.weight.data.norm()


class ReplacesBuffer(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))

    def do(self, x: Any) -> None:
        self.mean = 0.9 * self.mean + 0.1


class MakesBuffer(Base):
    def do(self, x: Any) -> None:
        self.register_buffer("made", torch.ones(2))


class Counts(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def do(self, x: Any) -> None:
        if self.training:
            self.seen += len(x)


class MovesFrozen(Base):
    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.zeros(3), requires_grad=False)

    def do(self, x: Any) -> None:
        self.codes += 1.0


class Sparse(Base):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 5, sparse=True)

    def hidden(self, x: Any) -> Any:
        return super().hidden(x) + self.table((x.flatten(1)[:, 0] > 0.5).long())


class Masked(Base):
    def __init__(self, value: float, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([0.0, value, 0.0, value, 0.0]), persistent)

    def hidden(self, x: Any) -> Any:
        return torch.softmax(super().hidden(x) + self.mask, 1)


@pytest.mark.parametrize(
    ("module", "said", "hint"),
    [
        (ReplacesData, "memory of parameter a.weight is replaced", "w.copy_("),
        (ReplacesBuffer, "buffer mean is replaced", "buffer.copy_("),
        (MakesBuffer, "buffer made is made", "__init__"),
        (Counts, "buffer seen is int64 and changes", "float32"),
        (MovesFrozen, "codes is frozen and changes", "leave it"),
        (Sparse, "table.weight has a sparse gradient", "sparse=False"),
        (lambda: Masked(float("-inf")), "buffer mask has values that are not finite", "-1e9"),
    ],
)
def test_modules_that_are_refused_when_tried(module: Any, said: str, hint: str) -> None:
    with pytest.raises(FormantError) as error:
        built(module())
    assert said in error.value.message and hint in str(error.value.hint), str(error.value)


@pytest.mark.parametrize("kind", [ReplacesData, ReplacesBuffer, MakesBuffer])
def test_what_begins_to_change_after_the_trial_is_refused_when_the_model_comes_back(kind: Any, data: Any, device: str) -> None:
    module = kind()
    module.late = 4
    engine, worker = made(module, data, device)
    with pytest.raises(FormantError, match="when the module runs") as error:
        for _ in range(3):
            phase(worker, engine.init(1), descent(), objective())
    assert error.value.hint


def test_what_is_changed_in_place_is_trained_and_comes_back(data: Any, device: str) -> None:
    class InPlace(Base):
        def do(self, x: Any) -> None:
            with torch.no_grad():
                self.a.weight.copy_(self.a.weight / self.a.weight.norm())

    engine, worker = made(InPlace(), data, device)
    w = phase(worker, engine.init(1), descent(rate=1e-6), objective())[0]
    assert np.linalg.norm(w[: 5 * FLAT]) == pytest.approx(1.0, abs=1e-3)


def test_masks_that_are_not_saved_need_not_travel(data: Any, device: str) -> None:
    for value in (-5.0, float("-inf")):
        engine, worker = made(Masked(value, persistent=False), data, device)
        assert engine.layout["buffers"] == []
        w, b, values, _ = phase(worker, engine.init(1), descent(), objective())
        assert len(b) == 0 and np.isfinite(values).all()

    class Moves(Masked):
        def do(self, x: Any) -> None:
            self.mask.mul_(0.9)

    assert built(Moves(-5.0, persistent=False)).layout["buffers"] == [("mask", (5,))]


def test_pieces_of_one_storage_are_no_shared_memory() -> None:
    module, whole = Base(), torch.randn(5 * FLAT + 5)
    module.a.weight = nn.Parameter(whole[: 5 * FLAT].view(5, FLAT))
    module.a.bias = nn.Parameter(whole[5 * FLAT :])
    built(module)
    module.a.bias = nn.Parameter(whole[5 * FLAT - 1 : -1])
    with pytest.raises(FormantError, match="parameter a.weight and parameter a.bias share"):
        built(module)
    module = Base()
    module.register_buffer("twin", module.a.weight.data[1])
    with pytest.raises(FormantError, match="parameter a.weight and buffer twin share"):
        built(module)


def test_training_does_not_depend_on_what_a_worker_did_before(data: Any, device: str) -> None:
    """A module whose norm was left in prediction: a fresh worker trains it as one does that has scored."""
    module = Net()
    module.norm.eval()
    engine, fresh = made(module, data, device)
    used = engine.worker(8)
    used.score(*engine.init(1), 0, np.arange(4, dtype=np.uint32))
    found = [phase(worker, engine.init(1), descent(), objective()) for worker in (fresh, used)]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert not np.array_equal(found[0][1], engine.init(1)[1])


def test_what_a_module_keeps_from_scoring_can_be_trained_with(data: Any, device: str) -> None:
    class Caches(Base):
        kept = None

        def hidden(self, x: Any) -> Any:
            if self.kept is None:
                self.kept = x.new_ones(1) * 2.0
            return super().hidden(x) * self.kept * self.a.bias.new_ones(5).requires_grad_()

        def __deepcopy__(self, _: Any) -> Any:
            made = type(self)()
            made.load_state_dict(self.state_dict())
            return made

    engine, worker = made(Caches(), data, device)
    worker.score(*engine.init(1), 0, np.arange(4, dtype=np.uint32))
    assert np.isfinite(phase(worker, engine.init(1), descent(), objective())[2]).all()


@pytest.mark.parametrize(
    ("layer", "refused"),
    [
        (nn.MultiheadAttention(4, 2, dropout=0.1), True),
        (nn.MultiheadAttention(4, 2), False),
        (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1), True),
        (nn.RReLU(), True),
        (nn.RReLU(0.2, 0.2), False),
        (nn.FractionalMaxPool2d(2, output_size=2), True),
        (nn.LSTM(4, 4, 2, dropout=0.1), True),
    ],
)
def test_layers_that_draw_from_the_common_generator(layer: Any, refused: bool, data: Any) -> None:
    module = Base()
    module.extra = layer
    try:
        engine = built(module, deterministic=True)
        if not refused:
            engine.worker(8)
            return
        kind = nn.MultiheadAttention if isinstance(layer, nn.TransformerEncoderLayer) else type(layer)
        with pytest.raises(FormantError, match=kind.__name__) as error:
            engine.worker(8)
        assert "deterministic=False" in str(error.value.hint)
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_is_drawn_anew_is_all_of_it() -> None:
    class Attends(Base):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(5, 1)

        def hidden(self, x: Any) -> Any:
            h = super().hidden(x)
            return self.attention(h, h, h)[0]

    engine = built(Attends(), reinitialise=True)
    names = [name for name, *_ in engine.layout["parameters"]]
    first, second = (dict(zip(names, np.split(engine.init(seed)[0], _ends(engine)))) for seed in (1, 2))
    assert not np.array_equal(first["attention.in_proj_weight"], second["attention.in_proj_weight"])
    assert not first["attention.out_proj.bias"].any(), "as attention has it, not as a linear layer has"

    class Positions(Base):
        def __init__(self) -> None:
            super().__init__()
            self.position = nn.Parameter(torch.zeros(5))

        def hidden(self, x: Any) -> Any:
            return super().hidden(x) + self.position

    built(Positions())
    with pytest.raises(FormantError, match="cannot draw position anew") as error:
        built(Positions(), reinitialise=True)
    assert "reset_parameters" in str(error.value.hint)


def _ends(engine: Any) -> Any:
    return np.cumsum([int(np.prod(shape)) for _, shape, _ in engine.layout["parameters"]])[:-1]
