"""Workers in processes of their own: the bits of threads, and what becomes of them when something goes wrong."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kit import blobs, refused
from torch_kit import CLASSES, ORDER, SHAPE, SIZES, Net, descent, made, objective, phase

import formant
import formant.torch as ft
from formant.torch._check import kinds
from formant.torch._device import _refuse_processes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are for Linux and macOS")

PATIENCE = 120
"""Seconds until something that hangs is a failure."""


class Moody(Net):
    """Fails, dies or waits for ever on batches of certain sizes."""

    def forward(self, x: Any) -> Any:
        if len(x) == 5:
            raise LookupError("five at once")
        if len(x) == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(x) == 7:
            print(f"waiting {os.getpid()}", flush=True)
            threading.Event().wait()
        return super().forward(x)


@pytest.fixture(scope="module")
def pair() -> Iterator[Callable[[], tuple[Any, Any, Any]]]:
    """An engine, a worker in a thread and one in a process, of the same module with everything that has a state."""
    rng = np.random.default_rng(1)
    data = rng.standard_normal((40, *SHAPE)).astype(np.float32), rng.integers(0, CLASSES, 40)
    torch.manual_seed(3)
    engine, inside = made(Moody(dropout=0.4), data, "cpu", deterministic=True)
    _, outside = made(engine.template, data, "cpu", deterministic=True, processes=True)
    made_again = [outside]

    def workers() -> tuple[Any, Any, Any]:
        if made_again[0]._fault is not None:
            made_again[0] = made(engine.template, data, "cpu", deterministic=True, processes=True)[1]
        return engine, inside, made_again[0]

    yield workers
    made_again[0].close()


def same(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_kind_of_phase_has_the_bits_of_threads(pair: Any) -> None:
    engine, inside, outside = pair()
    start, order, sizes = engine.init(1), ORDER[:24], np.full(3, 8, np.uint32)
    for _, down, what in kinds(engine, CLASSES, start[0], 0.05):
        found = []
        for worker in (inside, outside):
            w, b = (part.copy() for part in start)
            worker.phase_begin(w, b, {**down, "seed": 5}, what)
            values, terms = worker.phase_run(0, order, sizes)
            worker.phase_end(w, b)
            found.append((w, b, values, terms))
        same(*found)


def test_steps_looks_and_scores_have_the_bits_of_threads(pair: Any) -> None:
    engine, inside, outside = pair()
    anchor = np.zeros(engine.plan.size, np.float32)
    terms = objective(({"share": 0.5}, {"name": "proximal", "anchor": anchor}))
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((8, *SHAPE)).astype(np.float32), rng.integers(0, CLASSES, 8)
    found = []
    for worker in (inside, outside):
        w, b = engine.init(1)
        seen: list[Any] = []
        worker.begin()
        for nth in range(3):
            worker.load(0, ORDER[nth * 8 :][:8])
            seen.append(worker.step(w, b, descent(momentum=0.9), terms))
        seen += worker.look(w, b)
        worker.take(x, y, 0.25, y[::-1].copy())
        # Two steps on one batch: it must still be there.
        seen += [worker.step(w, b, descent(momentum=0.9), terms) for _ in range(2)]
        worker.begin()
        worker.phase_begin(w, b, descent(momentum=0.9), terms)
        seen.append(worker.phase_batch(x, y))
        seen.append(worker.score(w, b, 0, np.arange(40, dtype=np.uint32)))
        seen += worker.phase_run(0, ORDER, SIZES)
        worker.phase_end(w, b)
        found.append([*seen, w, b])
    same(*found)


def test_what_a_phase_reads_outlasts_what_comes_in_between(pair: Any) -> None:
    engine, inside, outside = pair()
    start = engine.init(1)
    far = objective(({"factor": 0.5}, {"name": "proximal", "anchor": np.full_like(start[0], 3.0)}))
    near = objective(({"factor": 0.5}, {"name": "proximal", "anchor": start[0]}))
    found = []
    for worker in (inside, outside):
        w, b = (part.copy() for part in start)
        worker.phase_begin(w, b, descent(), far)
        worker.load(0, ORDER[:8])
        refused(lambda: worker.step(w, b, descent(), near), "a phase is under way")  # noqa: B023
        values, terms = worker.phase_run(0, ORDER, SIZES)
        worker.phase_end(w, b)
        found.append((w, b, values, terms))
    same(*found)


@pytest.mark.parametrize("last", [True, False])
def test_samples_have_the_layout_of_threads(last: bool) -> None:
    rng = np.random.default_rng(1)
    for shape in ((3, 8, 8), (1, 8, 8), (3, 1, 1)):
        engines = [ft.engine(processes=one).engine({"name": "mlp"}, None, shape, CLASSES) for one in (False, True)]
        for engine in engines:
            engine.plan = replace(engine.plan, channels_last=last)
        x, y = rng.standard_normal((5, *shape)).astype(np.float32), np.arange(5) % CLASSES
        for count in (5, 0, 3):
            for engine in engines:
                engine.put(count, x[:count], y[:count])
            assert engines[1]._shelf is not None
            there = engines[1]._shelf.place(count).tensors(engines[1]._shelf.samples)
            for one, other in zip(engines[0].samples(count, torch.device("cpu")), there):
                assert torch.equal(one, other) and one.stride() == other.stride()


def test_runs_have_the_fingerprints_of_threads(tmp_path: Path) -> None:
    data, test = blobs(160, 1, SHAPE, CLASSES), blobs(40, 2, SHAPE, CLASSES)
    given: dict[str, Any] = {
        "data": data, "test": test, "channels": "first", "clients": 4, "rounds": 2, "epochs": 1, "batch": 8, "threads": 2, "progress": False,
        "methods": ["fedavg", "ditto", formant.scd(lambda_p=5)], "min_samples": 4,
    }  # fmt: skip
    torch.manual_seed(3)
    module, found = Net(dropout=0.3), []
    for processes in (False, True):
        network = ft.network(module, deterministic=True, processes=processes)
        found.append(formant.run(**given, network=network, out=tmp_path / str(processes)).fingerprints)
    assert found[0] == found[1]


def test_errors_arrive_as_they_were_raised(pair: Any) -> None:
    engine, inside, outside = pair()
    w, b = engine.init(1)
    refused(lambda: outside.phase_run(0, ORDER, SIZES), "no phase is under way", "phase_begin()")
    refused(lambda: outside.score(w, b, 99, ORDER), "no samples were put under the key 99")
    refused(lambda: outside.score(w[:-1], b, 0, ORDER), "w is float32 of the shape")
    with pytest.raises(LookupError, match="five at once") as caught:
        outside.score(w, b, 0, ORDER[:5])
    # As from a thread, the line is that of the module, and what led there is told beside it.
    assert str(caught.traceback[-1].path) == __file__
    assert "in _do" in str(caught.value.__cause__)
    # It goes on.
    same([outside.score(w, b, 0, ORDER[:8])], [inside.score(w, b, 0, ORDER[:8])])


def test_a_process_that_dies_is_an_error_and_nothing_hangs(pair: Any) -> None:
    engine, _, outside = pair()
    w, b = engine.init(1)
    words = (f"worker process {outside._process.pid} was killed by signal 9", "in score()", "processes=False")
    for _ in range(2):
        refused(lambda: outside.score(w, b, 0, ORDER[:6]), *words)
    assert outside._process.poll() == -signal.SIGKILL


def test_a_run_ends_when_a_process_dies(tmp_path: Path) -> None:
    data, test = blobs(60, 1, SHAPE, CLASSES), blobs(20, 2, SHAPE, CLASSES)
    given: dict[str, Any] = {"channels": "first", "clients": 2, "rounds": 2, "batch": 6, "threads": 2, "progress": False, "min_samples": 4}
    network = ft.network(Moody(), processes=True)
    run = lambda: formant.run(data=data, test=test, methods=["fedavg"], network=network, out=tmp_path / "run", **given)  # noqa: E731
    refused(run, "was killed by signal 9", "processes=False")


def test_processes_end_with_their_workers(data: Any) -> None:
    engine, worker = made(Net(), data, "cpu", processes=True)
    worker.score(*engine.init(1), 0, ORDER)
    process = worker._process
    os.kill(process.pid, signal.SIGINT)  # Which is the parent's matter.
    worker.score(*engine.init(1), 0, ORDER)
    assert process.poll() is None
    del worker, engine
    gc.collect()
    assert process.poll() is not None


def test_processes_that_never_became_ready_end_too(data: Any) -> None:
    _, worker = made(Net(), data, "cpu", processes=True)
    process = worker._process
    del worker
    gc.collect()
    assert process.poll() is not None


ORPHAN = """
import sys
sys.path[:0] = {path!r}
import numpy as np
from test_processes import Moody
from torch_kit import made, SHAPE
engine, worker = made(Moody(), (np.zeros((8, *SHAPE), np.float32), np.zeros(8, np.int64)), "cpu", processes=True)
worker.score(*engine.init(1), 0, np.arange(7, dtype=np.uint32))
"""


def test_no_process_outlives_its_parent() -> None:
    here = Path(__file__).parent
    script = ORPHAN.format(path=[str(here), str(here.parent)])
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith("waiting")
    parent.kill()
    # The process has the other end of this pipe too: it is closed when both have ended.
    assert parent.communicate(timeout=PATIENCE)[0] == ""


INTERRUPTED = """
import signal, sys, formant, formant.torch
signal.signal(signal.SIGINT, signal.default_int_handler)
class Told(formant._run.Progress):
    def __call__(self, news):
        super().__call__(news)
        if '"round_finished"' in news:
            print("round", flush=True)
