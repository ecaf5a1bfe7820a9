"""Between the runtime and a method: states are packed and unpacked, messages checked, models cut into two."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from . import _formant
from ._errors import FormantError
from ._local import Local
from ._method import Central, Method, Upload
from ._vectors import Vector, pack, unpack, vector

Sizes = tuple[int, int]
Told = tuple[str, list[Vector]]

# Kept beside what a method keeps: a model can then be cut without asking for a network.
_SIZES = "formant.sizes"


#: Threads that are inside a method's own code.
_inside: set[int] = set()


def abandon() -> None:
    """Ends what methods are doing, where they would not end by themselves: ``while True: pass``."""
    import ctypes

    for thread in list(_inside):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_formant.Stopped))


_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def _hook(call: _Hook) -> _Hook:
    """A call of the runtime's, whose thread can be told to end."""

    @functools.wraps(call)
    def noted(*given: Any) -> Any:
        thread = threading.get_ident()
        _inside.add(thread)
        try:
            return call(*given)
        finally:
            _inside.discard(thread)

    return cast(_Hook, noted)


class _lent:
    """Lends a phase. Frames of a traceback outlive it, on other threads: none of them keeps what Rust has lent."""

    def __init__(self, inner: _formant.Local) -> None:
        self.local = Local(inner)

    def __enter__(self) -> Local:
        return self.local

    def __exit__(self, *raised: object) -> None:
        self.local._end()


