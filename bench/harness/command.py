"""The command line, and the order in which things happen."""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from . import environment, machine, report
from .bench import Bench, say
from .failure import Failure
from .sections import federation

CHOICES = [name for name in report.SECTIONS if name != "sgemm"]


def parse():
    arguments = argparse.ArgumentParser(
        prog="bench/run", description="Measures Formant, PyTorch, Flower and pfl on the same work and cores, in "
        "turns, and writes a Markdown report with the raw figures beside it into bench/results.")
    arguments.add_argument("--only", metavar="A,B", help=f"sections to run, of {', '.join(CHOICES)} (default: all)")
    arguments.add_argument("--engines", metavar="A,B", default=",".join(federation.PEERS),
                           help=f"whom Formant's whole rounds are compared with, of {', '.join(federation.PEERS)} (default: all); "
                           "packages that only others need are not installed")
    arguments.add_argument("--repetitions", type=int, default=5, metavar="N", help="of every measurement (default: 5)")
    arguments.add_argument("--quick", action="store_true",
                           help="shorter measurements and one repetition: to see that everything works")
    arguments.add_argument("--env", type=pathlib.Path, metavar="DIR",
                           help="Python environment of the peers, made there if it is not and kept")
    arguments.add_argument("--keep-env", action="store_true", help="the same as --env bench/.venv")
    arguments.add_argument("--cores", type=int, default=2, metavar="N", help="cores to use (default: 2)")
    arguments.add_argument("--memory", default="512MiB",
                           help="runtime.memory of the scaling runs that are limited (default: 512MiB)")
    arguments.add_argument("--wait-quiet", type=float, default=0, metavar="SECONDS",
                           help="before each measurement, wait at most so long for other work to end")
    arguments.add_argument("--out", type=pathlib.Path, metavar="DIR", default=environment.BENCH / "results")
    arguments.add_argument("--from", dest="source", type=pathlib.Path, metavar="JSON",
                           help="measure nothing; write the report of these raw figures again")
    given = arguments.parse_args()
    given.sections = given.only.split(",") if given.only else CHOICES
    for name in given.sections:
        if name not in CHOICES:
            arguments.error(f"--only: {name!r} is no section; there are {', '.join(CHOICES)}")
    given.engines = given.engines.split(",")
    for name in given.engines:
        if name not in federation.PEERS:
            arguments.error(f"--engines: {name!r} is no engine; there are {', '.join(federation.PEERS)}")
    if given.repetitions < 1:
        arguments.error("--repetitions: at least 1")
    return given


def cores(count):
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        raise Failure(f"{len(allowed)} cores are there, {count} are wanted", "give --cores, but tables are for 2")
    return allowed[:count]


def measure(given, work):
    if not sys.platform.startswith("linux"):
        raise Failure(f"this is {sys.platform}", "run on Linux: memory and load are read from /proc")
    chosen = cores(given.cores)
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.env or (environment.BENCH / ".venv" if given.keep_env else None)
    folder = kept.absolute() if kept else work / "venv"
    say("building Formant")
    binaries = environment.build_formant()
    say(f"preparing the peers in {folder} (a first time takes minutes)")
    unwanted = {federation.PACKAGES[name] for name in federation.PACKAGES if name not in given.engines}
    python = environment.prepare_peers(folder, given.out / "pip.log", unwanted)
    if {"rounds", "memory", "startup"} & set(given.sections) and "torch" in given.engines:
        say("building Formant's Python package")
        environment.install_package(python)
    bench = Bench(python, binaries, work, chosen, 1 if given.quick else given.repetitions, given.quick,
                  given.wait_quiet, given.memory, given.engines)
    raw = {
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "machine": machine.describe(chosen),
        "versions": environment.versions(python), "repetitions": bench.repetitions, "quick": given.quick,
        "loads": bench.loads, "sections": {},
    }
    needed = [name for name in report.SECTIONS if name in given.sections or name == "sgemm" and "steps" in given.sections]
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S") + ("-quick" if given.quick else "")
    for section in needed:
        raw["sections"][section] = report.SECTIONS[section][1].measure(bench)
        write(raw, given.out, name)  # after every section, so that a late failure loses nothing
    return write(raw, given.out, name)


def write(raw, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(raw, indent=1))
    path = folder / f"{name}.md"
    path.write_text(report.render(raw))
    return path


def main():
    given = parse()
    # An end from outside must not leave a peer's daemons behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Short, because Ray puts sockets below it, whose paths may not be long.
    work = pathlib.Path(tempfile.mkdtemp(prefix="fb-"))
    try:
        if given.source:
            path = write(json.loads(given.source.read_text()), given.source.parent, given.source.stem)
        else:
            path = measure(given, work)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; finished sections are in the results", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(path.read_text())
    print(f"written to {path}")
    return 0
