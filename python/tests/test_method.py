"""Methods in Python on Formant's own engine."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from method_kit import BASE, models, run, scores, weights

import formant
from formant import FormantError, _formant


class PlainDitto(formant.Method):
    """Ditto: FedAvg, and a personal model with a proximal pull towards the received one."""

    pull: float = formant.key(1.0, "pull towards the received model", min=0, symbol="λ")

    def start_client(self, init):
        return {"w_p": init}

    def train_shared(self, client, got, local):
        return local.sgd(got.copy())

    def train_personal(self, client, got, sent, local):
        local.sgd(client["w_p"], terms=[formant.Proximal(got, self.pull)])

    def aggregate(self, server, received, central):
        server["w"] = received

    def personal_model(self, client, got, local):
        return client["w_p"]


class PlainAvg(formant.Method):
    """FedAvg: nothing is overridden."""


class PlainProx(formant.Method):
    """FedProx."""

    mu: float = formant.key(0.1, min=0)

    def train_shared(self, client, got, local):
        return local.sgd(got.copy(), terms=[formant.Proximal(got, self.mu)])


def assert_same(folder: Path, one: str, other: str) -> None:
    """Same scores at every evaluation, and the same bits in every model."""
    assert scores(folder, one) == scores(folder, other)
    assert models(folder, one) == models(folder, other)


# The same bits as Formant's own.


def test_ditto_gives_the_bits_of_the_built_in_one(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"name": "ditto", "lambda": 0.7}, PlainAvg, _set(PlainDitto, pull=0.7))
    assert_same(folder, "ditto", "plain-ditto")
    # Something was trained.
    assert scores(folder, "ditto")[-1][1] > 0.4


def test_ditto_on_an_uneven_training(tmp_path: Path) -> None:
    """Momentum, decay, few participants and batch norms: what a phase does is the runtime's, whoever asks for it."""
    sets = ("train.momentum=0.9", "train.decay=0.9", "train.weight_decay=1e-4", "train.participation=0.5")
    network = ('network={name = "resnet18", width = 2, norm = "batch"}', "data.samples=120", "rounds=2", "data.min_samples=5")
    folder = run(tmp_path / "run", "ditto", PlainDitto, sets=sets + network)
    assert_same(folder, "ditto", "plain-ditto")


def test_what_is_not_overridden_is_fedavg(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "fedavg", PlainAvg)
    assert_same(folder, "fedavg", "plain-avg")


def test_fedprox(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"name": "fedprox", "mu": 0.1}, PlainProx)
    assert_same(folder, "fedprox", "plain-prox")


def test_through_formant_run(tmp_path: Path) -> None:
    done = formant.run(
        data="mnist-small", clients=4, samples=400, network="logistic", rounds=2, progress=False,
        methods=[formant.ditto(lambda_=2.0), PlainDitto(pull=2.0, label="mine", train={"epochs": 1})],
        epochs=1, out=tmp_path / "run",
    )  # fmt: skip
    # The table names both, and an instance's label and training count.
    assert [row["label"] for row in done.rows] == ["ditto", "mine"]
    assert scores(tmp_path / "run", "ditto") == scores(tmp_path / "run", "mine")


def test_it_is_listed_among_the_methods() -> None:
    formant.register(PlainDitto)
    (found,) = [entry for entry in formant.methods() if entry["name"] == "plain-ditto"]
    assert found["title"] == "PlainDitto" and found["personal"] and found["summary"].startswith("Ditto")
    (key,) = found["keys"]
    assert (key["name"], key["symbol"], key["default"]) == ("pull", "λ", 1.0)


# What local offers.


class BySteps(formant.Method):
    """FedAvg by hand."""

    def train_shared(self, client, got, local):
        w = got.copy()
        for batch in local.batches():
            batch.step(w)
        return w


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_by_hand_are_those_of_sgd(tmp_path: Path, momentum: float) -> None:
    # With one model the one velocity is enough.
    folder = run(tmp_path / "run", PlainAvg, BySteps, sets=(f"train.momentum={momentum}",))
    assert_same(folder, "plain-avg", "by-steps")


