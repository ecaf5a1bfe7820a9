"""Progress: bars, lines, or nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from formant import _progress
from formant._progress import Progress


def news(label: str, at: int, *events: dict[str, Any], rounds: int = 3) -> str:
    return json.dumps({"events": events, "progress": {"label": label, "round": at, "rounds": rounds}})


EVALUATED = {"event": "evaluated", "method": "a", "round": 1, "gm": {"accuracy": 0.5}, "pm": {"weighted": 0.25}}


def told() -> None:
    progress = Progress(True)
    progress(json.dumps({"events": [], "progress": None}))
    progress(news("a", 0, {"event": "method_started", "method": "a"}))
    progress(news("a", 1, EVALUATED))
    progress(news("a", 2))
    progress(news("a", 3, {"event": "method_finished", "method": "a"}))
    progress(news("b", 1, {"event": "method_started", "method": "b"}))
    progress(news("b", 3))
    progress.close()
    progress.close()


def test_plain_lines_are_few(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_progress, "_bars", lambda: None)
    told()
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["a: round 0 of 3", "a: round 3 of 3  GM 50.0  PM 25.0", "b: round 1 of 3"]


def test_bars_are_tqdms(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Bar:
        def __init__(self, total: int, desc: str, unit: str) -> None:
            self.total, self.desc, self.n, self.closed = total, desc, 0, False
            made.append(self)

        def update(self, more: int) -> None:
            self.n += more

        def set_postfix(self, values: dict[str, float], refresh: bool) -> None:
            self.postfix = dict(values)

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(_progress, "_bars", lambda: Bar)
    told()
    assert [(bar.desc, bar.n, bar.closed) for bar in made] == [("a", 3, True), ("b", 3, True)]
    assert made[0].postfix == {"GM": 50.0, "PM": 25.0} and made[1].postfix == {}


def test_methods_between_two_looks_are_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "_bars", lambda: None)
    events = [
        {"event": "run_started", "rounds": 1},
        {"event": "method_started", "method": "a"},
        {"event": "round_finished", "method": "a", "round": 1},
        EVALUATED,
        {"event": "method_finished", "method": "a"},
        {"event": "method_started", "method": "b"},
        {"event": "round_finished", "method": "b", "round": 1},
    ]
    Progress(True)(json.dumps({"events": events, "progress": {"label": None}}))
    assert capsys.readouterr().err.splitlines() == ["a: round 1 of 1", "b: round 1 of 1"]


def test_tqdm_itself(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    told()
    assert "3/3" in capsys.readouterr().err


def test_silence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Progress(False)(news("a", 1))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    Progress()(news("a", 1))
    assert capsys.readouterr().err == ""
