"""Ctrl-C stops at a checkpoint, and what goes on ends with the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import formant

PROGRAM = """
import signal, sys, time, formant
# Whoever runs these tests in the background of a script has it ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Told(formant._run.Progress):
    def __call__(self, news):
        super().__call__(news)
        if '"round_finished"' in news:
            print("round", flush=True)
            time.sleep(0.02)  # or a fast machine would be through before the signal comes
formant._run.Progress = Told
formant.run(**eval(sys.argv[1]), out=sys.argv[2], progress=False)
"""

KEYWORDS = {
    "data": "mnist-small", "clients": 4, "samples": 1000, "network": "logistic", "methods": ["fedavg", "ditto"], "rounds": 150,
    "checkpoint_every": 5, "epochs": 1, "evaluate_every": 150, "threads": 1,
}  # fmt: skip


def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, repr(KEYWORDS), str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "round\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "Interrupted" in errors and f'formant.resume("{folder}")' in errors, errors
    assert not formant.Run.load(folder).complete
    resumed = formant.resume(folder, progress=False)
    whole = formant.run(**KEYWORDS, out=tmp_path / "whole", progress=False)  # type: ignore[arg-type]
    assert resumed.complete and resumed.fingerprints == whole.fingerprints


def test_the_text_of_an_interruption() -> None:
    error = formant.Interrupted("runs/a")
    assert isinstance(error, KeyboardInterrupt) and error.folder == "runs/a"
    assert 'formant.resume("runs/a")' in str(error)
