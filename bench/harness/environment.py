"""The throw-away Python environment with the peers, and Formant built from this working tree."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from .failure import Failure

BENCH = pathlib.Path(__file__).resolve().parent.parent
REPOSITORY = BENCH.parent
REQUIREMENTS = BENCH / "requirements.txt"
# What the pinned peers support: Flower begins at 3.11, pfl ends before 3.13.
PYTHONS = [(3, 11), (3, 12)]


def suitable_python():
    """This interpreter if the peers can use it, else another one of the path."""
    if sys.version_info[:2] in PYTHONS:
        return sys.executable
    for major, minor in reversed(PYTHONS):
        if found := shutil.which(f"python{major}.{minor}"):
            return found
    versions = " or ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    raise Failure(
        f"this is Python {sys.version.split()[0]}; the pinned peers need {versions}",
        f"install python{PYTHONS[-1][0]}.{PYTHONS[-1][1]} or start bench/run with such an interpreter",
    )


def prepare_peers(folder, log, left_out):
    """Makes the environment unless it is there already, without the packages that nobody wants; gives its interpreter."""
    python = folder / "bin" / "python"
    stamp = folder / "bench-requirements.txt"
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    wanted = [line for line in lines if re.split("[=[]", line)[0] not in left_out]
    if python.exists() and stamp.exists() and set(wanted) <= set(stamp.read_text().splitlines()):
        return python
    made = subprocess.run([suitable_python(), "-m", "venv", folder], capture_output=True, text=True)
    if made.returncode != 0:
        raise Failure(
            f"python3 -m venv failed: {(made.stderr or made.stdout).strip()[-300:]}",
            "install the venv module (Debian, Ubuntu: apt install python3-venv)",
        )
    with open(log, "w") as output:
        installed = subprocess.run(
            [python, "-m", "pip", "install", "--disable-pip-version-check", *wanted],
            stdout=output, stderr=subprocess.STDOUT,
        )
    if installed.returncode != 0:
        tail = pathlib.Path(log).read_text().strip().splitlines()[-3:]
        raise Failure(
            "pip could not install the peers:\n  " + "\n  ".join(tail) + f"\n  whole log: {log}",
            "check the network; a mirror is named by PIP_INDEX_URL; about 6 GB of disk are needed",
        )
    stamp.write_text("\n".join(wanted) + "\n")
    return python


def install_package(python):
    """Formant's Python package, built from this working tree, beside the peers."""
    target = os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps", REPOSITORY / "python"],
        env={**os.environ, "CARGO_TARGET_DIR": str(pathlib.Path(target).absolute())},
    )
    if installed.returncode != 0:
        raise Failure("pip could not install Formant's Python package", "read its messages above")


def build_formant():
    """Builds both binaries in release, as a user would; gives their paths by name."""
    if not shutil.which("cargo"):
        raise Failure("cargo was not found", "install a Rust toolchain, see https://rustup.rs")
    built = subprocess.run(
        ["cargo", "build", "--release", "--locked", "-p", "formant-cli", "-p", "formant-bench",
         "--message-format", "json-render-diagnostics"],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True,
    )
    if built.returncode != 0:
        raise Failure("Formant does not build", "read the compiler's messages above")
    found = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            found[message["target"]["name"]] = message["executable"]
    return found


def versions(python):
    """Of everything that was measured."""
    script = (
        "import importlib.metadata as m, json, platform\n"
        "names = ['torch', 'flwr', 'ray', 'pfl', 'numpy']\n"
        "there = {d.metadata['Name'] for d in m.distributions()} & set(names)\n"
        "print(json.dumps({'python': platform.python_version(), **{n: m.version(n) for n in names if n in there}}))"
    )
    peers = json.loads(subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout)

    def line(*command):
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    # Untracked files, such as results of the benchmark, are no change to what was built.
    changed = bool(line("git", "status", "--porcelain", "--untracked-files=no"))
    return {
        "formant": line("git", "rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "rustc": line("rustc", "--version"),
        "RUSTFLAGS": os.environ.get("RUSTFLAGS", ""),
        **peers,
    }
