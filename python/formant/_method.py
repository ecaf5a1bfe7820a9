"""Methods of one's own."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_type_hints

import numpy as np

from . import _formant
from ._errors import FormantError
from ._declared import check_constructor, check_key
from ._local import Local
from ._vectors import Vector

_NAME = re.compile(r"[a-z0-9_-]+")
_RESERVED = {"name", "label", "train", "allow_degenerate"}


def _of_kind(kind: type, value: Any, what: str) -> Any:
    """A hyper-parameter as the core reads it: NumPy's numbers become Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    fits = {
        float: isinstance(value, (int, float)) and not isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool),
        bool: isinstance(value, bool),
        str: isinstance(value, str),
    }[kind]
    if not fits:
        words = {float: "a number", int: "a whole number", bool: "True or False", str: "a text"}
        raise FormantError(f"{what} is {value!r}", hint=f"give {words[kind]}")
    return float(value) if kind is float else value


@dataclass(frozen=True)
class Key:
    """A hyper-parameter with more to say than its default; see `key`."""

    default: Any
    help: str = ""
    min: float | None = None
    max: float | None = None
    choices: Sequence[str] | None = None
    symbol: str = ""


def key(
    default: Any,
    help: str = "",
    *,
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] | None = None,
    symbol: str = "",
) -> Any:
    """A hyper-parameter with its range and meaning: ``mu: float = formant.key(1.0, "pull", min=0)``."""
    return Key(default, help, min, max, choices, symbol)


@dataclass(frozen=True)
class Central:
    """What an aggregation may know."""

    #: The round, from 1.
    round: int
    #: All clients of the federation.
    clients: int
    #: Uploads of this round.
    uploads: int


@dataclass(frozen=True)
class Upload:
    """One client's contribution, for methods that want every one."""

    client: int
    #: Its samples, or the share of them that counts if it is late.
    weight: float
    #: Rounds since the broadcast that it answers.
    staleness: int
    message: Any


