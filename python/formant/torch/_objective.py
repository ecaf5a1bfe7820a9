"""What training minimises: a loss of the logits, and weighted terms in the parameters beside it.

Gradients of terms are the analytic ones of Formant's own engine; nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from formant._errors import FormantError

from ._optimiser import CHUNK, dot, dot_of, square, wide
from ._replica import Replica
from ._spectral import Divergence


def tensor(array: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """An array on a device. On the CPU it is not copied if it need not be, so it must stay as it is."""
    array = np.ascontiguousarray(array)
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device=device, dtype=dtype)


class Loss:
    """The mean over a batch of what its logits are scored by."""

    def __init__(self, objective: Mapping[str, Any], device: torch.device) -> None:
        loss = objective["loss"]
        self.name = str(loss["name"])
        self.smoothing = float(objective.get("smoothing") or 0.0)
        weights = objective.get("weights")
        self.weights = None if weights is None else tensor(weights, device)
        self.shift: Tensor | None = None
        self.targets: Tensor | None = None
        if self.name == "shifted":
            self.shift = tensor(loss["shift"], device)
        elif self.name == "guided":
            self.weight = float(loss["weight"])
            self.targets = tensor(loss["targets"], device)
            self.entropy = -torch.special.entr(self.targets).sum()
        elif self.name != "cross_entropy":
            raise FormantError(
                f"the PyTorch engine has no loss {self.name!r}", hint='there are "cross_entropy", "shifted" and "guided"'
            )

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        scored = logits if self.shift is None else logits + self.shift
        value = F.cross_entropy(scored, labels, weight=self.weights, label_smoothing=self.smoothing)
        if self.targets is not None:
            if self.targets.shape != logits.shape:
                raise FormantError(
                    f"the targets of the loss have the shape {tuple(self.targets.shape)}, and the logits "
                    f"{tuple(logits.shape)}",
                    hint="targets belong to one batch: make such steps one by one, with a target for each sample",
                )
            # KL(target || softmax): a row without a target is zero, and adds nothing.
            cross = (self.targets * F.log_softmax(logits, 1)).sum()
            value = value + (self.entropy - cross) * (self.weight / len(logits))
        return value

    def mixed(self, logits: Tensor, labels: Tensor, share: float, partners: Tensor) -> Tensor:
        """The samples are mixed, so their loss is: by either label, in the same proportion."""
        return share * self(logits, labels) + (1.0 - share) * self(logits, partners)


class Term:
    """A differentiable function of the parameters, or of a part of them."""

    part = "all"
    every = 1
    in_place = False
    """Whether gradients lie in the same memory at every step."""
    plain = False
    """Whether parameters and gradients are in plain order, as models are, and not in the replica's own."""

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """The value, and the gradient by the parameters of the part. It may be changed until the next call."""
        raise NotImplementedError


class Proximal(Term):
    """``1/2 ||w - anchor||^2``."""

    in_place = True

    def __init__(self, term: Mapping[str, Any], replica: Replica, nth: int) -> None:
        self.anchor = replica.owned(tensor(term["anchor"], replica.device), nth)
        self.apart = replica.scratch("proximal")
        self.pieces = torch.split(self.apart, CHUNK)

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        apart = torch.sub(w, self.anchor, out=self.apart)
        return 0.5 * dot_of(self.pieces, self.pieces), apart


class Linear(Term):
    """``<direction, w>``."""

    in_place = True

    def __init__(self, term: Mapping[str, Any], replica: Replica, nth: int) -> None:
        self.direction = replica.owned(tensor(term["direction"], replica.device), nth)

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        return dot(self.direction, w), self.direction


class Head(Term):
    """Cross-entropy of the model's own head on features that something else made; the body does not feel it."""

    part = "head"

    def __init__(self, term: Mapping[str, Any], replica: Replica, nth: int) -> None:
        plan = replica.plan
        self.features = tensor(term["features"], replica.device).reshape(-1, plan.features)
        self.labels = tensor(term["labels"], replica.device, torch.int64)
        self.own, self.rows = slice(plan.body, plan.size), plan.classes * plan.features

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        own = w[self.own]
        weight, bias = own[: self.rows].view(-1, self.features.shape[1]), own[self.rows :]
        logs = F.log_softmax(F.linear(self.features, weight, bias), 1)
        value = F.nll_loss(logs, self.labels)
        d = logs.exp_()
        d[torch.arange(len(d), device=d.device), self.labels] -= 1.0
        d.div_(len(d))
        return value, torch.cat([(d.t() @ self.features).reshape(-1), d.sum(0)])


