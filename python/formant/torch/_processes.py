"""Workers in processes of their own: what their side in this process does. The other one is ``_child``."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from formant._errors import FormantError

from ._device import Settings
from ._module import Plan
from ._shared import Block, Span, aligned, pack
from ._worker import Doubles, Floats, refuse_model

THREADS = "or say processes=False, which trains in threads"
PROGRAM = """
import json, os, signal, sys
if os.getpgrp() != os.getpid():
    os.setpgrp()
signal.signal(signal.SIGINT, signal.SIG_IGN)
given = json.loads(sys.argv[1])
sys.path[:] = given.pop("path")
from formant.torch._child import main
main(**given)
"""
# Out of reach of the terminal's Ctrl-C: the parent decides what becomes of its workers. Not in a session of their own, to which
# Linux would give as much of a busy machine as to everything else of this run together.
APART: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {}
# Memory of a step serves the next one: glibc would give it back to the system in between, and take it again page by page.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_TOP_PAD_": str(16 << 20)}
PATIENCE = 5.0
"""Seconds that a process has to end by itself. It does nothing then but leave."""


@dataclass(frozen=True)
class Place:
    """Where samples lie in an engine's block."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    x: Span
    y: Span

    def tensors(self, block: Block) -> tuple[Tensor, Tensor]:
        """The samples themselves."""
        if not self.x[1]:
            return torch.empty_strided(self.shape, self.strides), torch.empty(0, dtype=torch.int64)
        x = torch.from_numpy(block.bytes(self.x).view(np.float32))
        return x.as_strided(self.shape, self.strides), torch.from_numpy(block.bytes(self.y).view(np.int64))


class Shelf:
    """What all processes of an engine read: its module, and its samples."""

    def __init__(self, template: nn.Module, plan: Plan, settings: Settings) -> None:
        self.samples, self._end = Block(), 0
        self._places: dict[int, Place] = {}
        recipe = pickled((template, plan, replace(settings, processes=False), _switches()))
        self.recipe = Block()
        self.recipe.reserve(len(recipe))
        self.recipe.write((0, len(recipe)), recipe)
        self.recipe_size = len(recipe)

    def put(self, key: int, x: Floats, y: npt.NDArray[np.int64], channels_last: bool) -> None:
        """Keeps samples as a worker among threads would have them. Whoever calls it has a lock."""
        values, labels = torch.from_numpy(x), torch.from_numpy(y)
        strides = values.stride()
        if channels_last:
            strides = torch.empty(x.shape, device="meta").contiguous(memory_format=torch.channels_last).stride()
        at = aligned(self._end)
        place = Place(tuple(x.shape), tuple(strides), (at, x.nbytes), (aligned(at + x.nbytes), y.nbytes))
        self._end = sum(place.y)
        self.samples.reserve(self._end)
        own, own_labels = place.tensors(self.samples)
        own.copy_(values)
        own_labels.copy_(labels)
        self._places[key] = place

    def place(self, key: int) -> Place:
        """Where the samples of a key are."""
        try:
            return self._places[key]
        except KeyError:
            raise no_samples(key) from None


def no_samples(key: int) -> FormantError:
    """A key that nothing is known of."""
    return FormantError(f"no samples were put under the key {key}", hint="call put() first")


