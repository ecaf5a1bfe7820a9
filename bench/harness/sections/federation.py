"""Whole rounds: the one federation that every engine simulates."""

import json
import shutil

from ..failure import Failure

CLIENTS, TRAIN, TEST, GLOBAL_TEST, BATCH = 100, 100, 25, 1_000, 10
LEARNING_RATE, PROXIMAL = 0.05, 0.1
METHODS = {"fedavg": "FedAvg", "ditto": "Ditto"}
OWN, BY_TORCH = "Formant", "Formant, by PyTorch"
LOOP, FLOWER, PFL = "PyTorch loop", "Flower", "pfl"
# What --engines calls them, and what only they need of requirements.txt.
PEERS = {"torch": BY_TORCH, "loop": LOOP, "flower": FLOWER, "pfl": PFL}
PACKAGES = {"flower": "flwr", "pfl": "pfl"}
SCRIPTS = {LOOP: "torch_loop.py", FLOWER: "flower_rounds.py", PFL: "pfl_rounds.py"}

EXPERIMENT = """\
name = "bench"
seed = 1
rounds = {rounds}

[data]
dataset = "{dataset}"
dir = "{folder}"
clients = {clients}
partition = "iid"
min_samples = 2
train_fraction = {train_fraction}
{more_data}
[network]
name = "{network}"

[train]
batch = {batch}
epochs = 1
personal_epochs = 1
learning_rate = {learning_rate}

[evaluation]
every = {evaluate_every}

[runtime]
threads = {threads}
memory = "{memory}"
keep = "none"

[[method]]
name = "{method}"
{more_method}"""


def experiment(bench, **settings):
    """Writes an experiment file."""
    method = settings["method"]
    filled = {
        "dataset": "cifar10", "network": "cnn", "batch": BATCH, "learning_rate": LEARNING_RATE, "more_data": "",
        "evaluate_every": 1, "threads": len(bench.cores), "memory": "8GiB",
        "more_method": f"lambda = {PROXIMAL}\n" if method == "ditto" else "", **settings,
    }
    path = bench.folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(**filled))
    return path


def data(bench, layout="cifar", train=CLIENTS * (TRAIN + TEST), test=GLOBAL_TEST):
    """A folder of images, made at the first call."""
    folder = bench.folder / f"{layout}-{train}"
    if not folder.exists():
        bench.peer("dataset.py", layout, "--folder", folder, "--train", train, "--test", test)
    return folder


def run_formant(bench, path, memory=None, by_torch=False):
    """Runs an experiment with the product itself; its rounds from the event log."""
    out = bench.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = ["run", path, "--out", out, "--json", "--quiet"]
    if by_torch:
        result = bench.formant_in_python(*command, "--engine", "torch", "--processes", memory=memory)
    else:
        result = bench.formant(*command, memory=memory)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    shutil.rmtree(out, ignore_errors=True)
    started = events[0]
    failed = [event for event in events if event["event"] == "client_failed"]
    if failed:
        raise Failure(f"a client failed: {failed[0]['error']}", "lower LEARNING_RATE in bench/harness/sections")
    scored = sum(client["test"] for client in started["clients"]) + started["global_test"]
    rounds = []
    for event in events:
        if event["event"] == "round_started":
            trained = 0
        elif event["event"] == "phase_done":
            trained += event["samples"]
        elif event["event"] == "round_finished":
            rounds.append({"training_seconds": event["seconds"], "images_trained": trained,
                           "evaluation_seconds": None, "images_scored": 0, "gm_accuracy": None})
        elif event["event"] == "evaluated":
            rounds[-1].update(evaluation_seconds=event["seconds"], images_scored=scored,
                              gm_accuracy=event["gm"]["accuracy"])
    return {
        "rounds": rounds, "clients": started["clients"], "wall_seconds": result["wall_seconds"],
        # The process is done a little after its round is: this counts the whole of it.
        "first_round_done": result["started_at"] + result["wall_seconds"], "started_at": result["started_at"],
        **{key: result[key] for key in ("peak_bytes", "peak_processes") if key in result},
    }


def engines(bench, method, rounds, memory=None):
    """By name: a function that simulates some rounds in a fresh process."""
    folder = data(bench)

    def formant(by_torch=False):
        path = experiment(bench, method=method, rounds=rounds, folder=folder, clients=CLIENTS,
                          train_fraction=TRAIN / (TRAIN + TEST))
        result = run_formant(bench, path, memory, by_torch)
        if any(client != {"train": TRAIN, "test": TEST} for client in result.pop("clients")):
            raise Failure("Formant's clients do not hold what the peers' do", "this is a bug of the bench")
        return result

    found = {OWN: formant, BY_TORCH: lambda: formant(by_torch=True)}
    for name, script in SCRIPTS.items():
        if name == PFL and method != "fedavg":
            continue  # pfl has no Ditto
        found[name] = lambda script=script: bench.peer(
            script, "--data", folder, "--method", method, "--rounds", rounds, "--clients", CLIENTS,
            "--train", TRAIN, "--test", TEST, "--batch", BATCH, "--learning-rate", LEARNING_RATE,
            "--proximal", PROXIMAL, "--processes", len(bench.cores), memory=memory)
    wanted = {OWN, *(PEERS[name] for name in bench.engines)}
    return {name: run for name, run in found.items() if name in wanted}


def check_same_work(raw):
    """Every engine trained and scored the same numbers of images in every round, or the comparison is void."""
    counts = {
        name: {(r["images_trained"], r["images_scored"]) for result in results for r in result["rounds"]}
        for name, results in raw["results"].items()
    }
    if len(set().union(*counts.values())) != 1:
        raise Failure(f"the engines did different work: {counts}", "this is a bug of the bench")
