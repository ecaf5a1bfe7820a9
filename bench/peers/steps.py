"""Training steps of PyTorch in eager mode: forward, cross-entropy, backward, plain SGD."""

import argparse
import json

from crew import repeat, together

LEARNING_RATE = 1e-4  # Formant's measurement uses the same, so that no loss becomes denormal


def trainer(network, batch, channels_last):
    """A closure that makes one step on random images and gives the loss."""
    import torch
    from torch import nn

    from networks import build

    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = build(network).to(memory_format=layout)
    inputs = torch.randn(batch, 3, 32, 32).to(memory_format=layout)
    labels = torch.randint(10, (batch,))
    # The fused step is one pass over the weights, the fastest that PyTorch has for a processor.
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def member(barrier, network, batch, channels_last, warm_up, seconds):
    step = trainer(network, batch, channels_last)
    repeat(step, warm_up)
    barrier.wait()
    count, elapsed = repeat(step, seconds)
    return count, elapsed, float(step())


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--network", default="cnn")
    arguments.add_argument("--batch", type=int, default=10)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--channels-last", action="store_true")
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--warm-up", type=float, default=1.0)
    given = arguments.parse_args()
    done = together(
        member, given.processes, given.threads,
        given.network, given.batch, given.channels_last, given.warm_up, given.seconds,
    )
    steps_per_second = sum(count / elapsed for count, elapsed, _ in done)
    print(json.dumps({
        "steps": sum(count for count, _, _ in done),
        "steps_per_second": steps_per_second,
        "images_per_second": steps_per_second * given.batch,
        "objective": max(loss for _, _, loss in done),
    }))


if __name__ == "__main__":
    main()
