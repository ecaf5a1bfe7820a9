"""Own partitions: lists of indices, and the client of each sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from kit import Arrays, refused

import formant
from formant._division import division, owners


def test_lists_become_a_division_file() -> None:
    given: list[Any] = [[3, 0], np.array([1, 2], np.uint8), range(4, 6)]
    assert json.loads(division(given, 6)) == [[3, 0], [1, 2], [4, 5]]
    assert json.loads(division({"ann": [0], "bob": {1}}, 2)) == {"ann": [0], "bob": [1]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], ["no clients"]),
        ([[0], []], ["client 1 has no samples"]),
        ([[0], [1, 6]], ["client 1 has sample 6", "0 to 5"]),
        ([[-1]], ["client 0 has sample -1"]),
        ([[0, 1], [2, 1]], ["sample 1 is listed twice", "client 0 and client 1"]),
        ([[0, 0]], ["client 0 and client 0"]),
        ([[0.5]], ["client 0", "whole numbers"]),
        ([[True, False]], ["client 0 has a mask", "flatnonzero"]),
        ([[[0]]], ["client 0", "(1, 1)"]),
        ({"ann": [7]}, ["client 'ann'"]),
        (5, ["int"]),
    ],
)
def test_divisions_that_cannot_be_are_refused(value: Any, words: list[str]) -> None:
    refused(lambda: division(value, 6), *words)


def test_owners_are_sorted_by_name() -> None:
    numbers, names = owners([10, 9, 10], 3)
    assert numbers.tolist() == [1, 0, 1] and names == ["9", "10"]
    assert owners(np.array(["b", "a"], object), 2)[1] == ["a", "b"]
    assert owners([b"b", b"a"], 2)[1] == ["a", "b"]
    assert owners([1.0, 2.0], 2)[1] == ["1", "2"]


@pytest.mark.parametrize(
    ("value", "words"), [([1], ["(1,)", "2 training samples"]), ([0.5, 1], ["float64"]), ([None, 1], ["clients_of[0]"])]
)
def test_owners_that_cannot_be_are_refused(value: Any, words: list[str]) -> None:
    refused(lambda: owners(value, 2), *words)


def test_a_run_divides_as_it_is_told(short: Callable[..., formant.Run], train: Arrays) -> None:
    lists = [list(range(i, 400, 3)) for i in range(3)]
    run = short(partition=lists, clients=None, alpha=None)
    assert run.log["clients"] == 3 and run.log["config"]["data"]["partition"] == "file"
    file = Path(run.log["config"]["data"]["partition_file"])
    assert file.is_absolute() and file.parent == run.folder.parent.resolve()
    assert json.loads(file.read_text()) == lists
    named = short(clients_of=np.array(["a", "b", "c", "d", "e"])[np.arange(400) % 5], clients=None, alpha=None)
    assert named.log["clients"] == 5 and named.log["config"]["data"]["partition"] == "natural"


def test_indices_need_a_test_set(short: Callable[..., formant.Run]) -> None:
    lists = [list(range(200)), list(range(200, 400))]
    refused(lambda: short(partition=lists, test=None, clients=None, alpha=None), "partition", "test=(x, y)")
    run = short(partition=lists, test=None, test_fraction=0, clients=None, alpha=None)
    assert run.log["clients"] == 2


def test_a_refused_run_leaves_nothing_behind(short: Callable[..., formant.Run], tmp_path: Path) -> None:
    refused(lambda: short(partition=[[0], [1]], clients=7, alpha=None), "clients")
    assert list(tmp_path.iterdir()) == []
