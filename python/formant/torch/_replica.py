"""A worker's copy of the module, whose parameters and buffers are views into two flat vectors.

Where batches have their channels last, so have the kernels of convolutions: PyTorch would bring each into that order at every
pass, and its gradient back. The replica's flat vector is in an *own* order then; models, and what is Fourier-transformed, are
in the *plain* one, PyTorch's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from formant._errors import FormantError

from ._device import Settings
from ._module import Plan, memory

ANY = nullcontext()
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class Replica:
    """One module on one device. Models come and go by :meth:`fill` and :meth:`read`."""

    def __init__(self, template: nn.Module, plan: Plan, settings: Settings, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.module = copy.deepcopy(template).to(device)
        for parameter in self.module.parameters():
            parameter.requires_grad_(False)
        self.all = dict(self.module.named_parameters())
        self._turned = plan.channels_last and device.type == "cpu"
        self.w = torch.zeros(plan.size, device=device)
        self.b = torch.zeros(plan.buffer_size, device=device)
        self.parameters: list[Tensor] = []
        self._scratch: dict[str, Tensor] = {}
        for (name, _), view in zip(plan.parameters, self.split(self.w, "all")):
            view.copy_(self.all[name].data)
            self.all[name].data = view
            self.parameters.append(self.all[name])
        at = 0
        for name, shape in plan.buffers:
            path, _, last = name.rpartition(".")
            owner = self.module.get_submodule(path)
            view = self.b[at : at + prod(shape)].view(shape)
            view.copy_(owner._buffers[last])  # type: ignore[arg-type]
            owner._buffers[last] = view
            at += prod(shape)
        self.memory = memory(self.module)
        # A module may come with some layers in training and others not; mode() goes by what the whole one says.
        self.module.eval()
        self._norms = [m for m in self.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.generator = torch.Generator(device)
        if settings.deterministic:
            _refuse_global_draws(self.module)
        self.drops = _draw_from(self.generator, self.module)
        self._run: Callable[[Tensor], Tensor] = self.module
        if settings.compile:
            self._run = torch.compile(self.module)
        self._autocast = settings.autocast
        self._features: list[Tensor] = []
        self._part = ""

    def fill(self, w: Tensor, b: Tensor) -> None:
        """A model comes; it may be elsewhere."""
        with torch.no_grad():
            self._own_order(w, self.w)
            self.b.copy_(b)

    def read(self, w: Tensor, b: Tensor) -> None:
        """The model goes; wherever the tensors are."""
        self._plain_order(w)
        b.copy_(self.b)

    def owned(self, vector: Tensor, nth: int) -> Tensor:
        """A vector of all parameters in plain order, in the replica's own; until the next n-th one."""
        if not self._turned:
            return vector
        kept = self.scratch(f"vector {nth}")
        self._own_order(vector, kept)
        return kept

    def plain(self) -> Tensor:
        """The parameters in plain order, until this is asked again."""
        if not self._turned:
            return self.w
        kept = self.scratch("plain")
        self._plain_order(kept)
        return kept

    def _own_order(self, plain: Tensor, into: Tensor) -> None:
        if self._turned:
            torch._foreach_copy_(self.split(into, "all"), self.split(plain, "all", plain=True))
        else:
            into.copy_(plain)

    def _plain_order(self, into: Tensor) -> None:
        if self._turned:
            torch._foreach_copy_(self.split(into, "all", plain=True), self.split(self.w, "all"))
        else:
            into.copy_(self.w)

    def own(self, part: str) -> tuple[slice, slice]:
        """A part of the parameters: of the flat vector, and of the list of tensors."""
        tensors = len(self.plan.parameters)
        if part == "body":
            return slice(0, self.plan.body), slice(0, tensors - 2)
        if part == "head":
            return slice(self.plan.body, self.plan.size), slice(tensors - 2, tensors)
        return slice(0, self.plan.size), slice(0, tensors)

    def within(self, outer: str, inner: str) -> slice:
        """Where a part lies in a flat vector of another one that holds it."""
        start, own = self.own(outer)[0].start, self.own(inner)[0]
        return slice(own.start - start, own.stop - start)

    def split(self, flat: Tensor, part: str, plain: bool = False) -> list[Tensor]:
        """The tensors of a flat vector of a part, in the own order or the plain one."""
        shapes = [shape for _, shape in self.plan.parameters[self.own(part)[1]]]
        pieces = torch.split(flat, [prod(s) for s in shapes])
        if self._turned and not plain:
            return [_turned(piece, s) if len(s) == 4 else piece.view(s) for piece, s in zip(pieces, shapes)]
        return [piece.view(s) for piece, s in zip(pieces, shapes)]

    def scratch(self, name: str) -> Tensor:
        """Memory for a vector of all parameters, kept from phase to phase."""
        if name not in self._scratch:
            self._scratch[name] = torch.empty_like(self.w)
        return self._scratch[name]

    def train_part(self, part: str) -> None:
        """Gradients of these parameters alone: a head is trained without a pass back through the body."""
        if part == self._part:
            return
        inside = self.own(part)[1]
        for parameter in self.parameters:
            parameter.requires_grad_(False)
            parameter.grad = None
        for parameter in self.parameters[inside]:
            parameter.requires_grad_(True)
        self._part = part

    def mode(self, training: bool) -> None:
        """Training or prediction."""
        if self.module.training != training:
            self.module.train(training)

    def suited(self, samples: int) -> AbstractContextManager[None]:
        """For one sample, batch norms that cannot learn from it use the statistics that they have."""
        return ANY if samples > 1 or not self.plan.lone_norms_rest else self._resting()

    @contextmanager
    def _resting(self) -> Iterator[None]:
        learning = [layer for layer in self._norms if layer.training]
        for layer in learning:
            layer.training = False
        try:
            yield
        finally:
            for layer in learning:
                layer.training = True

    def _precision(self) -> AbstractContextManager[Any]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, self._autocast)

    def logits(self, x: Tensor) -> Tensor:
        """A pass; losses are computed in single precision whatever the pass is."""
        if self._autocast is None:
            return self._run(x)
        with self._precision():
            return self._run(x).float()

    def look(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What goes into the head, and what comes out."""
        head = self.module.get_submodule(self.plan.head)
        hook = head.register_forward_pre_hook(lambda _, given: self._features.append(given[0]))
        try:
            with self._precision():
                # Not the compiled one, which would be compiled anew for the hook.
                logits = self.module(x)
            return self._features[-1].float(), logits.float()
        finally:
            hook.remove()
            self._features.clear()


def _turned(piece: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A kernel whose memory has its channels last."""
    outputs, inputs, height, width = shape
    return piece.view(outputs, height, width, inputs).permute(0, 3, 1, 2)


def _draw_from(generator: torch.Generator, module: nn.Module) -> bool:
    """Lets dropout layers draw from a worker's own generator.

    PyTorch's is shared by all threads, so that what a client learns would depend on which others learn at the time.
    """
    found = False
    for layer in module.modules():
        if isinstance(layer, DROPOUTS) and type(layer).forward in {kind.forward for kind in DROPOUTS}:
            layer.forward = _dropout(layer, generator)  # type: ignore[method-assign,assignment]
            found = True
    return found


def _refuse_global_draws(module: nn.Module) -> None:
    """Refuses layers of PyTorch's that draw from the generator of all threads, where bits are promised."""
    for name, layer in module.named_modules():
        if _draws(layer):
            raise FormantError(
                f"{name} is a {type(layer).__name__}, which draws from PyTorch's common generator, so that bits depend on "
                "the number of threads",
                hint="put torch.nn.Dropout layers (or what draws nothing) in its place, or say deterministic=False",
            )


def _draws(layer: nn.Module) -> bool:
    if isinstance(layer, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
        return layer.p > 0.0
    if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)):
        return layer.dropout > 0.0
    if isinstance(layer, nn.RReLU):
        return layer.lower < layer.upper
    return isinstance(layer, (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d))


def _dropout(layer: Any, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    kind = {nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}.get(type(layer))

    def forward(x: Tensor) -> Tensor:
        if not layer.training or layer.p == 0.0:
            return x
        shape = list(x.shape)
        if kind is not None:
            # Whole channels: of a batch, or of one sample.
            first = 2 if x.dim() == kind + 2 else 1
            shape[first:] = [1] * (x.dim() - first)
        kept = 1.0 - layer.p
        mask = torch.empty(shape, dtype=x.dtype, device=x.device).bernoulli_(kept, generator=generator)
        return x * mask.div_(kept) if kept > 0.0 else x * mask

    return forward
