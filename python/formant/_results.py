"""What is left of runs: tables, models, histories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from . import _formant
from ._errors import FormantError
from ._model import Model
from ._table import Rows, Table, has_pandas, html_of

#: Figures of a method that stand in the table, in this order.
COLUMNS = [
    "title", "gm_best", "gm_last", "pm_best", "pm_last", "pm_mean_last", "worst_decile_last", "best_round_gm",
    "best_round_pm", "rounds", "seconds", "uploaded_bytes", "clock_seconds", "idle_share", "failed_phases", "stopped",
]  # fmt: skip


def experiment_text(path: Path) -> str:
    """The experiment of a run folder."""
    try:
        return (path / "experiment.toml").read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormantError(f"{path / 'experiment.toml'} is no text", hint="take another copy of the run folder") from error
    except OSError as error:
        what = "is not there" if not path.exists() else "is not a run folder: it has no experiment.toml"
        raise FormantError(
            f"{path} {what}", hint="name a folder that a run has made, such as runs/quickstart-20260101-120000"
        ) from error


class Personal(Sequence[Model]):
    """The personal models of a method by client; each is read when it is asked for.

    A model that was not kept leaves its place empty: ``clients`` has those that are there.
    """

    def __init__(self, folder: Path, label: str, clients: int) -> None:
        self._folder, self._label = folder, label
        there = folder.glob("*.safetensors") if folder.is_dir() else ()
        #: The clients whose models were kept.
        self.clients = sorted(int(path.stem) for path in there if path.stem.isdigit())
        self._count = max(clients, self.clients[-1] + 1) if self.clients else 0

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, client: int) -> Model: ...
    @overload
    def __getitem__(self, client: slice) -> list[Model]: ...
    def __getitem__(self, client: int | slice) -> Model | list[Model]:
        if isinstance(client, slice):
            return [self[i] for i in range(*client.indices(len(self)))]
        at = client + len(self) if client < 0 else client
        if 0 <= at < len(self) and at not in self.clients:
            raise _NoSuchClient(
                f"{self._label} has no personal model of client {at}: its model was not kept",
                hint="a model that diverged is not kept; runtime.keep and keep_limit leave out others; "
                "those that are there: [personal[i] for i in personal.clients]",
            )
        if not 0 <= at < len(self):
            # An IndexError too, because that is what ends an iteration.
            raise _NoSuchClient(
                f"{self._label} has no personal model of client {client}: there are {len(self)}",
                hint="runtime.keep says which models a run keeps" if not len(self) else f"clients are 0 to {len(self) - 1}",
            )
        return Model(self._folder / f"{at}.safetensors")

    def __iter__(self) -> Iterator[Model]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self.clients)} personal models of {self._label}>"


class _NoSuchClient(FormantError, IndexError):
    """A client that is not there."""


class _NoSuchMethod(FormantError, KeyError):
    """A method that is not there."""

    __str__ = FormantError.__str__


class MethodRun:
    """One method of a run."""

    def __init__(self, run: Run, info: Mapping[str, Any]) -> None:
        self._run, self.info = run, dict(info)

    @property
    def label(self) -> str:
        """What the experiment calls it."""
        return str(self.info["label"])

    @property
    def _models(self) -> Path:
        return self._run.folder / "models" / str(self._run.log["folders"][self.label])

    @property
    def generic(self) -> Model | None:
        """The generic model, if one was kept (of a method without one: its personal models averaged)."""
        path = self._models / "generic.safetensors"
        return Model(path) if path.is_file() else None

    @property
    def personal(self) -> Personal:
        """The personal models."""
        return Personal(self._models / "personal", self.label, int(self._run.log["clients"]))

    @property
    def history(self) -> Rows:
        """Its evaluations."""
        return Rows(row for row in self._run.history if row["method"] == self.label)

    @property
    def row(self) -> dict[str, Any]:
        """Its figures."""
        return next(row for row in self._run.rows if row["label"] == self.label)

    @property
    def fingerprint(self) -> str | None:
        """What its models are known by: the same for the same bits."""
        found = self._run.log["fingerprints"].get(self.label)
        return None if found is None else str(found)

    def __repr__(self) -> str:
        return f"<formant.MethodRun {self.label} ({self.info['title']}) in {self._run.folder}>"


class Run:
    """A run that has been made: its table, its models, its history."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise FormantError(f"folder is {folder!r}", hint='name the folder of a run: "runs/quickstart-20260101-120000"')
        self.folder = Path(folder)
        experiment_text(self.folder)
        if not (self.folder / "events.jsonl").is_file():
            raise FormantError(f"the run in {self.folder} has not begun", hint="it has no events.jsonl yet")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Run:
        """The run of a folder, whoever made it."""
        return cls(folder)

    @cached_property
    def log(self) -> dict[str, Any]:
        """What the run was: seed, network, dataset, methods, fingerprints, …"""
        found: dict[str, Any] = json.loads(_formant.log(str(self.folder)))
        return found

    @cached_property
    def rows(self) -> Rows:
        """All figures of every method."""
        return Rows(json.loads(_formant.rows(str(self.folder))))

    @cached_property
    def history(self) -> Rows:
        """Every evaluation of every method."""
        return Rows(json.loads(_formant.history(str(self.folder))))

    @property
    def remarks(self) -> list[str]:
        """What was decided about the data that the experiment does not say: clients that were left out, say."""
        return [str(remark) for remark in self.log["remarks"]]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.log["name"])

    @property
    def complete(self) -> bool:
        """Whether every method has ended."""
        return bool(self.log["complete"])

    @property
    def fingerprints(self) -> dict[str, str]:
        """By label, what the models of each method are known by: the same for the same bits."""
        return dict(self.log["fingerprints"])

    @property
    def methods(self) -> list[MethodRun]:
        """Its methods, in their order."""
        return [MethodRun(self, info) for info in self.log["methods"]]

    def __len__(self) -> int:
        return len(self.log["methods"])

    def __iter__(self) -> Iterator[MethodRun]:
        return iter(self.methods)

    def __getitem__(self, which: str | int) -> MethodRun:
        methods = self.methods
        if isinstance(which, int):
            if -len(methods) <= which < len(methods):
                return methods[which]
        elif isinstance(which, str):
            # A label means one setting; the name of a method will do where it is settled by it.
            for key in ("label", "title", "name"):
                found = [m for m in methods if m.info[key] == which] or [
                    m for m in methods if str(m.info[key]).lower() == which.lower()
                ]
                if len(found) == 1:
                    return found[0]
        labels = ", ".join(method.label for method in methods)
        raise _NoSuchMethod(f"the run has no method {which!r}", hint=f"its labels are {labels}")

    def table(self, pandas: bool | None = None) -> Any:
        """The figures: a data frame where pandas is installed, else rows that print as the command line prints them."""
        if has_pandas() if pandas is None else pandas:
            frame = Rows({"method": row["label"], **{k: row.get(k) for k in COLUMNS}} for row in self.rows).to_pandas()
            frame = frame.set_index("method")
            # What no method of the run has is no column of its table.
            return frame.dropna(axis="columns", how="all")
        return Table(self.rows, _formant.table(str(self.folder)))

    def report(self) -> Path:
        """The report, a page for any browser; made anew if it is not there."""
        path = self.folder / "report.html"
        if not path.is_file():
            _formant.write_reports(str(self.folder))
        return path

    def __str__(self) -> str:
        return _formant.table(str(self.folder)).rstrip("\n")

    def __repr__(self) -> str:
        return f'formant.Run.load("{self.folder}")'

    def _repr_html_(self) -> str:
        return html_of(_formant.table(str(self.folder)))
