"""The contract of a method: what every method owes, checked over small federations.

>>> import formant.testing
>>> formant.testing.check(MyMethod)                                             # doctest: +SKIP
>>> formant.testing.check("ditto", engine=formant.torch.engine("cuda", deterministic=True))     # doctest: +SKIP
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _formant, _toml
from ._errors import FormantError
from ._method import Method, register
from ._model import Model
from ._run import core_engine


@dataclass(frozen=True)
class Finding:
    """One clause of the contract."""

    clause: str
    #: What is wrong, if anything.
    fault: str | None

    def __str__(self) -> str:
        return f"ok    {self.clause}" if self.fault is None else f"FAULT {self.clause}: {self.fault}"


class Findings(list[Finding]):
    """Every clause, with what was found."""

    @property
    def faults(self) -> list[Finding]:
        """Those that do not hold."""
        return [finding for finding in self if finding.fault is not None]

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self)


_CLIENTS = 4
_BASE = f"""
rounds = 4
[data]
clients = {_CLIENTS}
samples = 240
partition = "dirichlet"
alpha = 0.5
min_samples = 20
[train]
epochs = 1
batch = 10
learning_rate = 0.05
[evaluation]
every = 1
[runtime]
threads = 2
"""


class _Trial:
    """Runs of one method in folders of their own."""

    def __init__(self, name: str, hyper: dict[str, Any], engine: _formant.Engines | None, folder: Path) -> None:
        self.name, self.hyper, self.engine, self.folder = name, hyper, engine, folder
        self.count = 0

    def text(self, network: str = 'name = "mlp"\nhidden = [16]') -> str:
        pairs = "".join(f"{_toml.key(name)} = {_toml.value(value, name)}\n" for name, value in self.hyper.items())
        return f'{_BASE}[network]\n{network}\n[[method]]\nname = "{self.name}"\n{pairs}'

    def run(self, *sets: str, network: str | None = None) -> Path:
        self.count += 1
        out = self.folder / str(self.count)
        text = self.text() if network is None else self.text(network)
        _whole(_formant.run(text, list(sets), str(out), resume=False, engine=self.engine))
        return out

    def interrupted(self, round: int) -> Path:
        self.count += 1
        out = self.folder / str(self.count)
        sets = ["runtime.checkpoint_every=1"]
        stopped = _formant.run(self.text(), sets, str(out), resume=False, engine=self.engine, stop_after=round)
        if stopped != "interrupted":
            raise FormantError("a run did not stop when it was asked to", hint="please report it")
        # Another run in between leaves other things in the class and in globals than the one that goes on had there.
        self.run("seed=2")
        _whole(_formant.run("", [], str(out), resume=True, engine=self.engine))
        return out


def _whole(outcome: str) -> None:
    if outcome == "interrupted":
        raise KeyboardInterrupt


def _fingerprint(folder: Path) -> str:
    (found,) = json.loads(_formant.log(str(folder)))["fingerprints"].values()
    return str(found)


def _rows(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_formant.history(str(folder)))
    return rows


def check(method: type[Method] | str, *, engine: Any = None, quiet: bool = False, **hyper: Any) -> Findings:
    """Runs the contract over a method and prints what was found; raises if something does not hold.

    ``method`` is a class, or the name of a method that is known. ``engine`` is :func:`formant.torch.engine`, which owes
    the same bits if it is deterministic. ``hyper`` are hyper-parameters other than the defaults. It takes some seconds.
    """
    name = method if isinstance(method, str) else register(method).name
    generic, personal = _kinds(name)
    findings = Findings()

    def clause(name: str, ask: Callable[[], str | None]) -> None:
        findings.append(Finding(name, ask()))

    with tempfile.TemporaryDirectory() as place:
        trial = _Trial(name, hyper, core_engine(None, engine)[1], Path(place))
        base = trial.run()
        if fault := _failures(base) or _finite(base, personal):
            # What else would be asked assumes that it trains.
            raise FormantError(f"{name} breaks its contract: {fault}", hint=f"the last thing that it did: {_last(base)}")
        expected, seen = _fingerprint(base), _seen(base)

        def same(what: str, folder: Path) -> str | None:
            found = _fingerprint(folder)
            if found != expected:
                return f"{what} gives other bits ({found}, not {expected})"
            other = [row for row in _seen(folder) if row not in seen]
            return f"{what} gives other scores in round {other[0][0]}" if other else None

        clause("same bits again", lambda: same("a second run", trial.run()))
        clause("same bits for any number of threads", lambda: same("one thread", trial.run("runtime.threads=1")))
        clause("same bits with states on disk", lambda: same("no memory", trial.run('runtime.memory="0B"')))
        clause("same bits after an interruption", lambda: same("going on", trial.interrupted(1)))
        clause(
            "evaluation does not train", lambda: same("fewer evaluations", trial.run("evaluation.every=4"))
        )
        clause("every upload counts", lambda: _failures(base))
        clause("models are finite", lambda: _finite(base, personal))
        clause("it says what it trains", lambda: _said(generic, personal, base))
        clause(
            "buffers are carried along",
            lambda: _failures(
                trial.run("rounds=2", "train.batch=8", network='name = "resnet18"\nwidth = 2\nnorm = "batch"')
            ),
        )
        clause("clients may sit out", lambda: _failures(trial.run("train.participation=0.5")))
    if not quiet:
        print(findings)
    if findings.faults:
        raise FormantError(
            f"{name} breaks its contract:\n" + "\n".join(str(f) for f in findings.faults),
            hint="states must hold everything that is kept, and randomness comes from local.generator()",
        )
    return findings


def _seen(folder: Path) -> list[tuple[Any, ...]]:
    """All scores, without clocks."""
    return [(row["round"], row["gm"], row["gm_loss"], row["pm"], tuple(row["clients"])) for row in _rows(folder)]


def _kept(folder: Path) -> int:
    """Personal models at the end of a run: those that are no numbers are not kept."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return max((int(event["personal"]) for event in events if event["event"] == "models_kept"), default=0)


def _last(folder: Path) -> str:
    rounds = [row["round"] for row in _rows(folder)]
    return f"round {max(rounds)} was scored" if rounds else "no round was scored"


def _failures(folder: Path) -> str | None:
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event.get("error"):
            return str(event["error"])
    return None


def _finite(folder: Path, personal: bool) -> str | None:
    for row in _rows(folder):
        clients = [score for score in row["clients"] if score is not None]
        if row["pm"] is None and row["gm"] is None:
            return f"nothing could be scored after round {row['round']}"
        if not np.isfinite(np.array(clients, dtype=float)).all():
            return f"a personal model of round {row['round']} is not finite"
    if personal and (lost := _CLIENTS - _kept(folder)):
        return f"personal models of {lost} clients are not finite"
    for path in sorted((folder / "models").rglob("*.safetensors")):
        for tensor, values in Model.load(path).state_dict().items():
            if not np.isfinite(values).all():
                return f"{tensor} of {path.stem} is not finite"
    return None


def _kinds(name: str) -> tuple[bool, bool]:
    """Whether a method says that it has a generic model, and personal ones."""
    known = {entry["name"]: entry for entry in json.loads(_formant.methods())}
    if name not in known:
        raise FormantError(f"method {name!r} is not known", hint=f"there are {', '.join(known)}")
    return bool(known[name]["generic"]), bool(known[name]["personal"])


def _said(generic: bool, personal: bool, folder: Path) -> str | None:
    last = _rows(folder)[-1]
    if generic and last["gm"] is None:
        return "generic = True, and global_model gives none"
    if personal and last["pm"] is None:
        return "personal = True, and there is no personal model"
    return None
