"""What classes and instances of methods declare is what a run uses, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit import refused

import formant
from formant import _formant


def named(**members: Any) -> type[formant.Method]:
    """A class of a method with some attributes."""
    annotations = {key: type(value.default) for key, value in members.items() if isinstance(value, formant.Key)}
    return type("Declared", (formant.Method,), {"__annotations__": annotations, **members})


def test_two_classes_of_one_name_are_refused(short: Callable[..., formant.Run]) -> None:
    one, two = named(title="One"), named(title="Two")
    refused(lambda: short(methods=[one, two]), "'declared'", "set another `name`")
    refused(lambda: short(methods=[one(label="a"), two(label="b")]), "'declared'")
    assert len(short(methods=[one(label="a"), one(label="b")])) == 2


def test_a_name_that_was_spoilt_later_is_refused(short: Callable[..., formant.Run]) -> None:
    spoilt = named()
    spoilt.name = "Ditto 2"
    refused(lambda: short(methods=[spoilt]), "Ditto 2", "lower-case")
    told = '{"name": "Ditto 2", "title": "T", "summary": "", "citation": "", "documentation": "", "generic": true, '
    told += '"personal": false, "needs_body": false, "keys": []}'
    refused(lambda: _formant.register(told, lambda text: None), "Ditto 2", "lower-case")
    assert short().complete


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (formant.key(1.0, max=float("inf")), "max of Declared.k is inf"),
        (formant.key(1.0, min="a"), "min of Declared.k is 'a'"),  # type: ignore[arg-type]
        (formant.key("1", choices=[1, 2]), "choices of Declared.k"),  # type: ignore[list-item]
        (formant.key("c", choices=["a", "b"]), "none of a, b"),
        (formant.key(3.0, max=2), "is not from"),
        (formant.key(float("nan")), "nan"),
        (formant.key(1.0, 5), "help of Declared.k"),  # type: ignore[arg-type]
        (formant.key("a", min=1), "is no number"),
    ],
)
def test_keys_that_mean_nothing_are_refused(key: Any, words: str) -> None:
    refused(lambda: named(k=key), words)


@pytest.mark.parametrize(("word", "value"), [("title", 5), ("citation", None), ("generic", "yes"), ("stale_uploads", 1)])
def test_attributes_of_other_types_are_refused(word: str, value: Any) -> None:
    refused(lambda: named(**{word: value}), f"Declared.{word} = {value!r}")


def test_arguments_of_an_instance_are_named() -> None:
    kind = named(mu=formant.key(0.5))
    refused(lambda: kind(mu="x"), "mu of Declared is 'x'")
    refused(lambda: kind(train=5), "train of Declared is 5")  # type: ignore[arg-type]
    refused(lambda: kind(label=5), "label of Declared is 5")  # type: ignore[arg-type]


class Own(formant.Method):
    """Has a constructor of its own."""

    def __init__(self, strength: float = 1.0, **keys: Any) -> None:
        super().__init__(**keys)
        self.strength = strength


class Cached(formant.Method):
    """Makes something in its constructor, which every instance has."""

    def __init__(self, **keys: Any) -> None:
        super().__init__(**keys)
        self.cache: dict[str, Any] = {}


def test_what_a_run_would_lose_is_refused(short: Callable[..., formant.Run]) -> None:
    refused(lambda: short(methods=[Own(strength=2.0)]), "Own.__init__ takes 'strength'", "annotated attribute")
    lost = named()()
    lost.extra = 5  # type: ignore[attr-defined]
    refused(lambda: short(methods=[lost]), "extra was set on the instance")
    assert short(methods=[Cached()]).complete


class Lengths(formant.Method):
    """Says lengths as a list."""

    def upload_lengths(self, got: Any) -> Any:
        return [3]


class Keyed(formant.Method):
    """Sends something under a number."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        return {"w": got, 1: got}


class Bad(formant.Method):
    """Trains with one argument that means nothing."""

    what: int = 0

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        w = got.copy()
        given: list[dict[str, Any]] = [
            {"terms": None}, {"part": None}, {"epochs": 2**65}, {"w": got.astype(int)},
            {"terms": [formant.Spectral(got, 1.0, band="hi")]},  # type: ignore[arg-type]
            {"terms": [formant.Spectral(got, 1.0, band="random", band_seed=-1)]},
            {"terms": [formant.Spectral(got, 1.0, every=2**40)]},
            {"terms": [formant.Proximal(got, share=-0.5)]},
        ]  # fmt: skip
        return local.sgd(**{"w": w, **given[self.what]})


WORDS = [
    "terms is None", "part = None", "epochs = 36893488147419103232", "int64", "band of Spectral is 'hi'", "band_seed of Spectral is -1",
    "every of Spectral is 1099511627776", "share of Proximal is -0.5",
]  # fmt: skip


@pytest.mark.parametrize(("method", "words"), [
    (Lengths, "upload_lengths gives a list"), (Keyed, "under the key 1"), *((Bad(what=i), said) for i, said in enumerate(WORDS)),
])  # fmt: skip
def test_wrong_answers_are_named(method: Any, words: str, short: Callable[..., formant.Run]) -> None:
    refused(lambda: short(methods=[method]), words)
