"""Datasets of every kind that Python has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit import Arrays, blobs, refused

import formant
from formant import _data, _formant
from formant._data import Options, load


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the core is given."""
    found: dict[str, Any] = {}
    real = _formant.Dataset

    def spy(name: str, x: Any, y: Any, test_x: Any, test_y: Any, **options: Any) -> Any:
        found.update(name=name, x=x, y=y, test_x=test_x, test_y=test_y, **options)
        return real(name, x, y, test_x, test_y, **options)

    monkeypatch.setattr(_data, "Dataset", type("Dataset", (), {"__new__": lambda cls, *a, **k: spy(*a, **k)}))
    return found


def test_arrays_reach_the_core_without_a_copy(seen: dict[str, Any], train: Arrays, test: Arrays) -> None:
    made = formant.dataset(train, test=test)
    assert np.shares_memory(seen["x"], train[0]) and np.shares_memory(seen["test_x"], test[0])
    assert (made.shape, made.classes, made.train, made.test) == ((1, 8, 8), 4, 400, 120)
    assert made.class_names == ["0", "1", "2", "3"]


def test_without_a_test_set_a_share_of_each_class_becomes_it(train: Arrays) -> None:
    made = formant.dataset(train)
    assert (made.train, made.test) == (320, 80) and "80 of 400" in made.remarks[0]
    assert formant.dataset(train, test_fraction=0.5).test == 200
    refused(lambda: formant.dataset(train, test_fraction=1.5), "test_fraction is 1.5")


def test_pairs_of_pairs_and_dictionaries(train: Arrays, test: Arrays, tmp_path: Path) -> None:
    given: list[Any] = [
        (train, test),
        {"train": train, "test": test},
        {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]},
    ]
    np.savez(tmp_path / "a.npz", x=train[0], y=train[1])
    for data in given:
        assert formant.dataset(data).test == 120
    with np.load(tmp_path / "a.npz") as archive:
        assert formant.dataset(archive, test=test).train == 400
    refused(lambda: formant.dataset({"a": train[0]}), "data has a", "train and test")


def test_names_of_classes(seen: dict[str, Any], train: Arrays, test: Arrays) -> None:
    words = np.array(["d", "c", "b", "a"])
    made = formant.dataset((train[0], words[train[1]]), test=(test[0], words[test[1]]))
    assert made.class_names == ["a", "b", "c", "d"]
    assert seen["test_y"].tolist() == (3 - test[1]).tolist()
    many = formant.dataset(train, test=test, class_names=list("abcde"))
    assert many.classes == 5


def test_test_sets_that_do_not_fit_are_refused(train: Arrays, test: Arrays) -> None:
    x, y = test
    refused(lambda: formant.dataset(train, test=(x[:, :, :4], y)), "test x", "(1, 4, 8)", "(1, 8, 8)")
    refused(lambda: formant.dataset(train, test=(x, y + 1)), "test y[3] is 4", "4 classes")
    refused(lambda: formant.dataset(train, test=(x / 255, y)), "test x has the type float64", "uint8")
    refused(lambda: formant.dataset(train, test=(x, y[1:])), "119 labels for 120 samples")
    words = np.array(list("abcde"))
    refused(lambda: formant.dataset((train[0], words[train[1]]), test=(x, words[y + 1])), "'e'", "a, b, c, d")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, ["data is None"]),
        (5, ["data is a int"]),
        (np.zeros((3, 4)), ["without labels", "(x, y)"]),
        ((1, 2, 3), ["tuple of 3"]),
        ((np.zeros((3, 4)), None), ["y is None"]),
        (iter([]), ["without a length", "collect"]),
        ({}, ["empty"]),
        ((np.zeros((4, 4)), [1, 2, 1, 2]), ["labels from 1", "y - 1"]),
    ],
)
def test_what_are_no_data_is_refused(data: Any, words: list[str]) -> None:
    refused(lambda: formant.dataset(data), *words)


