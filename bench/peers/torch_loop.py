"""A competent PyTorch simulation of FedAvg and Ditto: what a careful engineer would write by hand.

Two processes with one thread and one model each take clients from one queue. Images lie in memory as floats,
channels last. Weights lie in one flat vector whose slices the layers use, so that sending a model is one copy;
models travel through shared memory. The step is fused over all tensors. Nothing is sent through a pipe but a
signal to go on.
"""

import os
import time

from federation import Log, Plan

LOCAL_CHUNK = 250  # images of one scoring pass where one model scores many clients


class FlatModel:
    """A network whose parameters are slices of one vector."""

    def __init__(self, torch, network):
        self.torch = torch
        self.network = network.to(memory_format=torch.channels_last)
        self.parameters = list(self.network.parameters())
        self.vector = torch.empty(sum(parameter.numel() for parameter in self.parameters))
        start = 0
        for parameter in self.parameters:
            part = self.vector[start:start + parameter.numel()]
            start += parameter.numel()
            if parameter.dim() == 4:  # channels last inside the vector too, or every step would convert
                outputs, inputs, height, width = parameter.shape
                view = part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
            else:
                view = part.view(parameter.shape)
            view.copy_(parameter.detach())
            parameter.data = view

    def step(self, pixels, labels, rate):
        loss = self.torch.nn.functional.cross_entropy(self.network(pixels), labels)
        loss.backward()
        with self.torch.no_grad():
            self.torch._foreach_add_(self.parameters, [p.grad for p in self.parameters], alpha=-rate)
        for parameter in self.parameters:
            parameter.grad = None

    def epoch(self, data, batch, rate, pull=None):
        """One pass in random order; with `pull` = (strength, anchor), Ditto's proximal term in the step."""
        pixels, labels = data
        order = self.torch.randperm(len(labels))
        for start in range(0, len(labels), batch):
            chosen = order[start:start + batch]
            if pull is not None:
                # -rate * strength * (w - anchor), in one pass over the flat vector; it sees the weights from
                # before the step, as the gradient does.
                strength, anchor = pull
                kick = self.torch.sub(anchor, self.vector)
            self.step(pixels[chosen], labels[chosen], rate)
            if pull is not None:
                self.vector.add_(kick, alpha=rate * strength)

    def right(self, pixels, labels):
        with self.torch.inference_mode():
            return self.network(pixels).argmax(1).eq(labels)


def worker(rank, plan, shared, barrier, queue, scores):
    try:
        take_part(rank, plan, shared, barrier, queue, scores)
    except BaseException:
        barrier.abort()  # or everybody else would wait for ever
        raise


def take_part(rank, plan, shared, barrier, queue, scores):
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from networks import build

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    generic, sums, personal, initial = shared
    holdings, (test_pixels, test_labels) = plan.load()
    model = FlatModel(torch, build("cnn"))
    if rank == 0:
        initial.copy_(model.vector)
    barrier.wait()

    def clients():
        while True:
            with queue.get_lock():
                client = queue.value
                queue.value += 1
            if client >= plan.clients:
                return
            yield client

    def train():
        sums[rank].zero_()
        for client in clients():
            train_set = holdings[client][0]
            model.vector.copy_(generic)
            model.epoch(train_set, plan.batch, plan.learning_rate)
            sums[rank].add_(model.vector, alpha=len(train_set[1]))
            if personal is not None:
                model.vector.copy_(personal[client])
                model.epoch(train_set, plan.batch, plan.learning_rate, (plan.proximal, generic))
                personal[client].copy_(model.vector)

    def score():
        """Local test sets with the personal models, or in large batches with the one model; then the global one."""
        right = 0
        if personal is not None:
            for client in clients():
                model.vector.copy_(personal[client])
                right += int(model.right(*holdings[client][1]).sum())
            model.vector.copy_(generic)
        else:
            model.vector.copy_(generic)
            group = max(1, LOCAL_CHUNK // plan.test)
            for chunk in range(rank * group, plan.clients, plan.processes * group):
                sets = [holdings[client][1] for client in range(chunk, min(chunk + group, plan.clients))]
                hits = model.right(torch.cat([s[0] for s in sets]), torch.cat([s[1] for s in sets]))
                right += sum(int(part.sum()) for part in hits.split([len(s[1]) for s in sets]))
        share = slice(rank * len(test_labels) // plan.processes, (rank + 1) * len(test_labels) // plan.processes)
        hits = [
            model.right(pixels, labels)
            for pixels, labels in zip(test_pixels[share].split(LOCAL_CHUNK), test_labels[share].split(LOCAL_CHUNK))
        ]
        scores[rank, 0], scores[rank, 1] = right, int(torch.cat(hits).sum())

    for _ in range(plan.rounds):
        barrier.wait()
        train()
        barrier.wait()
        barrier.wait()  # the server has aggregated
        score()
        barrier.wait()


def main():
    plan = Plan.parse(__doc__)
    import torch

    from networks import PARAMETERS

    context = torch.multiprocessing.get_context("spawn")
    length = PARAMETERS["cnn"]

    def zeros(*shape):
        return torch.zeros(*shape).share_memory_()

    generic, sums, initial = zeros(length), zeros(plan.processes, length), zeros(length)
    personal = zeros(plan.clients, length) if plan.method == "ditto" else None
    scores = zeros(plan.processes, 2)
    barrier, queue = context.Barrier(plan.processes + 1), context.Value("i", 0)
    members = [
        context.Process(
            target=worker, args=(rank, plan, (generic, sums, personal, initial), barrier, queue, scores), daemon=True)
        for rank in range(plan.processes)
    ]
    for member in members:
        member.start()
    torch.set_num_threads(1)
    barrier.wait()
    generic.copy_(initial)
    if personal is not None:
        personal.copy_(initial)
    log = Log()
    phases = 1 if personal is None else 2
    tests = plan.load_test_size()
    for _ in range(plan.rounds):
        start = time.perf_counter()
        queue.value = 0
        barrier.wait()
        barrier.wait()
        torch.sum(sums, dim=0, out=generic).div_(plan.clients * plan.train)
        trained = time.perf_counter()
        queue.value = 0
        barrier.wait()
        barrier.wait()
        log.round(
            trained - start, time.perf_counter() - trained,
            phases * plan.clients * plan.train, plan.clients * plan.test + tests,
            float(scores[:, 1].sum()) / tests,
        )
    for member in members:
        member.join()
    log.print()


if __name__ == "__main__":
    main()
