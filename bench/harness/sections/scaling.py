"""How the cost of a round grows with clients, with cores and with parameters: Formant alone."""

import dataclasses

from ..figures import ratios, shown, spread, table
from ..process import ONE_PROCESS
from . import federation

MIB = 2**20
ROUNDS = 3
LIMITED = ", limited memory"
# The largest sets that the loaders accept.
MNIST, CIFAR = 60_000, 50_000


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: the federation and how much of it may stay in memory."""

    network: str
    clients: int
    images: int
    train: float
    threads: int
    limited: bool

    @property
    def label(self):
        cores = f"{self.threads} core{'s' * (self.threads > 1)}"
        return f"{self.network}, {self.clients:,} clients × {self.images}, {cores}" + (LIMITED if self.limited else "")


def cases(bench):
    cores = len(bench.cores)
    # The same images, divided among more and more clients.
    for clients in (10, 100, 1_000, 10_000):
        yield Case("lenet5", clients, MNIST // clients, 5 / 6, cores, limited=False)
    yield Case("lenet5", 10_000, MNIST // 10_000, 5 / 6, cores, limited=True)
    # As many images for each of more and more clients.
    for clients in (10, 100, 1_000):
        yield Case("cnn", clients, CIFAR // 1_000, 0.8, cores, limited=False)
    yield Case("cnn", 1_000, CIFAR // 1_000, 0.8, cores, limited=True)
    yield Case("cnn", 100, CIFAR // 1_000, 0.8, 1, limited=False)


def rounds(bench, case):
    layout, total = ("mnist", MNIST) if case.network == "lenet5" else ("cifar", CIFAR)
    path = federation.experiment(
        bench, method="ditto", rounds=ROUNDS, network=case.network, clients=case.clients, train_fraction=case.train,
        dataset={"mnist": "mnist", "cifar": "cifar10"}[layout], folder=federation.data(bench, layout, total),
        more_data=f"samples = {case.clients * case.images}\n", evaluate_every=1000, threads=case.threads,
        memory=bench.memory if case.limited else "64GiB")
    result = federation.run_formant(bench, path, memory=ONE_PROCESS)
    result.pop("clients")
    return result


def measure(bench):
    engines = {f"Formant, {case.label}": lambda case=case: rounds(bench, case) for case in cases(bench)}
    raw = {"memory": bench.memory}
    raw["clients"] = bench.alternate("scaling", engines, min(3, bench.repetitions))
    networks = ["logistic", "mlp", "lenet5", "cnn", "resnet18"]
    raw["parameters"] = bench.alternate("scaling", {
        f"Formant, {name}": lambda name=name: bench.formant_bench(
            "steps", "--network", name, "--batch", 10, "--workers", 1, "--seconds", bench.seconds(3))
        for name in networks
    }, min(3, bench.repetitions))
    return raw


def round_seconds(results):
    """By repetition; the first round, which makes the states, does not count."""
    return [spread(r["training_seconds"] for r in result["rounds"][1:])["median"] for result in results]


def report(raw, _everything):
    rows, losses = [], ""
    for name, results in raw["clients"]["results"].items():
        seconds = round_seconds(results)
        if name.endswith(LIMITED):
            free = round_seconds(raw["clients"]["results"][name.removesuffix(LIMITED)])
            losses += f"- {name.removeprefix('Formant, ')}: {shown(ratios(seconds, free))} times the seconds without a limit\n"
        trained = results[0]["rounds"][0]["images_trained"]
        rows.append([
            name.removeprefix("Formant, "), f"{trained:,}", shown(spread(seconds)),
            shown(spread(trained / s for s in seconds)),
            shown(spread(result["peak_bytes"] / MIB for result in results)),
        ])
    text = "Ditto, batch 10, one epoch a phase, all clients:\n\n" + table(
        ["", "images trained a round", "seconds a round", "images/s", "peak MiB"], rows)
    text += (
        f"\n`limited memory`: `runtime.memory = \"{raw['memory']}\"`; the states beyond it lie on disk. The peak is "
        "the process's greatest resident set (`VmHWM`), which does not contain the system's cache of files.\n"
        f"\n{losses}"
        "\nSteps of one worker at batch 10 on 3x32x32 images, by network:\n\n"
    )
    rows = []
    for name, results in raw["parameters"]["results"].items():
        rate = spread(result["images_per_second"] for result in results)
        rows.append([
            name.removeprefix("Formant, "), f"{results[0]['parameters']:,}", shown(rate),
            shown(spread(1e3 / result["steps_per_second"] for result in results)),
        ])
    return text + table(["", "parameters", "images/s", "ms a step"], rows)