def test_normalisation(seen: dict[str, Any], train: Arrays) -> None:
    formant.dataset(train, normalisation=[(0.5, 0.25)])
    assert seen["normalisation"] == [(0.5, 0.25)]
    for wrong in ([(0.5, 0.0)], [(0, 1), (0, 1)], [1], 5):
        refused(lambda wrong=wrong: formant.dataset(train, normalisation=wrong), "normalisation", "1 channels")


def test_sources_are_left_to_the_core() -> None:
    loaded = load("photos", None, Options(label="kind", client="who"))
    assert (loaded.source, loaded.keys, loaded.natural) == ("photos", {"label": "kind", "client": "who"}, True)
    assert load(Path("a") / "b", None, Options()).source == str(Path("a") / "b")
    refused(lambda: load("photos", (1, 2), Options()), "test is given beside")
    refused(lambda: load("photos", None, Options(clients_of=[1])), "clients_of")
    refused(lambda: load("photos", None, Options(channels="last")), "channels")
    refused(lambda: formant.dataset("mnist-small"), "mnist-small")


def test_data_frames(seen: dict[str, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2, 3, 4] * 5, "who": list("wxyz") * 5, "b": [True, False] * 10, "label": ["u", "v"] * 10})
    made = formant.dataset(frame, test=frame[["label", "b", "a"]], client="who")
    assert made.shape == (2, 1, 1) and made.class_names == ["u", "v"]
    assert seen["x"][:4, :, 0, 0].tolist() == [[1, 1], [2, 0], [3, 1], [4, 0]]
    assert np.array_equal(seen["x"], seen["test_x"])
    assert seen["owner_names"] == list("wxyz")
    refused(lambda: formant.dataset(frame), "column 'who' of data", "get_dummies", 'exclude=["who"]')
    assert formant.dataset(frame, exclude=["who", "label"], label="b").shape == (1, 1, 1)
    refused(lambda: formant.dataset(frame, label="kind"), "no column 'kind'", "a, who, b, label")
    refused(lambda: formant.dataset(frame.rename(columns={"label": "z"})), "label=")
    refused(lambda: formant.dataset(frame, exclude=["zz"]), "exclude names 'zz'")
    refused(lambda: formant.dataset(frame, client="nobody"), "no column 'nobody'")
    refused(lambda: formant.dataset(frame, exclude=["who"], test=frame[["label", "a"]]), "no column 'b'")
    refused(lambda: formant.dataset(frame[["label"]]), "no columns beside")
    holes = frame.drop(columns="who").assign(a=[1.0, np.nan] * 10)
    refused(lambda: formant.dataset(holes), "data[1] has nan")
    refused(lambda: formant.dataset(frame, client="who", clients_of=[0] * 20), "both")


class Items:
    """A dataset of ``torch.utils.data`` without torch."""

    def __init__(self, x: Any, y: Any, transform: Any = None, target_transform: Any = None) -> None:
        self.data, self.targets = x, y
        self.transform, self.target_transform = transform, target_transform
        self.classes = ["nil", "one", "two", "three"]
        self.asked = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        self.asked += 1
        x, y = self.data[i], self.targets[i]
        return self.transform(x) if self.transform else x, self.target_transform(y) if self.target_transform else y


def test_items_are_taken_whole_where_nothing_happens_to_them(seen: dict[str, Any], train: Arrays) -> None:
    x, y = train[0][:, 0], train[1].tolist()
    plain = Items(x, y)
    assert formant.dataset(plain).class_names == ["nil", "one", "two", "three"]
    assert np.shares_memory(seen["x"], x) and plain.asked < len(x) // 4