formant._run.Progress = Told
engine = formant.torch.engine(deterministic=True, processes=True)
formant.run(**eval(sys.argv[1]), out=sys.argv[2], progress=False, engine=engine)
"""


def test_ctrl_c_stops_at_a_checkpoint_and_threads_go_on_to_the_same_bits(tmp_path: Path) -> None:
    keywords: dict[str, Any] = {
        "data": "mnist-small", "clients": 4, "samples": 400, "network": "logistic", "methods": ["fedavg"], "rounds": 100,
        "checkpoint_every": 5, "epochs": 1, "evaluate_every": 100, "threads": 2,
    }  # fmt: skip
    folder = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, repr(keywords), str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "round\n"
    # A terminal tells everybody in the group.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert "Interrupted" in errors and "worker process" not in errors, errors
    assert not formant.Run.load(folder).complete
    threads = ft.engine(deterministic=True)
    resumed = formant.resume(folder, engine=threads, progress=False)
    whole = formant.run(**keywords, out=tmp_path / "whole", engine=threads, progress=False)
    assert resumed.fingerprints == whole.fingerprints


IN_MAIN = """
import formant.torch, torch
class Net(torch.nn.Sequential): pass
net = Net(torch.nn.Flatten(), torch.nn.Linear(4, 3))
formant.torch.network(net, processes=True).engine({"name": "module"}, None, (1, 2, 2), 3)
"""


def test_modules_that_cannot_be_sent_are_refused_by_name() -> None:
    found = subprocess.run([sys.executable, "-c", IN_MAIN], capture_output=True, text=True, check=False)
    assert "cannot import __main__.Net" in found.stderr and "processes=False" in found.stderr, found.stderr

    class Local(Net):
        pass

    odd = Net()
    odd.register_forward_hook(lambda *_: None)
    for module, word in ((Local(), "Local"), (odd, "lambda")):
        network = ft.network(module, processes=True)
        refused(lambda: network.engine({"name": "module"}, None, SHAPE, CLASSES), word, "processes=False")  # noqa: B023


def test_a_class_that_only_this_process_has_is_named(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = types.ModuleType("made_up_here")
    exec("from torch_kit import Net as Base\nclass Unfound(Base): pass", nowhere.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "made_up_here", nowhere)
    engine, worker = made(nowhere.Unfound(), data, "cpu", processes=True)
    words = ("cannot import made_up_here.Unfound", "No module named 'made_up_here'", "processes=False")
    for _ in range(2):
        refused(lambda: worker.score(*engine.init(1), 0, ORDER), *words)


def test_other_devices_are_refused() -> None:
    refused(lambda: _refuse_processes([torch.device("cpu"), torch.device("cuda")]), "the device is cuda", "leave processes out")


def test_what_is_set_for_the_process_is_set_there(data: Any) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        engine, worker = made(Settings(), data, "cpu", processes=True)
        w, b = engine.init(1)
        np.testing.assert_array_equal(worker.score(w, b, 0, ORDER[:1]), [[1.0, 2.0, 0.0]])
    finally:
        torch.set_float32_matmul_precision(before)


class Settings(torch.nn.Module):
    """Logits that say what is set; its head passes them on."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, CLASSES)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(3))
            self.fc.bias.zero_()

    def forward(self, x: Any) -> Any:
        told = [float(torch.get_float32_matmul_precision() == "medium"), 2.0, 0.0]
        return self.fc(torch.tensor(told).expand(len(x), 3) + 0.0 * x.mean((1, 2, 3))[:, None])


def test_check_works_with_it() -> None:
    found = ft.check(ft.network(Net(), processes=True), shape=SHAPE, classes=CLASSES, steps=2, verbose=False)
    assert found.ok and all(row.parameters == 0.0 for row in found.rows), str(found)


def test_the_command_line(tmp_path: Path) -> None:
    given = ["--method", "fedavg", "--set", "rounds=1", "--set", "data.samples=200", "--set", "data.clients=2", "--quiet"]
    found = []
    for name, more in (("threads", []), ("processes", ["--processes"])):
        out = tmp_path / name
        done = subprocess.run(
            [sys.executable, "-m", "formant", "run", *given, "--engine", "torch", *more, "--out", str(out)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(formant.Run.load(out).fingerprints)
    assert found[0] == found[1]