class Method:
    """A federated method: what clients learn and what the server makes of it.

    Override what differs from FedAvg. A model is a flat vector of ``float32``: parameters, then buffers. States are
    dicts of arrays, numbers and texts, which the runtime keeps, writes to disk and restores. What a client keeps is
    never sent. Messages are vectors, or dicts of them in which ``"w"`` is the model.

    Annotated attributes with a default are hyper-parameters, with a place in experiments, tables and errors:

    >>> class MyProx(Method):
    ...     '''FedProx in three lines.'''
    ...     mu: float = key(0.1, "pull towards the received model", min=0)
    ...     def train_shared(self, client, got, local):
    ...         return local.sgd(got.copy(), terms=[Proximal(got, self.mu)])
    >>> MyProx(mu=1).hyper_parameters()
    {'mu': 1.0}
    """

    #: The name in an experiment: lower-case letters, digits, - and _. Unless set, made of the class's.
    name: ClassVar[str] = ""
    #: How tables call it.
    title: ClassVar[str] = ""
    #: Where it was published.
    citation: ClassVar[str] = "a method of one's own"
    #: Whether it trains a generic model.
    generic: ClassVar[bool] = True
    #: Whether it trains personal models. Unless set: if it overrides `train_personal` or `personal_model`.
    personal: ClassVar[bool | None] = None
    #: Whether it divides networks into body and head.
    needs_body: ClassVar[bool] = False
    #: What `aggregate` gets: the ``"mean"`` of the uploads by samples, or a list of all ``"uploads"``.
    receives: ClassVar[str] = "mean"
    #: Whether uploads may answer an older broadcast than the newest; if not, rounds must be synchronous.
    stale_uploads: ClassVar[bool] = True

    _keys: ClassVar[dict[str, Key]] = {}
    _kinds: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower().strip("_")
        if "title" not in cls.__dict__:
            cls.title = cls.__name__
        cls._check_words()
        cls._read_keys()
        if cls.personal is None:
            own = cls._overrides("train_personal") or cls._overrides("personal_model")
            cls.personal = own

    @classmethod
    def _check_words(cls) -> None:
        """Refuses attributes that mean nothing. Asked again by `register`: a class can be changed after it was made."""
        for name in ("name", "title", "citation"):
            if not isinstance(getattr(cls, name), str):
                raise FormantError(f"{cls.__name__}.{name} = {getattr(cls, name)!r}", hint="give a text")
        for name in ("generic", "personal", "needs_body", "stale_uploads"):
            if not isinstance(getattr(cls, name), (bool, np.bool_)) and not (name == "personal" and cls.personal is None):
                raise FormantError(f"{cls.__name__}.{name} = {getattr(cls, name)!r}", hint="it is True or False")
        if not _NAME.fullmatch(cls.name):
            raise FormantError(
                f"{cls.__name__}.name = {cls.name!r} cannot name a method", hint="use lower-case letters, digits, - and _"
            )
        if cls.receives not in ("mean", "uploads"):
            raise FormantError(f"{cls.__name__}.receives = {cls.receives!r}", hint='it is "mean" or "uploads"')

    @classmethod
    def _read_keys(cls) -> None:
        keys, kinds = dict(cls._keys), dict(cls._kinds)
        try:
            hints = get_type_hints(cls)
        except NameError:
            # Names that only a type checker knows say nothing of hyper-parameters.
            hints = dict(inspect.get_annotations(cls))
        for name in inspect.get_annotations(cls):
            kind = hints.get(name)
            if name.startswith("_") or name in Method.__annotations__ or "ClassVar" in str(kind):
                continue
            if name in _RESERVED:
                raise FormantError(f"{cls.__name__} has a key `{name}`, which every method has", hint="rename it")
            if name not in cls.__dict__:
                raise FormantError(f"{cls.__name__}.{name} has no default", hint=f"write {name}: float = 1.0")
            given = cls.__dict__[name]
            told = given if isinstance(given, Key) else Key(given)
            if kind in (float, "float") and type(told.default) is int:
                told = dataclasses.replace(told, default=float(told.default))
            if type(told.default) not in (float, int, bool, str):
                raise FormantError(
                    f"{cls.__name__}.{name} = {told.default!r} is no hyper-parameter",
                    hint="use a number, a whole number, True or False, or a text",
                )
            check_key(f"{cls.__name__}.{name}", told)
            keys[name], kinds[name] = told, type(told.default)
            setattr(cls, name, told.default)
        cls._keys, cls._kinds = keys, kinds

    @classmethod
    def _overrides(cls, name: str) -> bool:
        return getattr(cls, name) is not getattr(Method, name)

    def __init__(self, *, label: str | None = None, train: Mapping[str, Any] | None = None, **hyper: Any) -> None:
        #: What tables call it, if not by its name.
        whose = type(self).__name__
        if label is not None and not isinstance(label, str):
            raise FormantError(f"label of {whose} is {label!r}", hint="give a text")
        if train is not None and not isinstance(train, Mapping):
            raise FormantError(f"train of {whose} is {train!r}", hint='give a dictionary: train={"learning_rate": 0.1}')
        self.label = label
        #: What of ``[train]`` differs for it.
        self.train = dict(train) if train is not None else None
        for name, value in hyper.items():
            if name not in self._keys:
                known = ", ".join(f"`{known}`" for known in self._keys) or "none"
                raise FormantError(f"{whose} has no key `{name}`", hint=f"its keys are: {known}")
            setattr(self, name, _of_kind(self._kinds[name], value, f"{name} of {whose}"))

    def hyper_parameters(self) -> dict[str, Any]:
        """Their values."""
        return {name: getattr(self, name) for name in self._keys}

    # What a method is. Whatever is not overridden is FedAvg's.

    def start_server(self, init: Vector) -> dict[str, Any]:
        """The server's state before the first round."""
        return {"w": init}

    def start_client(self, init: Vector) -> dict[str, Any]:
        """A client's state before its first round."""
        return {"w_p": init} if self._overrides("train_personal") else {}

    def broadcast(self, server: dict[str, Any]) -> Any:
        """What the server sends."""
        return server["w"]

    def train_shared(self, client: dict[str, Any], got: Any, local: Local) -> Any:
        """The shared phase: trains what is sent back."""
        return local.sgd(got.copy())

    def train_personal(self, client: dict[str, Any], got: Any, sent: Any, local: Local) -> None:
        """The personal phase, if it is overridden: trains what stays. It needs nothing that is on the network."""

    def aggregate(self, server: dict[str, Any], received: Any, central: Central) -> None:
        """What the server makes of a round."""
        server["w"] = received

    def global_model(self, server: dict[str, Any]) -> Vector | None:
        """The generic model."""
        return server.get("w")

    def personal_model(self, client: Mapping[str, Any], got: Any, local: Local) -> Vector:
        """The personal model of a client. ``client`` is a copy: an evaluation cannot train."""
        own: Vector = client.get("w_p", got["w"] if isinstance(got, dict) else got)
        return own

    def upload_lengths(self, got: Any) -> Mapping[str, int] | None:
        """How long the vectors of an upload are, if not as long as those of a broadcast; ``"w"`` goes without saying.

        A server refuses whatever has another length.
        """
        return None


def register(method: type[Method]) -> type[Method]:
    """Makes a method known, so that experiments, sweeps and the command line can name it.

    `formant.run` does it for the methods that it is given. Can be used as a decorator. A class of the same name is
    replaced.
    """
    from ._bridge import Bridge

    if not (isinstance(method, type) and issubclass(method, Method) and method is not Method):
        raise FormantError(f"{method!r} is no method", hint="give a subclass of formant.Method")
    method._check_words()
    check_constructor(method)
    text = inspect.cleandoc(method.__doc__ or method.title)
    keys = [
        {
            "name": name,
            "symbol": told.symbol,
            "help": told.help or "a hyper-parameter",
            "min": told.min,
            "max": told.max,
            "choices": list(told.choices) if told.choices is not None else None,
            "default": told.default,
        }
        for name, told in method._keys.items()
    ]
    told = {
        "name": method.name,
        "title": method.title,
        "summary": text.splitlines()[0].rstrip("."),
        "citation": method.citation,
        "documentation": text,
        "generic": bool(method.generic),
        "personal": bool(method.personal),
        "needs_body": bool(method.needs_body),
        "keys": keys,
    }

    def make(parameters: str) -> Bridge:
        return Bridge(method(**json.loads(parameters)))

    _formant.register(json.dumps(told), make)
    return method
