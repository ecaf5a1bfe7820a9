"""The client of a Flower federation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flwr.app as flwr
import numpy as np
from flwr.clientapp import ClientApp

from .. import _formant
from .._data import dataset
from .._errors import FormantError
from ._task import Agreement, agreement, array_record, bytes_of, tensors

#: Under which a node keeps what is personal.
STATE = "formant.state"


def client_app(
    method: Any,
    *,
    data: Any,
    shape: Sequence[int],
    classes: int | Sequence[str],
    network: Any = "cnn",
    pixels: bool = True,
    normalisation: Sequence[tuple[float, float]] | None = None,
    engine: Any = None,
    place: Callable[[flwr.Context], int] | None = None,
    save: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> ClientApp:
    """A ``ClientApp`` that trains by one of Formant's methods, or by one of your own.

    - ``method``: a name, ``formant.scd(lambda_p=30)``, or a subclass of :class:`formant.Method`.
    - ``data``: ``(x, y)``, or a function of the node's context that gives it; part of it is held out to score the
      personal model (``train_fraction``).
    - ``shape``, ``classes``: of one sample, and how many or how they are called. ``pixels``: ``x`` is bytes of 0 to 255,
      not numbers. ``normalisation``: of each channel, the same on all nodes; (0.5, 0.5) for pixels, (0, 1) for numbers.
    - ``place``: the number of the node, from 0 on; otherwise ``partition-id`` of its ``--node-config``.
    - ``save``: a folder for the newest personal model, ``personal-PLACE.npz``.
    - ``keywords``: ``rounds``, ``seed``, ``epochs``, ``learning_rate``, ``train={…}`` as in :func:`formant.run`.
    """
    agreed = agreement(
        method, shape=shape, classes=classes, network=network, pixels=pixels, normalisation=normalisation,
        engine=engine, keywords=keywords,
    )  # fmt: skip
    node = _Node(agreed, data, place, Path(save) if save is not None else None)
    app = ClientApp()
    app.train()(node.train)
    app.evaluate()(node.evaluate)
    return app


class _Node:
    """What a ``ClientApp`` does with the messages of the server."""

    def __init__(
        self, agreed: Agreement, data: Any, place: Callable[[flwr.Context], int] | None, save: Path | None
    ) -> None:
        self.agreed, self.data, self.place, self.save = agreed, data, place, save
        # Flower may start a process for every message, or one for many nodes: the last one's task is kept.
        self.last: tuple[object, int, _formant.Task] | None = None

    def train(self, message: flwr.Message, context: flwr.Context) -> flwr.Message:
        """Both phases of a round; the upload goes back, and the state stays."""
        round, broadcast = self._heard(message)
        place, task = self._task(context)
        state, sent, error = task.train(round, bytes_of(context.state, STATE), broadcast)
        context.state[STATE] = array_record(state)
        content = flwr.RecordDict({"metrics": flwr.MetricRecord({"num-examples": task.samples})})
        told: dict[str, Any] = {"mark": self.agreed.mark, "round": round, "place": place}
        if error is not None:
            told["error"] = error
        content["formant"] = flwr.ConfigRecord(told)
        if sent is not None:
            content["upload"] = array_record(sent)
        return flwr.Message(content, reply_to=message)

    def evaluate(self, message: flwr.Message, context: flwr.Context) -> flwr.Message:
        """The personal model on the node's own held-out samples."""
        round, broadcast = self._heard(message)
        place, task = self._task(context)
        state = bytes_of(context.state, STATE)
        metrics: dict[str, float | int] = {"num-examples": 0}
        if state is not None:
            accuracy, samples = task.score(round, state, broadcast)
            if accuracy is not None:
                metrics = {"num-examples": samples, "pm-accuracy": accuracy}
            if self.save is not None:
                self.save.mkdir(parents=True, exist_ok=True)
                found = tensors(task, task.personal(round, state, broadcast))
                replaced(self.save / f"personal-{place}.npz", found)
        content = flwr.RecordDict({"metrics": flwr.MetricRecord(dict(metrics))})
        content["formant"] = flwr.ConfigRecord({"mark": self.agreed.mark, "round": round, "place": place})
        return flwr.Message(content, reply_to=message)

    def _heard(self, message: flwr.Message) -> tuple[int, bytes]:
        told = message.content.config_records.get("formant")
        broadcast = bytes_of(message.content, "broadcast")
        if told is None or broadcast is None:
            raise FormantError("the server is none of Formant's", hint="use formant.flower.server_app there")
        if told.get("mark") != self.agreed.mark:
            raise FormantError(
                "the server was given another method, network, shape, classes or keys of training",
                hint="give formant.flower.client_app and server_app the same arguments",
            )
        round = told.get("round")
        if not isinstance(round, int) or not 1 <= round <= self.agreed.rounds:
            raise FormantError(f"the server asks for round {round!r}", hint="give both sides the same rounds")
        return round, broadcast

    def _task(self, context: flwr.Context) -> tuple[int, _formant.Task]:
        whose = (context.run_id, context.node_id)
        if self.last is None or self.last[0] != whose:
            place = self._place(context)
            self.last = whose, place, self.agreed.task(place, self._dataset(context))
        return self.last[1], self.last[2]

    def _place(self, context: flwr.Context) -> int:
        found = self.place(context) if self.place is not None else context.node_config.get("partition-id")
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise FormantError(
                f"the place of this node is {found!r}",
                hint="start it with --node-config 'partition-id=0' and so on, or give place=",
            )
        return found

    def _dataset(self, context: flwr.Context) -> _formant.Dataset:
        given = self.data(context) if callable(self.data) else self.data
        agreed = self.agreed
        if isinstance(given, tuple) and len(given) == 2:
            dtype = getattr(given[0], "dtype", None)
            if dtype is not None and (str(dtype).removeprefix("torch.") == "uint8") != agreed.pixels:
                raise FormantError(
                    f"data has values of {dtype}, and pixels = {agreed.pixels}",
                    hint="give pixels as uint8, or pixels=False to both apps",
                )
        made = dataset(
            given, class_names=agreed.class_names, normalisation=agreed.normalisation, test_fraction=0.0
        )
        if made.shape != agreed.shape:
            raise FormantError(
                f"samples of data have the shape {made.shape}, and shape = {agreed.shape}",
                hint="give both apps the shape of a sample: (channels, height, width)",
            )
        return made


def replaced(path: Path, found: dict[str, Any]) -> None:
    """Writes arrays as a file that is either old or new, never half of it."""
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        np.savez(file, **found)
    beside.replace(path)
