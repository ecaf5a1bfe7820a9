"""``python -m formant``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kit import refused

from formant.__main__ import main, taken

METHOD = '''
import formant

class Lazy(formant.Method):
    """FedAvg that learns nothing."""

    def train_shared(self, client, got, local):
        return got
'''


def formant_(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "formant", *args], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_it_is_the_command_line() -> None:
    version = formant_("--version")
    assert version.returncode == 0 and version.stdout.startswith("formant ")
    wrong = formant_("rum")
    assert wrong.returncode == 2 and "rum" in wrong.stderr


def test_methods_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(METHOD)
    common = ["--method", "lazy", "--set", "rounds=1", "--set", "data.samples=200", "--set", "data.clients=2"]
    for given in ("lazy.py", "lazy"):
        done = formant_("run", "--with", given, *common, "--json", "--quiet", "--out", f"run-{given}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"][0]["title"] == "Lazy"


def test_a_run_goes_on_with_the_class_that_it_had(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text(METHOD)
    given = ["--method", "lazy", "--set", "data.samples=200", "--set", "data.clients=2", "--quiet"]
    for folder, more in (("run", []), ("series", ["--seeds", "2"])):
        made = formant_("run", "--with", "lazy.py", *given, *more, "--set", "rounds=1", "--out", folder, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        without = formant_("run", "--resume", folder, "--set", "rounds=2", cwd=tmp_path)
        assert without.returncode == 1 and "unknown method" not in without.stderr
        for words in ("'lazy', a class of Python's", f'hint: give the class again: formant.resume("{folder}", methods=', "--with FILE.py"):
            assert words in without.stderr
        again = formant_("run", f"--resume={folder}", "--with", "lazy.py", "--set", "rounds=2", "--quiet", cwd=tmp_path)
        assert again.returncode == 0, again.stderr


def test_arguments_are_taken_apart() -> None:
    rest, own = taken(["run", "--with=a.py", "--processes", "--with", "b", "--", "--with"])
    assert rest == ["run", "--", "--with"] and own["--with"] == ["a.py", "b"] and own["--processes"]
    refused(lambda: taken(["run", "--with"]), "--with has no value")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "--with", "none.py"], "no such file"),
        (["run", "--with", ""], "--with names nothing"),
        (["run", "--with", "no_such_module_here"], "no_such_module_here"),
        (["run", "--with", "json"], "defines no method"),
        (["run", "--device", "cpu"], "add --engine torch"),
        (["run", "--processes"], "--processes is for PyTorch"),
        (["run", "--engine", "formant", "--processes"], "--processes is for PyTorch"),
        (["run", "--engine", "torch", "--processes=2"], "--processes takes no value"),
        (["methods", "--engine", "torch"], "run and reproduce"),
        (["run", "--engine", "jax"], "jax"),
        (["run", "--engine", "formant", "--device", "cuda"], "--device is for PyTorch"),
    ],
)
def test_what_makes_no_sense_is_refused(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: ") and words in errors and "hint: " in errors


BAD = """
import formant, beside

class Bad(formant.Method):
    '''Fails.'''

    def train_shared(self, client, got, local):
        raise ValueError("boom")
"""


def test_a_file_finds_what_lies_beside_it_and_its_errors_say_where(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("")
    (tmp_path / "sub" / "random.py").write_text(BAD)
    small = ["--set", "rounds=1", "--set", "data.samples=200", "--set", "data.clients=2"]
    done = formant_("run", "--with", "sub/random.py", "--method", "bad", *small, "--quiet", "--out", "run", cwd=tmp_path)
    assert done.returncode != 0 and "boom" in done.stderr and "random.py:8" in done.stderr, done.stderr


def test_a_file_does_not_replace_a_module(tmp_path: Path) -> None:
    import random

    from formant.__main__ import loaded

    (tmp_path / "random.py").write_text(METHOD.replace("Lazy", "NotRandom"))
    loaded(str(tmp_path / "random.py"))
    assert sys.modules["random"] is random


def test_help_says_what_python_adds_where_it_does_something() -> None:
    assert "In Python also" in formant_("run", "--help").stdout
    assert "In Python also" not in formant_("methods", "--help").stdout
