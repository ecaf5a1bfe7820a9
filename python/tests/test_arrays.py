"""Arrays of every kind, with and without copies, and those that are refused."""

from __future__ import annotations

import array as buffers
from typing import Any

import numpy as np
import pytest
from kit import refused

from formant._arrays import array, labels, samples


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_what_lies_right_is_not_copied(kind: Any) -> None:
    x = np.zeros((6, 3, 8, 9), kind)
    found = samples(x, "x")
    assert found.shape == x.shape and found.dtype == kind
    assert np.shares_memory(found, x)


@pytest.mark.parametrize(
    ("shape", "kind", "expected"),
    [
        ((5, 28, 28), np.uint8, (5, 1, 28, 28)),
        ((5, 28, 28), np.float32, (5, 1, 28, 28)),
        ((5, 7), np.float32, (5, 7, 1, 1)),
        ((5, 28, 28, 1), np.uint8, (5, 1, 28, 28)),
    ],
)
def test_views_are_not_copied(shape: tuple[int, ...], kind: Any, expected: tuple[int, ...]) -> None:
    x = np.zeros(shape, kind)
    found = samples(x, "x")
    assert found.shape == expected and np.shares_memory(found, x) and found.flags.c_contiguous


def test_channels_are_found_where_they_are() -> None:
    x = np.arange(2 * 6 * 5 * 3, dtype=np.uint8).reshape(2, 6, 5, 3)
    found = samples(x, "x")
    assert found.shape == (2, 3, 6, 5) and found.flags.c_contiguous
    assert np.array_equal(found, x.transpose(0, 3, 1, 2))
    assert samples(np.zeros((2, 3, 5, 7)), "x").shape == (2, 3, 5, 7)


