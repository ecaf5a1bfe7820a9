"""The methods by name: ``formant.ditto(lambda_=1)`` is an entry of an experiment."""

from __future__ import annotations

import functools
import inspect
import json
import keyword
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import _formant
from ._errors import FormantError
from ._names import nearest

if TYPE_CHECKING:
    from ._method import Method

#: Keys that every method takes, whatever its own are.
COMMON = ("label", "train", "allow_degenerate")


class Setting(dict[str, Any]):
    """A method and its hyper-parameters, as a ``[[method]]`` of an experiment has them.

    >>> method("ditto", lambda_=0.5, label="mine")
    formant.ditto(lambda_=0.5, label='mine')
    """

    def __repr__(self) -> str:
        keys = ((_argument(key), value) for key, value in self.items() if key != "name")
        return f"formant.{_function(self['name'])}({', '.join(f'{k}={v!r}' for k, v in keys)})"


def _argument(key: str) -> str:
    return key + "_" if keyword.iskeyword(key) else key


def _function(name: str) -> str:
    return _argument(name.replace("-", "_"))


@functools.cache
def _standard() -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in json.loads(_formant.methods())}


def known() -> dict[str, dict[str, Any]]:
    """All methods, those that were registered too."""
    return {entry["name"]: entry for entry in json.loads(_formant.methods())}


def entry(name: str) -> dict[str, Any]:
    """What is known of a method; underscores and dashes mean the same."""
    if name in _standard():
        return _standard()[name]
    all_of_them = known()
    for spelt in (name, name.replace("_", "-"), name.lower(), name.lower().replace("_", "-")):
        if spelt in all_of_them:
            return all_of_them[spelt]
    raise FormantError(f"unknown method {name!r}", hint=nearest(name, all_of_them, "methods"))


def method(name: str, /, **keys: Any) -> Setting:
    """A method with its hyper-parameters.

    Any method takes ``label`` (what tables call it) and ``train`` (keys of ``[train]`` for it alone). A name that
    Python reserves gets an underscore: ``lambda_``.

    >>> method("fedavg-ft", finetune_epochs=2, train={"learning_rate": 0.1})["finetune_epochs"]
    2
    """
    found = entry(name)
    setting = Setting(name=found["name"])
    names = [key["name"] for key in found["keys"]]
    for given, value in keys.items():
        key = given[:-1] if given.endswith("_") and given[:-1] in names else given
        if key not in names and key not in COMMON:
            every = [_argument(one) for one in names] + list(COMMON[:2])
            raise FormantError(f"{found['title']} has no key {given!r}", hint=nearest(given, every, "keys"))
        if value is not None:
            setting[key] = value
    return setting


def helper(name: str) -> Callable[..., Setting]:
    """The function that makes settings of one method, with its keys as its signature.

    >>> print(inspect.signature(helper("fedprox")))
    (*, mu=0.01, label=None, train=None) -> formant._methods.Setting
    """
    found = entry(name)

    def made(**keys: Any) -> Setting:
        return method(found["name"], **keys)

    of = inspect.Parameter
    keys = {_argument(key["name"]): key.get("default") for key in found["keys"]}
    parameters = [of(key, of.KEYWORD_ONLY, default=value) for key, value in {**keys, "label": None, "train": None}.items()]
    made.__name__ = made.__qualname__ = _function(found["name"])
    made.__module__ = "formant"
    made.__doc__ = _documentation(found)
    setattr(made, "__signature__", inspect.Signature(parameters, return_annotation=Setting))
    return made


def _documentation(found: Mapping[str, Any]) -> str:
    lines = [f"{found['title']} ({found['citation']}): {found['summary']}.", ""]
    for key in found["keys"]:
        symbol = f"{key['symbol']}: " if key.get("symbol") else ""
        lines.append(f"{_argument(key['name'])}: {symbol}{key['help']} ({key['expected']})")
    lines += ["label: what tables call it", "train: keys of [train] for this method alone"]
    return "\n".join(lines)


def setting(value: Any) -> dict[str, Any]:
    """An entry of an experiment, from whatever says which method is meant."""
    if isinstance(value, str):
        return {"name": entry(value)["name"]}
    if isinstance(value, Mapping):
        if not isinstance(value.get("name"), str):
            raise FormantError(f"methods has {dict(value)!r} without a name", hint='write {"name": "ditto", "lambda": 1.0}')
        keys = {key: given for key, given in value.items() if key != "name"}
        return dict(method(value["name"], **keys))
    from ._method import Method

    if isinstance(value, type) and issubclass(value, Method):
        value = value()
    if isinstance(value, Method):
        return _own(value)
    raise FormantError(
        f"methods has a {type(value).__name__}",
        hint='give names ("ditto"), formant.ditto(lambda_=1), dictionaries, or subclasses of formant.Method',
    )


def _own(value: Method) -> dict[str, Any]:
    from ._declared import check_own
    from ._method import register

    register(type(value))
    check_own(value)
    common = {"label": value.label, "train": value.train}
    return {"name": value.name, **value.hyper_parameters(), **{k: v for k, v in common.items() if v is not None}}


def _check_classes(given: list[Any]) -> None:
    """Refuses two classes of one name: the second would train for both."""
    from ._method import Method

    seen: dict[str, type] = {}
    for one in given:
        kind = one if isinstance(one, type) else type(one)
        if not issubclass(kind, Method):
            continue
        before = seen.setdefault(kind.name, kind)
        if before is not kind:
            first, second = (f"{c.__module__}.{c.__qualname__}" for c in (before, kind))
            raise FormantError(
                f"methods has two classes with the name {kind.name!r}: {first} and {second}",
                hint='set another `name` in one of them: name = "…"',
            )


def settings(value: Any) -> list[dict[str, Any]]:
    """A list of methods, or one."""
    if isinstance(value, (str, Mapping, type)) or not hasattr(value, "__iter__"):
        value = [value]
    given = list(value)
    _check_classes(given)
    found = [setting(one) for one in given]
    if not found:
        raise FormantError("methods is empty", hint='give one at least: methods=["fedavg", "ditto", "scd"]')
    return found
