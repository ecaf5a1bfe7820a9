"""Formant's methods in a Flower federation: real SuperLinks and SuperNodes on this machine, and hostile nodes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import flwr.app as flwr  # noqa: E402

import formant  # noqa: E402
from formant.flower._client import _Node  # noqa: E402
from formant.flower._server import _Server  # noqa: E402
from formant.flower._task import Agreement, agreement, array_record, bytes_of, tensors  # noqa: E402

SHARED = {
    "shape": (1, 8, 8),
    "classes": 3,
    "network": {"name": "mlp", "hidden": [8]},
    "rounds": 3,
    "epochs": 1,
    "batch": 10,
    "seed": 5,
    "learning_rate": 0.05,
}

APP = '''
import numpy as np
import formant
import formant.flower

SHARED = {shared!r}

{method}

def samples(place):
    draw = np.random.default_rng(place)
    y = draw.integers(0, 3, 80 + 20 * place)
    x = draw.integers(0, 128, (len(y), 8, 8)).astype(np.uint8)
    x[np.arange(len(y)), y] += 127
    return x, y

def load(context):
    return samples(context.node_config["partition-id"])

def client():
    return formant.flower.client_app(METHOD, data=load, save={out!r}, **SHARED)

def server():
    return formant.flower.server_app(METHOD, nodes=2, wait=250, timeout=250, evaluate_every=3, save={out!r},
                                     on_round=over, **SHARED)

def over(round, done, tensors):
    # The last thing of a round, when all its files are there.
    if round == SHARED["rounds"]:
        open({out!r} + "/over", "w").close()
'''

DITTO = '''
class FlowerDitto(formant.Method):
    """Ditto."""
    pull: float = 0.5
    def train_personal(self, client, got, sent, local):
        local.sgd(client["w_p"], terms=[formant.Proximal(got, self.pull)])

METHOD = FlowerDitto
'''


def samples(place: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(place)
    y = draw.integers(0, 3, 80 + 20 * place)
    x = draw.integers(0, 128, (len(y), 8, 8)).astype(np.uint8)
    x[np.arange(len(y)), y] += 127
    return x, y


def agreed(method: Any = "ditto", **changes: Any) -> Agreement:
    keys = {**SHARED, **changes}
    about = {name: keys.pop(name) for name in ("shape", "classes", "network")}
    return agreement(method, pixels=True, normalisation=None, engine=None, keywords=keys, **about)


def dataset(deal: Agreement, place: int) -> formant.Dataset:
    return formant.dataset(
        samples(place), class_names=deal.class_names, normalisation=deal.normalisation, test_fraction=0.0
    )


def by_hand(method: Any) -> dict[str, Any]:
    """The same federation, without anybody between."""
    deal = agreed(method)
    server = deal.task()
    clients = [deal.task(place, dataset(deal, place)) for place in (0, 1)]
    state, kept = server.start_server(), [None, None]
    for round in range(1, deal.rounds + 1):
        broadcast, uploads = server.broadcast(state), []
        for place, client in enumerate(clients):
            kept[place], sent, error = client.train(round, kept[place], broadcast)
            assert sent is not None and error is None
            uploads.append((place, float(client.samples), sent))
        state, refused = server.aggregate(round, state, uploads)
        assert not refused
    generic = server.generic(state)
    assert generic is not None
    broadcast = server.broadcast(state)
    scored = [c.score(deal.rounds, k, broadcast) for c, k in zip(clients, kept, strict=True)]
    return {
        "generic": tensors(server, generic),
        "personal": [
            tensors(c, c.personal(deal.rounds, k, broadcast)) for c, k in zip(clients, kept, strict=True)
        ],
        "pm": sum(a * n for a, n in scored) / sum(n for _, n in scored),
    }


def same(path: Path, expected: dict[str, Any]) -> bool:
    with np.load(path) as found:
        return sorted(found) == sorted(expected) and all(
            found[name].tobytes() == expected[name].tobytes() for name in expected
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def processes(commands: list[list[str]], env: dict[str, str], folder: Path) -> Iterator[list[Path]]:
    """Runs programs beside the test, and ends them with it, their children too."""
    running, logs = [], []
    try:
        for number, command in enumerate(commands):
            logs.append(folder / f"process-{number}.log")
            with logs[-1].open("wb") as file:
                running.append(
                    subprocess.Popen(
                        command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )  # fmt: skip
        yield logs
    finally:
        for process in running:
            # Each has a session of its own, so that what it has started ends with it.
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.wait(10)


def listening(port: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="sessions of processes")
@pytest.mark.parametrize("method", ["fedavg", "own-ditto"])
def test_two_nodes_and_three_rounds(tmp_path: Path, method: str) -> None:
    scripts = Path(sys.executable).parent
    if not (scripts / "flower-superlink").exists():
        pytest.skip("Flower's programs are not beside this Python")
    app, out = tmp_path / "app", tmp_path / "out"
    app.mkdir()
    source = DITTO if method == "own-ditto" else f"METHOD = {method!r}"
    text = APP.format(shared=SHARED, out=str(out), method=source)
    (app / "fed_kit.py").write_text(text)
    (app / "fed_client.py").write_text("from fed_kit import client\napp = client()\n")
    (app / "fed_server.py").write_text("from fed_kit import server\napp = server()\n")
    (app / "pyproject.toml").write_text(
        textwrap.dedent("""
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "fed"
        version = "1.0.0"
        license = "Apache-2.0"
        dependencies = []
        [tool.flwr.app]
        publisher = "formant"
        [tool.flwr.app.components]
        serverapp = "fed_server:app"
        clientapp = "fed_client:app"
        [tool.flwr.app.config]
        """)
    )
    ports = [free_port() for _ in range(3)]
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{ports[0]}"\ninsecure = true\n'
    )
    env = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    link = [str(scripts / "flower-superlink"), "--insecure", "--disable-runtime-dependency-installation",
            "--port", str(ports[0])]  # fmt: skip
    nodes = [
        [str(scripts / "flower-supernode"), "--insecure", "--superlink", f"127.0.0.1:{ports[0]}",
         "--port", str(ports[1 + place]), "--node-config", f"partition-id={place} num-partitions=2"]
        for place in (0, 1)
    ]  # fmt: skip
    until = time.monotonic() + 300
    with processes([link], env, tmp_path) as link_logs:
        try:
            listening(ports[0], 120)
            (tmp_path / "nodes").mkdir()
            with processes(nodes, env, tmp_path / "nodes") as logs:
                started = subprocess.run(
                    [str(scripts / "flwr"), "run", str(app), "here"],
                    env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                assert started.returncode == 0, started.stdout + started.stderr
                rounds = out / "rounds.jsonl"
                while not (out / "over").exists():
                    said = "\n".join(log.read_text()[-3000:] for log in [*link_logs, *logs])
                    assert time.monotonic() < until, said
                    time.sleep(0.2)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    done = [json.loads(line) for line in rounds.read_text().splitlines()]
    assert [row["counted"] for row in done] == [2, 2, 2] and not any(row["refused"] for row in done)
    kit: dict[str, Any] = {}
    exec(text, kit)  # noqa: S102  The class of the method, as the nodes have it.
    expected = by_hand(kit["METHOD"])
    assert same(out / "generic.npz", expected["generic"])
    assert done[-1]["pm_accuracy"] == pytest.approx(expected["pm"])
    for place in (0, 1):
        assert same(out / f"personal-{place}.npz", expected["personal"][place])


# Without Flower's processes: what a server makes of nodes that are not what they should be.


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages say which task has made them; newer versions ask the process."""
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class FakeGrid:
    """Two nodes in this process, the second of which may be spoilt."""

    def __init__(self, deal: Agreement, spoil: Any = None, places: tuple[int, int] = (0, 1)) -> None:
        self.nodes = {}
        for node, place in zip((11, 12), places, strict=True):
            context = flwr.Context(1, node, {"partition-id": place}, flwr.RecordDict(), {})
            self.nodes[node] = (_Node(deal, lambda about: samples(about.node_config["partition-id"]), None, None), context)
        self.spoil = spoil

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: Any, *, timeout: float | None) -> list[flwr.Message]:
        replies = []
        for message in messages:
            node, context = self.nodes[message.metadata.dst_node_id]
            message.metadata._message_id = f"{id(message)}"  # type: ignore[attr-defined]
            handler = node.train if message.metadata.message_type == "train" else node.evaluate
            reply = handler(message, context)
            reply.metadata._src_node_id = context.node_id  # type: ignore[attr-defined]
            if context.node_id == 12 and self.spoil is not None:
                reply = self.spoil(reply)
            if reply is not None:
                replies.append(reply)
        return replies


