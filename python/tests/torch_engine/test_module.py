"""Which modules are networks, in which order their tensors come, and what is refused with which remedy."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_kit import CLASSES, SHAPE, Net, descent, made, objective, phase

import formant
import formant.torch as ft
from formant._errors import FormantError
from formant.torch import _catalogue

FLAT = SHAPE[0] * SHAPE[1] * SHAPE[2]


def built(module: Any, head: str | None = None, **options: Any) -> Any:
    return ft.network(module, head, **options).engine({"name": "module"}, None, SHAPE, CLASSES)


def sequence(*layers: Any) -> Any:
    return nn.Sequential(nn.Flatten(), *layers)


def test_the_order_is_that_of_named_parameters_with_the_head_last() -> None:
    module = Net()
    engine = built(module)
    names = [name for name, *_ in engine.layout["parameters"]]
    assert names == ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias", "head.weight", "head.bias"]
    assert [part for *_, part in engine.layout["parameters"]] == ["body"] * 6 + ["head"] * 2
    assert engine.layout["buffers"] == [("norm.running_mean", (4,)), ("norm.running_var", (4,))]
    assert engine.features == 5
    w, b = engine.init(1)
    own = dict(module.named_parameters())
    np.testing.assert_array_equal(w, np.concatenate([own[n].detach().numpy().ravel() for n in names]))
    np.testing.assert_array_equal(b, [0, 0, 0, 0, 1, 1, 1, 1])
    assert w.dtype == b.dtype == np.float32


def test_the_first_model_is_that_of_now_or_drawn_anew(data: Any) -> None:
    module = Net()
    given = built(module)
    before = given.init(1)[0].copy()
    with torch.no_grad():
        module.fc.weight.zero_()
    np.testing.assert_array_equal(given.init(2)[0], before)
    anew = built(module, reinitialise=True)
    np.testing.assert_array_equal(anew.init(1)[0], anew.init(1)[0])
    assert not np.array_equal(anew.init(1)[0], anew.init(2)[0])
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    anew.init(3)
    assert torch.rand(1) == wanted, "PyTorch's own generator is left alone"


def test_training_leaves_the_module_alone(data: Any, device: str) -> None:
    module = Net()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    engine, worker = made(module, data, device)
    phase(worker, engine.init(1), descent(), objective())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_frozen_parameters_stay_and_do_not_travel(data: Any, device: str) -> None:
    module = Net()
    module.conv.requires_grad_(False)
    engine, worker = made(module, data, device)
    assert [n for n, *_ in engine.layout["parameters"]][0] == "norm.weight"
    phase(worker, engine.init(1), descent(), objective())
    assert torch.equal(worker._replica.module.conv.weight.cpu(), module.conv.weight)


def test_channels_are_last_where_that_is_known_to_be_exact_and_nowhere_else(data: Any) -> None:
    assert not built(Net()).plan.channels_last
    for name, last in {"cnn": True, "lenet5": True, "resnet18": False}.items():
        spec = {"name": name, "width": 4} if name == "resnet18" else {"name": name}
        assert ft.engine().engine(spec, None, (3, 32, 32), CLASSES).plan.channels_last == last


@pytest.mark.parametrize("spec", [{"name": "cnn"}, {"name": "resnet18", "width": 4}], ids=lambda s: s["name"])
def test_gradients_of_the_catalogue_are_those_of_double_precision(spec: Any, device: str) -> None:
    """A whole step, not single layers. It does not tell memory formats apart: the test above does."""
    shape, rng = (3, 32, 32), np.random.default_rng(5)
    engine = ft.engine(device).engine(spec, None, shape, 10)
    x, y = rng.standard_normal((8, *shape)).astype(np.float32), rng.integers(0, 10, 8)
    engine.put(0, x, y)
    w, b = engine.init(1)
    before, worker = w.copy(), engine.worker(8)
    worker.load(0, np.arange(8, dtype=np.uint32))
    worker.begin()
    worker.step(w, b, descent(rate=1.0), objective())
    wide = _catalogue.build(spec, shape, 10).double().train()
    wide.load_state_dict(engine.template.double().state_dict())
    nn.functional.cross_entropy(wide(torch.from_numpy(x).double()), torch.from_numpy(y)).backward()
    wanted = torch.cat([dict(wide.named_parameters())[n].grad.reshape(-1) for n, _ in engine.plan.parameters]).numpy()
    assert np.linalg.norm((before - w) - wanted) < 2e-5 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("module", "head", "said", "hint"),
    [
        ("a string", None, "type str", "torch.nn.Module"),
        (Net, None, "type type", "Net()"),
        (sequence(nn.ReLU()), None, "no parameters", "requires_grad"),
        (sequence(nn.Linear(FLAT, 7)), None, "no torch.nn.Linear with 3 outputs", "1 (7)"),
        (nn.Sequential(nn.Conv2d(2, 3, 6), nn.Flatten()), None, "no torch.nn.Linear", "no linear layer"),
        (sequence(nn.Linear(FLAT, 3, bias=False)), None, "no bias", "bias=True"),
        (Net(), "fcc", "'fcc' does not exist", "fc (5)"),
        (Net(), "conv", "'conv' is no torch.nn.Linear", "head (3)"),
        (Net(), "fc", "has 5 outputs, and there are 3 classes", "Linear(16, 3)"),
        (sequence(nn.Linear(FLAT, 3), nn.Softmax(1)), None, "not that of its head '1'", "softmax"),
        (sequence(nn.Linear(FLAT, 3), nn.Linear(3, 3)), "1", "not that of its head '1'", "head="),
        (sequence(nn.LazyLinear(3)), None, "1.weight of the module has no shape yet", "once on a batch"),
        (sequence(nn.Linear(FLAT, 3)).double(), None, "1.weight is float64", "float()"),
        (sequence(nn.Linear(FLAT, 3)).half(), None, "1.weight is float16", "float()"),
        (sequence(nn.Linear(FLAT + 1, 3)), None, "(3, 2, 6, 6)", "(channels, height, width)"),
        (nn.Sequential(nn.Flatten(2), nn.Linear(36, 3)), None, "gives (3, 2, 3)", "logits (3, 3)"),
        (nn.Linear(6, 3), None, "single layer", "wrap it"),
        (sequence(nn.BatchNorm1d(FLAT, momentum=None), nn.Linear(FLAT, 3)), None, "counts batches", "momentum"),
    ],
)
def test_what_is_no_network_says_why(module: Any, head: str | None, said: str, hint: str) -> None:
    with pytest.raises(FormantError) as error:
        built(module, head)
    assert said in error.value.message and error.value.hint and hint in error.value.hint, str(error.value)


def test_shared_parameters_are_refused() -> None:
    tied = sequence(nn.Linear(FLAT, FLAT), nn.Linear(FLAT, FLAT), nn.Linear(FLAT, 3))
    tied[2].weight = tied[1].weight
    twice = nn.Linear(FLAT, FLAT)
    frozen = sequence(nn.Linear(FLAT, 3))
    frozen[1].requires_grad_(False)
    for module in (tied, sequence(OrderedDict(a=twice, b=twice)["a"], twice, nn.Linear(FLAT, 3))):
        with pytest.raises(FormantError, match="parameter 1.weight and parameter 2.weight share"):
            built(module)
    with pytest.raises(FormantError, match="no parameters to train"):
        built(frozen)


def test_modules_that_change_are_refused() -> None:
    class Grows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(FLAT, 3)

        def forward(self, x: Any) -> Any:
            if not hasattr(self, "late"):
                self.late = nn.Parameter(torch.zeros(1))
            return self.fc(x.flatten(1) + self.late)

    class Replaces(Grows):
        def __init__(self) -> None:
            super().__init__()
            self.late = nn.Parameter(torch.zeros(1))
            self.register_buffer("mean", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.mean().detach().reshape(1)
            return super().forward(x)

    class Cuts(Grows):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                return self.fc(x.flatten(1))

    for module, said in ((Grows(), "changes its parameters"), (Replaces(), "buffer mean is replaced"), (Cuts(), "no gradient")):
        with pytest.raises(FormantError, match=said):
            built(module)


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"device": "cuda:99"}, "cuda:99", "PyTorch sees cpu"),
        ({"device": "nonsense"}, "nonsense", "cpu"),
        ({"device": "meta"}, "meta", "cpu"),
        ({"device": []}, "empty", "cuda:0"),
        ({"threads": 0}, "threads is 0", "1 or more"),
        ({"threads": 1_000_000}, "threads is 1000000, and this machine has", "give 1 to"),
        ({"autocast": "float16"}, "float16", "bfloat16"),
        ({"autocast": "int3"}, "int3", "bfloat16"),
    ],
)
def test_options_that_make_no_sense(options: Any, said: str, hint: str) -> None:
    for make in (lambda: ft.network(Net(), **options), lambda: ft.engine(**options)):
        with pytest.raises(FormantError) as error:
            make()
        assert said in error.value.message and hint in str(error.value.hint)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_cuda_that_is_not_there_says_what_is() -> None:
    with pytest.raises(FormantError) as error:
        ft.engine("cuda")
    assert "'cuda' is not there" in error.value.message and "PyTorch sees cpu" in str(error.value.hint)


def test_misuse_of_engines_and_workers(data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    w, b = engine.init(1)
    fresh = engine.worker(8)
    for wrong, said in [
        (lambda: engine.put(1, data[0][:, :1], data[1]), "x has the shape"),
        (lambda: fresh.step(w, b, descent(), objective()), "no batch"),
        (lambda: fresh.phase_end(w, b), "no phase"),
        (lambda: fresh.load(7, np.zeros(1, np.uint32)), "key 7"),
        (lambda: worker.phase_begin(w[:-1], b, descent(), objective()), "w is float32 of the shape"),
        (lambda: worker.phase_begin(w, b, descent(), objective(loss={"name": "hinge"})), "hinge"),
        (lambda: worker.phase_begin(w, b, descent(), objective(({"factor": 1.0}, {"name": "odd"}))), "odd"),
        (lambda: ft.network(Net()).engine({"name": "cnn"}, None, SHAPE, CLASSES), "network is 'cnn'"),
        (lambda: ft.engine().engine({"name": "module"}, None, SHAPE, CLASSES), "is a module"),
        (lambda: ft.engine().engine({"name": "vgg"}, None, SHAPE, CLASSES), "vgg"),
        (lambda: ft.engine().engine({"name": "cnn"}, None, SHAPE, CLASSES), "too small"),
        (lambda: ft.engine().engine({"name": "mlp"}, None, (3, 8), CLASSES), "shape of a sample"),
    ]:
        with pytest.raises(FormantError, match=said):
            wrong()
    # It is none the worse for it.
    phase(worker, (w, b), descent(), objective())


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"scope": "two-d"}, "two-d"), ({"band": "random"}, "random"), ({"align": True}, "align"), ({"tau": 0.0}, "tau")],
)
def test_spectral_terms_that_the_device_has_not(changed: Any, said: str, data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    w, b = engine.init(1)
    term = {"name": "spectral", "form": "raw", "scope": "flat", "length": "fast", "tau": 0.5, "band": "low", "teacher": w}
    with pytest.raises(FormantError, match=said) as error:
        worker.phase_begin(w, b, descent(), objective(({"factor": 1.0}, {**term, **changed})))
    assert error.value.hint


def test_a_batch_of_one_before_a_batch_norm(device: str) -> None:
    """The norm rests for that step: its statistics stay, and all else learns."""
    module = sequence(nn.BatchNorm1d(FLAT), nn.Linear(FLAT, 3))
    draw = np.random.default_rng(1)
    data = draw.standard_normal((9, *SHAPE)).astype(np.float32), np.arange(9) % 3
    engine, worker = made(module, data, device)
    assert engine.plan.lone_norms_rest and not built(Net()).plan.lone_norms_rest
    w, b = engine.init(1)
    began, still = w.copy(), b.copy()
    worker.load(0, np.zeros(1, np.uint32))
    worker.step(w, b, descent(), objective())
    np.testing.assert_array_equal(b, still)
    assert not np.array_equal(w, began) and np.isfinite(w).all()
    # An epoch whose last batch is one sample: the norm learns from the others.
    worker.phase_begin(w, b, descent(), objective())
    worker.phase_run(0, np.arange(9, dtype=np.uint32), np.array([1, 8], np.uint32))
    worker.phase_end(w, b)
    assert not np.array_equal(b, still)


def test_a_batch_of_one_before_a_norm_without_statistics(device: str) -> None:
    module = sequence(nn.BatchNorm1d(FLAT, track_running_stats=False), nn.Linear(FLAT, 3))
    engine, worker = made(module, (np.zeros((2, *SHAPE), np.float32), np.zeros(2, np.int64)), device)
    w, b = engine.init(1)
    worker.load(0, np.zeros(1, np.uint32))
    with pytest.raises(FormantError, match="batch of one sample"):
        worker.step(w, b, descent(), objective())


SIZES = {"logistic": 30_730, "mlp": 616_610, "lenet5": 62_006, "cnn": 878_538, "resnet18": 11_173_962}


@pytest.mark.parametrize("name", SIZES)
def test_the_catalogue_has_the_sizes_of_the_core(name: str) -> None:
    assert sum(p.numel() for p in _catalogue.build({"name": name}, (3, 32, 32), 10).parameters()) == SIZES[name]


def test_a_given_layout_is_followed_and_compared(data: Any) -> None:
    own = ft.engine().engine({"name": "mlp", "hidden": [4, 5]}, None, SHAPE, CLASSES)
    layout = own.layout
    layout["parameters"] = [(n, list(s), p) for n, s, p in layout["parameters"][2:4] + layout["parameters"][:2] + layout["parameters"][4:]]
    engine = ft.engine().engine({"name": "mlp", "hidden": [4, 5]}, layout, SHAPE, CLASSES)
    assert [n for n, *_ in engine.layout["parameters"]][:2] == ["fc2.weight", "fc2.bias"]
    layout["parameters"][0] = ("fc2.weight", [5, 9], "body")
    with pytest.raises(FormantError, match="fc2.weight"):
        ft.engine().engine({"name": "mlp", "hidden": [4, 5]}, layout, SHAPE, CLASSES)


def test_options_still_train(data: Any, device: str) -> None:
    plain = made(Net(), data, device)
    wanted = phase(plain[1], plain[0].init(1), descent(), objective())
    torch.manual_seed(3)
    engine, worker = made(Net(), data, device, autocast="bfloat16")
    found = phase(worker, plain[0].init(1), descent(), objective())
    assert np.abs(found[0] - wanted[0]).max() < 0.05 and not np.array_equal(found[0], wanted[0])
    assert "bfloat16" in repr(ft.network(Net(), autocast=True))


def test_deterministic_engines_repeat_themselves(data: Any, device: str) -> None:
    try:
        engine, worker = made(Net(dropout=0.2), data, device, deterministic=True)
        found = [phase(engine.worker(8), engine.init(1), descent(momentum=0.9), objective())[0] for _ in range(2)]
        assert torch.are_deterministic_algorithms_enabled()
        np.testing.assert_array_equal(*found)
    finally:
        torch.use_deterministic_algorithms(False)


def test_check_agrees_with_itself_and_sees_differences(device: str) -> None:
    found = ft.check(ft.network(Net()), device=device, shape=SHAPE, classes=CLASSES, steps=3, verbose=False)
    assert found.ok and len(found.rows) == 19 and "all agree" in str(found)
    from dataclasses import replace

    broken = replace(found, rows=(replace(found.rows[0], parameters=float("nan")),))
    assert not broken.ok and "DIFFERS" in str(broken)


class _Base(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(64, 8)
        self.fc = torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.fc(self.a(x.flatten(1)))


class _Grows(_Base):
    count = 0

    def forward(self, x: Any) -> Any:
        self.count += 1
        if self.count > 3 and not hasattr(self, "b"):
            self.b = torch.nn.Linear(8, 8)
        return super().forward(x)


class _Replaces(_Base):
    def forward(self, x: Any) -> Any:
        self.a.weight = torch.nn.Parameter(self.a.weight.detach().clone())
        return super().forward(x)


class _Tuple(_Base):
    def forward(self, x: Any) -> Any:
        made = super().forward(x)
        return made if self.training else (made, made)


class _Sequence(_Base):
    def __init__(self) -> None:
        super().__init__()
        self.drop = torch.nn.AlphaDropout(0.5)


@pytest.mark.parametrize(
    ("module", "said"),
    [(_Grows, "changes its parameters"), (_Replaces, "changes its parameters"), (_Tuple, "after eval()"), (_Sequence, "AlphaDropout")],
)
def test_modules_that_would_train_something_else(module: Any, said: str, tmp_path: Any) -> None:
    draw = np.random.default_rng(1)
    data = draw.random((60, 1, 8, 8), dtype=np.float32), np.arange(60) % 3
    network = formant.torch.network(module(), deterministic=True)
    with pytest.raises(formant.FormantError, match=said.replace("(", r"\(").replace(")", r"\)")) as caught:
        formant.run(data=data, test=data, clients=2, min_samples=5, network=network, methods=["fedavg"], rounds=1, epochs=2,
                    out=tmp_path / "run", progress=False)  # fmt: skip
    assert caught.value.hint


def test_shared_buffers_and_numbers_that_are_none() -> None:
    module = _Base()
    module.register_buffer("one", torch.ones(3))
    module.register_buffer("two", module.one)
    with pytest.raises(formant.FormantError, match="buffer one and buffer two"):
        formant.torch.network(module)
    spoilt = _Base()
    torch.nn.init.constant_(spoilt.a.weight, float("nan"))
    with pytest.raises(formant.FormantError, match="not finite"):
        formant.torch.network(spoilt).engine({"name": "module"}, None, (1, 8, 8), 3)
