"""What a class of one's own declares, before the core reads it: hyper-parameters, constructors, attributes."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from ._errors import FormantError

if TYPE_CHECKING:
    from ._method import Key, Method

#: What the core can count.
_WHOLE = 2**63
_PLAIN = (bool, int, float, str, type(None))


def check_key(what: str, key: Key) -> None:
    """Refuses a key that no value could have, or that an experiment could not hold."""
    default = key.default
    is_number = type(default) in (int, float)
    if is_number and not (math.isfinite(default) if type(default) is float else -_WHOLE <= default < _WHOLE):
        raise FormantError(f"{what} = {default!r}", hint="give a default that is finite")
    for name, bound in (("min", key.min), ("max", key.max)):
        if bound is None:
            continue
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not math.isfinite(bound):
            raise FormantError(f"{name} of {what} is {bound!r}", hint="give a finite number, or leave it out")
        if not is_number:
            raise FormantError(f"{name} of {what} is {bound!r}, and {default!r} is no number", hint="leave it out")
    if is_number and not (key.min is None or key.min <= default) or is_number and not (key.max is None or default <= key.max):
        raise FormantError(f"{what} = {default!r} is not from {key.min} to {key.max}", hint="change the default or the range")
    for name, text in (("help", key.help), ("symbol", key.symbol)):
        if not isinstance(text, str):
            raise FormantError(f"{name} of {what} is {text!r}", hint="give a text")
    if key.choices is not None:
        choices = key.choices
        if isinstance(choices, str) or not hasattr(choices, "__iter__") or not all(isinstance(c, str) for c in choices):
            raise FormantError(f"choices of {what} are {choices!r}", hint='give a list of texts: choices=["one", "two"]')
        if default not in choices:
            raise FormantError(f"{what} = {default!r} is none of {', '.join(choices)}", hint="make the default one of the choices")


def check_constructor(method: type[Method]) -> None:
    """Refuses a constructor that the runtime cannot call: it makes methods of their hyper-parameters alone."""
    taken = inspect.signature(method.__init__).parameters.values()
    of = inspect.Parameter
    named = {one.name for one in taken if one.kind in (of.POSITIONAL_OR_KEYWORD, of.KEYWORD_ONLY)} - {"self"}
    others = sorted(named - set(method._keys) - {"label", "train"})
    others += [one.name for one in taken if one.kind is of.POSITIONAL_ONLY and one.name != "self"]
    if others:
        raise FormantError(
            f"{method.__name__}.__init__ takes {others[0]!r}, which is no hyper-parameter",
            hint=f"make it one, an annotated attribute of the class: {others[0]}: float = 1.0; it needs no __init__",
        )
    if not any(one.kind is of.VAR_KEYWORD for one in taken) and (missing := sorted(set(method._keys) - named)):
        raise FormantError(
            f"{method.__name__}.__init__ does not take {missing[0]!r}, one of its hyper-parameters",
            hint="write def __init__(self, **keys): super().__init__(**keys)",
        )


def check_own(value: Method) -> None:
    """Refuses attributes of an instance that would be lost: a run makes its methods of hyper-parameters."""
    fresh = vars(type(value)(**value.hyper_parameters()))
    for name, own in vars(value).items():
        if name in ("label", "train") or name in value._keys:
            continue
        if name not in fresh or _differ(own, fresh[name]):
            raise FormantError(
                f"{type(value).__name__}(…).{name} was set on the instance, and a run makes its methods anew",
                hint=f"make it a hyper-parameter, an annotated attribute of the class: {name}: float = 1.0",
            )


def _differ(one: Any, other: Any) -> bool:
    return type(one) in _PLAIN and (type(one) is not type(other) or one != other)
