"""Steps down a gradient, in the order of operations of Formant's own engine (which is PyTorch's): clip, decay, rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ._replica import Replica

# Kernels that take one pass over memory where separate operations take three.
FUSED = hasattr(torch, "_fused_sgd_")


def wide(x: Tensor) -> Tensor:
    """In double precision, where the device has it."""
    return x if x.device.type == "mps" else x.double()


CHUNK = 1 << 18


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The dot product of vectors of millions of numbers, without waiting for the device.

    One sum of millions in single precision loses three digits on the way. Those of pieces lose hardly one, and they are added in
    double precision.
    """
    return dot_of(torch.split(a, CHUNK), torch.split(b, CHUNK))


def dot_of(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """The same of vectors that are in pieces already."""
    return wide(torch.stack(list(map(torch.dot, a, b)))).sum()


def square(tensors: Sequence[Tensor]) -> Tensor:
    """The squared norm of tensors as one vector, without waiting for the device."""
    if tensors[0].device.type == "cpu":
        # A dot product is four times as quick as a norm here, and ten times as accurate.
        return torch.stack([torch.dot(flat, flat) for flat in (t.reshape(-1) for t in tensors)]).sum()
    return torch.stack(torch._foreach_norm(list(tensors))).square().sum()


class Optimiser:
    """Moves a part of a replica's parameters. It remembers velocity or moments from step to step."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._first: Tensor | None = None
        self._second: Tensor | None = None
        self._views: dict[int, list[Tensor]] = {}
        self.steps = 0

    def forget(self) -> None:
        """Back to rest, as before the first step. Memory is kept."""
        self.steps = 0
        for memory in (self._first, self._second):
            if memory is not None:
                memory.zero_()

    def _memory(self, nth: int, own: slice, inside: slice) -> tuple[Tensor, list[Tensor]]:
        """A remembered vector and its tensors."""
        memory = self._second if nth else self._first
        if memory is None:
            memory = torch.zeros_like(self._replica.w)
            self._views[nth] = self._replica.split(memory, "all")
            if nth:
                self._second = memory
            else:
                self._first = memory
        return memory[own], self._views[nth][inside]

    @torch.no_grad()
    def step(self, descent: Mapping[str, Any], gradient: list[Tensor]) -> None:
        """One step down a gradient, given tensor by tensor for the part that is trained; it is used up."""
        self.steps += 1
        own, inside = self._replica.own(descent["part"])
        clip = descent.get("clip")
        if clip is not None:
            # Where the norm is small enough the factor is 1: no need to ask the device.
            factor = (float(clip) / square(gradient).sqrt()).clamp_(max=1.0)
            torch._foreach_mul_(gradient, factor)
        rule = descent["rule"]
        rate, decay = float(descent["learning_rate"]), float(descent.get("weight_decay") or 0.0)
        if rule["name"] == "sgd":
            momentum, nesterov = float(rule.get("momentum") or 0.0), bool(rule.get("nesterov"))
            self._sgd(gradient, own, inside, rate, decay, momentum, nesterov)
        else:
            self._adam(gradient, own, inside, rate, decay, rule)

    def _sgd(
        self, g: list[Tensor], own: slice, inside: slice, rate: float, decay: float, momentum: float, nesterov: bool
    ) -> None:
        w = self._replica.parameters[inside]
        if momentum == 0.0:
            if decay:
                torch._foreach_add_(g, w, alpha=decay)
            torch._foreach_add_(w, g, alpha=-rate)
            return
        velocity, v = self._memory(0, own, inside)
        if FUSED and velocity.device.type in ("cpu", "cuda"):
            torch._fused_sgd_(
                w, g, v, weight_decay=decay, momentum=momentum, lr=rate, dampening=0.0, nesterov=nesterov,
                maximize=False, is_first_step=False,
            )  # fmt: skip
            return
        if decay:
            torch._foreach_add_(g, w, alpha=decay)
        velocity.mul_(momentum)
        torch._foreach_add_(v, g)
        if nesterov:
            torch._foreach_add_(w, g, alpha=-rate)
            torch._foreach_add_(w, v, alpha=-rate * momentum)
        else:
            self._replica.w[own].add_(velocity, alpha=-rate)

    def _adam(
        self, g: list[Tensor], own: slice, inside: slice, rate: float, decay: float, rule: Mapping[str, Any]
    ) -> None:
        beta1, beta2, epsilon = float(rule["beta1"]), float(rule["beta2"]), float(rule["epsilon"])
        tensors, w = self._replica.parameters[inside], self._replica.w[own]
        if decay:
            if rule.get("decoupled"):
                w.mul_(1.0 - rate * decay)
            else:
                torch._foreach_add_(g, tensors, alpha=decay)
        mean, m = self._memory(0, own, inside)
        squares, s = self._memory(1, own, inside)
        torch._foreach_lerp_(m, g, 1.0 - beta1)
        squares.mul_(beta2)
        torch._foreach_addcmul_(s, g, g, 1.0 - beta2)
        correction = (1.0 - beta2**self.steps) ** 0.5
        below = squares.sqrt().div_(correction).add_(epsilon)
        w.addcdiv_(mean, below, value=-rate / (1.0 - beta1**self.steps))
