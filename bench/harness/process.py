"""One measurement: a fresh process, its JSON, its wall-clock and, where asked for, its memory."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid

from .failure import MeasurementFailed

MARK = "FORMANT_BENCH_MEASUREMENT"
SAMPLING_SECONDS = 0.2
# What of an engine's memory is watched.
ALL_PROCESSES, ONE_PROCESS = "all processes", "one process"


def _marked(mark, known):
    """Ids of all living processes that carry the mark in their environment, wherever they were re-parented."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        if pid not in known:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    known[pid] = mark in file.read()
            except OSError:
                continue
        if known[pid]:
            found.append(pid)
    return found


def _proportional(pid):
    """Proportional set size in bytes: pages that several processes share count once in a sum."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            for line in lines:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _high_water_mark(pid):
    """Greatest resident set so far in bytes, which the kernel keeps: reading it costs the process nothing."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class HighWaterMark(threading.Thread):
    """Watches one process that starts no others, cheaply enough to take its time as well."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.processes, self.done = pid, 0, 1, threading.Event()

    def run(self):
        while not self.done.wait(SAMPLING_SECONDS):
            self.peak = max(self.peak, _high_water_mark(self.pid))


class MemorySampler(threading.Thread):
    """Watches the sum over all processes of a measurement."""

    def __init__(self, mark):
        super().__init__(daemon=True)
        self.mark, self.peak, self.processes, self.done = mark, 0, 0, threading.Event()

    def run(self):
        known = {}  # a process's environment is its parent's from the first moment on, so one look is enough
        while not self.done.wait(SAMPLING_SECONDS):
            pids = _marked(self.mark, known)
            total = sum(_proportional(pid) for pid in pids)
            if total > self.peak:
                self.peak, self.processes = total, len(pids)


def _end_leftovers(mark):
    """Daemons that a peer leaves behind would load the machine during the next measurement."""
    for pid in _marked(mark, {}):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _last_object(output):
    """The whole output, or its last line: peers print other things before."""
    for text in (output, output.strip().rpartition("\n")[2]):
        try:
            return json.loads(text)
        except ValueError:
            pass
    raise MeasurementFailed("printed no JSON")


def run(command, cores, folder, timeout, memory=None):
    """Runs a command on the given cores; it ends by printing a JSON object."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, MARK: mark, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1",
                   "RAY_TMPDIR": str(folder)}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "PYTHONPATH"):
        environment.pop(name, None)  # every engine sets its own
    log = folder / "measurement.log"
    sampler = None
    with open(log, "w") as errors:
        started_at, started = time.time(), time.perf_counter()
        child = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder,
            env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        if memory:
            sampler = MemorySampler(mark.encode()) if memory == ALL_PROCESSES else HighWaterMark(child.pid)
            sampler.start()
        try:
            output, _ = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise MeasurementFailed(f"took longer than {timeout} s") from None
        finally:
            wall = time.perf_counter() - started
            if sampler:
                sampler.done.set()
                sampler.join()
            _end_leftovers(mark.encode())
    if child.returncode != 0:
        tail = log.read_text(errors="replace").strip().splitlines()[-4:]
        raise MeasurementFailed(f"exit code {child.returncode}: " + " / ".join(tail))
    result = _last_object(output)
    result.update(wall_seconds=wall, started_at=started_at)
    if sampler:
        result.update(peak_bytes=sampler.peak, peak_processes=sampler.processes)
    return result
