"""The federation that every engine simulates: who holds which images, and what a round is."""

import argparse
import dataclasses
import json
import pathlib
import time

from dataset import CIFAR_FOLDER, cifar

LAYOUT_HELP = "folder that dataset.py wrote"


@dataclasses.dataclass
class Plan:
    """The work. Formant's experiment file, which bench/run writes, says the same."""

    data: str
    method: str
    rounds: int
    clients: int
    train: int
    test: int
    batch: int
    learning_rate: float
    proximal: float
    processes: int

    @staticmethod
    def parse(description):
        arguments = argparse.ArgumentParser(description=description)
        arguments.add_argument("--data", required=True, help=LAYOUT_HELP)
        arguments.add_argument("--method", choices=["fedavg", "ditto"], required=True)
        arguments.add_argument("--rounds", type=int, required=True)
        arguments.add_argument("--clients", type=int, default=100)
        arguments.add_argument("--train", type=int, default=100, help="training images of a client")
        arguments.add_argument("--test", type=int, default=25, help="test images of a client")
        arguments.add_argument("--batch", type=int, default=10)
        arguments.add_argument("--learning-rate", type=float, default=0.05)
        arguments.add_argument("--proximal", type=float, default=0.1, help="Ditto's lambda")
        arguments.add_argument("--processes", type=int, default=2)
        return Plan(**vars(arguments.parse_args()))

    def load(self):
        """Everything in memory as floats, channels last: client by client, and the global test set."""
        import torch

        (pixels, labels), test = cifar(self.data)
        each = self.train + self.test
        assert len(pixels) == self.clients * each, f"{len(pixels)} images for {self.clients} clients of {each}"
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        holdings = []
        for client in range(self.clients):
            start, middle, end = client * each, client * each + self.train, (client + 1) * each
            holdings.append(((pixels[start:middle], labels[start:middle]), (pixels[middle:end], labels[middle:end])))
        return holdings, (test[0].contiguous(memory_format=torch.channels_last), test[1])


    def load_test_size(self):
        """Images of the global test set, without reading them."""
        return (pathlib.Path(self.data) / CIFAR_FOLDER / "test_batch.bin").stat().st_size // 3073


class Log:
    """What happened when, as one JSON object at the end. Times of day, so that bench/run can count from the start
    of the process."""

    def __init__(self):
        self.rounds = []
        self.first_round_done = None

    def round(self, training, evaluation, images_trained, images_scored, accuracy):
        if self.first_round_done is None:
            self.first_round_done = time.time()
        self.rounds.append({
            "training_seconds": training, "evaluation_seconds": evaluation,
            "images_trained": images_trained, "images_scored": images_scored, "gm_accuracy": accuracy,
        })

    def print(self):
        print(json.dumps({"first_round_done": self.first_round_done, "rounds": self.rounds}), flush=True)
