"""Images a second of one PyTorch training step, for the networks of `cargo bench --bench training_step`.

Same work: random images, cross-entropy, plain SGD, one worker with one thread, eager mode, with and without
channels_last; the best of several repetitions of each, as CPU time of the process, so that other work on the
machine counts less. usage: python bench/pytorch_step.py   (needs: pip install torch)
"""

import time

import torch
from torch import nn


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, 10),
    )


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x):
        return torch.relu(self.main(x) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for stage, width in enumerate([64, 128, 256, 512]):
        for index in range(2):
            layers.append(Block(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def images_per_second(model, batch, steps, repeats, layout):
    model = model.to(memory_format=layout)
    inputs = torch.randn(batch, 3, 32, 32).to(memory_format=layout)
    labels = torch.arange(batch) % 10
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    best = float("inf")
    for repeat in range(repeats + 1):
        start = time.process_time()
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimiser.step()
        if repeat:  # the first one warms up
            best = min(best, time.process_time() - start)
    return batch * steps / best


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, one thread, images/s")
    for name, make, batch, steps in [("cnn", cnn, 10, 30), ("cnn", cnn, 64, 6), ("resnet18", resnet18, 32, 1)]:
        plain = images_per_second(make(), batch, steps, 5, torch.contiguous_format)
        last = images_per_second(make(), batch, steps, 5, torch.channels_last)
        print(f"{name:9} batch {batch:3}  {plain:8.1f}  channels_last {last:8.1f}")
