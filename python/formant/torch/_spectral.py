"""Spectra of flat parameter vectors and the divergence between two of them, with ``torch.fft``.

``s(w) = |DFT(w)|``; the first ``ceil(tau N)`` entries of the full, mirrored vector of length ``N`` are compared. Half of the
bins are computed, because ``w`` is real: a bin stands for its own entry and for its mirror image, and how many of the
two are kept is its *count*.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, isqrt, prod
from typing import Any

import torch
from torch import Tensor

from formant._errors import FormantError

from ._module import Plan
from ._optimiser import dot

FLOOR = 1e-30
"""Teacher magnitudes are never below this, so that no logarithm is infinite."""
FORMS = ("normalized", "raw", "generalized", "complex")


def smooth(n: int) -> int:
    """The smallest number from ``n`` on without a prime factor above five.

    >>> smooth(7), smooth(2401)
    (8, 2430)
    """
    n = max(n, 1)
    while True:
        rest = n
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return n
        n += 1


def fast_length(d: int) -> int:
    """The quick length for ``d`` parameters; a part of results, as docs/SPECTRAL.md has it.

    >>> [fast_length(d) for d in (1, 7, 44_426, 878_538, 11_173_962)]
    [1, 8, 46080, 884736, 11796480]
    """
    if d < 1 << 15:
        return smooth(d)
    rows = 1 << ((3 * isqrt(d) // 5).bit_length() - 1)
    return rows * 16 * smooth(-(-d // (16 * rows)))


def kept_entries(tau: float, n: int) -> int:
    """``ceil(tau n)``, where 0.07 * 100 is 7 although it is 7.000000000000001.

    >>> kept_entries(0.07, 100), kept_entries(0.1, 44_426), kept_entries(1e-9, 5)
    (7, 4443, 1)
    """
    exact = tau * n
    nearest = float(round(exact))
    kept = nearest if abs(exact - nearest) <= 1e-9 * max(nearest, 1.0) else ceil(exact)
    return min(max(int(kept), 1), n)


@lru_cache(maxsize=64)
def _counts(n: int, tau: float, band: str, plain: bool) -> Tensor:
    """How many entries every bin stands for, of those that a band keeps: 0, 1 or 2. Only as far as there are any."""
    heads = n if plain else n // 2 + 1
    entries = kept_entries(tau, n)
    bins = torch.arange(heads)
    paired = torch.zeros(heads, dtype=torch.bool) if plain else (bins > 0) & (2 * bins != n)
    if band == "low" or entries == n:
        counts = (bins < entries).float() + (paired & (n - bins < entries)).float()
    else:
        # From the top down, then mirror images in the same order.
        counts = (bins >= heads - min(entries, heads)).float()
        mirrored = bins[paired].flip(0)[: max(entries - heads, 0)]
        counts[mirrored] += 1.0
    last = int(counts.nonzero().max()) + 1
    return counts[:last]


class Segment:
    """Parameters that are transformed together."""

    def __init__(self, start: int, d: int, length: str, tau: float, band: str, plain: bool, device: torch.device) -> None:
        self.start, self.d, self.plain = start, d, plain
        self.n = fast_length(d) if length == "fast" and not plain else d
        self.share = d / self.n
        """What an entry weighs."""
        self.gain = 1.0 if plain else float(self.n)
        """Sum of squared bins in terms of squared parameters."""
        self.counts = _counts(self.n, tau, band, plain).to(device)
        # The inverse transform counts every bin twice that has a mirror image.
        halves = torch.full_like(self.counts, 1.0 if plain else 0.5)
        if not plain:
            halves[0] = 1.0
            if self.n % 2 == 0 and len(halves) == self.n // 2 + 1:
                halves[-1] = 1.0
        self.synthesis = self.counts * halves

    def analyse(self, w: Tensor) -> Tensor:
        """The bins, as far as any is kept."""
        own = w[self.start : self.start + self.d]
        z: Tensor = own if self.plain else torch.fft.rfft(own, n=self.n)
        return z[: len(self.counts)]

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """``Re sum_k c_k e^(2 pi i k n / N)`` for each parameter; the counts are in the coefficients already."""
        if self.plain:
            missing = self.d - len(coefficients)
            return torch.nn.functional.pad(coefficients, (0, missing)) if missing else coefficients
        # What is cut off is zero, and so is what lies behind the end.
        found: Tensor = torch.fft.irfft(coefficients, n=self.n, norm="forward")
        return found[: self.d]


class Divergence:
    """``D(s(w) || s(teacher))`` as a term of an objective in ``w``, with its exact gradient."""

    def __init__(self, term: Mapping[str, Any], plan: Plan, teacher: Tensor) -> None:
        tau, band, part = float(term["tau"]), str(term["band"]), str(term.get("part", "all"))
        scope, self.form = str(term["scope"]), str(term["form"])
        _refuse(term, tau, band, scope, self.form)
        start = plan.body if part == "head" else 0
        end = plan.body if part == "body" else plan.size
        self.range = slice(start, end)
        self.anchor: Tensor | None = None
        if self.form == "complex" and tau == 1.0:
            # With the phase and all frequencies, Parseval spares the transform.
            self.anchor = teacher[self.range]
            return
        ranges = [(start, end - start)]
        if scope == "per-layer":
            ranges, at = [], 0
            for _, shape in plan.parameters:
                size: int = prod(shape)
                if start <= at < end and size:
                    ranges.append((at, size))
                at += size
        length, plain = str(term["length"]), scope == "plain"
        self.segments = [Segment(a, d, length, tau, band, plain, teacher.device) for a, d in ranges]
        cat = torch.cat
        self.lengths = [len(s.counts) for s in self.segments]
        self.synthesis = cat([s.synthesis for s in self.segments])
        if self.form == "complex":
            self.weights = cat([s.counts / s.gain for s in self.segments])
            self.synthesis = cat([s.synthesis / s.gain for s in self.segments])
            self.teacher = self._analyse(teacher)
            return
        self.weights = cat([s.counts * s.share for s in self.segments])
        self.synthesis = cat([s.synthesis * s.share for s in self.segments])
        q = self._analyse(teacher).abs().clamp_(min=FLOOR)
        self.logs = q.log()
        self.total = _sum(self.weights * q)

    def _analyse(self, w: Tensor) -> Tensor:
        if len(self.segments) == 1:
            return self.segments[0].analyse(w)
        return torch.cat([segment.analyse(w) for segment in self.segments])

    def _synthesise(self, coefficients: Tensor) -> Tensor:
        if len(self.segments) == 1:
            return self.segments[0].synthesise(coefficients)
        pieces = torch.split(coefficients, self.lengths)
        return torch.cat([s.synthesise(c) for s, c in zip(self.segments, pieces)])

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The value and its gradient by the parameters of ``range``."""
        if self.anchor is not None:
            apart = w[self.range] - self.anchor
            return 0.5 * dot(apart, apart), apart
        z = self._analyse(w)
        if self.form == "complex":
            apart = z - self.teacher
            squares = apart.real.square() + apart.imag.square() if apart.is_complex() else apart.square()
            return 0.5 * _sum(self.weights * squares), self._synthesise(apart * self.synthesis)
        squares = z.real.square() + z.imag.square() if z.is_complex() else z.square()
        # A bin whose square underflows is zero: 0 log 0 = 0, and it has no phase.
        tiny = torch.finfo(torch.float32).tiny
        there = squares >= tiny
        squares = squares.clamp_(min=tiny)
        p, ratio = squares.sqrt(), squares.log().mul_(0.5).sub_(self.logs)
        kept = self.weights * p * there
        along = _sum(kept * ratio)
        if self.form == "raw":
            value, slope = along, ratio + 1.0
        elif self.form == "generalized":
            value, slope = along - _sum(kept) + self.total, ratio
        else:
            total = _sum(kept)
            # A student whose kept spectrum is zero has no direction to move in.
            empty = total <= 0.0
            total = torch.where(empty, torch.ones_like(total), total)
            offset = torch.log(total / self.total)
            value = torch.where(empty, torch.zeros_like(total), along / total - offset)
            slope = (ratio - (offset + value).to(ratio.dtype)).mul_((1.0 / total).to(ratio.dtype))
        factors = slope.div_(p).mul_(self.synthesis).mul_(there)
        return value, self._synthesise(z * factors)


def _sum(x: Tensor) -> Tensor:
    return x.sum() if x.device.type == "mps" else x.sum(dtype=torch.float64)


def _refuse(term: Mapping[str, Any], tau: float, band: str, scope: str, form: str) -> None:
    """What this engine has not."""
    if not 0.0 < tau <= 1.0:
        raise FormantError(f"tau is {tau}", hint="give a share of the spectrum above 0 and up to 1")
    if form not in FORMS:
        raise FormantError(f"the PyTorch engine has no form {form!r}", hint=f"there are {', '.join(FORMS)}")
    if scope not in ("flat", "per-layer", "plain"):
        raise FormantError(
            f"the PyTorch engine has no spectral terms of scope {scope!r}",
            hint='set scope to "flat", "per-layer" or "plain", or run on Formant\'s own engine',
        )
    if band not in ("low", "high") and tau != 1.0:
        raise FormantError(
            f"the PyTorch engine has no spectral terms over the band {band!r}",
            hint='set band to "low" or "high", or run on Formant\'s own engine',
        )
    if term.get("align"):
        raise FormantError(
            "the PyTorch engine does not match hidden units (align = true)",
            hint="leave align out, or run on Formant's own engine",
        )
