"""What is given counts, or is refused: nothing is dropped on the way."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import SHORT, Arrays, refused

import formant
from formant import _formant

Short = Callable[..., formant.Run]


def test_models_are_found_by_their_client(made: formant.Run, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder)
    method = formant.Run.load(folder)["local"]
    (folder / "models" / made.log["folders"]["local"] / "personal" / "1.safetensors").unlink()
    personal = method.personal
    assert len(personal) == 4 and personal.clients == [0, 2, 3]
    assert personal[2].card["client"] == 2 and personal[-1].card["client"] == 3
    refused(lambda: personal[1], "no personal model of client 1", "not kept")


def test_owners_of_a_dataset_count(short: Short, train: Arrays, test: Arrays) -> None:
    owners = np.arange(400) % 3
    data = formant.dataset(train, test, clients_of=owners)
    by_dataset = short(data=data, test=None, clients=None, alpha=None)
    assert by_dataset.log["clients"] == 3
    assert by_dataset.fingerprints == short(clients_of=owners, clients=None, alpha=None).fingerprints


def test_lists_are_not_for_a_dataset_that_was_split(short: Short, train: Arrays) -> None:
    lists = [list(range(100)), list(range(100, 200))]
    split = formant.dataset(train)
    refused(lambda: short(data=split, test=None, partition=lists, clients=None, alpha=None), "no test set", "test_fraction=0")


def test_clients_that_are_left_out_are_told_of(short: Short) -> None:
    owners = np.repeat([0, 1, 2], [197, 200, 3])
    with pytest.warns(UserWarning, match="1 of the 3 clients .* are left out"):
        run = short(clients_of=owners, clients=None, alpha=None, min_samples=10)
    assert any("left out" in remark for remark in run.remarks)
    # Whoever opens the folder later sees the same.
    assert formant.Run.load(run.folder).remarks == run.remarks


OPTIONS: dict[str, Any] = {
    "test": ([[1.0]], [0]), "clients_of": [0, 1], "channels": "first", "class_names": ["a"], "label": "y", "image": "x",
    "normalisation": [(0.0, 1.0)], "exclude": ["z"], "client": "who", "test_fraction": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_nothing_is_dropped_beside_a_section(option: str) -> None:
    section = {"source": "mnist-small", "clients": 4}
    refused(lambda: formant.run(data=section, methods=["fedavg"], **{option: OPTIONS[option]}), option, "beside data=")


@pytest.mark.parametrize("option", ["test", "clients_of", "channels", "class_names"])
def test_nothing_is_dropped_beside_no_data(option: str) -> None:
    refused(lambda: formant.run("quickstart", **{option: OPTIONS[option]}), option, "without data")


def x(count: int = 4, kind: Any = np.float32) -> Any:
    return np.zeros((count, 1, 2, 2), kind)


def y(count: int = 4) -> Any:
    return np.zeros(count, np.uint16)


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ((x(), y(5), None, None), {}, "5 labels for 4 samples"),
        ((x(), y(3), None, None), {}, "3 labels for 4 samples"),
        ((x(0), y(0), None, None), {}, "0 labels"),
        ((x(), y(), x(), None), {}, "without test_y"),
        ((x(), y(), None, y()), {}, "without test_x"),
        ((x(), y(), x(kind=np.uint8), y()), {}, "test_x is uint8"),
        ((x(kind=np.float64), y(), None, None), {}, "uint8 or float32"),
        ((x(), y(), None, None), {"test_fraction": float("nan")}, "test_fraction is NaN"),
        ((x(), y(), None, None), {"test_fraction": 5.0}, "test_fraction is 5"),
        ((x(), y(), None, None), {"normalisation": [(0.0, 0.0)]}, "normalisation"),
        ((x(), y(), None, None), {"owner_names": ["a"]}, "owner_names"),
        ((x(), y(), None, None), {"owners": np.zeros(3, np.uint32), "owner_names": ["a"]}, "3 numbers for 4"),
    ],
)
def test_a_dataset_of_the_core_checks_what_it_is_given(given: Any, more: dict[str, Any], words: str) -> None:
    refused(lambda: _formant.Dataset("d", *given, **more), words)


def test_arrays_that_are_not_aligned_are_copied() -> None:
    raw = np.zeros(4 * 6 * 4 + 1, np.uint8)
    odd = np.frombuffer(raw, np.float32, offset=1, count=24).reshape(4, 6) if raw.ctypes.data % 4 == 0 else None
    odd = raw[1:].view(np.float32).reshape(4, 6) if odd is None else odd
    assert not odd.flags.aligned
    assert formant.dataset((odd, [0, 1, 0, 1])).train > 0


def test_a_generator_of_methods_will_do(short: Short) -> None:
    lists = [list(range(100)), list(range(100, 200))]
    run = short(methods=(name for name in ["fedavg", "local"]), partition=lists, clients=None, alpha=None)
    assert len(run) == 2


def test_a_path_with_an_equals_sign_is_a_path(short: Short, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "alpha=0.1"
    folder.mkdir()
    (folder / "e.toml").write_text('name = "there"\n')
    assert short(experiment=str(folder / "e.toml")).name == "there"
    refused(lambda: short(experiment="alpha=0.2/e.toml"), "cannot read the experiment alpha=0.2/e.toml")


def test_texts_that_look_like_keys_do_not_hinder_resuming(short: Short, tmp_path: Path) -> None:
    out = tmp_path / "named"
    formant.run(data="mnist-small", clients=2, samples=200, network="logistic", methods=["fedavg"], name="module", rounds=1, out=out, progress=False)
    assert formant.resume(out, rounds=2, progress=False).complete


def test_resuming_without_the_class_says_what_to_give(made: formant.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formant._run.known_methods", lambda: {"fedavg": {}})
    refused(lambda: formant.resume(made.folder, rounds=9), "the method 'local'", "methods=[…]", "--with")


def test_arguments_are_named(short: Short, tmp_path: Path) -> None:
    refused(lambda: short(set=[1]), "set is [1]")
    refused(lambda: formant.Run.load(None), "folder is None")  # type: ignore[arg-type]
    (tmp_path / "experiment.toml").write_bytes(b"\xff\xfe\x00")
    refused(lambda: formant.Run.load(tmp_path), "is no text")
    refused(lambda: short(clients_of=np.where(np.arange(400) == 7, np.inf, 0.0)), "clients_of[7] is inf")


def test_a_long_name_makes_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Arrays, test: Arrays) -> None:
    monkeypatch.chdir(tmp_path)
    assert formant.run(**{**SHORT, "rounds": 1}, data=train, test=test, methods=["fedavg"], name="n" * 300).complete


class Lazy:
    """A dataset with a length whose samples have no numbers, as IterableDataset has it."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Any:
        return iter(())


def test_datasets_without_numbers_are_refused() -> None:
    refused(lambda: formant.dataset(Lazy()), "Lazy", "give (x, y)")


def test_models_that_have_predicted_can_be_pickled(made: formant.Run, test: Arrays) -> None:
    model = made["SCD"].personal[0]
    expected = model.predict(test[0])
    assert (pickle.loads(pickle.dumps(model)).predict(test[0]) == expected).all()