def test_channels_can_be_said() -> None:
    for shape in [(2, 3, 5, 3), (2, 2, 5, 7), (2, 1, 1, 4)]:
        x = np.zeros(shape, np.uint8)
        refused(lambda x=x: samples(x, "x"), "does not say", 'channels="first"')
        assert samples(x, "x", "first").shape == shape
        n, h, w, c = shape
        assert samples(x, "x", "last").shape == (n, c, h, w)
    assert samples(np.zeros((2, 3, 5, 3)), "x", wanted=(3, 3, 5)).shape == (2, 3, 3, 5)
    refused(lambda: samples(np.zeros((2, 3, 5, 5)), "x", "middle"), "channels", "middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["float64", "float16", "int64", "int8", "bool", ">f4", "uint16"])
def test_other_numbers_become_floats(kind: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(kind)
    found = samples(x, "x")
    assert found.dtype == np.float32 and found.dtype.isnative
    assert np.array_equal(found[:, :, 0, 0], x.astype(np.float32))
    pictures = samples(np.arange(12).reshape(3, 2, 2).astype(kind), "x")
    assert pictures.dtype == np.float32


def test_bytes_of_tables_are_numbers() -> None:
    assert samples(np.zeros((3, 4), np.uint8), "x").dtype == np.float32
    assert samples(np.zeros((3, 4, 4), np.uint8), "x").dtype == np.uint8


def test_strides_become_contiguous() -> None:
    x = np.arange(10 * 3 * 4 * 5, dtype=np.float32).reshape(10, 3, 4, 5)
    found = samples(x[::2], "x")
    assert found.flags.c_contiguous and np.array_equal(found, x[::2])


class Exported:
    """Something that has nothing but DLPack."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


def test_dlpack_and_buffers_are_shared() -> None:
    x = np.ones((4, 1, 2, 2), np.float32)
    assert np.shares_memory(samples(Exported(x), "x"), x)
    held = buffers.array("f", [1.0, 2.0, 3.0, 4.0])
    found = array(memoryview(held).cast("B").cast("f", (2, 2)), "x")
    held[0] = 7.0
    assert found[0, 0] == 7.0
    assert samples([[1, 2], [3, 4]], "x").shape == (2, 2, 1, 1)


def test_tensors_are_shared() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, 1, 2, 2, requires_grad=True)
    assert np.shares_memory(samples(x, "x"), x.detach().numpy())
    halves = torch.ones(3, 4, dtype=torch.bfloat16)
    assert samples(halves, "x").dtype == np.float32


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3), ["(3,)", "(n, features)"]),
        (np.zeros((1, 2, 3, 4, 5)), ["(1, 2, 3, 4, 5)"]),
        (np.zeros((0, 4)), ["no samples"]),
        (np.zeros((3, 0)), ["(3, 0)"]),
        (5, ["a int", "not an array"]),
        (None, ["None"]),
        (np.array([[1], ["a"]], dtype=object), ["object", "numpy.stack"]),
        (np.array([["a"]]), ["type"]),
        (np.zeros((2, 2), complex), ["complex"]),
        ([[1, 2], [3]], ["one shape"]),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), ["datetime64"]),
        (np.ma.masked_array(np.zeros((2, 2)), [[0, 1], [0, 0]]), ["masked", "filled"]),
    ],
)
def test_what_is_no_array_of_samples_is_refused(value: Any, words: list[str]) -> None:
    refused(lambda: samples(value, "x"), "x", *words)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite_is_named(wrong: float) -> None:
    x = np.zeros((9, 2, 5, 5), np.float32)
    x[4, 1, 2, 3] = x[7] = wrong
    refused(lambda: samples(x, "x", "first"), "x[4]", str(wrong), "nan_to_num")
    refused(lambda: samples(np.array([[1e300]]), "x"), "x[0]", "inf")


def test_labels_of_every_kind() -> None:
    expected = [0, 1, 2, 1]
    given: list[Any] = [
        expected,
        np.array(expected, np.uint8),
        np.array(expected, float),
        np.array(expected)[:, None],
        np.array(expected, ">i4"),
    ]
    for y in given:
        found = labels(y, 4, "y")
        assert found.of.tolist() == expected and found.of.dtype == np.uint16 and found.names is None
    for texts in (["a", "b", "c", "b"], np.array([b"a", b"b", b"c", b"b"]), np.array(["a", "b", "c", "b"], object)):
        found = labels(texts, 4, "y")
        assert found.of.tolist() == expected and found.names == ["a", "b", "c"]
    assert labels([True, False], 2, "y").of.tolist() == [1, 0]
    assert labels(["dog"], 1, "y", ["cat", "dog"]).of.tolist() == [1]
    assert labels([1, 2], 2, "y", ["a", "b", "c"]).names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("value", "count", "words"),
    [
        ([1, 2, 3, 1], 4, ["from 1 to 3", "y - 1"]),
        ([0, -1], 2, ["y[1] is -1"]),
        ([0, 65536], 2, ["y[1] is 65536", "unique"]),
        (np.array([0, 2**63], np.uint64), 2, ["y[1]"]),
        ([0, 1], 3, ["2 labels for 3 samples"]),
        (np.eye(3), 3, ["(3, 3)", "argmax(1)"]),
        ([0.5, 1], 2, ["y[0] is 0.5", "regression"]),
        ([np.nan, 1], 2, ["y[0] is nan"]),
        (np.array([1, "a"], object), 2, ["y[0]", "int"]),
        (np.array([None, "a"], object), 2, ["y[0]", "None"]),
        (np.array([1j]), 1, ["complex"]),
        (np.array([b"\xff"]), 1, ["UTF-8"]),
    ],
)
def test_what_are_no_labels_is_refused(value: Any, count: int, words: list[str]) -> None:
    refused(lambda: labels(value, count, "y"), *words)


def test_classes_that_are_not_there_are_refused() -> None:
    refused(lambda: labels(["cow"], 1, "y", ["cat", "dog"]), "y[0] is 'cow'", "cat, dog")
    refused(lambda: labels([0, 2], 2, "y", ["cat", "dog"]), "y[1] is 2", "2 classes")
    refused(lambda: labels([str(i) for i in range(65537)], 65537, "y"), "65537 classes")
