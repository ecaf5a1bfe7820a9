"""Training steps: images a second."""

from ..figures import number, percent, ratios, shown, spread, table
from . import sgemm

CASES = [("cnn", 10, 2.5), ("cnn", 64, 3.0), ("resnet18", 32, 8.0)]
GOALS = {("cnn", 10): 1.6, ("cnn", 64): 1.4, ("resnet18", 32): 1.3}
# Of one image in one step: forward and both backward passes, without the input gradient of the first layer.
MEGAFLOP = {"cnn": 43.2, "resnet18": 3330.0}
OURS = "Formant, 2 workers"


def torch_configurations():
    for label, options in [("1 thread", []), ("2 threads", ["--threads", 2]), ("2 processes", ["--processes", 2])]:
        yield f"PyTorch, {label}", options
        yield f"PyTorch, {label}, channels_last", [*options, "--channels-last"]


def measure(bench):
    raw = {}
    for network, batch, seconds in CASES:
        work = ["--network", network, "--batch", batch, "--seconds", bench.seconds(seconds)]
        engines = {
            f"Formant, {n} worker{'s' * (n > 1)}": lambda n=n: bench.formant_bench("steps", *work, "--workers", n)
            for n in (1, 2)
        }
        for name, options in torch_configurations():
            engines[name] = lambda options=options: bench.peer("steps.py", *work, *options)
        raw[f"{network}, batch {batch}"] = bench.alternate(f"steps, {network}, batch {batch}", engines)
    return raw


def rates(raw, case):
    return {
        name: [result["images_per_second"] for result in results] for name, results in raw[case]["results"].items()
    }


def best_peer(found):
    peers = {name: spread(values)["median"] for name, values in found.items() if name.startswith("PyTorch")}
    return max(peers, key=peers.get)


def report(raw, everything):
    peak = sgemm.peaks(everything["sgemm"])[2]
    summary, details = [], ""
    for network, batch, _ in CASES:
        case = f"{network}, batch {batch}"
        found = rates(raw, case)
        best = best_peer(found)
        ratio = ratios(found[OURS], found[best])

        def share(name):
            return percent(spread(found[name])["median"] * MEGAFLOP[network] / 1e3 / peak)

        summary.append([
            case, shown(spread(found[OURS])), shown(spread(found[best])), best.removeprefix("PyTorch, "),
            "**" + number(ratio["median"]) + f"** ({number(ratio['min'])}–{number(ratio['max'])})",
            number(GOALS[network, batch]), share(OURS), share(best),
        ])
        rows = [[name, shown(spread(values)), shown(ratios(found[OURS], values))] for name, values in found.items()]
        details += f"\n{case}:\n\n" + table(["engine", "images/s", "Formant, 2 workers, over it"], rows)
    return (
        table(["", "Formant", "best PyTorch", "which one", "ratio", "goal", "Formant of peak", "PyTorch of peak"], summary)
        + details
    )
