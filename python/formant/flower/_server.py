"""The server of a Flower federation."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import flwr.app as flwr
from flwr.serverapp import Grid, ServerApp

from .. import _formant
from .._errors import FormantError
from ._client import replaced
from ._task import Agreement, Tensors, agreement, array_record, bytes_of, tensors

log = logging.getLogger("flwr")


@dataclass
class Round:
    """What came of a round."""

    round: int
    #: Nodes that were asked, and those whose upload counted.
    asked: int
    counted: int
    #: Why others did not count, by node.
    refused: dict[int, str] = field(default_factory=dict)
    #: The mean accuracy of the personal models, weighted by the samples that each was scored on.
    pm_accuracy: float | None = None
    #: Those samples.
    scored: int = 0
    seconds: float = 0.0


OnRound = Callable[[int, Round, "Tensors | None"], None]


def server_app(
    method: Any,
    *,
    shape: Sequence[int],
    classes: int | Sequence[str],
    network: Any = "cnn",
    pixels: bool = True,
    normalisation: Sequence[tuple[float, float]] | None = None,
    engine: Any = None,
    nodes: int = 2,
    fraction: float = 1.0,
    wait: float = 300.0,
    timeout: float | None = 3600.0,
    evaluate_every: int = 1,
    save: str | os.PathLike[str] | None = "formant-flower",
    on_round: OnRound | None = None,
    **keywords: Any,
) -> ServerApp:
    """A ``ServerApp`` that aggregates by one of Formant's methods, or by one of your own.

    The first arguments and the keywords are those of :func:`formant.flower.client_app`, with the same values.

    - ``nodes``: how many must be there before the first round, which waits ``wait`` seconds for them.
    - ``fraction``: how many of those that are there take part in a round, drawn by ``seed``.
    - ``timeout``: seconds that a round waits for answers; nodes that fail or are late are left out of it.
    - ``evaluate_every``: rounds between scores of the personal models; 0 asks for none.
    - ``save``: a folder for ``generic.npz`` (tensors by PyTorch's names) and ``rounds.jsonl``, or ``None``.
    - ``on_round(round, what_came_of_it, tensors of the generic model)`` is called after every round.
    """
    if nodes < 1:
        raise FormantError(f"nodes = {nodes}", hint="give the number of nodes to wait for, from 1 on")
    if not 0.0 < fraction <= 1.0:
        raise FormantError(f"fraction = {fraction}", hint="give a number above 0 and up to 1")
    if evaluate_every < 0:
        raise FormantError(f"evaluate_every = {evaluate_every}", hint="give a number of rounds, or 0 for never")
    agreed = agreement(
        method, shape=shape, classes=classes, network=network, pixels=pixels, normalisation=normalisation,
        engine=engine, keywords=keywords,
    )  # fmt: skip
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: flwr.Context) -> None:
        server = _Server(agreed, grid, fraction, timeout)
        server.wait(nodes, wait)
        folder = Path(save) if save is not None else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "rounds.jsonl").write_text("", encoding="utf-8")
        for number in range(1, agreed.rounds + 1):
            score = evaluate_every > 0 and (number % evaluate_every == 0 or number == agreed.rounds)
            done = server.round(number, score)
            generic = server.generic()
            if folder is not None:
                with (folder / "rounds.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(done)) + "\n")
                if generic is not None:
                    replaced(folder / "generic.npz", dict(generic))
            if on_round is not None:
                on_round(number, done, generic)

    return app


class _Server:
    """A server between two rounds."""

    def __init__(self, agreed: Agreement, grid: Grid, fraction: float, timeout: float | None) -> None:
        self.agreed, self.grid, self.fraction, self.timeout = agreed, grid, fraction, timeout
        self.task: _formant.Task = agreed.task()
        self.state = self.task.start_server()
        #: Whose each place is: a node keeps it.
        self.places: dict[int, int] = {}

    def wait(self, nodes: int, seconds: float) -> None:
        """Until enough nodes are there."""
        until = time.monotonic() + seconds
        while len(there := list(self.grid.get_node_ids())) < nodes:
            if time.monotonic() > until:
                raise FormantError(
                    f"{len(there)} of {nodes} nodes are there after {seconds:g} seconds",
                    hint="start more SuperNodes, or give fewer nodes= or a longer wait=",
                )
            time.sleep(0.2)

    def round(self, number: int, score: bool) -> Round:
        """Asks nodes to train, makes what it can of their answers, and asks how well they are."""
        began = time.monotonic()
        asked = self._drawn(number)
        done = Round(number, len(asked), 0)
        uploads = []
        for reply in self._ask("train", number, asked):
            node = reply.metadata.src_node_id
            try:
                uploads.append(self._upload(node, number, reply))
            except Exception as error:  # Whatever a node has sent, the others go on.
                done.refused[node] = str(error)
        silent = set(asked) - {upload_node for upload_node, *_ in uploads} - set(done.refused)
        done.refused.update({node: "it has not answered in time" for node in sorted(silent)})
        done.counted = self._aggregated(number, uploads, done)
        if score:
            self._score(number, asked, done)
        for node, why in done.refused.items():
            log.warning("round %d: node %d did not count: %s", number, node, why)
        done.seconds = time.monotonic() - began
        shown = "-" if done.pm_accuracy is None else f"{100 * done.pm_accuracy:.2f} %"
        log.info(
            "round %d/%d: %d of %d uploads counted, personal models %s",
            number, self.agreed.rounds, done.counted, done.asked, shown,
        )  # fmt: skip
        return done

    def generic(self) -> Tensors | None:
        """The generic model, if the method trains one."""
        found = self.task.generic(self.state)
        return None if found is None else tensors(self.task, found)

    def _drawn(self, number: int) -> list[int]:
        there = sorted(self.grid.get_node_ids())
        if self.fraction == 1.0:
            return there
        draw = random.Random(f"{self.agreed.seed}/{number}")
        return sorted(draw.sample(there, max(1, round(self.fraction * len(there)))))

    def _ask(self, what: str, number: int, nodes: Sequence[int]) -> list[flwr.Message]:
        broadcast = array_record(self.task.broadcast(self.state))
        told = flwr.ConfigRecord({"mark": self.agreed.mark, "round": number})
        messages = [
            flwr.Message(
                flwr.RecordDict({"formant": told, "broadcast": broadcast}),
                dst_node_id=node, message_type=what, group_id=str(number),
            )
            for node in nodes
        ]  # fmt: skip
        return list(self.grid.send_and_receive(messages, timeout=self.timeout))

    def _upload(self, node: int, number: int, reply: flwr.Message) -> tuple[int, int, float, bytes]:
        """An answer, read as what somebody else has sent; Formant's core checks what is in it."""
        told = self._told(node, number, reply)
        sent = bytes_of(reply.content, "upload")
        if sent is None:
            raise FormantError(str(told.get("error", "it has sent no upload")))
        samples = _number(reply, "num-examples")
        if samples is None or not math.isfinite(samples) or samples <= 0:
            raise FormantError(f"it claims {samples} samples")
        return node, self.places[node], samples, sent

    def _told(self, node: int, number: int, reply: flwr.Message) -> flwr.ConfigRecord:
        if reply.has_error():
            raise FormantError(reply.error.reason or f"error {reply.error.code}")
        told = reply.content.config_records.get("formant")
        if told is None or told.get("mark") != self.agreed.mark or told.get("round") != number:
            raise FormantError("it answers something else", hint="use formant.flower.client_app there")
        place = told.get("place")
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < 1 << 32:
            raise FormantError(f"its place is {place!r}")
        if self.places.setdefault(node, place) != place:
            raise FormantError(f"its place was {self.places[node]}, and is {place}")
        if any(other != node and taken == place for other, taken in self.places.items()):
            del self.places[node]
            raise FormantError(f"place {place} is another node's", hint="give each its own partition-id")
        return told

    def _aggregated(self, number: int, uploads: list[tuple[int, int, float, bytes]], done: Round) -> int:
        if not uploads:
            return 0
        whose = {place: node for node, place, _, _ in uploads}
        try:
            self.state, refused = self.task.aggregate(number, self.state, [(p, n, b) for _, p, n, b in uploads])
        except FormantError as error:
            # Not one of them could be used: the model stays as it is.
            if "no upload to aggregate" not in error.message:
                raise
            done.refused.update({node: "its upload is none" for node in whose.values()})
            return 0
        done.refused.update({whose[place]: why for place, why in refused})
        return len(uploads) - len(refused)

    def _score(self, number: int, nodes: Sequence[int], done: Round) -> None:
        total = 0.0
        for reply in self._ask("evaluate", number, nodes):
            node = reply.metadata.src_node_id
            try:
                self._told(node, number, reply)
                accuracy, samples = _number(reply, "pm-accuracy"), _number(reply, "num-examples")
            except FormantError as error:
                done.refused.setdefault(node, str(error))
                continue
            if accuracy is not None and samples and 0.0 <= accuracy <= 1.0 and 0 < samples < 1e12:
                total += accuracy * samples
                done.scored += int(samples)
        done.pm_accuracy = total / done.scored if done.scored else None


def _number(reply: flwr.Message, name: str) -> float | None:
    record = reply.content.metric_records.get("metrics")
    found = record.get(name) if record is not None else None
    return float(found) if isinstance(found, (int, float)) else None
