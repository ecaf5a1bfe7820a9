"""Any classifier as a network: what its flat vectors mean, and what cannot be one."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from formant._errors import FormantError

Shape = tuple[int, ...]
SAMPLES = 3
"""Of the batch that a module is tried with: not 1, which batch norms refuse, and no usual channel number."""


@dataclass(frozen=True)
class Plan:
    """The order of a module's flat vectors, and what was found out about it."""

    parameters: tuple[tuple[str, Shape], ...]
    """Trainable tensors; the head's weight and bias are the last two."""
    buffers: tuple[tuple[str, Shape], ...]
    head: str
    features: int
    classes: int
    input: tuple[int, int, int]
    pass_numbers: int
    """Outputs of all layers, for one sample."""
    channels_last: bool
    """Whether batches have their channels last in memory, which some convolutions on CPUs are quicker with."""
    lone_norms_rest: bool = False
    """Whether batch norms cannot learn from one sample, so that they must rest when a batch is no more than that."""

    @property
    def layout(self) -> dict[str, list[Any]]:
        """As Formant wants it."""
        body = len(self.parameters) - 2
        tensors = [(n, s, "body" if i < body else "head") for i, (n, s) in enumerate(self.parameters)]
        return {"parameters": tensors, "buffers": list(self.buffers)}

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(prod(shape) for _, shape in self.parameters)

    @property
    def body(self) -> int:
        """Number of parameters before the head."""
        return self.size - self.classes * (self.features + 1)

    @property
    def buffer_size(self) -> int:
        """Number of values in buffers."""
        return sum(prod(shape) for _, shape in self.buffers)


def template(module: object) -> nn.Module:
    """A copy of a user's module, single precision on the CPU, after everything that needs no data is checked."""
    if not isinstance(module, nn.Module):
        raise FormantError(
            f"module is of the type {type(module).__name__}", hint="give a torch.nn.Module, made: Net(), not Net"
        )
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            raise FormantError(
                f"{name} of the module has no shape yet", hint="run the module once on a batch before handing it over"
            )
    _refuse_shared(module)
    try:
        own = copy.deepcopy(module).to("cpu")
    except Exception as error:
        raise FormantError(
            f"the module cannot be copied: {error}", hint="every worker trains a copy; make copy.deepcopy(module) work"
        ) from error
    for name, tensor in own.named_parameters():
        if tensor.dtype is not torch.float32:
            raise FormantError(
                f"parameter {name} is {_dtype(tensor)}",
                hint="Formant's models are in single precision: module.float(); for speed use autocast",
            )
    for name, layer in own.named_modules():
        running = getattr(layer, "track_running_stats", False) and isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if running and layer.momentum is None:
            raise FormantError(
                f"{name} counts batches for its running mean, and counters do not travel with models",
                hint="give it a momentum such as 0.1",
            )
    if not any(p.requires_grad for p in own.parameters()):
        raise FormantError("the module has no parameters to train", hint="set requires_grad on some")
    return own


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _refuse_shared(module: nn.Module) -> None:
    """Two names for one memory would be two places in a flat vector.

    It is bytes that must not be shared: the weights of recurrent layers are pieces of one storage, and apart from each other.
    """
    tensors = [
        *((f"parameter {name}", p) for name, p in module.named_parameters(remove_duplicate=False)),
        *((f"buffer {name}", b) for name, b in module.named_buffers(remove_duplicate=False)),
    ]
    ranges: list[tuple[int, int, int]] = []
    for nth, (_, tensor) in enumerate(tensors):
        if tensor.layout is torch.strided and tensor.numel() and tensor.data_ptr():
            # As far as the last element lies, which strides may put beyond, or before, their number.
            reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride())) + 1
            ranges.append((tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size(), nth))
    ranges.sort()
    pairs = [sorted((a[2], b[2])) for a, b in zip(ranges, ranges[1:]) if b[0] < a[1]]
    if pairs:
        # The first in the module's own order, not wherever its memory happens to lie.
        one, other = (tensors[nth][0] for nth in min(pairs))
        raise FormantError(
            f"{one} and {other} share their memory",
            hint="give each a tensor of its own (tensors that are tied cannot be averaged as one vector)",
        )


