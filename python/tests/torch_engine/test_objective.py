"""Losses and terms against their definitions, in double precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch_kit import CLASSES, ORDER, SIZES, Net, descent, made, objective, phase
from formant.torch._optimiser import dot
from formant.torch._spectral import Divergence, fast_length, kept_entries


def first_step(worker: Any, model: Any, data: Any, what: Any, part: str = "all") -> Any:
    """The value of a step at rate 1 and what it subtracts: the gradient."""
    w, b = (x.copy() for x in model)
    worker.begin()
    worker.take(data[0][:8], data[1][:8], None, None)
    value, terms = worker.step(w, b, descent(part, rate=1.0), what)
    return value, terms, model[0] - w


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, np.array([0.5, 2.0, 3.0], np.float32)])
@pytest.mark.parametrize("name", ["cross_entropy", "shifted", "guided"])
def test_losses_by_their_formulas(name: str, weights: Any, smoothing: float, data: Any, device: str) -> None:
    engine, worker = made(Net(norm=False), data, device)
    model = engine.init(1)
    worker.take(data[0][:8], data[1][:8], None, None)
    logits = worker.look(*model)[1].astype(np.float64)
    shift = np.array([2.0, -3.0, 0.5], np.float32)
    targets = np.random.default_rng(0).dirichlet(np.ones(3), 8).astype(np.float32)
    targets[1], targets[2] = 0.0, [0.0, 1.0, 0.0]
    loss = {"name": name, "shift": shift, "weight": 1.5, "targets": targets}
    value, terms, _ = first_step(worker, model, data, objective(loss=loss, smoothing=smoothing, weights=weights))
    logs = lambda z: z - np.log(np.exp(z).sum(1, keepdims=True))  # noqa: E731
    scored = logs(logits + shift) if name == "shifted" else logs(logits)
    v, y = np.ones(3) if weights is None else weights.astype(np.float64), data[1][:8]
    wanted = sum(
        (1 - smoothing) * v[c] * -row[c] + smoothing / 3 * (v * -row).sum() for row, c in zip(scored, y)
    ) / v[y].sum()
    if name == "guided":
        rows = [(p[p > 0] * (np.log(p[p > 0]) - q[p > 0])).sum() for p, q in zip(targets.astype(np.float64), scored)]
        wanted += 1.5 / 8 * np.sum([r for r, p in zip(rows, targets) if p.any()])
    assert terms is None
    assert value == pytest.approx(wanted, rel=1e-5)


def test_the_head_term_touches_the_head_alone(data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    model, rng = engine.init(1), np.random.default_rng(1)
    features, labels = rng.standard_normal((7, 5)).astype(np.float32), rng.integers(0, 3, 7)
    term = ({"factor": 0.7}, {"name": "head", "features": features, "labels": labels})
    _, _, plain = first_step(worker, model, data, objective())
    head = torch.from_numpy(model[0][-18:].copy()).requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        torch.from_numpy(features) @ head[:15].view(3, 5).T + head[15:], torch.from_numpy(labels)
    )
    loss.backward()
    _, terms, with_it = first_step(worker, model, data, objective(term))
    assert terms == pytest.approx(0.7 * loss.item(), rel=1e-6)
    np.testing.assert_allclose(with_it[-18:] - plain[-18:], 0.7 * head.grad.numpy(), atol=2e-6)
    np.testing.assert_allclose(with_it[:-18], plain[:-18], atol=2e-6)
    _, terms, body = first_step(worker, model, data, objective(term), "body")
    assert terms == pytest.approx(0.7 * loss.item(), rel=1e-6)
    np.testing.assert_array_equal(body[-18:], 0.0)


def test_a_share_is_that_part_of_the_loss_s_pull(data: Any, device: str) -> None:
    engine, worker = made(Net(norm=False), data, device)
    model = engine.init(1)
    anchor = model[0] * 2 + 0.5
    _, _, plain = first_step(worker, model, data, objective())
    usual = spectral(teacher=anchor, tau=0.4)
    for term in ({"name": "proximal", "anchor": anchor}, usual, {**usual, "part": "head"}):
        _, terms, with_it = first_step(worker, model, data, objective(({"share": 0.25}, term)))
        assert np.linalg.norm(with_it - plain) / np.linalg.norm(plain) == pytest.approx(0.25, rel=1e-4)
    # Twice as strong on every other step, and a mean over the steps that it acts on.
    worker.begin()
    worker.take(data[0][:8], data[1][:8], None, None)
    what = objective(({"share": 0.25}, {**usual, "every": 2}))
    for step in range(4):
        w, b = (x.copy() for x in model)
        _, terms = worker.step(w, b, descent(rate=1.0), what)
        apart = np.linalg.norm(model[0] - w - plain) / np.linalg.norm(plain)
        assert apart == pytest.approx(0.5 if step % 2 == 0 else 0.0, abs=1e-4)
        assert (terms == 0.0) == (step % 2 == 1)
    # A term that does not pull has no part of anything.
    still = objective(({"share": 0.25}, {"name": "proximal", "anchor": model[0]}))
    value, terms, with_it = first_step(worker, model, data, still)
    np.testing.assert_array_equal(with_it, plain)
    assert terms == 0.0


# Spectra.


def spectral(**changed: Any) -> dict[str, Any]:
    usual = {
        "name": "spectral", "form": "normalized", "scope": "flat", "length": "exact", "tau": 1.0, "band": "low",
        "band_seed": None, "part": "all", "every": 1, "align": False,
    }  # fmt: skip
    return {**usual, **changed}


def kept_of(n: int, tau: float, band: str, plain: bool) -> list[int]:
    entries = min(max(math.ceil(tau * n * (1 - 1e-12)), 1), n)
    if band == "low":
        return list(range(entries))
    heads = n if plain else n // 2 + 1
    down = list(reversed(range(heads)))
    return (down + [n - k for k in down if heads <= n - k < n])[:entries]


def defined(term: dict[str, Any], plan: Any, w: Any) -> float:
    """The divergence by its definition: every entry of the mirrored spectrum, in double precision."""
    plain = term["scope"] == "plain"
    start = plan.body if term["part"] == "head" else 0
    end = plan.body if term["part"] == "body" else plan.size
    ranges, at = [(start, end)], 0
    if term["scope"] == "per-layer":
        ranges = []
        for _, shape in plan.parameters:
            size = math.prod(shape)
            ranges += [(at, at + size)] if start <= at < end else []
            at += size
    pairs = []
    for a, e in ranges:
        n = fast_length(e - a) if term["length"] == "fast" and not plain else e - a
        spectra = [x[a:e].astype(np.complex128) if plain else np.fft.fft(x[a:e], n) for x in (w, term["teacher"].astype(float))]
        kept = kept_of(n, term["tau"], term["band"], plain)
        pairs.append((spectra[0][kept], spectra[1][kept], (e - a) / n, 1.0 if plain else float(n)))
    if term["form"] == "complex":
        return float(sum((np.abs(z - v) ** 2).sum() / (2 * gain) for z, v, _, gain in pairs))
    p = np.concatenate([np.abs(z) for z, *_ in pairs])
    q = np.concatenate([np.abs(v) for _, v, *_ in pairs])
    share = np.concatenate([np.full(len(z), s) for z, _, s, _ in pairs])
    along = (share * p * np.log(p / q)).sum()
    if term["form"] == "raw":
        return float(along)
    if term["form"] == "generalized":
        return float(along - (share * p).sum() + (share * q).sum())
    return float(along / (share * p).sum() - np.log((share * p).sum() / (share * q).sum()))


@pytest.mark.parametrize("form", ["normalized", "raw", "generalized", "complex"])
@pytest.mark.parametrize("scope", ["flat", "per-layer", "plain"])
@pytest.mark.parametrize("length", ["exact", "fast"])
@pytest.mark.parametrize(("tau", "band"), [(1.0, "low"), (0.1, "low"), (0.7, "low"), (0.2, "high"), (0.8, "high")])
def test_spectral_terms_by_their_definition(form: str, scope: str, length: str, tau: float, band: str, data: Any, device: str) -> None:
    engine, worker = made(Net(norm=False), data, device)
    plan, rng = engine.plan, np.random.default_rng(8)
    for part in ["all", "body", "head"]:
        w, teacher = (rng.standard_normal(plan.size).astype(np.float32) for _ in range(2))
        term = spectral(form=form, scope=scope, length=length, tau=tau, band=band, part=part, teacher=teacher)
        place = worker._replica.device
        divergence = Divergence(term, plan, torch.from_numpy(teacher).to(place))
        value, gradient = divergence.evaluate(torch.from_numpy(w).to(place))
        wide = w.astype(np.float64)
        wanted = defined(term, plan, wide)
        assert value.item() == pytest.approx(wanted, rel=1e-5, abs=1e-5)
        own = np.zeros(plan.size)
        own[divergence.range] = gradient.cpu().numpy()
        scale = np.abs(own).max()
        for i in rng.choice(plan.size, 12):
            ends = []
            for h in (1e-5, -1e-5):
                moved = wide.copy()
                moved[i] += h
                ends.append(defined(term, plan, moved))
            assert own[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-4 * scale), (part, i)


def test_lengths_and_entries_are_those_of_the_core() -> None:
    assert [fast_length(d) for d in (1, 7, 2401, 44_426, 819_200, 878_538)] == [1, 8, 2430, 46_080, 819_200, 884_736]
    assert kept_entries(0.07, 100) == 7 and kept_entries(1.0, 9) == 9 and kept_entries(1e-12, 9) == 1


def test_complex_over_everything_is_the_proximal_term(data: Any, device: str) -> None:
    engine, worker = made(Net(), data, device)
    teacher = np.zeros(engine.plan.size, np.float32)
    what = [spectral(form="complex", teacher=teacher), {"name": "proximal", "anchor": teacher}]
    found = [phase(worker, engine.init(1), descent(momentum=0.5), objective(({"factor": 0.3}, one))) for one in what]
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    np.testing.assert_allclose(found[0][3], found[1][3], rtol=1e-6)


def test_a_student_without_a_spectrum_stays(data: Any, device: str) -> None:
    plan = made(Net(norm=False), data, device)[0].plan
    teacher = torch.ones(plan.size)
    for form in ["normalized", "raw", "generalized"]:
        value, gradient = Divergence(spectral(form=form), plan, teacher).evaluate(torch.zeros(plan.size))
        assert torch.isfinite(gradient).all() and not gradient.any() and torch.isfinite(value)


def test_every_third_step_pulls_three_times(data: Any, device: str) -> None:
    engine, worker = made(Net(norm=False), data, device)
    teacher = engine.init(1)[0] + 1.0
    still = descent(rate=0.0)
    once, third = (
        phase(worker, engine.init(1), still, objective(({"factor": 2.0}, spectral(teacher=teacher, every=k))))[3]
        for k in (1, 3)
    )
    np.testing.assert_allclose(third, [3 * once[0], 0.0, 0.0, 3 * once[3]], rtol=1e-6)
    assert CLASSES == 3 and len(ORDER) == SIZES.sum()


def test_dot_products_of_millions_of_numbers_keep_their_digits(device: str) -> None:
    # One number in all places: every partial sum is rounded the same way, so that errors add up instead of cancelling.
    for size in (0, 1, (1 << 16) + 1, 8_000_000):
        x = torch.full((size,), 0.0123, device=device)
        wanted = size * float(x[0]) ** 2 if size else 0.0
        found = dot(x, x)
        assert found.shape == () and found.item() == pytest.approx(wanted, rel=1e-4)
