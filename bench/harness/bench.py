"""What every section uses: the engines' binaries, the folders, and taking turns."""

import dataclasses
import pathlib
import sys

from . import machine, process
from .failure import Failure, MeasurementFailed

PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"
TIMEOUT = 1800


@dataclasses.dataclass
class Bench:
    python: pathlib.Path
    binaries: dict
    folder: pathlib.Path
    cores: list
    repetitions: int
    quick: bool
    patience: float
    memory: str
    engines: list
    loads: list = dataclasses.field(default_factory=list)

    def formant_bench(self, *arguments):
        return self._run([self.binaries["formant-bench"], *arguments])

    def formant(self, *arguments, memory=None):
        return self._run([self.binaries["formant"], *arguments], memory)

    def formant_in_python(self, *arguments, memory=None):
        return self._run([self.python, "-m", "formant", *arguments], memory)

    def peer(self, script, *arguments, memory=None):
        return self._run([self.python, PEERS / script, *arguments], memory)

    def _run(self, command, memory=None):
        self.loads.append(machine.wait_until_quiet(self.patience))
        return process.run(command, self.cores, self.folder, TIMEOUT, memory)

    def seconds(self, normally):
        """How long one measurement lasts."""
        return max(0.5, normally / 3) if self.quick else normally

    def alternate(self, title, engines, repetitions=None):
        """Measures every engine once per repetition, in turns; another one begins each time, so that none always
        comes after the same. A peer that fails is noted and left out; Formant must not fail."""
        names, results, failures = list(engines), {name: [] for name in engines}, {}
        repetitions = repetitions or self.repetitions
        for repetition in range(repetitions):
            first = repetition % len(names)
            for name in names[first:] + names[:first]:
                if name in failures:
                    continue
                say(f"{title}: {repetition + 1}/{repetitions} {name}")
                try:
                    results[name].append(engines[name]())
                except MeasurementFailed as error:
                    if name.startswith("Formant"):
                        raise Failure(f"{title}, {name}: {error}", "this is a bug of Formant or of its bench") from None
                    say(f"{title}: {name} failed, left out: {error}")
                    failures[name] = str(error)
        return {"results": {name: results[name] for name in names if name not in failures}, "failures": failures}


def say(text):
    print(text, file=sys.stderr, flush=True)
