"""FedAvg in pfl (Apple's pfl-research): two processes with one thread each, as pfl distributes a simulation.

pfl has no Ditto. Its own evaluation of a round scores every client's training images before and after training as
well, which nobody else does; so it is switched off, and callbacks score what the others score: the generic model
on the clients' test sets, divided among the processes, and on the global one.
"""

import multiprocessing
import os
import socket
import time

from crew import gather
from federation import Log, Plan


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def worker(rank, plan, address, results):
    # This is how pfl is told about its peers without a launcher.
    addresses = ",".join([address] * plan.processes)
    os.environ.update(OMP_NUM_THREADS="1", PFL_WORKER_RANK=str(rank), PFL_PYTORCH_DEVICE="cpu",
                      PFL_WORKER_ADDRESSES=addresses)
    # pfl opens its process group only in a process of this name, because data loaders import it too.
    multiprocessing.current_process().name = "MainProcess"
    import numpy
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.internal import ops
    from pfl.metrics import Metrics, StringMetricName, Weighted
    from pfl.model.pytorch import PyTorchModel
    from torch import nn

    from networks import build

    torch.set_num_threads(1)
    torch.manual_seed(0)
    numpy.random.seed(0)  # the same users on every process, each of which takes its share
    holdings, test = plan.load()

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = build("cnn").to(memory_format=torch.channels_last)

        def loss(self, pixels, labels):
            return nn.functional.cross_entropy(self.network(pixels), labels)

        @torch.inference_mode()
        def metrics(self, pixels, labels):
            right = int(self.network(pixels).argmax(1).eq(labels).sum())
            return {"accuracy": Weighted(right, len(labels))}

    module = Classifier()
    model = PyTorchModel(
        module,
        local_optimizer_create=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, fused=True),
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    clients = list(range(plan.clients))
    # Made once: pfl caches the batches of a dataset that it is given again.
    training = {client: Dataset(list(holdings[client][0]), user_id=str(client)) for client in clients}
    testing = [Dataset(list(holdings[client][1])) for client in clients[rank::plan.processes]]
    share = slice(rank * len(test[1]) // plan.processes, (rank + 1) * len(test[1]) // plan.processes)
    globally = Dataset([test[0][share], test[1][share]])
    federation = FederatedDataset(training.__getitem__, get_user_sampler("minimize_reuse", clients))
    log = Log()

    class Scores(TrainingProcessCallback):
        """Scores both test sets and looks at the clock."""

        def on_train_begin(self, *, model):
            self.started = time.perf_counter()
            return Metrics()

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            trained = time.perf_counter()
            total = None
            for dataset in testing:
                metrics = model.evaluate(dataset, lambda name: StringMetricName(f"local {name}"))
                total = metrics if total is None else total + metrics
            total |= model.evaluate(
                globally, lambda name: StringMetricName(f"global {name}"), NNEvalHyperParams(local_batch_size=250))
            total = ops.all_reduce_metrics(total)
            done = time.perf_counter()
            log.round(
                trained - self.started, done - trained, plan.clients * plan.train,
                plan.clients * plan.test + len(test[1]), total[StringMetricName("global accuracy")].overall_value,
            )
            self.started = time.perf_counter()
            return False, Metrics()

    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=plan.rounds, evaluation_frequency=10**9, train_cohort_size=plan.clients,
            val_cohort_size=0),
        backend=SimulatedBackend(training_data=federation, val_data=federation),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=plan.learning_rate, local_batch_size=plan.batch),
        model_eval_params=NNEvalHyperParams(local_batch_size=250),
        callbacks=[Scores()],
        send_metrics_to_platform=False,
    )
    results.put(log if rank == 0 else None)


def main():
    plan = Plan.parse(__doc__)
    assert plan.method == "fedavg", "pfl has no Ditto"
    context = multiprocessing.get_context("spawn")
    results, address = context.SimpleQueue(), f"127.0.0.1:{free_port()}"
    members = [
        context.Process(target=worker, args=(rank, plan, address, results)) for rank in range(plan.processes)
    ]
    for member in members:
        member.start()
    for log in gather(members, results):
        if log is not None:
            log.print()


if __name__ == "__main__":
    main()