def test_transforms_are_honoured(seen: dict[str, Any], train: Arrays) -> None:
    x, y = train[0][:, 0], train[1]
    formant.dataset(Items(x, y, transform=lambda one: one[None].astype(np.float32) / 255))
    assert seen["x"].dtype == np.float32 and np.array_equal(seen["x"][:, 0], x.astype(np.float32) / 255)
    formant.dataset(Items(x, y, target_transform=lambda label: 3 - label))
    assert seen["y"].tolist() == (3 - y).tolist()

    class Inverted(Items):
        def __getitem__(self, i: int) -> tuple[Any, Any]:
            return 255 - self.data[i], self.targets[i]

    formant.dataset(Inverted(x, y))
    assert np.array_equal(seen["x"][:, 0], 255 - x)


def test_items_that_do_not_fit_are_refused(train: Arrays) -> None:
    x, y = train
    ragged = Items(list(x[:3]) + [x[3][:, :4]], y)
    refused(lambda: formant.dataset(ragged), "data[3] has the shape (1, 4, 8)", "Resize")
    refused(lambda: formant.dataset([1.0, 2.0, 3.0]), "list of 3")
    refused(lambda: formant.dataset(Items([], [])), "no samples")

    class Triples(Items):
        def __getitem__(self, i: int) -> Any:
            return 1, 2, 3

    refused(lambda: formant.dataset(Triples(x, y)), "data[0] is a tuple of 3", "pairs")


def test_torch_datasets(seen: dict[str, Any], train: Arrays) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import IterableDataset, Subset, TensorDataset

    x, y = torch.from_numpy(train[0]).float() / 255, torch.from_numpy(train[1])
    whole = TensorDataset(x, y)
    formant.dataset(whole)
    assert np.shares_memory(seen["x"], x.numpy())
    formant.dataset(Subset(whole, range(0, 400, 2)))
    assert np.array_equal(seen["x"], x.numpy()[::2]) and seen["y"].tolist() == y[::2].tolist()

    class Stream(IterableDataset):  # type: ignore[misc, type-arg]
        def __iter__(self) -> Any:
            return iter(whole)

    refused(lambda: formant.dataset(Stream()), "data")


def test_hugging_face_datasets(seen: dict[str, Any], train: Arrays) -> None:
    datasets = pytest.importorskip("datasets")
    x, y = train[0][:60, 0], train[1][:60]
    features = datasets.Features(
        {
            "img": datasets.Array2D((8, 8), "uint8"),
            "label": datasets.ClassLabel(names=["a", "b", "c", "d"]),
            "who": datasets.Value("string"),
        }
    )
    columns = {"img": list(x), "label": y.tolist(), "who": list("uvw") * 20}
    made = datasets.Dataset.from_dict(columns, features=features)
    both = formant.dataset(datasets.DatasetDict({"train": made, "test": made}), client="who")
    assert both.class_names == list("abcd") and both.test == 60
    assert np.array_equal(seen["x"][:, 0], x) and seen["x"].dtype == np.uint8
    assert seen["owner_names"] == list("uvw") and seen["y"].tolist() == y.tolist()
    table = datasets.Dataset.from_dict({"p": [1.0, 2.0] * 5, "q": [3, 4] * 5, "target": [0, 1] * 5})
    assert formant.dataset(table).shape == (2, 1, 1)
    refused(lambda: formant.dataset(made, image="png"), "no column 'png'", "img")
    refused(lambda: formant.dataset(made, label="kind"), "no column 'kind'")


def test_a_dataset_can_be_used_again(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    made = formant.dataset(train, test=test, name="blobs")
    assert isinstance(made, formant.Dataset)
    runs = [short(data=made, test=None), short()]
    assert runs[0].fingerprints == runs[1].fingerprints
    assert runs[0].log["dataset"] == "blobs"
    refused(lambda: short(data=made, test=test), "test is given beside")


def test_shapes_train(short: Callable[..., formant.Run]) -> None:
    for shape in [(8, 8), (3, 8, 8), (8, 8, 3), (12,)]:
        assert short(data=blobs(200, 1, shape), test=blobs(80, 2, shape)).complete