def _linears(module: nn.Module) -> dict[str, nn.Linear]:
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}


def _described(linears: Mapping[str, nn.Linear]) -> str:
    if not linears:
        return "it has no linear layer"
    return "its linear layers: " + ", ".join(f"{n or '(itself)'} ({l.out_features})" for n, l in linears.items())


def find_head(module: nn.Module, head: str | None, classes: int) -> str:
    """The dotted name of the layer that makes the logits."""
    linears = _linears(module)
    if head is not None:
        if head not in linears:
            known = head in dict(module.named_modules())
            what = "is no torch.nn.Linear" if known else "does not exist"
            raise FormantError(f"head {head!r} {what}", hint=_described(linears))
        if linears[head].out_features != classes:
            raise FormantError(
                f"head {head!r} has {linears[head].out_features} outputs, and there are {classes} classes",
                hint=f"make it torch.nn.Linear({linears[head].in_features}, {classes}), or name another head",
            )
        found = head
    else:
        fitting = [name for name, layer in linears.items() if layer.out_features == classes]
        if not fitting:
            raise FormantError(
                f"the module has no torch.nn.Linear with {classes} outputs, one for each class",
                hint=f"end it with one; {_described(linears)}",
            )
        found = fitting[-1]
    layer = linears[found]
    if layer.bias is None:
        raise FormantError(
            f"head {found!r} has no bias", hint=f"make it torch.nn.Linear({layer.in_features}, {classes}, bias=True)"
        )
    if not (layer.weight.requires_grad and layer.bias.requires_grad):
        raise FormantError(f"head {found!r} is frozen", hint="set requires_grad of its weight and bias")
    if not found:
        raise FormantError("the module is a single layer", hint="wrap it: torch.nn.Sequential(torch.nn.Flatten(), module)")
    return found


def inspect(
    module: nn.Module,
    head: str | None,
    shape: tuple[int, int, int],
    classes: int,
    layout: Mapping[str, Sequence[Any]] | None = None,
    channels_last: bool = False,
) -> Plan:
    """Tries a module with samples of a shape, and puts its tensors in order: the given one, or its own."""
    found = find_head(module, head, classes)
    trained = {n: tuple(p.shape) for n, p in module.named_parameters() if p.requires_grad}
    buffers = {n: tuple(b.shape) for n, b in module.named_buffers() if b.is_floating_point()}
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point() and buffer.dtype is not torch.float32:
            raise FormantError(f"buffer {name} is {_dtype(buffer)}", hint="make it single precision: module.float()")
    last = (f"{found}.weight", f"{found}.bias")
    if missing := [name for name in last if name not in trained]:
        raise FormantError(
            f"head {found!r} has no parameter {missing[0]!r} of its own",
            hint="remove parametrizations such as weight_norm from it",
        )
    order = [*(n for n in trained if n not in last), *last]
    tried = _try(module, found, shape, classes)
    buffers = {n: s for n, s in buffers.items() if n not in tried.constants}
    own = dict(module.named_buffers())
    for name in buffers:
        if not torch.isfinite(own[name]).all():
            raise FormantError(
                f"buffer {name} has values that are not finite, and those cannot travel with a model",
                hint="make it a mask of booleans, write -1e9 for -inf, or register it with persistent=False",
            )
    kept = list(buffers)
    if layout is not None:
        order = _matched("parameters", {n: tuple(s) for n, s, *_ in layout["parameters"]}, trained)
        kept = _matched("buffers", {n: tuple(s) for n, s, *_ in layout["buffers"]}, buffers)
        if tuple(order[-2:]) != last:
            raise FormantError(f"the layout ends with {order[-2:]}", hint=f"the head {found!r} comes last")
    features = _linears(module)[found].in_features
    parameters = tuple((name, trained[name]) for name in order)
    kept_buffers = tuple((n, buffers[n]) for n in kept)
    return Plan(
        parameters, kept_buffers, found, features, classes, shape, tried.numbers, channels_last, tried.lone_norms_rest
    )