class Spectral(Term):
    """``D(s(w) || s(teacher))``, on every k-th step of a phase and k times as strong."""

    plain = True

    def __init__(self, term: Mapping[str, Any], replica: Replica, nth: int) -> None:
        self.part, self.every = str(term.get("part", "all")), int(term.get("every", 1))
        self.divergence = Divergence(term, replica.plan, tensor(term["teacher"], replica.device))

    def evaluate(self, w: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = self.divergence.evaluate(w)
        if self.every == 1:
            return value, gradient
        return self.every * value, gradient.mul(self.every)


TERMS: dict[str, Any] = {"proximal": Proximal, "linear": Linear, "head": Head, "spectral": Spectral}


class Weighted:
    """A term and how much it counts: a factor, or a share of the pull of the loss."""

    def __init__(self, weight: Mapping[str, float], term: Mapping[str, Any], replica: Replica, nth: int) -> None:
        name = str(term["name"])
        if name not in TERMS:
            raise FormantError(f"the PyTorch engine has no term {name!r}", hint=f"there are {', '.join(TERMS)}")
        self.term: Term = TERMS[name](term, replica, nth)
        self.factor = weight.get("factor")
        self.share = weight.get("share")
        # Norms of the loss's gradient and of the term's own, summed over the steps on which it acts.
        self.norms: tuple[Tensor, Tensor] | None = None
        # The pull as tensors of a part, where they are the same ones in every step.
        self._views: dict[str, list[Tensor]] = {}

    def add(
        self, w: Tensor, part: str, gradient: list[Tensor], of_loss: Tensor | None, replica: Replica
    ) -> Tensor:
        """Adds the weighted gradient where it is trained, and gives the weighted value; parameters are in the term's order."""
        value, pull = self.term.evaluate(w)
        common = part if self.term.part == "all" else self.term.part
        is_felt = part in ("all", common)
        factor: Any = self.factor
        if self.share is not None and of_loss is not None:
            felt = pull[replica.within(self.term.part, common)] if is_felt else pull[:0]
            norm = dot(felt, felt).sqrt() / self.term.every
            before = self.norms or (torch.zeros_like(norm), torch.zeros_like(norm))
            self.norms = (before[0] + of_loss, before[1] + norm)
            # Where it has never pulled, no factor makes it.
            there = self.norms[1] > 0.0
            ratio = self.norms[0] / torch.where(there, self.norms[1], torch.ones_like(norm))
            factor = torch.where(there, self.share * ratio, torch.zeros_like(ratio))
            pull = pull * factor.to(pull.dtype)
        if is_felt:
            inside, all_of_it = replica.own(common)[1], replica.own(part)[1]
            start = inside.start - all_of_it.start
            into = gradient[start : start + inside.stop - inside.start]
            views = self._views.get(common)
            if views is None:
                views = replica.split(pull[replica.within(self.term.part, common)], common, self.term.plain)
                if self.term.in_place and self.share is None:
                    self._views[common] = views
            torch._foreach_add_(into, views, alpha=1.0 if self.share is not None else float(factor))
        weighted: Tensor = value * factor
        return weighted


class Objective:
    """A loss and terms on a device, for one phase."""

    def __init__(self, objective: Mapping[str, Any], replica: Replica) -> None:
        self.replica = replica
        self.loss = Loss(objective, replica.device)
        given = [(t["weight"], t["term"]) for t in objective.get("terms") or ()]
        # A term of weight 0 is left out.
        pulling = [(w, t) for w, t in given if w.get("factor", w.get("share")) != 0.0]
        self.terms = [Weighted(w, t, replica, nth) for nth, (w, t) in enumerate(pulling)]
        self._shared = any(term.share is not None for term in self.terms)

    def rest(self) -> None:
        """A new phase begins."""
        for term in self.terms:
            term.norms = None

    @torch.no_grad()
    def add(self, steps: int, part: str, gradient: list[Tensor]) -> list[Tensor]:
        """Adds the gradients of all terms, and gives what each has added to the value."""
        w = self.replica.w
        acting = any(term.term.plain and steps % term.term.every == 0 for term in self.terms)
        plain = self.replica.plain() if acting else w
        of_loss: Tensor | None = None
        if self._shared:
            of_loss = wide(square(gradient).sqrt())
        added = []
        for term in self.terms:
            if steps % term.term.every:
                added.append(torch.zeros((), device=w.device))
            else:
                added.append(term.add(plain if term.term.plain else w, part, gradient, of_loss, self.replica))
        return added
