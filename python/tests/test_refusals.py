"""What users run into: each of these was silent, mangled or a panic once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import Arrays, refused

import formant
import formant.testing
from formant._vectors import pack, unpack

Short = Callable[..., formant.Run]


class Slow(formant.Method):
    """Takes its time."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        time.sleep(0.01)
        return local.sgd(got.copy())


class Broken(formant.Method):
    """Fails in its second round."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        if local.round > 1:
            raise ValueError("broken")
        return local.sgd(got.copy())


def test_runs_beside_each_other_keep_their_exceptions(short: Short) -> None:
    found: dict[str, Any] = {}

    def run(name: str, method: Any) -> None:
        try:
            found[name] = short(methods=[method], rounds=4)
        except Exception as error:  # noqa: BLE001
            found[name] = error

    threads = [threading.Thread(target=run, args=pair) for pair in [("good", Slow), ("bad", Broken), ("plain", "fedavg")]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(found["bad"], ValueError) and str(found["bad"]) == "broken"
    assert found["good"].complete and found["plain"].complete


class Surprise(formant.Method):
    """Sends what nobody has agreed to."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        return {"w": got, "extra": np.ones(3)}


class Renamed(Surprise):
    """Sends it under another name than agreed."""

    def upload_lengths(self, got: Any) -> dict[str, int]:
        return {"other": 3}


@pytest.mark.parametrize("method", [Surprise, Renamed])
def test_uploads_are_those_that_were_agreed(method: type[formant.Method], short: Short) -> None:
    refused(lambda: short(methods=[method]), "extra (3)", "upload_lengths")


def test_states_come_back_as_they_were(short: Short) -> None:
    state = {"zero": np.array(0.5), "scalar": np.float32(1.5), "row": np.arange(3), "text": "a", "none": None, "whole": 3}
    back = unpack(pack(state))
    assert back["zero"].shape == () and isinstance(back["zero"], np.ndarray)
    assert isinstance(back["scalar"], np.float32) and back["scalar"] == np.float32(1.5)
    assert (back["text"], back["none"], back["whole"]) == ("a", None, 3)
    refused(lambda: pack({"list": [1, 2]}), "state['list'] is a list", "numpy.array")

    class Twins(formant.Method):
        """Two names for one array."""

        def start_client(self, init: Any) -> Any:
            return {"a": init, "b": init}

        def train_shared(self, client: Any, got: Any, local: Any) -> Any:
            assert not np.shares_memory(client["a"], client["b"])
            return got

    assert short(methods=[Twins], rounds=1).complete


def test_what_would_be_ignored_is_refused(short: Short, train: Arrays) -> None:
    whose = np.arange(len(train[1])) % 2
    refused(lambda: short(clients_of=whose, partition="iid"), "partition and clients_of", "once")
    refused(lambda: short(client="who"), "client is given beside (x, y)", "clients_of")
    made = formant.dataset(train, train)
    refused(lambda: short(data=made, test=None, clients_of=whose), "clients_of is given beside", "formant.dataset")


class Picks(formant.Method):
    """Chooses its samples."""

    how: str = formant.key("none", "what it does")

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        w = got.copy()
        for batch in local.batches():
            before = batch.x
            if self.how == "none":
                batch.indices = batch.indices[:0]
            elif self.how == "many":
                batch.indices = np.repeat(batch.indices, 50)
            elif self.how == "texts":
                batch.indices = ["a"]
            else:
                batch.indices = batch.indices.astype(np.int64)[:1]
                assert batch.x.shape == (1, *before.shape[1:])
            batch.step(w)
        return w


@pytest.mark.parametrize(("how", "said"), [("none", "a batch are 0"), ("many", "a batch are"), ("texts", "indices are")])
def test_batches_of_impossible_sizes(how: str, said: str, short: Short) -> None:
    refused(lambda: short(methods=[Picks(how=how)]), said, "give")


def test_a_batch_may_be_cut(short: Short) -> None:
    assert short(methods=[Picks(how="one")]).complete


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (lambda w: formant.Spectral(w, 1.0, tau=2.0), "tau of Spectral is 2.0"),
        (lambda w: formant.Spectral(w, 1.0, every=-1), "every of Spectral is -1"),
        (lambda w: formant.Proximal(w, float("nan")), "weight of Proximal is nan"),
        (lambda w: formant.Proximal(w * np.nan, 1.0), "anchor holds numbers"),
    ],
)
def test_terms_that_make_no_sense(term: Any, said: str, short: Short) -> None:
    class Odd(formant.Method):
        """Has an odd term."""

        def train_shared(self, client: Any, got: Any, local: Any) -> Any:
            return local.sgd(got.copy(), terms=[term(got)])

    refused(lambda: short(methods=[Odd]), said, "")


class Diverges(formant.Method):
    """Sends what is no number."""

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        return got * np.nan


class Personal(formant.Method):
    """Its personal models are no numbers."""

    personal = True

    def personal_model(self, client: Any, got: Any, local: Any) -> Any:
        return got * np.nan


class Counts(formant.Method):
    """Keeps something that is no part of a state."""

    personal = True
    _count = 0

    def personal_model(self, client: Any, got: Any, local: Any) -> Any:
        Counts._count += 1
        return got * (1.0 + Counts._count % 7)  # noqa: RUF100


@pytest.mark.parametrize("method", [Diverges, Personal, Counts])
def test_the_contract_finds_it(method: type[formant.Method]) -> None:
    with pytest.raises(formant.FormantError, match="breaks its contract"):
        formant.testing.check(method, quiet=True)


def test_items_of_several_types_are_kept(tmp_path: Path) -> None:
    class Mixed:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, i: int) -> Any:
            return (np.array([1, 2]) if i == 0 else np.array([0.25, 0.75])), i % 2

    made = formant.dataset(Mixed(), Mixed())
    assert made.train == 20
    from formant._sources import _collected

    x, _ = _collected(Mixed(), "data")
    assert x.dtype.kind == "f" and x[1].tolist() == [0.25, 0.75]


def test_names_that_are_none(train: Arrays) -> None:
    x, y = train
    refused(lambda: formant.dataset((x, y), class_names=["a", "b", "a", "c"]), "class_names", "'a' twice")
    refused(lambda: formant.dataset((x, y), class_names=[1, 2, 3, 4]), "class_names")  # type: ignore[list-item]
    refused(lambda: formant.dataset((x, y), class_names="abcd"), "class_names")


def test_columns_of_one_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0, 0], [3.0, 4.0, 1]], columns=["a", "a", "label"])
    refused(lambda: formant.dataset(frame), "two columns 'a'")
