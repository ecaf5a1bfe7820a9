"""Methods by name, as functions, and classes of one's own."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import pytest
from kit import refused

import formant
from formant._experiment import compose
from formant._methods import settings


def test_every_method_is_a_function() -> None:
    own = "a method of one's own"
    for entry in (entry for entry in formant.methods() if entry["citation"] != own):
        function = getattr(formant, entry["name"].replace("-", "_"))
        assert function() == {"name": entry["name"]}
        parameters = inspect.signature(function).parameters
        assert [name.rstrip("_") for name in parameters] == [*(key["name"] for key in entry["keys"]), "label", "train"]
        assert entry["title"] in function.__doc__ and function.__name__ in formant.__all__


def test_settings_reach_the_experiment() -> None:
    found = compose(methods=[formant.scd(lambda_p=30, label="SCD"), formant.fedavg_ft(finetune_epochs=1)]).resolved()
    assert found["method"][0]["lambda_p"] == 30 and found["method"][0]["label"] == "SCD"
    assert found["method"][1]["name"] == "fedavg-ft"
    assert repr(formant.pfedme(lambda_=2)) == "formant.pfedme(lambda_=2)"
    assert formant.method("fedavg_ft") == formant.method("FedAvg-FT") == {"name": "fedavg-ft"}


def test_one_method_is_a_list_of_one() -> None:
    assert settings("scd") == settings(["scd"]) == settings({"name": "scd"}) == [{"name": "scd"}]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["dito"], ["dito", "did you mean ditto?"]),
        ([{"lambda": 1}], ["without a name"]),
        ([{"name": "ditto", "lamda": 1}], ["Ditto has no key 'lamda'", "lambda_"]),
        ([5], ["methods has a int", "formant.Method"]),
        ([], ["empty"]),
        ([int], ["methods has a type"]),
    ],
)
def test_what_is_no_method_is_refused(value: Any, words: list[str]) -> None:
    refused(lambda: settings(value), *words)


def test_keys_out_of_range_are_refused() -> None:
    refused(lambda: compose(methods=[formant.ditto(lambda_=-1)]).resolved(), "lambda")
    refused(lambda: formant.scd(lamda_p=1), "SCD has no key", "lambda_p")


class Halved(formant.Method):
    """FedAvg whose clients go half of the way."""

    share: float = 0.5

    def train_shared(self, client: dict[str, Any], got: Any, local: formant.Local) -> Any:
        trained = local.sgd(got.copy())
        return got + (trained - got) * self.share


def test_classes_stand_beside_the_others(short: Callable[..., formant.Run]) -> None:
    run = short(methods=["fedavg", Halved, Halved(share=1.0, label="whole", train={"epochs": 1})])
    assert [m.label for m in run] == ["fedavg", "halved", "whole"]
    assert run["halved"].info["hyper_parameters"] == {"share": 0.5}
    assert run.complete and run.fingerprints["halved"] != run.fingerprints["fedavg"]