class Bridge:
    """What the runtime calls; see ``rust/method.rs``."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.personal_phase = type(method)._overrides("train_personal")
        self.stale_uploads = bool(method.stale_uploads)
        self.every_upload = method.receives == "uploads"

    # Phases.

    @_hook
    def train_shared(self, kept: object, got: Told, inner: _formant.Local, sizes: Sizes) -> tuple[bytes, Told]:
        with _lent(inner) as local:
            del inner
            client = self._client(kept)
            sent = self.method.train_shared(client, _message(got), local)
        told = self._told(sent, sizes, "train_shared")
        self._agreed(got, told)
        return _packed(client, sizes, "client"), told

    @_hook
    def train_personal(self, kept: object, got: Told, sent: Told, inner: _formant.Local, sizes: Sizes) -> bytes:
        with _lent(inner) as local:
            del inner
            client = self._client(kept)
            self.method.train_personal(client, _message(got), _message(sent), local)
        return _packed(client, sizes, "client")

    @_hook
    def personal_model(self, kept: object, got: Told, inner: _formant.Local, sizes: Sizes) -> tuple[Vector, Vector]:
        with _lent(inner) as local:
            del inner
            client = self._client(kept)
            found = self.method.personal_model(client, _message(got), local)
        return _cut(found, sizes, f"{self._whose}.personal_model")

    # The server.

    @_hook
    def broadcast(self, kept: object, sizes: Sizes | None) -> Told:
        server, sizes = self._server(kept, sizes)
        return self._told(self.method.broadcast(server), sizes, "broadcast")

    @_hook
    def aggregate(self, kept: object, mean: Told, about: tuple[int, int, int], sizes: Sizes) -> bytes:
        return self._aggregated(kept, _message(mean), about, sizes)

    @_hook
    def aggregate_every(
        self, kept: object, uploads: list[tuple[int, float, int, Told]], about: tuple[int, int, int], sizes: Sizes
    ) -> bytes:
        received = [Upload(client, weight, late, _message(told)) for client, weight, late, told in uploads]
        return self._aggregated(kept, received, about, sizes)

    def _aggregated(self, kept: object, received: Any, about: tuple[int, int, int], sizes: Sizes) -> bytes:
        server, _ = self._server(kept, sizes)
        made = self.method.aggregate(server, received, Central(*about))  # type: ignore[func-returns-value]
        if made is not None:
            raise FormantError(f"{self._whose}.aggregate gives {type(made).__name__}", hint="change `server` in place")
        return _packed(server, sizes, "server")

    @_hook
    def global_model(self, kept: object, sizes: Sizes | None) -> tuple[Vector, Vector] | None:
        server, sizes = self._server(kept, sizes)
        found = self.method.global_model(server)
        return None if found is None else _cut(found, sizes, f"{self._whose}.global_model")

    @_hook
    def upload_lengths(self, got: Told, sizes: Sizes) -> list[int] | None:
        told = self.method.upload_lengths(_message(got))
        if told is None:
            return None
        return [*sizes, *self._lengths(told).values()]

    def _lengths(self, told: object) -> dict[str, int]:
        """What `upload_lengths` has said of further vectors, in the order in which they are sent."""
        hint = 'return a dict of whole numbers, such as {"extra": 3}'
        if not isinstance(told, Mapping):
            raise FormantError(f"{self._whose}.upload_lengths gives a {type(told).__name__}", hint=hint)
        for name, length in told.items():
            if not isinstance(name, str) or isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 0:
                raise FormantError(f"{self._whose}.upload_lengths gives {name!r}: {length!r}", hint=hint)
        return {name: int(told[name]) for name in sorted(told) if name != "w"}

    def _agreed(self, got: Told, sent: Told) -> None:
        """Refuses further vectors that the server does not expect, under names that say which."""
        told = self.method.upload_lengths(_message(got))
        expected = _further(got) if told is None else self._lengths(told)
        if (found := _further(sent)) != expected:
            raise FormantError(
                f"{self._whose}.train_shared gives {_listed(found)} beside the model, and {_listed(expected)} was agreed",
                hint="override upload_lengths(got): it names what every client sends, with lengths",
            )

    # States and messages.

    @property
    def _whose(self) -> str:
        return type(self.method).__name__

    def _client(self, kept: object) -> dict[str, Any]:
        if isinstance(kept, bytes):
            state = unpack(kept)
            state.pop(_SIZES, None)
            return state
        return _fresh(self.method.start_client(np.array(kept)), f"{self._whose}.start_client")

    def _server(self, kept: object, sizes: Sizes | None) -> tuple[dict[str, Any], Sizes]:
        if isinstance(kept, bytes):
            state = unpack(kept)
            parameters, buffers = state.pop(_SIZES)
            return state, (int(parameters), int(buffers))
        if sizes is None:
            raise FormantError("a state has no sizes", hint="this is a fault of Formant's: please report it")
        return _fresh(self.method.start_server(np.array(kept)), f"{self._whose}.start_server"), sizes

    def _told(self, message: Any, sizes: Sizes, where: str) -> Told:
        where = f"{self._whose}.{where}"
        parts = dict(message) if isinstance(message, Mapping) else {"w": message}
        if (odd := next((name for name in parts if not isinstance(name, str)), None)) is not None:
            raise FormantError(f"{where} gives a vector under the key {odd!r}", hint='use texts, such as "w"')
        nothing = np.zeros(0, dtype=np.float32)
        model = _cut(parts["w"], sizes, where) if "w" in parts else (nothing, nothing)
        further = [(name, np.shape(parts[name]), vector(parts[name], name)) for name in sorted(parts) if name != "w"]
        meta = {
            "plain": not isinstance(message, Mapping),
            "w": "w" in parts,
            "further": [[name, list(shape)] for name, shape, _ in further],
        }
        return json.dumps(meta), [*model, *(values for _, _, values in further)]


def _message(told: Told) -> Any:
    """What a method sent, as it sent it."""
    meta, vectors = told
    said: dict[str, Any] = json.loads(meta) if meta else {"plain": False, "w": False, "further": []}
    parts: dict[str, Any] = {"w": np.concatenate(vectors[:2])} if said["w"] else {}
    if said["plain"]:
        return parts["w"]
    for (name, shape), values in zip(said["further"], vectors[2:], strict=True):
        parts[name] = values.reshape(shape)
    return parts


def _cut(given: object, sizes: Sizes, where: str) -> tuple[Vector, Vector]:
    """A model as parameters and buffers."""
    if given is None:
        raise FormantError(f"{where} gives nothing", hint="return a vector: local.sgd(got.copy()) gives one")
    found = vector(given, where)
    parameters, buffers = sizes
    if found.size != parameters + buffers:
        raise FormantError(
            f"{where} gives {found.size} numbers, and a model has {parameters} parameters and {buffers} buffers",
            hint="return a vector like the one that was received",
        )
    return found[:parameters], found[parameters:]


def _further(told: Told) -> dict[str, int]:
    """Lengths of the vectors beside the model, by their names."""
    meta, vectors = told
    names = [name for name, _ in json.loads(meta)["further"]] if meta else []
    return {name: values.size for name, values in zip(names, vectors[2:], strict=True)}


def _listed(lengths: dict[str, int]) -> str:
    return ", ".join(f"{name} ({length})" for name, length in lengths.items()) or "nothing"


def _fresh(state: Any, where: str) -> dict[str, Any]:
    """A state as it comes back from disk: from the first phase on, no array is another one's memory."""
    return unpack(pack(_named(_checked(state, where), where)))


def _named(state: dict[str, Any], whose: str) -> dict[str, Any]:
    if any(not isinstance(name, str) for name in state):
        raise FormantError(f"{whose} has keys that are no texts", hint='use names such as "w_p"')
    return state


def _checked(state: Any, where: str) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise FormantError(f"{where} gives {type(state).__name__}", hint="return a dict of arrays, numbers and texts")
    return state


def _packed(state: dict[str, Any], sizes: Sizes, whose: str) -> bytes:
    _named(_checked(state, f"the {whose}'s state"), f"the {whose}'s state")
    return pack({**state, _SIZES: np.array(sizes, dtype=np.int64)})
