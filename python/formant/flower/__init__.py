"""Formant's methods inside a Flower federation: their SuperLink and SuperNodes, our clients and servers.

    # client_app.py
    app = formant.flower.client_app("ditto", data=load, shape=(1, 28, 28), classes=10, network="cnn", rounds=20)
    # server_app.py
    app = formant.flower.server_app("ditto", shape=(1, 28, 28), classes=10, network="cnn", rounds=20, nodes=2)

Both sides are given the same method, shape, classes, network and keys of training; a node that was given others says
so and takes no part. What is personal stays in the node's ``context.state``.
"""

from __future__ import annotations

from ._client import client_app
from ._server import Round, server_app
from ._task import Agreement

__all__ = ["Agreement", "Round", "client_app", "server_app"]
