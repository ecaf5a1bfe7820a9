"""Runs: folders, tables, models, history."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit import SHORT, Arrays, refused

import formant
from formant import _formant
from formant._table import Table


def test_a_run_is_a_folder(made: formant.Run) -> None:
    assert made.complete and made.name == "made" and len(made) == 4
    assert made.report().is_file() and (made.folder / "experiment.toml").is_file()
    again = formant.Run.load(str(made.folder))
    assert again.fingerprints == made.fingerprints and len(again.fingerprints) == 4
    assert repr(made) == f'formant.Run.load("{made.folder}")'
    (made.folder / "report.html").unlink()
    assert made.report().is_file()


def test_methods_are_found_by_label_name_title_and_number(made: formant.Run) -> None:
    assert [m.label for m in made.methods] == ["local", "fedavg", "scd", "Blend"]
    for which in ("FedAvg", "fedavg", 1, -3):
        assert made[which].label == "fedavg"
    assert made["scd"].label == "scd" and made["Blend"].info["name"] == "scd" and made["blend"].label == "Blend"
    for which in ("ditto", 4, -5):
        refused(lambda which=which: made[which], "no method", "local, fedavg, scd, Blend")
    with pytest.raises(KeyError):
        made["ditto"]


def test_the_models_of_a_method(made: formant.Run) -> None:
    scd, fedavg = made["scd"], made["fedavg"]
    assert isinstance(scd.generic, formant.Model) and scd.generic.card["role"] == "generic"
    assert len(scd.personal) == 4 and [m.card["client"] for m in scd.personal] == [0, 1, 2, 3]
    assert scd.personal[-1].card["client"] == 3 and len(scd.personal[1:3]) == 2
    assert len(fedavg.personal) == 0 and not list(fedavg.personal)
    refused(lambda: scd.personal[4], "client 4", "0 to 3")
    refused(lambda: fedavg.personal[0], "runtime.keep")
    with pytest.raises(IndexError):
        scd.personal[-5]
    assert "4 personal models of scd" in repr(scd.personal) and "fedavg" in repr(fedavg)
    assert scd.fingerprint == made.fingerprints["scd"]


def test_history_and_rows(made: formant.Run) -> None:
    assert len(made.history) == 8 and {"method", "round", "gm", "pm", "clients"} <= set(made.history[0])
    assert [row["round"] for row in made["scd"].history] == [1, 2]
    assert made["scd"].row["gm_best"] == max(row["gm"] for row in made["scd"].history)
    assert "round" in str(made.history) and "<table>" in made.history._repr_html_()


def test_the_table_with_and_without_pandas(made: formant.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = made.table(pandas=False)
    assert isinstance(plain, Table) and plain[0]["label"] == "local"
    assert "| method |" in str(plain) and str(plain) == repr(plain) == str(made)
    for html in (plain._repr_html_(), made._repr_html_()):
        assert html.startswith("<table>") and "FedAvg" in html
    monkeypatch.setattr("formant._results.has_pandas", lambda: False)
    assert isinstance(made.table(), Table)
    monkeypatch.undo()
    pytest.importorskip("pandas")
    frame = made.table()
    assert list(frame.index) == ["local", "fedavg", "scd", "Blend"]
    assert frame.loc["scd", "pm_best"] == made["scd"].row["pm_best"]
    assert "<table" in frame._repr_html_() and "clock_seconds" not in frame
    assert len(made.history.to_pandas()) == 8


def test_pandas_that_is_not_there_is_named(made: formant.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    refused(made.history.to_pandas, "pandas is not installed", "pip install")


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    refused(lambda: formant.Run.load(tmp_path), "is not a run folder")
    refused(lambda: formant.Run.load(tmp_path / "none"), "is not there")
    (tmp_path / "experiment.toml").write_text("rounds = 1\n")
    refused(lambda: formant.Run.load(tmp_path), "has not begun")
    refused(lambda: formant.resume(tmp_path / "none"), "is not there")


def test_runs_get_folders_of_their_own(
    train: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {**SHORT, "data": train, "methods": "fedavg", "name": "a/b c"}
    runs = [formant.run(**given) for _ in range(2)]
    for run in runs:
        assert run.folder.parent == Path("runs") and run.folder.name.startswith("a-b-c-20")
    assert runs[0].folder != runs[1].folder
    refused(lambda: formant.run(**{**given, "rounds": 0}), "rounds")
    assert len(os.listdir("runs")) == 2


def test_nothing_is_overwritten(short: Callable[..., formant.Run], made: formant.Run, tmp_path: Path) -> None:
    refused(lambda: short(out=made.folder), "holds a run already", "formant.resume")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused(lambda: short(out=tmp_path / "full"), "is not empty")
    refused(lambda: short(out=tmp_path / "full" / "file"), "is a file")
    (tmp_path / "empty").mkdir()
    assert short(out=tmp_path / "empty").folder == tmp_path / "empty"


def test_what_is_missing_is_said(train: Arrays) -> None:
    refused(lambda: formant.run(data=train), "methods is missing", "fedavg")
    refused(lambda: formant.run(test=train), "test is given without data")
    refused(lambda: formant.run("quickstart", clients_of=[1]), "clients_of is given without data")
    refused(lambda: formant.run(data=train, methods="fedavg", roundz=3), "roundz", "rounds")
    refused(lambda: formant.run(data=train, methods="fedavg", engine=5), "engine is a int")


def test_the_quickstart_is_what_nothing_means(tmp_path: Path) -> None:
    run = formant.run(
        rounds=1, samples=200, clients=3, min_samples=4, network="logistic", set={"data.seed": 2}, out=tmp_path / "q", progress=False
    )
    assert run.name == "quickstart" and len(run) == 5
    assert run["SCD"].label == "SCD" and run["Blend"].info["name"] == "scd"
    refused(lambda: run["scd "], "labels")


def test_data_can_be_a_section(tmp_path: Path) -> None:
    data = {"source": "mnist-small", "clients": 3, "samples": 120, "min_samples": 4}
    run = formant.run(data=data, methods="fedavg", network="logistic", rounds=1, out=tmp_path / "s", progress=False)
    assert run.log["clients"] == 3 and run.log["dataset"] == "mnist-small"


def test_a_run_can_get_more_rounds(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    run, whole = short(rounds=1), short(rounds=3)
    refused(lambda: formant.resume(run.folder), "made with arrays", "data=(x, y)")
    more = formant.resume(run.folder, data=train, test=test, rounds=3, progress=False)
    assert more.fingerprints == whole.fingerprints
    refused(lambda: formant.resume(run.folder, data=train, test=test, clientz=3), "clientz")
    refused(lambda: formant.resume(run.folder, data="mnist-small"), "names a source")


def test_a_complete_run_is_not_resumed(short: Callable[..., formant.Run], train: Arrays, test: Arrays) -> None:
    run = short()
    with pytest.raises(formant.FormantError, match="complete"):
        formant.resume(run.folder, data=train, test=test, progress=False)


def test_other_data_are_not_taken_for_a_run_that_goes_on(
    short: Callable[..., formant.Run], train: Arrays, test: Arrays
) -> None:
    run = short(rounds=1)
    with pytest.raises(formant.FormantError, match="data"):
        formant.resume(run.folder, data=(255 - train[0], train[1]), test=test, rounds=2, progress=False)


def test_other_threads_go_on_while_it_computes(tmp_path: Path) -> None:
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.perf_counter()
    try:
        formant.run(
            data="mnist-small", clients=4, samples=800, network="lenet5", methods="fedavg", rounds=2, threads=1,
            progress=False, out=tmp_path / "gil",
        )  # fmt: skip
    finally:
        took = time.perf_counter() - began
        over.set()
        thread.join()
    # Held throughout, it would have counted a few times; free, hundreds of times a second.
    assert counted > 10 and counted > took * 20


def test_an_error_of_progress_comes_out(short: Callable[..., formant.Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no paper in the printer")

    monkeypatch.setattr("formant._progress.Progress.__call__", broken)
    with pytest.raises(RuntimeError, match="printer"):
        short()


def test_versions_agree() -> None:
    assert formant.__version__ == _formant.__version__
