"""What the tests of the PyTorch engine share: small modules, engines, phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import formant.torch as ft

SHAPE, CLASSES, SAMPLES = (2, 6, 6), 3, 40


class Net(torch.nn.Module):
    """Convolution, batch norm, dropout, a head that is not the last parameter by name."""

    def __init__(self, dropout: float = 0.0, norm: bool = True) -> None:
        super().__init__()
        self.head = torch.nn.Linear(5, CLASSES)
        self.conv = torch.nn.Conv2d(SHAPE[0], 4, 3)
        self.norm = torch.nn.BatchNorm2d(4) if norm else torch.nn.Identity()
        self.drop = torch.nn.Dropout(dropout)
        self.fc = torch.nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)
        return self.head(torch.relu(self.fc(self.drop(x))))


def made(module: Any, data: Any, device: str, **options: Any) -> Any:
    """An engine that has the samples under the key 0, and a worker."""
    engine = ft.network(module, device=device, **options).engine({"name": "module"}, None, SHAPE, CLASSES)
    engine.put(0, *data)
    return engine, engine.worker(8)


def descent(part: str = "all", rate: float = 0.1, momentum: float = 0.0, **changed: Any) -> dict[str, Any]:
    rule = {"name": "sgd", "momentum": momentum}
    return {"part": part, "learning_rate": rate, "weight_decay": 0.0, "clip": None, "rule": rule, **changed}


def objective(*terms: Any, **changed: Any) -> dict[str, Any]:
    weighted = [{"weight": weight, "term": term} for weight, term in terms]
    return {"loss": {"name": "cross_entropy"}, "smoothing": 0.0, "weights": None, "terms": weighted, **changed}


ORDER = np.random.default_rng(2).permutation(SAMPLES)[:28].astype(np.uint32)
SIZES = np.array([8, 8, 8, 4], np.uint32)


def phase(worker: Any, model: Any, down: Any, what: Any) -> Any:
    """The model after a phase, and what the steps gave."""
    w, b = (part.copy() for part in model)
    worker.phase_begin(w, b, down, what)
    values, terms = worker.phase_run(0, ORDER, SIZES)
    worker.phase_end(w, b)
    return w, b, values, terms
