"""What the engine adds to a tuned hand-written PyTorch loop: steps of FedAvg and Ditto on one core.

Both train Formant's ``cnn`` on the same batches, in turns, in one process; the medians' ratio is what counts. The loop has whatever
a careful author gives it: channels last, fused SGD, no gradient tensors kept, no waiting for the loss.

    python bench/steps.py [--device cpu] [--rounds 15] [--steps 10] [--batches 10 32]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import formant.torch as ft
from formant.torch import _catalogue

SHAPE, CLASSES, SAMPLES, RATE, PULL = (3, 32, 32), 10, 1000, 0.01, 0.1
Run = Callable[[np.ndarray, int], None]


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def by_hand(x: torch.Tensor, y: torch.Tensor, momentum: float, pulls: bool) -> Run:
    """The loop as one would write it for speed."""
    device = x.device
    module = _catalogue.build({"name": "cnn"}, SHAPE, CLASSES).to(device)
    if device.type == "cpu":
        module, x = module.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    rows = x.permute(0, 2, 3, 1)
    last = device.type == "cpu"
    parameters = list(module.parameters())
    anchor = [p.detach().clone() for p in parameters]
    optimiser = torch.optim.SGD(parameters, RATE, momentum=momentum, fused=True)

    def run(order: np.ndarray, batch: int) -> None:
        total = torch.zeros((), device=device)
        for at in torch.from_numpy(order.astype(np.int64)).to(device).split(batch):
            inputs = rows.index_select(0, at).permute(0, 3, 1, 2) if last else x.index_select(0, at)
            optimiser.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(module(inputs), y.index_select(0, at))
            loss.backward()
            if pulls:
                with torch.no_grad():
                    gradients = [p.grad for p in parameters]
                    torch._foreach_add_(gradients, torch._foreach_sub(parameters, anchor), alpha=PULL)
            optimiser.step()
            total += loss.detach()
        total.item()

    return run


def by_engine(x: torch.Tensor, y: torch.Tensor, device: str, momentum: float, pulls: bool) -> Run:
    """A phase."""
    engine = ft.engine(device).engine({"name": "cnn"}, None, SHAPE, CLASSES)
    engine.put(0, x.numpy(), y.numpy())
    worker = engine.worker(32)
    w, b = engine.init(0)
    rule = {"name": "sgd", "momentum": momentum}
    descent = {"part": "all", "learning_rate": RATE, "weight_decay": 0.0, "clip": None, "rule": rule}
    terms = [{"weight": {"factor": PULL}, "term": {"name": "proximal", "anchor": w.copy()}}] if pulls else []
    objective = {"loss": {"name": "cross_entropy"}, "smoothing": 0.0, "weights": None, "terms": terms}

    def run(order: np.ndarray, batch: int) -> None:
        worker.phase_begin(w, b, descent, objective)
        worker.phase_run(0, order, np.full(len(order) // batch, batch, np.uint32))
        worker.phase_end(w, b)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batches", type=int, nargs="+", default=[10, 32])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.standard_normal((SAMPLES, *SHAPE)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, CLASSES, SAMPLES))
    device = torch.device(options.device)
    # One thread computes, so its own time is what a step costs even where others compute as well.
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    print(f"cnn {SHAPE} on {device}, torch {torch.__version__}: milliseconds a step, medians of {options.rounds}")
    print(f"{'phase':<24}{'batch':>6}{'by hand':>10}{'engine':>10}{'ratio':>8}{'paired':>8}")
    for name, momentum, pulls in [("fedavg", 0.0, False), ("fedavg, momentum", 0.9, False), ("ditto", 0.0, True)]:
        runs = [by_hand(x.to(device), y.to(device), momentum, pulls), by_engine(x, y, options.device, momentum, pulls)]
        for batch in options.batches:
            times: list[list[float]] = [[], []]
            for turn in range(options.rounds + 2):
                order = rng.integers(0, SAMPLES, options.steps * batch).astype(np.uint32)
                for which in (0, 1) if turn % 2 else (1, 0):
                    synchronise(device)
                    began = clock()
                    runs[which](order, batch)
                    synchronise(device)
                    times[which].append((clock() - began) / options.steps * 1e3)
            hand, engine = (t[2:] for t in times)
            paired = statistics.median(e / h for e, h in zip(engine, hand))
            a, b = statistics.median(hand), statistics.median(engine)
            print(f"{name:<24}{batch:>6}{a:>10.2f}{b:>10.2f}{b / a:>8.3f}{paired:>8.3f}", flush=True)


if __name__ == "__main__":
    main()