def _switches() -> dict[str, Any]:
    """What is set for this whole process and changes what a module computes."""
    return {
        "precision": torch.get_float32_matmul_precision(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
    }


def refuse_unsendable(module: nn.Module) -> None:
    """Refuses what a process of its own cannot be given, before anything begins."""
    for name, layer in module.named_modules():
        kind = type(layer)
        if kind.__module__ == "__main__":
            raise unimportable("__main__", kind.__qualname__, f"{name or 'the module'} is defined in the script itself")
    pickled(module)


def unimportable(module: str, name: str, why: str) -> FormantError:
    """A class or function that another process cannot find."""
    return FormantError(
        f"worker processes cannot import {module}.{name}: {why}",
        hint=f"put {name} in a file of its own and import it from there, {THREADS}",
    )


def pickled(value: Any) -> bytes:
    """A module for other processes."""
    into = io.BytesIO()
    try:
        pickle.Pickler(into, protocol=5).dump(value)
    except Exception as error:
        # Pickle raises whatever the objects do, and names the class.
        raise FormantError(
            f"the module cannot be sent to worker processes: {type(error).__name__}: {error}",
            hint="give it no lambdas, classes made inside functions, hooks or open files, so that pickle.dumps(module) works, "
            f"{THREADS}",
        ) from error
    return into.getvalue()


class Call(NamedTuple):
    """Something that the process is to do."""

    name: str
    data: bytes = pickle.dumps(())
    spans: list[Span] = []
    block: str | None = None
    brought: tuple[int, Place] | None = None
    """Samples that it has not used before."""


def brings_model(sizes: Sequence[int] | npt.NDArray[np.uint32]) -> bool:
    """Whether the model comes with the answer to so many steps, which are the last ones most often."""
    return len(sizes) > 1


class Remote:
    """A :class:`Worker` in a process of its own, with the same methods. The process ends when this is collected."""

    def __init__(self, plan: Plan, shelf: Shelf, batch: int) -> None:
        self._plan, self._shelf = plan, shelf
        buffers = aligned(4 * plan.size)
        model = Block()
        model.reserve(buffers + 4 * plan.buffer_size)
        self._w = model.bytes((0, 4 * plan.size)).view(np.float32)
        self._b = model.bytes((buffers, 4 * plan.buffer_size)).view(np.float32)
        # What a phase is told lies apart from everything else, because the process reads it to the phase's end.
        self._blocks = {"phase": Block(), "call": Block()}
        self._sent: dict[int, Place] = {}
        self._ready = False
        # What has no answer goes with what is asked next: a message and its answer take two changes of process.
        self._queue: list[Call] = []
        # Whether the trained model is here already.
        self._left = False
        self._fault: FormantError | None = None
        ours, theirs = socket.socketpair()
        waits, lives = os.pipe()
        blocks = {"samples": shelf.samples, "recipe": shelf.recipe, "model": model, **self._blocks}
        descriptors = {name: block.descriptor for name, block in blocks.items()}
        given = {
            "path": [one for one in sys.path if isinstance(one, str)],
            "talk": theirs.fileno(),
            "parent": waits,
            "blocks": descriptors,
            "recipe_size": shelf.recipe_size,
            "batch": batch,
        }
        with theirs, ours:
            try:
                self._process = subprocess.Popen(
                    [sys.executable or "python3", "-c", PROGRAM, json.dumps(given)],
                    stdin=subprocess.DEVNULL,
                    env={**MALLOC, **os.environ},
                    pass_fds=[theirs.fileno(), waits, *descriptors.values()],
                    **APART,
                )
            except OSError as error:
                os.close(lives)
                raise FormantError(f"a worker process cannot be started: {error}", hint=f"run with fewer threads, {THREADS}") from error
            finally:
                os.close(waits)
            self._talk: Connection[Any, Any] = Connection(ours.detach())
        self._end = weakref.finalize(self, _ended, self._process, self._talk, lives, os.getpid())

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._end()

    def arrays(self) -> tuple[Floats, Floats]:
        """The process's own. What is written there between ``phase_begin`` and ``phase_run`` is what the phase begins with."""
        return self._w, self._b

    def begin(self) -> None:
        """As a worker's."""
        self._queue, self._left = [Call("begin")], False

    def load(self, key: int, indices: npt.NDArray[np.uint32]) -> None:
        """As a worker's."""
        self._ask("load", key, indices, keyed=True)

    def take(self, x: Floats, y: Any, share: float | None = None, partners: Any = None) -> None:
        """As a worker's."""
        self._ask("take", x, y, share, partners)

    def step(
        self, w: Floats, b: Floats, descent: Mapping[str, Any], objective: Mapping[str, Any]
    ) -> tuple[float, float | None]:
        """As a worker's."""
        self._enter(w, b)
        found: tuple[float, float | None] = self._ask("step", descent, objective, block="call")
        self._leave(w, b)
        return found

    def look(self, w: Floats, b: Floats) -> tuple[Floats, Floats]:
        """As a worker's."""
        self._enter(w, b)
        found: tuple[Floats, Floats] = self._ask("look")
        return found

    def score(self, w: Floats, b: Floats, key: int, indices: npt.NDArray[np.uint32]) -> Floats:
        """As a worker's."""
        self._enter(w, b)
        found: Floats = self._ask("score", key, indices, keyed=True)
        return found

    def phase_begin(self, w: Floats, b: Floats, descent: Mapping[str, Any], objective: Mapping[str, Any]) -> None:
        """As a worker's, but what is wrong with it is raised by what comes next."""
        self._queue = []
        self._enter(w, b)
        self._queue = [self._call("phase_begin", descent, objective, block="phase")]

    def phase_run(
        self, key: int, indices: npt.NDArray[np.uint32], sizes: npt.NDArray[np.uint32]
    ) -> tuple[Doubles, Doubles | None]:
        """As a worker's."""
        found: tuple[Doubles, Doubles | None] = self._ask("phase_run", key, indices, sizes, keyed=True)
        self._left = brings_model(sizes)
        return found

    def phase_batch(self, x: Floats, y: Any, share: float | None = None, partners: Any = None) -> tuple[float, float | None]:
        """As a worker's."""
        self._left = False
        found: tuple[float, float | None] = self._ask("phase_batch", x, y, share, partners)
        return found

    def phase_end(self, w: Floats, b: Floats) -> None:
        """As a worker's."""
        if self._left:
            self._left = False
            self._queue.append(Call("phase_close"))
        else:
            self._ask("phase_end")
        self._leave(w, b)

    def _enter(self, w: Floats, b: Floats) -> None:
        refuse_model(self._plan, w, b)
        if any(call.name == "phase_begin" for call in self._queue):
            # Its model must be read before another one takes its place.
            self._send("phase_begin")
        self._left = False
        if w is not self._w:
            np.copyto(self._w, w)
            np.copyto(self._b, b)

    def _leave(self, w: Floats, b: Floats) -> None:
        if w is not self._w:
            np.copyto(w, self._w)
            np.copyto(b, self._b)

    def _call(self, name: str, *args: Any, keyed: bool = False, block: str | None = None) -> Call:
        brought = None
        if keyed and (place := self._shelf.place(args[0])) is not self._sent.get(args[0]):
            self._sent[args[0]] = place
            brought = args[0], place
        return Call(name, *pack(args, None if block is None else self._blocks[block]), block, brought)

    def _ask(self, name: str, *args: Any, keyed: bool = False, block: str | None = None) -> Any:
        """Has the process do something, and waits without holding the interpreter."""
        self._queue.append(self._call(name, *args, keyed=keyed, block=block))
        return self._send(name)

    def _send(self, name: str) -> Any:
        """Has it do all that is waiting; gives what the last of it has found."""
        calls, self._queue = self._queue, []
        if self._fault is not None:
            raise FormantError(self._fault.message, self._fault.hint)
        if not self._ready:
            try:
                _answer(self._exchange(None, "before it was ready"))
            except FormantError as error:
                self._fault = error
                raise
            self._ready = True
        return _answer(self._exchange(pickle.dumps(calls), f"in {name}()"))

    def _exchange(self, message: bytes | None, during: str) -> bytes:
        """Sends something, and waits for what is said to it."""
        try:
            if message is not None:
                self._talk.send_bytes(message)
            return self._talk.recv_bytes()
        except (EOFError, OSError) as error:
            self._fault = self._gone(during)
            raise self._fault from error
        except BaseException:
            # Ctrl-C. What is said from here on would be the answer to something else.
            self._fault = FormantError("the worker process was stopped", hint="make another worker")
            self.close()
            raise

    def _gone(self, during: str) -> FormantError:
        """What became of the process."""
        what, hint = "has closed its pipe", "what it printed before may say why"
        try:
            code = self._process.wait(PATIENCE)
            what = f"ended with code {code}"
            if code < 0:
                what = f"was killed by signal {-code} ({signal.strsignal(-code)})"
                hint = "if memory is short, run with fewer workers (threads)" if code == -signal.SIGKILL else hint
        except subprocess.TimeoutExpired:
            pass
        self.close()
        return FormantError(f"worker process {self._process.pid} {what} {during}", hint=f"{hint}, {THREADS}")


def _ended(process: subprocess.Popen[bytes], talk: Connection[Any, Any], lives: int, owner: int) -> None:
    """Ends a process: it leaves as soon as nobody holds the other end of its pipe."""
    talk.close()
    os.close(lives)
    if os.getpid() != owner:
        # A fork of the parent, whose child it is not.
        return
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answer(said: bytes) -> Any:
    """What a process has answered, or what was raised there."""
    works, found = pickle.loads(said)  # noqa: S301
    if works:
        return found
    raise _raised(**found)


class Elsewhere(Exception):
    """The traceback of the process in which something was raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _raised(
    exception: bytes | None, name: str, text: str, hint: str | None, place: tuple[str, int] | None, traceback: str
) -> BaseException:
    """The exception of another process, as it would have come from a thread."""
    error: BaseException | None = None
    try:
        error = None if exception is None else pickle.loads(exception)  # noqa: S301
    except Exception:
        error = None
    if hint is not None or name == "FormantError":
        error = FormantError(text, hint)
    if not isinstance(error, BaseException):
        error = RuntimeError(f"{name}: {text}")
    if place is not None:
        # Raised once at its line, so that its traceback names that.
        file, line = place
        try:
            exec(compile("\n" * (line - 1) + "raise error", file, "exec"), {"error": error})  # noqa: S102
        except BaseException as found:
            error = found
    error.__cause__ = Elsewhere(traceback)
    return error
