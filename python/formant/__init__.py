"""Formant: personalized federated learning. One generic model for everyone, one personal model for each client.

    import formant
    run = formant.run(data=(x, y), test=(xt, yt), clients=20, alpha=0.1, network="cnn",
                      methods=["fedavg", "ditto", formant.scd(lambda_p=30)], rounds=30)
    run.table()
    run["SCD"].personal[3].predict(x)

Importing it needs NumPy alone. PyTorch (``formant.torch``), Flower (``formant.flower``), pandas and tqdm are used
where they are installed, and imported when they are used.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from . import _formant, _methods
from ._data import dataset
from ._errors import FormantError, Interrupted
from ._formant import Dataset
from ._local import Batch, Local
from ._method import Central, Key, Method, Upload, key, register
from ._methods import Setting, method
from ._model import Model
from ._results import MethodRun, Run
from ._run import resume, run
from ._table import Rows
from ._terms import Linear, Proximal, Spectral, Term

if TYPE_CHECKING:
    from . import flower, testing, torch

__version__: str = _formant.__version__

# The methods as functions; a test compares with the core's list.
local = _methods.helper("local")
fedavg = _methods.helper("fedavg")
fedavg_ft = _methods.helper("fedavg-ft")
fedprox = _methods.helper("fedprox")
feddyn = _methods.helper("feddyn")
fedgen = _methods.helper("fedgen")
fedavgm = _methods.helper("fedavgm")
pfedme = _methods.helper("pfedme")
ditto = _methods.helper("ditto")
fedrep = _methods.helper("fedrep")
fedrod = _methods.helper("fedrod")
fedbabu = _methods.helper("fedbabu")
scd = _methods.helper("scd")

_LATER = ("flower", "testing", "torch")

__all__ = [
    "Batch", "Central", "Dataset", "FormantError", "Interrupted", "Key", "Linear", "Local", "Method",
    "MethodRun", "Model", "Proximal", "Rows", "Run", "Setting", "Spectral", "Term", "Upload",
    "dataset", "ditto", "fedavg", "fedavg_ft", "fedavgm", "fedbabu", "feddyn", "fedgen", "fedprox", "fedrep", "fedrod",
    "key", "local", "method", "methods", "networks", "pfedme", "quickstart", "register", "resume", "run", "scd",
    "flower", "testing", "torch",
]  # fmt: skip


def methods() -> Rows:
    """All methods: name, title, summary, citation, models and keys."""
    return Rows(json.loads(_formant.methods()))


def networks() -> Rows:
    """The networks that need no PyTorch.

    >>> networks()[0]["name"]
    'logistic'
    """
    return Rows(json.loads(_formant.networks()))


def quickstart() -> str:
    """The TOML of the quickstart: five methods on embedded images."""
    return _formant.quickstart()


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