def _upload(reply: flwr.Message, data: bytes) -> flwr.Message:
    if "upload" in reply.content:
        reply.content["upload"] = array_record(data)
    return reply


def _said(reply: flwr.Message, record: str, **values: Any) -> flwr.Message:
    for name, value in values.items():
        reply.content[record][name] = value
    return reply


def _wild(reply: flwr.Message) -> flwr.Message:
    sent = bytes_of(reply.content, "upload")
    if sent is None:
        return reply
    # The last numbers of the model become NaN, and its frame stays.
    return _upload(reply, sent[:-8] + np.full(2, np.nan, "<f4").tobytes())


def _floats(reply: flwr.Message) -> flwr.Message:
    if "upload" in reply.content:
        reply.content["upload"] = flwr.ArrayRecord({"bytes": flwr.Array(np.zeros(3))})
    return reply


@pytest.mark.parametrize(
    "spoil",
    [
        lambda reply: _upload(reply, b""),
        lambda reply: _upload(reply, b"\xff" * 4000),
        _wild,
        _floats,
        lambda reply: _said(reply, "metrics", **{"num-examples": -5}),
        lambda reply: _said(reply, "metrics", **{"num-examples": float("nan")}),
        lambda reply: _said(reply, "formant", place=0),
        lambda reply: _said(reply, "formant", place="x"),
        lambda reply: _said(reply, "formant", mark="another"),
        lambda reply: _said(reply, "formant", round=7),
        lambda reply: None,
    ],
)
def test_hostile_nodes_do_not_count(spoil: Any) -> None:
    deal = agreed()
    server = _Server(deal, FakeGrid(deal, spoil), 1.0, None)
    done = server.round(1, score=True)
    assert (done.asked, done.counted, list(done.refused)) == (2, 1, [12])
    # The other one's model is what the server has.
    alone = deal.task()
    client = deal.task(0, dataset(deal, 0))
    state = alone.start_server()
    _, sent, _ = client.train(1, None, alone.broadcast(state))
    state, _ = alone.aggregate(1, state, [(0, float(client.samples), sent)])
    generic = alone.generic(state)
    assert generic is not None and server.generic() is not None
    assert all((server.generic()[name] == values).all() for name, values in tensors(alone, generic).items())


