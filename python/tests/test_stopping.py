"""Whoever stops a run stops it, whatever a method does with exceptions; and it goes on to the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from method_kit import BASE, entry, models

import formant
import formant.testing
from formant import _formant


class Stubborn(formant.Method):
    """FedAvg that takes every exception for a reason to send what it has."""

    hold = False
    began = threading.Event()

    def train_shared(self, client: Any, got: Any, local: Any) -> Any:
        w = got.copy()
        try:
            while Stubborn.hold and local.round == 2:
                Stubborn.began.set()
                local.sgd(got.copy(), 1)
            local.sgd(w)
        except Exception:  # noqa: BLE001
            pass
        return w


def test_a_method_that_catches_exceptions_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BASE + entry(Stubborn)
    sets = ["runtime.checkpoint_every=1", "runtime.threads=2"]

    def ctrl_c(news: str) -> None:
        if Stubborn.began.is_set():
            raise KeyboardInterrupt

    monkeypatch.setattr(Stubborn, "hold", True)
    stopped = _formant.run(text, sets, str(tmp_path / "stopped"), resume=False, poll=ctrl_c)
    assert stopped == "interrupted"
    monkeypatch.setattr(Stubborn, "hold", False)
    assert _formant.run("", [], str(tmp_path / "stopped"), resume=True) == "complete"
    assert _formant.run(text, sets, str(tmp_path / "whole"), resume=False) == "complete"
    assert models(tmp_path / "stopped", "stubborn") == models(tmp_path / "whole", "stubborn")


def test_what_stops_a_phase_is_no_exception_that_methods_catch() -> None:
    assert not issubclass(_formant.Stopped, Exception)


ENDLESS = """
import signal, sys, formant
class Endless(formant.Method):
    '''Never comes back.'''
    def train_shared(self, client, got, local):
        print("inside", flush=True)
        while True:
            pass
def heard(*given):
    print("heard", flush=True)
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, heard)
formant.run(data="mnist-small", clients=2, samples=200, network="logistic", methods=[Endless], rounds=2, threads=1,
            out=sys.argv[1], progress=False)
"""


def test_a_second_ctrl_c_ends_a_method_that_never_comes_back(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
        # The first one alone ends nothing. It is taken in by then, too: another one before that would be the same one to Python.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert errors.strip().splitlines()[-1].startswith("formant._errors.Interrupted: "), errors


def test_ctrl_c_ends_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formant.testing._formant, "run", lambda *given, **keys: "interrupted")
    with pytest.raises(KeyboardInterrupt):
        formant.testing.check("fedavg", quiet=True)


class Remembering(formant.Method):
    """Keeps in the class what belongs into a state: it is there again, unless another run was in between."""

    seen = {}  # type: ignore[var-annotated]

    def aggregate(self, server: Any, received: Any, central: Any) -> None:
        Remembering.seen[central.round] = received
        before = Remembering.seen[max(1, central.round - 1)]
        server["w"] = 0.5 * (received + before)


def test_the_contract_finds_states_of_classes() -> None:
    with pytest.raises(formant.FormantError, match="after an interruption"):
        formant.testing.check(Remembering, quiet=True)
