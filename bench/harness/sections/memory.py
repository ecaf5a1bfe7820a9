"""Peak memory of a run of rounds, over all processes of an engine."""

from ..figures import number, shown, spread, table
from ..process import ALL_PROCESSES
from . import federation

ROUNDS = 2
MIB = 2**20


def measure(bench):
    raw = {}
    for method in federation.METHODS:
        # Memory hardly varies; two repetitions show that.
        raw[method] = bench.alternate(
            f"memory, {method}", federation.engines(bench, method, ROUNDS, memory=ALL_PROCESSES), min(2, bench.repetitions))
    return raw


def report(raw, _everything):
    names = [federation.OWN, federation.BY_TORCH, *federation.SCRIPTS]

    def cells(name, method):
        results = raw[method]["results"].get(name)
        if not results:
            return ["—", "—", "—"]
        peaks = [result["peak_bytes"] / MIB for result in results]
        ours = [result["peak_bytes"] / MIB for result in raw[method]["results"]["Formant"]]
        ratio = spread(peaks)["median"] / spread(ours)["median"]
        return [shown(spread(peaks)), str(max(r["peak_processes"] for r in results)), number(ratio)]

    rows = [[name, *(cell for method in federation.METHODS for cell in cells(name, method))] for name in names]
    header = [""]
    for title in federation.METHODS.values():
        header += [f"{title}, MiB", "processes", "over Formant's"]
    return table(header, rows) + (
        "\nThe greatest sum of the proportional set sizes (`Pss` of `/proc/PID/smaps_rollup`) of all processes of the "
        "engine, sampled five times a second in runs of their own. Pages that several processes share count once, so "
        "no engine pays twice for PyTorch's libraries or for shared weights.\n"
    )
