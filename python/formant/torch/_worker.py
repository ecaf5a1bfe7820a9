"""One thread's place at an engine: steps, whole phases, and scores."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from formant._errors import FormantError

from ._module import Plan, refuse_changes
from ._objective import Objective, tensor
from ._optimiser import Optimiser, wide
from ._replica import Replica

if TYPE_CHECKING:
    from ._engine import Engine

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Anything = TypeVar("Anything")


class Batch:
    """Samples on the device, with what they are mixed with."""

    def __init__(
        self, x: Tensor, y: Tensor, share: float | None = None, partners: Tensor | None = None, mark: int = 0
    ) -> None:
        self.x, self.y, self.share, self.partners, self.mark = x, y, share, partners, mark


class Worker:
    """Trains and scores models one after the other; made by an engine, used by one thread at a time."""

    def __init__(self, engine: Engine, device: torch.device, batch: int) -> None:
        self._engine, self._device, self._size = engine, device, batch
        self._replica = Replica(engine.template, engine.plan, engine.settings, device)
        self._optimiser = Optimiser(self._replica)
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._batch: Batch | None = None
        self._phase: tuple[Mapping[str, Any], Objective] | None = None
        self._norms: list[Any] = []
        self._seed = 0

    def arrays(self) -> tuple[Floats, Floats]:
        """Where whoever asks puts models for the other methods, so that they are handed over without new memory."""
        return np.zeros(self._engine.plan.size, np.float32), np.zeros(self._engine.plan.buffer_size, np.float32)

    # What a method does by hand.

    def begin(self) -> None:
        """The start of a phase: velocity and moments are forgotten, steps are counted anew.

        A phase that was not ended, because it failed half-way, is forgotten as well.
        """
        self._phase = None
        self._optimiser.forget()
        self._norms = []

    def load(self, key: int, indices: npt.NDArray[np.uint32]) -> None:
        """Takes samples of a set as the current batch."""
        with self._at_work():
            x, y = self._engine.samples(key, self._device)
            at = tensor(indices.astype(np.int64), self._device, torch.int64)
            self._batch = Batch(_rows(x, at), y.index_select(0, at), mark=zlib.crc32(indices.tobytes()))

    def take(self, x: Floats, y: Any, share: float | None = None, partners: Any = None) -> None:
        """Takes a batch by value; with a share its samples are mixed with others, whose labels are given."""
        with self._at_work():
            self._batch = self._given(x, y, share, partners)

    def step(
        self, w: Floats, b: Floats, descent: Mapping[str, Any], objective: Mapping[str, Any]
    ) -> tuple[float, float | None]:
        """One step on the current batch; gives the objective before it, and what terms have added to it."""
        with self._at_work():
            if self._phase is not None:
                raise FormantError("a phase is under way", hint="call phase_end() first, or begin()")
            self._enter(w, b)
            self._mark(descent, w if self._optimiser.steps == 0 else None)
            prepared = Objective(objective, self._replica)
            # Shares of the loss's pull are means over the steps of a phase.
            for term, norms in zip(prepared.terms, self._norms):
                term.norms = norms
            values = self._steps(descent, prepared, iter([self._current()]))
            self._norms = [term.norms for term in prepared.terms]
            self._leave(w, b)
            value, terms = _values(values)
            return float(value[0]), None if terms is None else float(terms[0])

    def look(self, w: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Features and logits of the current batch; the model learns nothing."""
        with self._at_work(), self._visiting(w, b), torch.no_grad():
            features, logits = self._replica.look(self._current().x)
            return _array(features), _array(logits)

    def score(self, w: Floats, b: Floats, key: int, indices: npt.NDArray[np.uint32]) -> Floats:
        """The logits of samples of a set."""
        with self._at_work(), self._visiting(w, b), torch.no_grad():
            x, _ = self._engine.samples(key, self._device)
            at = tensor(indices.astype(np.int64), self._device, torch.int64)
            pieces = [self._replica.logits(_rows(x, part)) for part in torch.split(at, self._engine.scored_at_once(self._size))]
            if not pieces:
                return np.empty((0, self._engine.plan.classes), np.float32)
            return _array(torch.cat(pieces))

    # Whole phases.

    def phase_begin(self, w: Floats, b: Floats, descent: Mapping[str, Any], objective: Mapping[str, Any]) -> None:
        """Begins a phase: model, teachers and anchors go to the device, and all is at rest."""
        with self._at_work():
            self.begin()
            self._enter(w, b)
            self._mark(descent, w)
            self._phase = (descent, Objective(objective, self._replica))

    def phase_run(
        self, key: int, indices: npt.NDArray[np.uint32], sizes: npt.NDArray[np.uint32]
    ) -> tuple[Doubles, Doubles | None]:
        """Steps on consecutive pieces of some samples; what each step's objective was, and what terms added."""
        with self._at_work():
            descent, objective = self._running()
            if len(sizes) == 0:
                return np.empty(0), np.empty(0) if objective.terms else None
            x, y = self._engine.samples(key, self._device)
            pieces = [int(size) for size in sizes]
            at = tensor(indices.astype(np.int64), self._device, torch.int64)
            parts, labels = torch.split(at, pieces), torch.split(y.index_select(0, at), pieces)
            marks = self._marks(indices, pieces)
            batches = (Batch(_rows(x, p), y, mark=m) for p, y, m in zip(parts, labels, marks))
            return _values(self._steps(descent, objective, batches))

    def phase_batch(self, x: Floats, y: Any, share: float | None = None, partners: Any = None) -> tuple[float, float | None]:
        """One step of the phase on a batch given by value."""
        with self._at_work():
            descent, objective = self._running()
            batch = self._given(x, y, share, partners)
            value, terms = _values(self._steps(descent, objective, iter([batch])))
            return float(value[0]), None if terms is None else float(terms[0])

    def phase_end(self, w: Floats, b: Floats) -> None:
        """Writes the trained model, and forgets the phase."""
        with self._at_work():
            self._running()
            self._leave(w, b)
            self._phase = None

    def phase_model(self, w: Floats, b: Floats) -> None:
        """Writes the model as far as it is trained; the phase goes on."""
        with self._at_work():
            self._running()
            self._leave(w, b)

    def phase_close(self) -> None:
        """Forgets the phase, whose model was written."""
        self._phase = None

    # What they are made of.

    def _steps(self, descent: Mapping[str, Any], objective: Objective, batches: Iterator[Batch]) -> list[list[Tensor]]:
        """Steps on batches; of each the loss and what every term has added, still on the device."""
        replica, optimiser, part = self._replica, self._optimiser, str(descent["part"])
        replica.train_part(part)
        replica.mode(training=True)
        trained = replica.parameters[replica.own(part)[1]]
        loss_of, values = objective.loss, []
        for batch in batches:
            if replica.drops:
                replica.generator.manual_seed((self._seed << 32) ^ (batch.mark + 0x9E3779B1 * optimiser.steps))
            with replica.suited(len(batch.x)):
                logits = replica.logits(batch.x)
                if batch.share is None or batch.partners is None:
                    loss = loss_of(logits, batch.y)
                else:
                    loss = loss_of.mixed(logits, batch.y, batch.share, batch.partners)
                loss.backward()  # type: ignore[no-untyped-call]
            gradient = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
            added = objective.add(optimiser.steps, part, gradient) if objective.terms else []
            optimiser.step(descent, gradient)
            values.append([loss.detach(), *added])
            # Freed here, or the next step would find no room in the cache's lines that these have.
            del gradient
            for parameter in trained:
                parameter.grad = None
        return values

    def _given(self, x: Floats, y: Any, share: float | None, partners: Any) -> Batch:
        device = self._device
        mark = zlib.crc32(np.ascontiguousarray(y).tobytes()) ^ zlib.crc32(x[:1].tobytes()) if self._replica.drops else 0
        inputs = tensor(x, device)
        if self._engine.channels_last(device):
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        others = None if partners is None else tensor(partners, device, torch.int64)
        return Batch(inputs, tensor(y, device, torch.int64), share, others, mark)

    def _mark(self, descent: Mapping[str, Any], w: Floats | None) -> None:
        """What dropout draws from: the phase's seed, or whatever tells one phase from another."""
        if not self._replica.drops:
            return
        if descent.get("seed") is not None:
            self._seed = int(descent["seed"]) & 0x7FFFFFFF
        elif w is not None:
            self._seed = zlib.crc32(w[:: max(1, len(w) // 4096)].tobytes()) & 0x7FFFFFFF

    def _marks(self, indices: npt.NDArray[np.uint32], pieces: list[int]) -> list[int]:
        if not self._replica.drops:
            return [0] * len(pieces)
        ends = np.cumsum(pieces)
        return [zlib.crc32(indices[end - size : end].tobytes()) for end, size in zip(ends, pieces)]

    def _enter(self, w: Floats, b: Floats) -> None:
        """The model goes to the device."""
        refuse_model(self._engine.plan, w, b)
        self._replica.fill(tensor(w, torch.device("cpu")), tensor(b, torch.device("cpu")))

    def _leave(self, w: Floats, b: Floats) -> None:
        """The model comes back, into the arrays that it came from."""
        refuse_changes(self._replica.module, self._replica.all, self._replica.memory)
        self._replica.read(torch.from_numpy(w), torch.from_numpy(b))

    @contextmanager
    def _visiting(self, w: Floats, b: Floats) -> Iterator[None]:
        """Another model is looked at; a phase that is under way is put aside for it."""
        aside = (self._replica.w.clone(), self._replica.b.clone()) if self._phase else None
        self._enter(w, b)
        self._replica.mode(training=False)
        try:
            yield
        finally:
            if aside is not None:
                with torch.no_grad():
                    self._replica.w.copy_(aside[0])
                    self._replica.b.copy_(aside[1])

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """On the worker's own stream; what PyTorch raises becomes an error that names a remedy."""
        # The number of threads is a matter of the thread that asks, and a later thread may have the number of an earlier one.
        torch.set_num_threads(self._engine.settings.threads)
        try:
            if self._stream is None:
                yield
            else:
                with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
                    yield
                    self._stream.synchronize()
        except torch.cuda.OutOfMemoryError as error:
            raise FormantError(
                f"{self._device} has not enough memory: {str(error).splitlines()[0]}",
                hint="make batches smaller, or run with fewer workers (threads)",
            ) from error
        except ValueError as error:
            if "more than 1 value per channel" in str(error):
                raise FormantError(
                    "a batch norm cannot learn from a batch of one sample",
                    hint="choose a batch size that leaves no single sample, or another normalisation",
                ) from error
            raise

    def _current(self) -> Batch:
        if self._batch is None:
            raise FormantError("the worker has no batch", hint="call load() or take() first")
        return self._batch

    def _running(self) -> tuple[Mapping[str, Any], Objective]:
        if self._phase is None:
            raise FormantError("no phase is under way", hint="call phase_begin() first")
        return self._phase


def refuse_model(plan: Plan, w: Floats, b: Floats) -> None:
    """Refuses what is no model of a network."""
    for name, array, size in (("w", w, plan.size), ("b", b, plan.buffer_size)):
        if array.dtype != np.float32 or array.shape != (size,):
            raise FormantError(
                f"{name} is {array.dtype} of the shape {array.shape}", hint=f"the network has {size} float32 values"
            )


def _rows(x: Tensor, at: Tensor) -> Tensor:
    """Some samples, in the memory format of all."""
    if x.dim() == 4 and not x.is_contiguous():
        return x.permute(0, 2, 3, 1).index_select(0, at).permute(0, 3, 1, 2)
    return x.index_select(0, at)


def _array(x: Tensor) -> Floats:
    found: Floats = x.to("cpu", torch.float32).numpy()
    return found


def _values(values: list[list[Tensor]]) -> tuple[Doubles, Doubles | None]:
    """Objectives and what terms have added, by one transfer."""
    flat = torch.stack([wide(value) for step in values for value in step])
    table: Doubles = flat.cpu().double().numpy().reshape(len(values), -1)
    terms = table[:, 1:].sum(1) if table.shape[1] > 1 else None
    return table.sum(1), terms