class ByTerms(formant.Method):
    """FedProx by hand."""

    def train_shared(self, client, got, local):
        w = got.copy()
        for batch in local.batches(local.epochs):
            batch.step(w, terms=[formant.Proximal(got, 0.1)], learning_rate=local.learning_rate)
        return w


def test_steps_with_terms(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"name": "fedprox", "mu": 0.1}, ByTerms)
    assert_same(folder, "fedprox", "by-terms")


class ByLinear(formant.Method):
    """The gradient of a linear term is its direction."""

    def train_shared(self, client, got, local):
        w, direction = got.copy(), np.ones_like(got)
        # Whatever the loss pulls, the other one is pulled by exactly the direction more.
        (batch, *_) = local.batches(1)
        other = w.copy()
        batch.step(w)
        batch.step(other, terms=[formant.Linear(direction, 0.5)])
        moved = (w - other) / (0.5 * local.learning_rate)
        assert np.allclose(moved[: local.parameters], 1.0, atol=1e-3)
        return got


def test_linear_terms(tmp_path: Path) -> None:
    run(tmp_path / "run", ByLinear)


class ByHead(formant.Method):
    """Parts, samples and what a batch shows."""

    def train_shared(self, client, got, local):
        w = got.copy()
        local.sgd(w, 1, part="head")
        assert (w[: local.body] == got[: local.body]).all() and (w[local.body :] != got[local.body :]).any()
        assert local.label_counts().sum() == local.samples and local.classes == 10
        assert (local.round, local.rounds, local.buffers) == (1, 1, 0)
        seen: list[int] = []
        for batch in local.batches(1):
            assert batch.x.shape == (len(batch), 1, 28, 28) and batch.x.dtype == np.float32
            assert batch.y.shape == (len(batch),) and batch.y.dtype == np.int64
            features, logits = batch.look(w)
            assert features.shape == (len(batch), 12) and logits.shape == (len(batch), 10)
            head = w[local.body : local.parameters]
            matrix, bias = head[:120].reshape(10, 12), head[120:]
            assert np.allclose(features @ matrix.T + bias, logits, atol=1e-4)
            seen += batch.indices.tolist()
        assert len(set(seen)) == len(seen) == local.samples
        # The balanced softmax trains other numbers than the plain one.
        shifted = local.sgd(got.copy(), 1, shift=np.log(local.label_counts() + 1))
        assert (shifted != local.sgd(got.copy(), 1)).any()
        assert (local.sgd(got.copy(), 0) == got).all()
        return w


def test_parts_batches_and_shifts(tmp_path: Path) -> None:
    run(tmp_path / "run", ByHead, sets=("rounds=1",))


class Spectral(formant.Method):
    """Two models that hold each other by their spectra."""

    name = "spectral-pair"
    share: float = formant.key(0.3, min=0, max=1)

    def train_personal(self, client, got, sent, local):
        term = formant.Spectral(got, share=self.share, tau=0.5, form="raw")
        local.sgd(client["w_p"], terms=[term])


