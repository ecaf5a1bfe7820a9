"""The machine: what it is, and what else it is doing."""

import os
import platform
import time


def describe(cores):
    model, memory = platform.processor() or "unknown", "unknown"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as lines:
        memory = f"{int(lines.readline().split()[1]) / 2**20:.1f} GiB"
    flags = [flag for flag in ("avx2", "fma", "avx512f") if flag in open("/proc/cpuinfo").read().split()]
    return {
        "cpu": model, "vector_extensions": flags, "cores_of_machine": os.cpu_count(), "cores_used": len(cores),
        "memory": memory, "system": f"{platform.system()} {platform.release()}",
    }


def _ticks():
    """Busy and all ticks of all cores; what a hypervisor takes away counts as busy."""
    with open("/proc/stat") as lines:
        ticks = [int(word) for word in lines.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def foreign_load(seconds=0.3):
    """Share of the machine that somebody else uses, watched while this benchmark does nothing."""
    busy, total = _ticks()
    time.sleep(seconds)
    later_busy, later_total = _ticks()
    return (later_busy - busy) / max(1, later_total - total)


def wait_until_quiet(patience, limit=0.05):
    """Waits until the machine is quiet, at most `patience` seconds; gives the load that was left."""
    deadline = time.monotonic() + patience
    while True:
        load = foreign_load()
        if load <= limit or time.monotonic() >= deadline:
            return load
