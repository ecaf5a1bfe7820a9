"""What a method adds to the loss of a client: terms over the vector of parameters, as data that every engine reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._errors import FormantError
from ._vectors import vector

Vector = npt.NDArray[np.float32]

BANDS = ("low", "high", "random")
PARTS = ("all", "body", "head")


@dataclass(frozen=True)
class Term:
    """Something that is added to the loss, ``weight`` times.

    With ``share`` in place of ``weight`` the term pulls as strongly, by the norms of gradients, as that share of
    the loss: ``share=0.2`` means a fifth.
    """

    def _term(self, parameters: int) -> dict[str, Any]:
        raise NotImplementedError

    def _weight(self) -> tuple[float | None, float | None]:
        raise NotImplementedError

    def _data(self, parameters: int) -> dict[str, Any]:
        """As an engine takes it, over so many parameters; buffers at the end of a vector are cut off."""
        factor, share = self._weight()
        if factor is not None and share is not None:
            raise FormantError(
                f"{type(self).__name__} has a weight of {factor} and a share of {share}", hint="give one of them"
            )
        for name, value in (("weight", factor), ("share", share)):
            _finite(type(self).__name__, name, value)
        if share is not None and share < 0:
            raise FormantError(
                f"share of {type(self).__name__} is {share!r}", hint="give a share from 0 on; weight may be negative"
            )
        weight = {"share": float(share)} if share is not None else {"factor": float(1.0 if factor is None else factor)}
        return {"weight": weight, "term": self._term(parameters)}


def _finite(whose: str, name: str, value: object) -> None:
    if value is not None and not (isinstance(value, (int, float, np.floating)) and np.isfinite(value)):
        raise FormantError(f"{name} of {whose} is {value!r}", hint="give a finite number")


def _whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise FormantError(f"{name} of Spectral is {value!r}", hint=f"give a whole number from {least} to {most}")


def _cut(given: object, parameters: int, name: str) -> Vector:
    found = vector(given, name)
    if found.size < parameters:
        raise FormantError(
            f"{name} has {found.size} numbers, and the network has {parameters} parameters",
            hint="give a vector like the one that was received",
        )
    found = np.ascontiguousarray(found[:parameters])
    if not np.isfinite(found).all():
        raise FormantError(f"{name} holds numbers that are not finite", hint="look where they come from: training has diverged")
    return found


@dataclass(frozen=True)
class Proximal(Term):
    """``weight · ½ ‖w − anchor‖²``."""

    anchor: object
    weight: float | None = None
    share: float | None = None

    def _weight(self) -> tuple[float | None, float | None]:
        return self.weight, self.share

    def _term(self, parameters: int) -> dict[str, Any]:
        return {"name": "proximal", "anchor": _cut(self.anchor, parameters, "anchor")}


@dataclass(frozen=True)
class Linear(Term):
    """``weight · ⟨direction, w⟩``."""

    direction: object
    weight: float | None = None
    share: float | None = None

    def _weight(self) -> tuple[float | None, float | None]:
        return self.weight, self.share

    def _term(self, parameters: int) -> dict[str, Any]:
        return {"name": "linear", "direction": _cut(self.direction, parameters, "direction")}


@dataclass(frozen=True)
class Spectral(Term):
    """``weight · D(spectrum of w ‖ spectrum of the teacher)``, the term of spectral co-distillation.

    ``tau`` is the share of the spectrum that is compared, the lowest frequencies unless ``band`` says otherwise.
    """

    teacher: object
    weight: float | None = None
    share: float | None = None
    form: Literal["normalized", "raw", "generalized", "complex"] = "normalized"
    tau: float = 1.0
    band: Literal["low", "high", "random"] = "low"
    band_seed: int = 1
    scope: str = "flat"
    length: Literal["exact", "fast"] = "exact"
    part: Literal["all", "body", "head"] = "all"
    every: int = 1

    def _weight(self) -> tuple[float | None, float | None]:
        return self.weight, self.share

    def _term(self, parameters: int) -> dict[str, Any]:
        if not (isinstance(self.tau, (int, float)) and 0.0 < self.tau <= 1.0):
            raise FormantError(f"tau of Spectral is {self.tau!r}", hint="give the share of the spectrum, above 0 and at most 1")
        _whole("every", self.every, 1, 2**32 - 1)
        _whole("band_seed", self.band_seed, 0, 2**64 - 1)
        for name, said, words in (("band", self.band, BANDS), ("part", self.part, PARTS)):
            if said not in words:
                raise FormantError(f"{name} of Spectral is {said!r}", hint=f"it is {', '.join(words)}")
        return {
            "name": "spectral",
            "teacher": _cut(self.teacher, parameters, "teacher"),
            "form": self.form,
            "tau": float(self.tau),
            "band": self.band,
            "band_seed": int(self.band_seed),
            "scope": self.scope,
            "length": self.length,
            "part": self.part,
            "every": int(self.every),
            "align": False,
        }