def _matched(what: str, wanted: dict[str, Shape], there: dict[str, Shape]) -> list[str]:
    if wanted != there:
        odd = [f"{n} {s}" for n, s in wanted.items() if there.get(n) != s]
        odd += [f"{n} {s}" for n, s in there.items() if n not in wanted]
        raise FormantError(
            f"the {what} of the module are not those of Formant's network: {', '.join(odd[:4])}",
            hint="this is a fault of Formant; both engines must have the same network",
        )
    return list(wanted)


@dataclass(frozen=True)
class _Tried:
    """What a pass has shown."""

    numbers: int
    constants: frozenset[str]
    """Buffers that are in no ``state_dict`` and never change: every copy of the module has them, so they need not travel."""
    lone_norms_rest: bool


def _try(module: nn.Module, head: str, shape: tuple[int, int, int], classes: int) -> _Tried:
    """A pass forwards and backwards on noise."""
    trial = copy.deepcopy(module)
    before, places = dict(trial.named_parameters()), memory(trial)
    still = _still(trial)
    seen: list[tuple[Any, Any]] = []
    numbers = 0

    def count(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal numbers
        numbers += output.numel() if isinstance(output, Tensor) else 0

    hooks = [m.register_forward_hook(count) for m in trial.modules() if not any(m.children())]
    layer = trial.get_submodule(head)
    hooks.append(layer.register_forward_hook(lambda _, given, made: seen.append((given, made))))
    x = torch.rand((SAMPLES, *shape), generator=torch.Generator().manual_seed(1))
    given = (SAMPLES, *shape)
    with torch.random.fork_rng(devices=[]):
        logits = _forward(trial, x, given)
        for hook in hooks:
            hook.remove()
        if not isinstance(logits, Tensor) or tuple(logits.shape) != (SAMPLES, classes):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise FormantError(
                f"a batch of the shape {given} gives {got}", hint=f"the module must give logits ({SAMPLES}, {classes})"
            )
        if not torch.isfinite(logits).all():
            raise FormantError(
                f"a batch of the shape {given} gives logits that are not finite",
                hint="look at the module's weights: values from 0 to 1 went in",
            )
        if len(seen) != 1 or not torch.equal(seen[0][1], logits):
            raise FormantError(
                f"the output of the module is not that of its head {head!r}",
                hint="the last layer must be the linear one, without softmax behind it; or name another with head=",
            )
        if seen[0][0][0].dim() != 2:
            raise FormantError(
                f"head {head!r} gets {tuple(seen[0][0][0].shape)}", hint="it must get one row of features a sample"
            )
        refuse_changes(trial, before, places)
        _backward(logits, given)
        _refuse_sparse(trial)
        with torch.no_grad():
            scored = _forward(trial, x, given, training=False)
        if not isinstance(scored, Tensor) or scored.shape != logits.shape:
            got = tuple(scored.shape) if isinstance(scored, Tensor) else type(scored).__name__
            raise FormantError(
                f"after eval(), a batch of the shape {given} gives {got}",
                hint=f"the module must give logits ({SAMPLES}, {classes}) there too",
            )
        refuse_changes(trial, before, places)
        constants = _refuse_leaks(trial, still)
        return _Tried(numbers // SAMPLES, constants, _needs_company(trial, x[:1]))


def _still(module: nn.Module) -> dict[str, Tensor]:
    """Copies of what does not travel, or need not: it must be after training what it was before."""
    frozen = {n: p.detach().clone() for n, p in module.named_parameters() if not p.requires_grad}
    apart = _not_saved(module)
    # Counters of batch norms count batches for a momentum that is None, which is refused.
    kept = {
        name: buffer.clone()
        for name, buffer in module.named_buffers()
        if name in apart or not (buffer.is_floating_point() or name.endswith("num_batches_tracked"))
    }
    return {**frozen, **kept}


def _not_saved(module: nn.Module) -> set[str]:
    """Names of floating-point buffers that a ``state_dict`` leaves out."""
    found = set()
    for path, layer in module.named_modules():
        for name in layer._non_persistent_buffers_set:
            buffer = layer._buffers.get(name)
            if buffer is not None and buffer.is_floating_point():
                found.add(f"{path}.{name}" if path else name)
    return found


def _refuse_leaks(trial: nn.Module, still: Mapping[str, Tensor]) -> frozenset[str]:
    """Refuses what changes and does not travel: a worker would take it from client to client."""
    apart = _not_saved(trial)
    now: dict[str, Tensor] = {**dict(trial.named_parameters()), **dict(trial.named_buffers())}
    changed = [n for n, was in still.items() if n not in now or not _same(now[n].detach(), was)]
    for name in changed:
        if name not in apart:
            what = f"buffer {name} is {_dtype(still[name])}" if name in dict(trial.named_buffers()) else f"{name} is frozen"
            raise FormantError(
                f"{what} and changes when the module trains; it does not travel with models, so that one client's "
                "values would reach another",
                hint="make it a float32 buffer, which does, or leave it as it is",
            )
    return frozenset(apart.intersection(still).difference(changed))


def _same(a: Tensor, b: Tensor) -> bool:
    """Also where both are no numbers."""
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def _refuse_sparse(trial: nn.Module) -> None:
    """The optimisers step through flat vectors, where a gradient of some rows has no place."""
    for name, parameter in trial.named_parameters():
        if parameter.grad is not None and parameter.grad.layout is not torch.strided:
            raise FormantError(f"parameter {name} has a sparse gradient", hint="make its layer with sparse=False")


def _needs_company(trial: nn.Module, x: Tensor) -> bool:
    """Whether a batch norm refuses to learn from one sample, which the last batch of an epoch may be."""
    try:
        trial.train()(x)
    except ValueError as error:
        return "more than 1 value per channel" in str(error)
    except Exception:
        # A module that takes no single sample for reasons of its own says so if it ever meets one.
        return False
    return False


def memory(module: nn.Module) -> dict[str, int]:
    """Where parameters and floating-point buffers lie."""
    buffers = ((n, b) for n, b in module.named_buffers() if b.is_floating_point())
    return {n: t.data_ptr() for n, t in [*module.named_parameters(), *buffers] if t.layout is torch.strided}


def refuse_changes(module: nn.Module, before: Mapping[str, Tensor], places: Mapping[str, int]) -> None:
    """Refuses a module that has added, dropped or replaced tensors: what is trained would not be what it computes with."""
    now = dict(module.named_parameters())
    changed = [name for name in {**before, **now} if now.get(name) is not before.get(name)]
    if changed:
        raise FormantError(
            f"the module changes its parameters when it runs: {changed[0]}",
            hint="make all of them in __init__, and change none but by training",
        )
    # A parameter that stays itself may still have been given other memory, by its .data.
    lie = memory(module)
    for name in {**places, **lie}:
        if lie.get(name) == places.get(name):
            continue
        if name in now:
            raise FormantError(
                f"the memory of parameter {name} is replaced when the module runs",
                hint="change it in place: with torch.no_grad(): w.copy_(...), instead of w.data = ...",
            )
        if name not in places:
            raise FormantError(f"buffer {name} is made when the module runs", hint="register it in __init__")
        raise FormantError(
            f"buffer {name} is replaced when the module runs", hint="change it in place: buffer.copy_(...)"
        )


def _forward(trial: nn.Module, x: Tensor, given: Shape, training: bool = True) -> Any:
    try:
        return trial.train(training)(x)
    except Exception as error:
        raise FormantError(
            f"the module fails on a batch of the shape {given}: {error}",
            hint="samples are (channels, height, width); make the module fit, or the data",
        ) from error


def _backward(logits: Tensor, given: Shape) -> None:
    try:
        logits.sum().backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        raise FormantError(
            f"the module has no gradient on a batch of the shape {given}: {error}",
            hint="its forward pass must be differentiable, without torch.no_grad() or detach()",
        ) from error
