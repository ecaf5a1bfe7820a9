"""Compares what TensorBoard and MLflow read with what Formant reports. Started by scripts/check-tracking."""

import csv
import importlib.metadata
import json
import logging
import pathlib
import sys

import mlflow
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ALL = {"scalars": 0, "tensors": 0}


def main():
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    work = pathlib.Path(sys.argv[1])
    runs = [Run(work, path) for path in sorted(work.glob("run-*.json"))]
    assert len(runs) == 2, f"two runs were expected in {work}"
    lines = [check_tensorboard(work / "tensorboard", runs), check_mlflow(work / "ml runs", runs)]
    print("\n".join(lines))


class Run:
    """A run as `report --json` and `--csv` give it."""

    def __init__(self, work, path):
        self.json = json.loads(path.read_text())
        self.seed = self.json["run"]["seed"]
        with open(work / f"csv-{self.seed}" / "rounds.csv", newline="") as file:
            self.rounds = list(csv.DictReader(file))

    def expected(self, method):
        """Every series of a method: tag to {round: value}."""
        series = {}

        def put(tag, step, value):
            if value not in (None, ""):
                series.setdefault(tag, {})[int(step)] = float(value)

        metric = self.json["run"]["metrics"][0]
        for scores in method["evaluations"]:
            step = scores["round"]
            put(f"GM/{metric}", step, scores["gm"])
            put("GM/loss", step, scores["gm_loss"])
            put(f"PM/{metric}", step, scores["pm"])
            put(f"PM_mean/{metric}", step, scores["pm_mean"])
            put(f"PM_worst_tenth/{metric}", step, scores["worst_decile"])
            for further, by in scores.get("further", {}).items():
                put(f"GM/{further}", step, by["gm"])
                put(f"PM/{further}", step, by["pm"])
                put(f"PM_worst_tenth/{further}", step, by["worst_decile"])
        for row in (row for row in self.rounds if row["method"] == method["label"]):
            for phase in ["shared", "personal"]:
                put(f"train/{phase}_loss", row["round"], row[f"{phase}_loss"])
                put(f"train/{phase}_terms", row["round"], row[f"{phase}_terms"])
            put("cost/round_seconds", row["round"], row["seconds"])
            put("cost/uploaded_bytes", row["round"], row["uploaded_bytes"])
            put("cost/clock", row["round"], row["clock"])
        for spectra in method["spectra"]:
            for key in ["divergence", "low_divergence", "distance"]:
                values = [client[key] for client in spectra["clients"]]
                if values:
                    put(f"spectra/{key}", spectra["round"], sum(values) / len(values))
        return series


def same(found, expected, what):
    assert found == expected, f"{what}: {found} instead of {expected}"


def agree(found, expected, key):
    """Values are equal, except for means over clients, which were summed in two languages."""
    if key.startswith("spectra/"):
        same(sorted(found), sorted(expected), f"rounds of {key}")
        numpy.testing.assert_allclose([found[step] for step in expected], list(expected.values()), rtol=1e-6)
    else:
        same(found, expected, key)


def check_tensorboard(folder, runs):
    series = points = texts = 0
    files = sorted(folder.rglob("*tfevents*"))
    same(len(files), sum(len(run.json["methods"]) for run in runs), "event files")
    for run in runs:
        for method in run.json["methods"]:
            found = [file for file in files
                     if file.parent.name == method["label"] and file.parent.parent.name.endswith(f"-seed-{run.seed}")]
            same(len(found), 1, f"files of {method['label']}, seed {run.seed}")
            reader = EventAccumulator(str(found[0].parent), size_guidance=ALL)
            reader.Reload()
            expected = run.expected(method)
            same(sorted(reader.Tags()["scalars"]), sorted(expected), "tags")
            for tag, values in expected.items():
                events = reader.Scalars(tag)
                # TensorBoard's scalars are of single precision.
                single = {step: float(numpy.float32(value)) for step, value in values.items()}
                agree({event.step: event.value for event in events}, single, tag)
                times = [event.wall_time for event in events]
                same(times, sorted(times), f"times of {tag}")
                series, points = series + 1, points + len(values)
            for tag, value in [("experiment", run.json["run"]["config"]),
                               ("hyper_parameters", method["hyper_parameters"])]:
                text = reader.Tensors(tag)[0].tensor_proto.string_val[0].decode()
                same(json.loads(text.strip("`").removeprefix("json")), value, tag)
                texts += 1
    version = importlib.metadata.version("tensorboard")
    return f"TensorBoard {version}: {len(files)} files, {series} series, {points} points, {texts} texts: all equal"


def check_mlflow(folder, runs):
    series = points = parameters = 0
    mlflow.set_tracking_uri(folder.resolve().as_uri())
    client = mlflow.MlflowClient()
    name = runs[0].json["run"]["name"]
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None, f"no experiment {name}"
    found = client.search_runs([experiment.experiment_id])
    same(len(found), sum(len(run.json["methods"]) for run in runs), "runs")
    for run in runs:
        for method, row in zip(run.json["methods"], run.json["rows"], strict=True):
            label = f"{method['label']}, seed {run.seed}"
            one = [other for other in found if other.info.run_name == label]
            same(len(one), 1, f"runs called {label}")
            one = one[0]
            same(one.info.status, "FINISHED", f"status of {label}")
            expected = run.expected(method)
            for key, at in [("GM_best", "gm"), ("PM_best", "pm")]:
                if row[f"{at}_best"] is not None:
                    expected[key] = {row[f"best_round_{at}"]: row[f"{at}_best"]}
            same(sorted(one.data.metrics), sorted(expected), f"metrics of {label}")
            for key, values in expected.items():
                history = client.get_metric_history(one.info.run_id, key)
                agree({metric.step: metric.value for metric in history}, values, key)
                series, points = series + 1, points + len(values)
            config = {key: value for key, value in run.json["run"]["config"].items() if key != "method"}
            for key, value in [*flattened("method", method["hyper_parameters"]), *flattened("", config)]:
                text = one.data.params.get(key)
                same(text if isinstance(value, str) else json.loads(text), value, key)
                parameters += 1
            artifacts = [artifact.path for artifact in client.list_artifacts(one.info.run_id)]
            same(sorted(artifacts), ["experiment.json", "report.md"], "artifacts")
    rows = mlflow.search_runs([experiment.experiment_id], order_by=["metrics.PM_best DESC"], output_format="list")
    same(len(rows), len(found), "rows of search_runs")
    version = importlib.metadata.version("mlflow-skinny")
    return (f"MLflow {version}: {len(found)} runs, {series} series, {points} points, {parameters} parameters: "
            "all equal")


def flattened(prefix, value):
    """Keys and values as MLflow's parameters have them."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flattened(f"{prefix}.{key}" if prefix else key, item)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for place, item in enumerate(value):
            yield from flattened(f"{prefix}.{place}", item)
    elif value is not None:
        yield prefix, value


if __name__ == "__main__":
    main()
