"""Phases and steps against a loop that anybody would write with torch.optim."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch_kit import CLASSES, ORDER, SHAPE, SIZES, Net, descent, made, objective, phase

ADAM = {"name": "adam", "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3, "decoupled": False}


def ordered(module: Any) -> list[tuple[str, Any]]:
    """Parameters in named_parameters order with the head's last."""
    named = list(module.named_parameters())
    return [p for p in named if not p[0].startswith("head.")] + [p for p in named if p[0].startswith("head.")]


def flat(module: Any) -> Any:
    return torch.cat([p.detach().reshape(-1) for _, p in ordered(module)]).cpu().numpy()


def statistics(module: Any) -> Any:
    kept = [b.reshape(-1) for b in module.buffers() if b.is_floating_point()]
    return torch.cat(kept).cpu().numpy() if kept else np.empty(0, np.float32)


def by_hand(module: Any, data: Any, optimiser: Any, clip: float | None = None, penalty: Any = None, part: str = "all") -> Any:
    """The loop: losses of its steps; the module is trained."""
    x, y = torch.from_numpy(data[0]), torch.from_numpy(data[1])
    module.train()
    trained = [p for n, p in module.named_parameters() if part == "all" or (part == "head") == n.startswith("head.")]
    opt, values, at = optimiser(trained), [], 0
    for size in SIZES:
        batch = torch.from_numpy(ORDER[at : at + size].astype(np.int64))
        at += size
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x[batch]), y[batch])
        if penalty is not None:
            loss = loss + penalty(torch.cat([p.reshape(-1) for _, p in ordered(module)]))
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(trained, clip)
        opt.step()
        values.append(loss.item())
    return np.array(values)


