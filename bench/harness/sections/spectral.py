"""The spectral term: what it adds to a step."""

from ..figures import percent, shown, spread, table
from .steps import CASES

PARAMETERS = {"cnn": 878_538, "resnet18": 11_173_962}
GOALS = {("cnn", 64): 0.15, ("resnet18", 32): 0.05}
# A new option of Formant's term gets a line here, and its own row in the tables.
FORMANT = [("exact", []), ("fast", ["--length", "fast"])]
SECONDS = {"cnn": 2.5, "resnet18": 8.0}


def fast_length(least):
    """The smallest length from `least` on with no prime factor above 5: what any FFT is good at."""
    best = 1 << (least - 1).bit_length()
    power5 = 1
    while power5 < best:
        power3 = power5
        while power3 < best:
            length = power3
            while length < least:
                length *= 2
            best = min(best, length)
            power3 *= 3
        power5 *= 5
    return best


def torch_variants(network):
    length = ["--length", fast_length(PARAMETERS[network])]
    for label, options in [("exact", []), ("padded", length)]:
        yield f"PyTorch, {label}, 2 processes", [*options, "--processes", 2]


def measure(bench):
    raw = {}
    for network, batch, _ in CASES:
        work = ["--network", network, "--batch", batch, "--seconds", bench.seconds(SECONDS[network])]
        engines = {}
        for label, options in FORMANT:
            for workers in (1, 2):
                engines[f"Formant, {label}, {workers} worker{'s' * (workers > 1)}"] = (
                    lambda options=options, n=workers: bench.formant_bench(
                        "spectral", *work, "--scope", "flat", "--form", "normalized", *options, "--workers", n))
        for name, options in torch_variants(network):
            engines[name] = lambda options=options: bench.peer("spectral.py", *work, "--channels-last", *options)
        raw[f"{network}, batch {batch}"] = bench.alternate(f"spectral, {network}, batch {batch}", engines)
    return raw


def report(raw, _everything):
    text = ""
    for network, batch, _ in CASES:
        case = f"{network}, batch {batch}"
        rows = []
        for name, results in raw[case]["results"].items():
            figures = [spread(r[key] for r in results) for key in ("step_ms", "step_with_term_ms", "term_ms")]
            overhead = spread(r["overhead"] for r in results)
            rows.append([name, *(shown(figure) for figure in figures),
                         f"{percent(overhead['median'])} ({percent(overhead['min'])}–{percent(overhead['max'])})"])
        goal = GOALS.get((network, batch))
        text += f"\n{case}, {PARAMETERS[network]:,} parameters" + (f", goal {percent(goal)}" if goal else "") + ":\n\n"
        text += table(["", "step ms", "step with the term ms", "term alone ms", "added to the step"], rows)
        for name, why in raw[case]["failures"].items():
            text += f"\n- {name} failed: {why}\n"
    return text + (
        "\nNormalised KL divergence of the whole spectrum of the flattened weights, value and gradient. Times are of "
        "one worker or process while the others work too. `padded`: weights padded with zeros to the next length "
        "without prime factors above 5, a finer sampling of the same spectrum. PyTorch runs with channels_last.\n"
    )
