"""What is raised where models are scored or looked at comes out as it was raised, though nothing can be returned there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit import Arrays

import formant
from formant import _formant
from formant._experiment import compose
from formant._methods import settings

Short = Callable[..., formant.Run]


class Failing(Exception):
    """A model's own."""


class Worker:
    """Trains nothing and knows nothing."""

    def __init__(self, classes: int, features: int, breaks: str) -> None:
        self.classes, self.features, self.breaks, self.batch = classes, features, breaks, 0

    def _broken(self, what: str) -> None:
        if what == self.breaks:
            raise Failing(what)

    def begin(self) -> None:
        pass

    def load(self, key: int, indices: Any) -> None:
        self._broken("load")
        self.batch = len(indices)

    def look(self, w: Any, b: Any) -> Any:
        self._broken("look")
        return np.zeros((self.batch, self.features), np.float32), np.zeros((self.batch, self.classes), np.float32)

    def score(self, w: Any, b: Any, key: int, indices: Any) -> Any:
        self._broken("score")
        return np.zeros((len(indices), self.classes), np.float32)

    def phase_begin(self, w: Any, b: Any, descent: Any, objective: Any) -> None:
        pass

    def phase_run(self, key: int, indices: Any, sizes: Any) -> Any:
        return np.zeros(len(sizes)), None

    def phase_end(self, w: Any, b: Any) -> None:
        pass


class Engine:
    """An engine whose workers break."""

    name = "breaking"

    def __init__(self, breaks: str) -> None:
        self.breaks, self.classes, self.features = breaks, 0, 0

    def engine(self, spec: Any, layout: Any, shape: Any, classes: int) -> Engine:
        self.classes, self.features = classes, int(np.prod(shape))
        return self

    def put(self, key: int, x: Any, y: Any) -> None:
        pass

    def worker(self, batch: int) -> Worker:
        if self.breaks == "worker":
            raise Failing("worker")
        return Worker(self.classes, self.features, self.breaks)

    def pass_bytes(self, batch: int, backwards: bool) -> int:
        return 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_that_cannot_be_scored_is_no_interruption(short: Short, threads: int) -> None:
    with pytest.raises(Failing, match="score"):
        short(engine=Engine("score"), threads=threads)


def test_an_engine_without_workers(short: Short) -> None:
    with pytest.raises(Failing, match="worker"):
        short(engine=Engine("worker"))


#: What a method was told.
TOLD: list[str] = []


class Looking(formant.Method):
    """Looks at a batch, and sends what it has got."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        batch = next(iter(local.batches()))
        try:
            batch.look(got)
        except Exception as error:
            TOLD.append(type(error).__name__)
            raise
        return got


@pytest.mark.parametrize("what", ["look", "load"])
def test_a_look_that_fails_is_heard_where_it_was_asked_for(short: Short, what: str) -> None:
    TOLD.clear()
    with pytest.raises(Failing, match=what):
        short(engine=Engine(what), methods=[Looking])
    # Not zeros, and an exception later.
    assert TOLD == ["Failing"]
    assert short(engine=Engine("nothing"), methods=[Looking]).complete


def _task(breaks: str, train: Arrays, place: int | None) -> _formant.Task:
    composed = compose(network="logistic", methods=settings("fedavg"), keywords={"rounds": 2, "epochs": 1, "batch": 10})
    return _formant.Task(
        composed.text, composed.sets, shape=(1, 8, 8), class_names=list("0123"), pixels=True,
        normalisation=[(0.5, 0.5)], place=place, dataset=formant.dataset(train, test_fraction=0) if place is not None else None,
        engine=_formant.Engines(Engine(breaks), "breaking"),
    )  # fmt: skip


def test_a_node_says_why_it_cannot_score(train: Arrays) -> None:
    server = _task("nothing", train, None)
    broadcast = server.broadcast(server.start_server())
    good, bad = _task("nothing", train, 0), _task("score", train, 0)
    state, sent, error = good.train(1, None, broadcast)
    assert sent is not None and error is None
    assert good.score(1, state, broadcast)[1] > 0
    with pytest.raises(Failing, match="score"):
        bad.score(1, state, broadcast)


def test_a_server_says_what_its_method_has_raised(train: Arrays) -> None:
    class Mute(formant.Method):
        """Has nothing to send."""

        name = "mute-broadcast"

        def broadcast(self, server: Any) -> Any:
            raise Failing("broadcast")

    composed = compose(network="logistic", methods=settings(Mute), keywords={"rounds": 1})
    server = _formant.Task(
        composed.text, composed.sets, shape=(1, 8, 8), class_names=list("0123"), pixels=True, normalisation=[(0.5, 0.5)]
    )
    with pytest.raises(Failing, match="broadcast"):
        server.broadcast(server.start_server())
