"""Any PyTorch model on any device, behind Formant's engine seam.

    import formant, formant.torch
    network = formant.torch.network(MyNet(), head="fc", device="cuda")
    formant.torch.check(network, device="cuda", shape=(3, 32, 32), classes=10)     # first, on a new machine
    formant.run(data=(x, y), network=network, methods=["fedavg", "ditto"])

A phase runs on the device from its first step to its last: samples lie there, and only the model crosses at its ends.
Models are flat vectors in Formant's store, so a thousand personal ones need no thousand modules.
"""

from __future__ import annotations

from collections.abc import Sequence

try:
    import torch as _torch
except ImportError as _error:
    from formant._errors import FormantError

    raise FormantError("PyTorch is not installed", hint='pip install "formant[torch]"') from _error

from ._check import Check, check
from ._device import Device, available, settings
from ._engine import Catalogue, Engine, Network
from ._worker import Worker

__all__ = ["Catalogue", "Check", "Engine", "Network", "Worker", "available", "check", "engine", "network"]


def network(
    module: _torch.nn.Module,
    head: str | None = None,
    device: Device | Sequence[Device] = "cpu",
    *,
    compile: bool = False,  # noqa: A002
    autocast: bool | str | _torch.dtype | None = None,
    deterministic: bool = False,
    reinitialise: bool = False,
    name: str | None = None,
    threads: int = 1,
    processes: bool = False,
) -> Network:
    """Makes a classifier a network for every method.

    Its trainable parameters are one flat vector, in the order of ``named_parameters`` with the head's weight and bias
    moved to the end; floating-point buffers (running statistics) are another. Frozen parameters stay what they are and
    do not travel.

    - ``head``: the dotted name of the linear layer that makes the logits; without, the last one with as many outputs as
      there are classes. Its inputs are the features of methods that look at them.
    - ``device``: one, or a list of which workers take turns. On CUDA every worker has a stream of its own.
    - ``compile``: ``torch.compile``. ``autocast``: ``"bfloat16"`` for passes in mixed precision; parameters, losses and
      steps stay in single precision.
    - ``deterministic``: the same bits again on the same machine, device and version of PyTorch, whatever the number of
      workers. It sets PyTorch's switches for the whole process; operations without a deterministic form raise. Not
      promised: the same bits on another device, with another version or another number of ``threads``; and dropout that
      is called as a function, which draws from a generator that all workers share. Dropout layers draw from their own.
    - ``reinitialise``: draw the first model anew from the experiment's seed, by every layer's ``reset_parameters``
      (parameters of a layer without one are refused); otherwise all runs start from the values that the module has now.
    - ``name``: for tables and logs; without, that of the class.
    - ``threads``: of a worker, on CPUs. Formant has a worker for each core, so 1 is right unless there are fewer
      workers than cores. It is PyTorch's setting for the whole process.
    - ``processes``: every worker trains in a process of its own, on CPUs. Threads wait for each other wherever Python
      runs between PyTorch's operations; processes do not. They give the same bits, take seconds to start and some hundred
      MB each, and import the module's class: it must be in a file, not in a notebook or in the script that is run.

    >>> net = _torch.nn.Sequential(_torch.nn.Flatten(), _torch.nn.Linear(4, 3))
    >>> network(net).engine({"name": "module"}, None, (1, 2, 2), 3).layout["parameters"]
    [('1.weight', (3, 4), 'head'), ('1.bias', (3,), 'head')]
    """
    where = settings(device, compile, autocast, deterministic, threads, processes)
    return Network(module, head, where, reinitialise, name)


def engine(
    device: Device | Sequence[Device] = "cpu",
    compile: bool = False,  # noqa: A002
    autocast: bool | str | _torch.dtype | None = None,
    deterministic: bool = False,
    *,
    threads: int = 1,
    processes: bool = False,
) -> Catalogue:
    """Formant's own networks (``cnn``, ``resnet18``, ...) computed by PyTorch; options as those of :func:`network`.

    >>> engine().engine({"name": "mlp"}, None, (1, 8, 8), 10).features
    200
    """
    return Catalogue(settings(device, compile, autocast, deterministic, threads, processes))