def test_a_round_without_uploads_changes_nothing() -> None:
    deal = agreed()
    grid = FakeGrid(deal)
    server = _Server(deal, grid, 1.0, None)
    before = server.task.generic(server.state)
    grid.nodes.pop(11)
    grid.spoil = lambda reply: _upload(reply, b"")
    done = server.round(1, score=False)
    after = server.task.generic(server.state)
    assert done.counted == 0 and before is not None and after is not None and (before[0] == after[0]).all()


def test_nodes_with_other_arguments_say_so() -> None:
    ours, theirs = agreed(), agreed(learning_rate=0.01)
    assert ours.mark == agreed().mark != theirs.mark
    # Threads are everyone's own.
    assert agreed(threads=1).mark == ours.mark
    server = _Server(ours, FakeGrid(theirs), 1.0, None)
    with pytest.raises(formant.FormantError, match="another method, network"):
        server.round(1, score=False)


def test_personal_states_stay_in_the_context() -> None:
    deal = agreed()
    grid = FakeGrid(deal)
    server = _Server(deal, grid, 1.0, None)
    scores = [server.round(number, score=True).pm_accuracy for number in (1, 2, 3)]
    assert all(bytes_of(context.state, "formant.state") for _, context in grid.nodes.values())
    assert scores[-1] == pytest.approx(by_hand("ditto")["pm"])


def test_arguments() -> None:
    about = {"shape": (1, 8, 8), "classes": 3, "network": "logistic"}
    for changed, text in [
        ({"shape": (8, 8)}, "shape ="),
        ({"classes": 1}, "classes ="),
        ({"network": "cnn"}, r"shape = \(1, 8, 8\) with network = 'cnn': .* is too small .*\nhint: choose a smaller"),
        ({"network": {"name": "cnn"}}, r"shape = \(1, 8, 8\) with network ="),
        ({"normalisation": [(0, 0)]}, "normalisation ="),
        ({"nodes": 0}, "nodes ="),
        ({"fraction": 0.0}, "fraction ="),
        ({"learning_rat": 1}, "learning_rat"),
    ]:
        with pytest.raises(formant.FormantError, match=text):
            formant.flower.server_app("fedavg", **{**about, **changed})
        if not {"nodes", "fraction"} & changed.keys():
            with pytest.raises(formant.FormantError, match=text):
                formant.flower.client_app("fedavg", data=None, **{**about, **changed})
    with pytest.raises(formant.FormantError, match="2 methods"):
        formant.flower.server_app(["fedavg", "ditto"], **about)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (lambda: (np.zeros((20, 8, 8), np.float32), np.arange(20) % 3), "pixels = True"),
        (lambda: (np.zeros((20, 9, 8), np.uint8), np.arange(20) % 3), "shape"),
        (lambda: (np.zeros((20, 8, 8), np.uint8), np.arange(20) % 3 + 1), "class"),
    ],
)
def test_data_that_do_not_fit(data: Any, text: str) -> None:
    node = _Node(agreed(), data(), None, None)
    with pytest.raises(formant.FormantError, match=text):
        node._task(flwr.Context(1, 1, {"partition-id": 0}, flwr.RecordDict(), {}))
    with pytest.raises(formant.FormantError, match="partition-id"):
        node._task(flwr.Context(1, 1, {}, flwr.RecordDict(), {}))
