"""From the start of the process to the end of its first round, evaluation included."""

from ..figures import ratios, shown, spread, table
from . import federation


def measure(bench):
    return {"fedavg": bench.alternate("start-up, fedavg", federation.engines(bench, "fedavg", 1))}


def report(raw, _everything):
    results = raw["fedavg"]["results"]

    def until(name):
        return [result["first_round_done"] - result["started_at"] for result in results[name]]

    def before(name):
        return [
            done - result["rounds"][0]["training_seconds"] - result["rounds"][0]["evaluation_seconds"]
            for done, result in zip(until(name), results[name])
        ]

    rows = [
        [name, shown(spread(until(name))), shown(spread(before(name))),
         "1" if name == "Formant" else shown(ratios(until(name), until("Formant")))]
        for name in results
    ]
    return table(["", "first round done, s", "of which outside the round", "over Formant's"], rows) + (
        "\nFormant's time runs to the end of its process, report files included; the peers' to the moment at which "
        "their round was scored, so that their shutdown does not count.\n"
    )