CASES: dict[str, Any] = {
    "plain": (descent(), lambda p: torch.optim.SGD(p, 0.1), None),
    "momentum": (descent(momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), None),
    "decay": (descent(weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1), None),
    "both": (
        descent(momentum=0.5, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, weight_decay=0.1),
        None,
    ),
    "nesterov": (
        descent(rule={"name": "sgd", "momentum": 0.5, "nesterov": True}, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, weight_decay=0.1, nesterov=True),
        None,
    ),
    "clip": (descent(clip=0.3, momentum=0.5), lambda p: torch.optim.SGD(p, 0.1, momentum=0.5), 0.3),
    "far clip": (descent(clip=1e6), lambda p: torch.optim.SGD(p, 0.1), None),
    "adam": (
        descent(rate=0.01, rule=ADAM, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.99), 1e-3, weight_decay=0.1),
        None,
    ),
    "adamw": (
        descent(rate=0.01, rule={**ADAM, "decoupled": True}, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.01, (0.8, 0.99), 1e-3, weight_decay=0.1),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("part", ["all", "body", "head"])
def test_a_phase_is_the_loop_with_torch_optim(name: str, part: str, data: Any, device: str) -> None:
    down, optimiser, clip = CASES[name]
    module = Net()
    engine, worker = made(module, data, device)
    w, b, values, terms = phase(worker, engine.init(1), {**down, "part": part}, objective())
    wanted = by_hand(module, data, optimiser, clip, part=part)
    np.testing.assert_allclose(values, wanted, atol=2e-6)
    np.testing.assert_allclose(w, flat(module), atol=1e-5)
    np.testing.assert_allclose(b, statistics(module), atol=2e-6)
    assert terms is None
    moved = w != engine.init(1)[0]
    head = CLASSES * 6
    assert moved[:-head].any() == (part != "head") and moved[-head:].any() == (part != "body")


@pytest.mark.parametrize("part", ["all", "body", "head"])
def test_proximal_and_linear_terms_are_what_they_say(part: str, data: Any, device: str) -> None:
    module = Net()
    engine, worker = made(module, data, device)
    rng = np.random.default_rng(4)
    anchor, direction = (rng.standard_normal(engine.plan.size).astype(np.float32) for _ in range(2))
    a, d = torch.from_numpy(anchor), torch.from_numpy(direction)
    what = objective(
        ({"factor": 0.3}, {"name": "proximal", "anchor": anchor}),
        ({"factor": 0.0}, {"name": "proximal", "anchor": np.full_like(anchor, np.inf)}),
        ({"factor": 0.2}, {"name": "linear", "direction": direction}),
    )
    w, _, values, terms = phase(worker, engine.init(1), descent(part, clip=2.0), what)
    added: list[float] = []

    def penalty(v: Any) -> Any:
        found = 0.15 * (v - a).square().sum() + 0.2 * (d * v).sum()
        added.append(found.item())
        return found

    wanted = by_hand(module, data, lambda p: torch.optim.SGD(p, 0.1), 2.0, penalty, part)
    np.testing.assert_allclose(values, wanted, rtol=2e-6)
    np.testing.assert_allclose(terms, added, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(w, flat(module), atol=5e-6)


@pytest.mark.parametrize("rule", [descent(momentum=0.9), descent(rate=0.01, rule=ADAM)])
def test_a_phase_is_its_steps(rule: Any, data: Any, device: str) -> None:
    engine, worker = made(Net(dropout=0.5), data, device)
    anchor = np.zeros(engine.plan.size, np.float32)
    what = objective(({"share": 0.5}, {"name": "proximal", "anchor": anchor}))
    w, b, values, terms = phase(worker, engine.init(1), rule, what)
    # A worker that has done something else before, and that scores in between.
    other = engine.worker(8)
    phase(other, engine.init(1), descent(momentum=0.5), objective())
    v, c = engine.init(1)
    other.begin()
    at = 0
    for i, size in enumerate(SIZES):
        other.load(0, ORDER[at : at + size])
        at += size
        value, term = other.step(v, c, rule, what)
        assert value == pytest.approx(values[i], rel=1e-6) and term == pytest.approx(terms[i], rel=1e-6)
        other.score(*engine.init(1), 0, ORDER)
    np.testing.assert_array_equal(v, w)
    np.testing.assert_array_equal(c, b)


def test_a_phase_in_pieces_and_by_value_is_the_phase(data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    whole = phase(worker, engine.init(1), descent(momentum=0.9), objective())
    w, b = engine.init(1)
    worker.phase_begin(w, b, descent(momentum=0.9), objective())
    worker.phase_run(0, ORDER[:8], SIZES[:1])
    aside = worker.score(*engine.init(1), 0, ORDER)
    x, y = data[0][ORDER[8:16]], data[1][ORDER[8:16]]
    value, terms = worker.phase_batch(x, y, None, None)
    rest, _ = worker.phase_run(0, ORDER[16:], SIZES[2:])
    assert terms is None and value == pytest.approx(whole[2][1], rel=1e-6)
    worker.phase_end(w, b)
    np.testing.assert_allclose(rest, whole[2][2:], rtol=1e-6)
    np.testing.assert_allclose(w, whole[0], atol=1e-6)
    np.testing.assert_allclose(aside, worker.score(*engine.init(1), 0, ORDER), atol=1e-6)


def test_mixed_samples_have_a_mixed_loss(data: Any, device: str) -> None:
    module = Net(norm=False)
    engine, worker = made(module, data, device)
    x, y, partners = data[0][:6], data[1][:6], data[1][6:12]
    w, b = engine.init(1)
    worker.begin()
    worker.take(x, y, 0.7, partners)
    value, _ = worker.step(w, b, descent(), objective(smoothing=0.1))
    logits = module(torch.from_numpy(x))
    ce = [torch.nn.functional.cross_entropy(logits, torch.from_numpy(t), label_smoothing=0.1) for t in (y, partners)]
    loss = 0.7 * ce[0] + 0.3 * ce[1]
    loss.backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= 0.1 * p.grad
    assert value == pytest.approx(loss.item(), rel=1e-6)
    np.testing.assert_allclose(w, flat(module), atol=1e-6)


def test_looking_and_scoring_learn_nothing(data: Any, device: str) -> None:
    module = Net(dropout=0.5)
    engine, worker = made(module, data, device)
    w, b, *_ = phase(worker, engine.init(1), descent(), objective())
    before = w.copy(), b.copy()
    worker.load(0, ORDER[:5])
    features, logits = worker.look(w, b)
    again = worker.score(w, b, 0, ORDER)
    np.testing.assert_array_equal(w, before[0])
    np.testing.assert_array_equal(b, before[1])
    assert features.shape == (5, 5) and logits.dtype == np.float32 and again.shape == (len(ORDER), CLASSES)
    np.testing.assert_allclose(again[:5], logits, atol=1e-5)
    head = w[-18:]
    np.testing.assert_allclose(features @ head[:15].reshape(3, 5).T + head[15:], logits, atol=1e-5)
    assert worker.score(w, b, 0, ORDER[:0]).shape == (0, CLASSES)
    # The same as the module says in its own way of predicting.
    twin = copy.deepcopy(module).eval()
    at = 0
    for _, p in ordered(twin):
        p.data = torch.from_numpy(w[at : at + p.numel()].reshape(p.shape))
        at += p.numel()
    twin.norm.running_mean, twin.norm.running_var = torch.from_numpy(b[:4]), torch.from_numpy(b[4:])
    np.testing.assert_allclose(twin(torch.from_numpy(data[0][ORDER[:5]])).detach(), logits, atol=1e-5)


def test_dropout_is_active_and_reproducible_whoever_else_draws(data: Any, device: str) -> None:
    engine, worker = made(Net(dropout=0.5), data, device)
    _, plain = made(Net(), data, device)
    first = phase(worker, engine.init(1), descent(), objective())
    torch.manual_seed(99)
    second = phase(engine.worker(8), engine.init(1), descent(), objective())
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.allclose(first[2], phase(plain, engine.init(1), descent(), objective())[2])
    # Half of the numbers are zero, and the others twice as large.
    replica = worker._replica
    replica.mode(training=True)
    made_of = replica.module.drop(torch.ones(4000, device=replica.device)).cpu().numpy()
    assert set(np.unique(made_of)) == {0.0, 2.0} and abs(made_of.mean() - 1.0) < 0.1


def test_several_workers_at_once_change_nothing(data: Any, device: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    engine, worker = made(Net(dropout=0.3), data, device)
    alone = phase(worker, engine.init(1), descent(momentum=0.9), objective())
    workers = [engine.worker(8) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda one: phase(one, engine.init(1), descent(momentum=0.9), objective()), workers))
    for w, b, values, _ in found:
        np.testing.assert_array_equal(w, alone[0])
        np.testing.assert_array_equal(values, alone[2])


def test_a_loss_that_is_no_number_is_given_back(data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    w, b = engine.init(1)
    w[:] = np.nan
    _, _, values, _ = phase(worker, (w, b), descent(), objective())
    assert np.isnan(values).all()


def test_one_after_the_other_through_two_devices(data: Any) -> None:
    engine, _ = made(Net(), data, ["cpu", "cpu"])  # type: ignore[arg-type]
    found = [phase(engine.worker(8), engine.init(1), descent(), objective())[0] for _ in range(3)]
    np.testing.assert_array_equal(found[0], found[2])
    assert engine.pass_bytes(8, True) > engine.pass_bytes(8, False) > 8 * 4 * int(np.prod(SHAPE))
