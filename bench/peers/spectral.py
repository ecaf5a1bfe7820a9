"""The spectral term in PyTorch: rfft of the flattened weights, divergence and gradient by autograd.

The same function as Formant's `normalized` form over the whole spectrum: with `p` and `q` the magnitudes of
student and teacher over all d entries of the full transform, `P = p/Σp` and `Q = q/Σq`, it is `Σ P log(P/Q)`.
With `--length N` the weights are padded with zeros to a length that is faster to transform.
"""

import argparse
import json

from crew import repeat, together
from steps import LEARNING_RATE

LAMBDA = 1.0
TURNS = 3  # between steps without and with the term, so that drift of the machine hits both


def pupil(network, batch, channels_last, length):
    """Three closures: a plain step, a step with the term, the term with its gradient alone."""
    import torch
    from torch import nn

    from networks import build

    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = build(network).to(memory_format=layout)
    parameters = list(model.parameters())
    inputs = torch.randn(batch, 3, 32, 32).to(memory_format=layout)
    labels = torch.randint(10, (batch,))
    optimiser = torch.optim.SGD(parameters, lr=LEARNING_RATE, fused=True)

    def flat(weights):
        return torch.cat([weight.reshape(-1) for weight in weights])

    def magnitudes(weights):
        return torch.fft.rfft(flat(weights), n=length).abs()

    length = length or sum(weight.numel() for weight in parameters)
    with torch.no_grad():
        # All bins stand twice in the full spectrum, but for the first and, at an even length, the last.
        multiplicity = torch.full((length // 2 + 1,), 2.0)
        multiplicity[0] = 1.0
        if length % 2 == 0:
            multiplicity[-1] = 1.0
        teacher = magnitudes(build(network).parameters()).clamp_(min=1e-30)
        log_teacher = torch.log(teacher / (multiplicity * teacher).sum())

    def divergence():
        student = magnitudes(parameters)
        total = (multiplicity * student).sum()
        log_ratio = torch.log(student.clamp(min=1e-30) / total) - log_teacher
        return (multiplicity * student * log_ratio).sum() / total

    def step(term):
        optimiser.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        if term:
            loss = loss + LAMBDA * divergence()
        loss.backward()
        optimiser.step()
        return loss.detach()

    def alone():
        optimiser.zero_grad(set_to_none=True)
        divergence().backward()

    return (lambda: step(False)), (lambda: step(True)), alone


def member(barrier, network, batch, channels_last, length, warm_up, seconds):
    works = pupil(network, batch, channels_last, length)
    tallies = [[], [], []]
    for turn in range(TURNS):
        for work, tally in zip(works, tallies):
            if turn == 0:
                repeat(work, warm_up)
            barrier.wait()
            tally.append(repeat(work, seconds / TURNS))
    return tallies, float(works[1]())


def milliseconds(done, which):
    """Of one repetition in one process, averaged over processes and turns."""
    tallies = [tally for members, _ in done for tally in members[which]]
    return 1e3 * len(tallies) / sum(count / elapsed for count, elapsed in tallies)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--network", default="cnn")
    arguments.add_argument("--batch", type=int, default=10)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--channels-last", action="store_true")
    arguments.add_argument("--length", type=int, help="of the transform; without it, exactly that of the weights")
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--warm-up", type=float, default=1.0)
    given = arguments.parse_args()
    done = together(
        member, given.processes, given.threads,
        given.network, given.batch, given.channels_last, given.length, given.warm_up, given.seconds,
    )
    plain, with_term, alone = (milliseconds(done, which) for which in range(3))
    print(json.dumps({
        "step_ms": plain,
        "step_with_term_ms": with_term,
        "term_ms": alone,
        "overhead": with_term / plain - 1.0,
        "objective": max(objective for _, objective in done),
    }))


if __name__ == "__main__":
    main()