def test_spectral_terms(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", Spectral, _set(Spectral, label="none", share=0.0))
    assert models(folder, "spectral-pair")["generic.safetensors"] == models(folder, "none")["generic.safetensors"]
    # The term pulls the personal models, and leaves them finite.
    assert models(folder, "spectral-pair") != models(folder, "none")
    assert all(score is not None for row in scores(folder, "spectral-pair") for score in row[4])


class ByUploads(formant.Method):
    """The mean, by hand."""

    receives = "uploads"

    def train_shared(self, client, got, local):
        return {"w": local.sgd(got.copy()), "seen": np.array([float(local.samples)])}

    def upload_lengths(self, got):
        return {"seen": 1}

    def aggregate(self, server, received, central):
        assert central.uploads == len(received) == 4 and central.clients == 4
        assert [upload.client for upload in received] == [0, 1, 2, 3]
        assert all(upload.message["seen"] == upload.weight and upload.staleness == 0 for upload in received)
        total = sum(upload.weight for upload in received)
        server["w"] = sum(upload.weight / total * upload.message["w"].astype(np.float64) for upload in received)


def test_every_upload(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", "fedavg", ByUploads, sets=("rounds=2",))
    assert np.abs(weights(folder, "fedavg") - weights(folder, "by-uploads")).max() < 1e-5


class Counting(formant.Method):
    """What a state may hold."""

    def start_server(self, init):
        return {"w": init, "rounds": 0, "name": "é", "nothing": None, "table": np.arange(6, dtype=np.int16).reshape(2, 3)}

    def aggregate(self, server, received, central):
        assert server["name"] == "é" and server["nothing"] is None
        assert server["table"].dtype == np.int16 and server["table"].shape == (2, 3)
        server["table"] += 1
        server["rounds"] += 1
        assert server["rounds"] == central.round == server["table"][0, 0]
        server["w"] = received


def test_states_hold_arrays_numbers_and_texts(tmp_path: Path) -> None:
    run(tmp_path / "run", Counting, sets=('runtime.memory="0B"',))


def test_vectors_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class TorchDitto(formant.Method):
        """Ditto over tensors."""

        def start_client(self, init):
            return {"w_p": torch.from_numpy(init)}

        def train_shared(self, client, got, local):
            return local.sgd(torch.from_numpy(got).clone())

        def train_personal(self, client, got, sent, local):
            own = torch.from_numpy(client["w_p"])
            local.sgd(own, terms=[formant.Proximal(torch.from_numpy(got), 1.0)])
            client["w_p"] = own

    folder = run(tmp_path / "run", "ditto", TorchDitto)
    assert_same(folder, "ditto", "torch-ditto")

    class Doubles(formant.Method):
        """Trains in a copy that goes back."""

        def train_shared(self, client, got, local):
            return local.sgd(torch.from_numpy(got).double())

    folder = run(tmp_path / "doubles", "fedavg", Doubles)
    assert_same(folder, "fedavg", "doubles")


# The contract.


def test_ditto_keeps_its_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = formant.testing.check(PlainDitto, pull=0.5)
    assert not found.faults and len(found) > 8
    assert "same bits after an interruption" in capsys.readouterr().out


class Hidden(formant.Method):
    """Keeps something where no checkpoint sees it."""

    def aggregate(self, server, received, central):
        self.momentum = 0.5 * getattr(self, "momentum", 0.0) + received - server["w"]
        server["w"] = server["w"] + self.momentum


class Careless(formant.Method):
    """Draws numbers that nobody seeded."""

    def train_shared(self, client, got, local):
        return local.sgd(got.copy()) + np.random.normal(scale=0.01, size=got.shape)


@pytest.mark.parametrize(
    ("method", "clause"), [(Hidden, "after an interruption"), (Careless, "same bits again")]
)
def test_broken_contracts(method: type[formant.Method], clause: str) -> None:
    with pytest.raises(FormantError, match="breaks its contract") as caught:
        formant.testing.check(method, quiet=True)
    assert clause in str(caught.value) and "local.generator()" in str(caught.value.hint)


class Drawing(formant.Method):
    """Draws numbers as it should."""

    def train_shared(self, client, got, local):
        noise = local.generator().normal(scale=0.001, size=got.shape)
        return local.sgd(got.copy()) + noise


def test_its_own_generator_keeps_the_contract() -> None:
    formant.testing.check(Drawing, quiet=True)


# Errors.


def _set(method: type[formant.Method], **keys: Any) -> dict[str, Any]:
    formant.register(method)
    return {"name": method.name, **keys}


def _fails(tmp_path: Path, method: type[formant.Method]) -> pytest.ExceptionInfo[FormantError]:
    with pytest.raises(FormantError) as caught:
        run(tmp_path / "run", method)
    return caught


def test_exceptions_come_out_as_they_were(tmp_path: Path) -> None:
    class Oops(Exception):
        pass

    class Raising(formant.Method):
        """Raises."""

        def train_shared(self, client, got, local):
            raise Oops("a line of the method's own")

    with pytest.raises(Oops, match="a line of the method's own") as caught:
        run(tmp_path / "run", Raising)
    assert "raise Oops" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("where", ["broadcast", "aggregate", "global_model", "personal_model", "start_server", "start_client", "train_personal"])
def test_exceptions_of_every_hook_end_the_run(tmp_path: Path, where: str) -> None:
    def bad(self: Any, *arguments: Any) -> Any:
        raise ZeroDivisionError(where)

    raising = type("Raising", (PlainDitto,), {where: bad, "name": f"raising-{where.replace('_', '-')}"})
    with pytest.raises(ZeroDivisionError, match=where):
        run(tmp_path / "run", raising)


def test_vectors_of_another_length(tmp_path: Path) -> None:
    class Short(formant.Method):
        """Sends too little."""

        def train_shared(self, client, got, local):
            return got[:-1]

    caught = _fails(tmp_path, Short)
    assert "Short.train_shared gives" in str(caught.value)
    assert "like the one that was received" in str(caught.value.hint)

    class ShortSgd(formant.Method):
        """Trains too little."""

        def train_shared(self, client, got, local):
            return local.sgd(got[:-1].copy())

    with pytest.raises(FormantError, match="w has .* numbers"):
        run(tmp_path / "sgd", ShortSgd)

    class ShortAnchor(formant.Method):
        """Anchors too little."""

        def train_shared(self, client, got, local):
            return local.sgd(got.copy(), terms=[formant.Proximal(got[:5], 1.0)])

    with pytest.raises(FormantError, match="anchor has 5 numbers"):
        run(tmp_path / "anchor", ShortAnchor)


def test_nothing_is_returned(tmp_path: Path) -> None:
    class Silent(formant.Method):
        """Forgets to send."""

        def train_shared(self, client, got, local):
            local.sgd(got.copy())

    assert "Silent.train_shared gives nothing" in str(_fails(tmp_path, Silent).value)


def test_states_that_cannot_be_written(tmp_path: Path) -> None:
    class Objects(formant.Method):
        """Keeps objects."""

        def train_shared(self, client, got, local):
            client["history"] = np.array([{"a": 1}, None], dtype=object)
            return got

    caught = _fails(tmp_path, Objects)
    assert "state['history']" in str(caught.value) and "arrays of numbers" in str(caught.value.hint)


@pytest.mark.parametrize("bad", ["text", object(), np.array(["a"]), np.array([1 + 2j])])
def test_what_is_no_vector(tmp_path: Path, bad: object) -> None:
    class Odd(formant.Method):
        """Sends something else."""

        def train_shared(self, client, got, local):
            return bad

    assert "give a flat vector of float32" in str(_fails(tmp_path, Odd).value.hint)


def test_read_only_vectors(tmp_path: Path) -> None:
    class ReadOnly(formant.Method):
        """Trains what it must not."""

        def train_shared(self, client, got, local):
            got.flags.writeable = False
            return local.sgd(got)

    caught = _fails(tmp_path, ReadOnly)
    assert "w is read-only" in str(caught.value) and "w.copy()" in str(caught.value.hint)


def test_a_phase_that_is_over(tmp_path: Path) -> None:
    kept: list[formant.Local] = []

    class Keeping(formant.Method):
        """Keeps `local`."""

        def train_shared(self, client, got, local):
            kept.append(local)
            return got

    run(tmp_path / "run", Keeping, sets=("runtime.threads=1",))

    class Using(formant.Method):
        """Uses what it has kept from an earlier client."""

        def train_shared(self, client, got, local):
            if self.seen is not None:
                self.seen.sgd(got.copy())
            type(self).seen = local
            return got

        seen: Any = None
        __annotations__ = {}

    with pytest.raises(FormantError, match="this phase is over"):
        run(tmp_path / "using", Using, sets=("runtime.threads=1",))


def test_divergence_is_formants(tmp_path: Path) -> None:
    """A model that leaves the finite numbers ends no run; what was lost is in its log."""

    class Wild(formant.Method):
        """Grows."""

        def train_shared(self, client, got, local):
            return local.sgd(got * 1e38)

    run(tmp_path / "run", Wild, sets=("rounds=1",))
    events = (tmp_path / "run" / "events.jsonl").read_text()
    assert any(json.loads(line).get("error") for line in events.splitlines())


def test_hyper_parameters_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(FormantError, match="pull"):
        run(tmp_path / "run", _set(PlainDitto, pull=-1.0))
    with pytest.raises(FormantError, match="pull"):
        formant.run(data="mnist-small", methods=[PlainDitto(pull=-1)], out=tmp_path / "two", progress=False)
    with pytest.raises(FormantError, match="has no key `pul`") as caught:
        PlainDitto(pul=1)
    assert "`pull`" in str(caught.value.hint)
    with pytest.raises(FormantError, match="pul"):
        _formant.resolve(BASE + '[[method]]\nname = "plain-ditto"\npul = 1.0\n', [])


def test_names() -> None:
    class Clash(formant.Method):
        """Takes a name that is taken."""

        name = "ditto"

    with pytest.raises(FormantError, match='called "ditto" already') as caught:
        formant.register(Clash)
    assert "another `name`" in str(caught.value.hint)
    with pytest.raises(FormantError, match="cannot name a method"):
        type("Bad", (formant.Method,), {"name": "Bad Name"})
    with pytest.raises(FormantError, match="receives = 'all'"):
        type("Bad", (formant.Method,), {"receives": "all"})
    with pytest.raises(FormantError, match="is no method"):
        formant.register(dict)  # type: ignore[type-var]


def test_keys_that_are_none() -> None:
    with pytest.raises(FormantError, match="has no default"):

        class NoDefault(formant.Method):
            mu: float

    with pytest.raises(FormantError, match="is no hyper-parameter"):

        class ListDefault(formant.Method):
            layers: list = [1, 2]

    with pytest.raises(FormantError, match="which every method has"):

        class Label(formant.Method):
            label: str = "x"


def test_choices_and_flags(tmp_path: Path) -> None:
    class Choosing(formant.Method):
        """Has keys of every kind."""

        way: str = formant.key("up", "direction", choices=["up", "down"])
        steps: int = formant.key(2, min=1, max=5)
        loud: bool = False

        def train_shared(self, client, got, local):
            assert (self.way, self.steps, self.loud) == ("down", 3, True)
            return got

    run(tmp_path / "run", _set(Choosing, way="down", steps=3, loud=True), sets=("rounds=1",))
    for key, value in [("way", "left"), ("steps", 9), ("steps", 1.5), ("loud", 1)]:
        with pytest.raises(FormantError, match=key):
            run(tmp_path / f"{key}{value}", _set(Choosing, **{key: value}))


def test_aggregates_that_return(tmp_path: Path) -> None:
    class Returning(formant.Method):
        """Returns a state."""

        def aggregate(self, server, received, central):
            return {"w": received}

    assert "change `server` in place" in str(_fails(tmp_path, Returning).value)


def test_terms_that_are_none(tmp_path: Path) -> None:
    class Termless(formant.Method):
        """Gives a function for a term."""

        def train_shared(self, client, got, local):
            return local.sgd(got.copy(), terms=[abs])

    assert "formant.Proximal" in str(_fails(tmp_path, Termless).value.hint)

    class Both(formant.Method):
        """Gives a weight and a share."""

        def train_shared(self, client, got, local):
            return local.sgd(got.copy(), terms=[formant.Proximal(got, weight=1, share=1)])

    with pytest.raises(FormantError, match="give one of them"):
        run(tmp_path / "both", Both)
