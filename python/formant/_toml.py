"""Values as TOML. (Python reads TOML from 3.11 on, and never writes it.)"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping

from ._errors import FormantError


def value(given: Any, where: str) -> str:
    """One value on one line; ``where`` is what an error calls it.

    >>> value({"name": "ditto", "lambda": 1.0, "train": {"epochs": 2}}, "method")
    '{name = "ditto", lambda = 1.0, train = {epochs = 2}}'
    """
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return repr(int(given) if isinstance(given, int) else float(given))
    if isinstance(given, (str, os.PathLike)):
        return _text(os.fspath(given))
    if isinstance(given, Mapping):
        inside = (f"{key(k)} = {value(v, f'{where}.{k}')}" for k, v in given.items() if v is not None)
        return "{" + ", ".join(inside) + "}"
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(value(one, where) for one in given) + "]"
    if hasattr(given, "tolist"):
        # NumPy's numbers and arrays, and tensors.
        return value(given.tolist(), where)
    raise FormantError(
        f"{where} is a {type(given).__name__}",
        hint="experiments have numbers, texts, true or false, lists and dictionaries of these",
    )


def key(name: object) -> str:
    """A key, quoted if it must be."""
    text = str(name)
    plain = text and all(c.isascii() and (c.isalnum() or c in "-_") for c in text)
    return text if plain else _text(text)


def _text(text: str | bytes) -> str:
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(table: Mapping[str, Any]) -> str:
    """A whole experiment.

    >>> print(document({"rounds": 3, "data": {"clients": 4}}), end="")
    rounds = 3
    data = {clients = 4}
    """
    lines = (f"{key(name)} = {value(given, str(name))}\n" for name, given in table.items() if given is not None)
    return "".join(lines)
