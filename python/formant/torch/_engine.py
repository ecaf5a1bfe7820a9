"""Engines: where the samples lie, and what workers are made from."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from formant._errors import FormantError

from . import _catalogue
from ._device import Settings
from ._module import Plan, inspect, template
from ._processes import Remote, Shelf, no_samples, refuse_unsendable
from ._worker import Floats, Worker


class Engine:
    """One network on some devices: it keeps the samples there, and makes workers."""

    def __init__(self, module: nn.Module, plan: Plan, settings: Settings, reinitialise: bool = False) -> None:
        self.template, self.plan, self.settings = module, plan, settings
        self._reinitialise = reinitialise
        if reinitialise:
            _refuse_undrawn(module)
        if settings.processes:
            refuse_unsendable(module)
        self._shelf: Shelf | None = None
        self._samples: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}
        self._next = itertools.count()
        self._lock = threading.Lock()
        settings.apply()

    @property
    def layout(self) -> dict[str, list[Any]]:
        """The order of the flat vectors."""
        return self.plan.layout

    @property
    def features(self) -> int:
        """Inputs of the head."""
        return self.plan.features

    def init(self, seed: int) -> tuple[Floats, Floats]:
        """The first model: the module as it was given, or drawn anew as its layers do it."""
        module = self.template
        if self._reinitialise:
            module = copy.deepcopy(module)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                # What is made of layers has the last word on them: attention draws its output layer in a way of its own.
                for layer in reversed(list(module.modules())):
                    reset = _reset(layer)
                    if reset is not None:
                        reset()
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        return _flat([parameters[n] for n, _ in self.plan.parameters]), _flat([buffers[n] for n, _ in self.plan.buffers])

    def put(self, key: int, x: Floats, y: npt.NDArray[np.int64]) -> None:
        """Keeps samples on every device, under a key."""
        if x.ndim != 4 or tuple(x.shape[1:]) != self.plan.input:
            raise FormantError(f"x has the shape {x.shape}", hint=f"samples of this network are {self.plan.input}")
        if self.settings.processes:
            # PyTorch warns of memory that it must not write, and needs the flag for what it only reads.
            values, classes = np.require(x, np.float32, ["C", "W"]), np.require(y, np.int64, ["C", "W"])
            with self._lock:
                self._shared().put(key, values, classes, self.channels_last(self.settings.devices[0]))
            return
        for device in dict.fromkeys(self.settings.devices):
            inputs = torch.from_numpy(np.require(x, np.float32, ["C", "W"])).to(device)
            if self.channels_last(device):
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            labels = torch.from_numpy(np.require(y, np.int64, ["C", "W"])).to(device)
            if device.type == "cuda":
                # Workers read them from streams of their own.
                torch.cuda.synchronize(device)
            with self._lock:
                self._samples[key, device] = inputs, labels

    def samples(self, key: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """What was put under a key."""
        try:
            return self._samples[key, device]
        except KeyError:
            raise no_samples(key) from None

    def channels_last(self, device: torch.device) -> bool:
        """Whether batches have their channels last; measured on CPUs alone."""
        return self.plan.channels_last and device.type == "cpu"

    def worker(self, batch: int) -> Worker | Remote:
        """Another worker; devices take turns. One in a process of its own is on its way when this returns."""
        if self.settings.processes:
            with self._lock:
                shelf = self._shared()
            return Remote(self.plan, shelf, int(batch))
        with self._lock:
            nth = next(self._next)
        return Worker(self, self.settings.devices[nth % len(self.settings.devices)], int(batch))

    def _shared(self) -> Shelf:
        """What processes read; only now, so that the module is as it will stay."""
        if self._shelf is None:
            self._shelf = Shelf(self.template, self.plan, self.settings)
        return self._shelf

    def scored_at_once(self, batch: int) -> int:
        """Samples of one pass when a set is scored."""
        return max(batch, 64 if self.settings.devices[0].type == "cpu" else 512)

    def pass_bytes(self, batch: int, backwards: bool) -> int:
        """About how much memory a pass takes."""
        # Activation functions between layers keep about as much again.
        numbers = self.plan.pass_numbers * 2 + int(np.prod(self.plan.input))
        return 4 * (numbers * int(batch) * (2 if backwards else 1) + self.plan.size * (2 if backwards else 0))


def _reset(layer: nn.Module) -> Callable[[], None] | None:
    """How a layer draws its parameters anew; attention and transformers have a private method for it."""
    for name in ("reset_parameters", "_reset_parameters"):
        reset = getattr(layer, name, None)
        if callable(reset):
            found: Callable[[], None] = reset
            return found
    return None


def _refuse_undrawn(module: nn.Module) -> None:
    """Parameters that nothing draws anew would be the same for every seed."""
    left = [
        f"{path}.{name}" if path else name
        for path, layer in module.named_modules()
        if _reset(layer) is None
        for name, parameter in layer.named_parameters(recurse=False)
        if parameter.requires_grad
    ]
    if left:
        raise FormantError(
            f"reinitialise cannot draw {', '.join(left[:4])}{', ...' if len(left) > 4 else ''} anew",
            hint="give the layers that own them a method reset_parameters(), or say reinitialise=False",
        )


def _flat(tensors: Sequence[Tensor]) -> Floats:
    if not tensors:
        return np.empty(0, np.float32)
    found: Floats = torch.cat([t.detach().reshape(-1) for t in tensors]).numpy()
    return found


class Network:
    """A PyTorch module as a network for every method; see :func:`formant.torch.network`."""

    kind = "module"

    def __init__(
        self, module: nn.Module, head: str | None, settings: Settings, reinitialise: bool, name: str | None
    ) -> None:
        self.module = template(module)
        self.head, self.settings, self.reinitialise = head, settings, reinitialise
        self.name = name or type(module).__name__

    def __repr__(self) -> str:
        return f"formant.torch.network({self.name}, {self.settings.label})"

    def engine(
        self, spec: Mapping[str, Any], layout: Mapping[str, Any] | None, input: Sequence[int], classes: int  # noqa: A002
    ) -> Engine:
        """The engine for samples of a shape and so many classes."""
        if spec.get("name", "module") != "module":
            raise FormantError(
                f"the experiment's network is {spec['name']!r}, and the engine has the module {self.name}",
                hint="leave the network out of the experiment, or take formant.torch.engine()",
            )
        plan = inspect(self.module, self.head, _shape(input), int(classes))
        return Engine(self.module, plan, self.settings, self.reinitialise)

    def on(self, settings: Settings) -> Network:
        """The same network elsewhere."""
        return Network(self.module, self.head, settings, self.reinitialise, self.name)


class Catalogue:
    """Formant's own networks, computed by PyTorch; see :func:`formant.torch.engine`."""

    kind = "catalogue"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = "torch"

    def __repr__(self) -> str:
        return f"formant.torch.engine({self.settings.label})"

    def engine(
        self, spec: Mapping[str, Any], layout: Mapping[str, Any] | None, input: Sequence[int], classes: int  # noqa: A002
    ) -> Engine:
        """The engine of a network of the catalogue."""
        shape = _shape(input)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = _catalogue.build(spec, shape, int(classes))
        head = None
        if layout is not None:
            head = next(str(n) for n, _, part in layout["parameters"] if part == "head").removesuffix(".weight")
        last = spec["name"] in _catalogue.CHANNELS_LAST
        return Engine(module, inspect(module, head, shape, int(classes), layout, last), self.settings)

    def on(self, settings: Settings) -> Catalogue:
        """The same networks elsewhere."""
        return Catalogue(settings)


def _shape(given: Sequence[int]) -> tuple[int, int, int]:
    shape = tuple(int(extent) for extent in given)
    if len(shape) != 3 or min(shape) < 1:
        raise FormantError(f"the shape of a sample is {shape}", hint="give (channels, height, width)")
    return shape
