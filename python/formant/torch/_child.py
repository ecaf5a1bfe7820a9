"""What a worker process does: as it is told, until nobody is there to tell it."""

from __future__ import annotations

import gc
import io
import os
import pickle
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from formant._errors import FormantError, place

from ._engine import Engine
from ._processes import Place, brings_model, no_samples, unimportable
from ._shared import Block, aligned, unpack
from ._worker import Worker

WITH_MODEL = ("step", "look", "score", "phase_begin", "phase_end")


class _Recipe(pickle.Unpickler):
    """Reads a module, and says which of its classes cannot be found."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            raise unimportable(module, name, "it is defined in the script itself")
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise unimportable(module, name, str(error)) from error


class Mirror(Engine):
    """The engine, whose samples are the parent's memory."""

    def __init__(self, block: Block, recipe: bytes) -> None:
        template, plan, settings, switches = _Recipe(io.BytesIO(recipe)).load()
        torch.set_float32_matmul_precision(switches["precision"])
        torch.backends.mkldnn.enabled = switches["mkldnn"]
        if switches["deterministic"]:
            torch.use_deterministic_algorithms(True, warn_only=switches["warn_only"])
        super().__init__(template, plan, settings)
        self._block = block
        self._there: dict[int, tuple[Tensor, Tensor]] = {}

    def bring(self, key: int, where: Place) -> None:
        """Samples are in memory already; a tensor is all that is made."""
        self._there[key] = where.tensors(self._block)

    def samples(self, key: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """What was put under a key."""
        try:
            return self._there[key]
        except KeyError:
            raise no_samples(key) from None


def main(talk: int, parent: int, blocks: dict[str, int], recipe_size: int, batch: int) -> None:
    """Answers until the parent is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    pipe: Connection[Any, Any] = Connection(talk)
    shared = {name: Block(descriptor) for name, descriptor in blocks.items()}
    try:
        engine = Mirror(shared["samples"], shared["recipe"].bytes((0, recipe_size)).tobytes())
        worker = Worker(engine, engine.settings.devices[0], batch)
        plan = engine.plan
        model = (
            shared["model"].bytes((0, 4 * plan.size)).view(np.float32),
            shared["model"].bytes((aligned(4 * plan.size), 4 * plan.buffer_size)).view(np.float32),
        )
    except BaseException as error:
        pipe.send_bytes(_fault(error))
        return
    # PyTorch's modules stay; looking through them for garbage, again and again, takes time from training.
    gc.freeze()
    said = pickle.dumps((True, None))
    while True:
        try:
            pipe.send_bytes(said)
            heard = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            said = pickle.dumps((True, _do(engine, worker, model, shared, heard)), protocol=5)
        except BaseException as error:
            said = _fault(error)


def _do(engine: Mirror, worker: Worker, model: tuple[Any, Any], shared: dict[str, Block], heard: bytes) -> Any:
    found, calls = None, pickle.loads(heard)  # noqa: S301
    # First, because they are not sent again if a call before theirs fails.
    for call in calls:
        if call.brought is not None:
            engine.bring(*call.brought)
    for name, data, spans, block, _ in calls:
        args = unpack(data, spans, shared[block or "call"])
        found = getattr(worker, name)(*(model if name in WITH_MODEL else ()), *args)
        if name == "phase_run" and brings_model(args[2]):
            worker.phase_model(*model)
    return found


def _watch(parent: int) -> None:
    """Leaves at once when the parent ends, or closes its end of the pipe."""
    while os.read(parent, 1):
        pass
    os._exit(0)


def _fault(error: BaseException) -> bytes:
    """What was raised, for the parent."""
    exception: bytes | None = None
    try:
        exception = pickle.dumps(error)
    except Exception:
        exception = None
    is_ours = isinstance(error, FormantError)
    where = place(error.__traceback__) if error.__traceback__ is not None else None
    file, _, line = (where or "").rpartition(":")
    told = {
        "exception": exception,
        "name": "FormantError" if is_ours else type(error).__name__,
        "text": error.message if isinstance(error, FormantError) else str(error),
        "hint": error.hint if isinstance(error, FormantError) else None,
        "place": (file, int(line)) if file else None,
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
    }
    return pickle.dumps((False, told))
