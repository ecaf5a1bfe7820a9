"""FedAvg and Ditto in Flower's simulation: the Ray backend, two clients at once with one thread each.

Flower has no Ditto; it is written here as its documentation suggests for personal models, with the personal
weights in the context of the client.
"""

import dataclasses
import json
import os
import time

from federation import Log, Plan

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1")


def main():
    plan = Plan.parse(__doc__)
    os.environ["FORMANT_BENCH_PLAN"] = json.dumps(dataclasses.asdict(plan))
    import torch
    from flwr.app import MetricRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    import flower_app

    # The clients are idle while the server scores the generic model, so it may use their cores.
    torch.set_num_threads(plan.processes)
    model = flower_app.build("cnn").to(memory_format=torch.channels_last)
    _, (test_pixels, test_labels) = plan.load()
    log = Log()
    phases = 2 if plan.method == "ditto" else 1

    class TimedFedAvg(FedAvg):
        """FedAvg that looks at the clock before a round and after its aggregation."""

        def configure_train(self, *arguments):
            self.started = time.perf_counter()
            return super().configure_train(*arguments)

        def aggregate_train(self, *arguments):
            result = super().aggregate_train(*arguments)
            self.trained = time.perf_counter()
            return result

        def _check_and_log_replies(self, replies, is_train, validate=True):
            good, failed = super()._check_and_log_replies(replies, is_train, validate)
            assert len(good) == plan.clients and not failed, f"{len(good)} clients answered, {len(failed)} failed"
            return good, failed

    strategy = TimedFedAvg(min_train_nodes=plan.clients, min_available_nodes=plan.clients)

    def score_global(round_number, arrays):
        if round_number == 0:
            return None
        flower_app.load(model, arrays)
        with torch.inference_mode():
            right = sum(
                int(model(pixels).argmax(1).eq(labels).sum())
                for pixels, labels in zip(test_pixels.split(250), test_labels.split(250))
            )
        accuracy = right / len(test_labels)
        log.round(
            strategy.trained - strategy.started, time.perf_counter() - strategy.trained,
            phases * plan.clients * plan.train, plan.clients * plan.test + len(test_labels), accuracy,
        )
        return MetricRecord({"accuracy": accuracy})

    server = ServerApp()

    @server.main()
    def serve(grid, _context):
        strategy.start(
            grid=grid, initial_arrays=flower_app.unload(model), num_rounds=plan.rounds, evaluate_fn=score_global)

    run_simulation(
        server_app=server, client_app=flower_app.app, num_supernodes=plan.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": plan.processes, "log_to_driver": False, "logging_level": "ERROR"},
        },
    )
    assert len(log.rounds) == plan.rounds, f"{len(log.rounds)} of {plan.rounds} rounds were finished"
    log.print()


if __name__ == "__main__":
    main()
