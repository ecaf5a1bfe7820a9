"""Model files: parameters under PyTorch's names, predictions, other formats."""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _formant
from ._arrays import Channels, Shape, array, samples
from ._errors import FormantError

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
#: Samples that go through a module of PyTorch's together.
_BATCH = 256


class Model:
    """A model of a run or of a file.

    >>> model = Model.load("runs/…/models/SCD/personal/3.safetensors")     # doctest: +SKIP
    >>> model.state_dict()["fc.weight"].shape                              # doctest: +SKIP
    (10, 84)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.card: dict[str, Any]
        self.card, self._tensors, self._start = _header(self.path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """The model of a safetensors file that Formant has written."""
        return cls(path)

    def __getstate__(self) -> dict[str, Any]:
        # A predictor is the core's, and is made anew where it is needed.
        return {name: value for name, value in vars(self).items() if name != "_predictor"}

    def __repr__(self) -> str:
        card = self.card
        who = f"client {card['client']}" if card.get("role") == "personal" else str(card.get("role"))
        method = card.get("method", {}).get("label", "?")
        return f"<formant.Model {method}, {who}: {self._network}, {len(self.classes)} classes>"

    @property
    def _network(self) -> str:
        return str(self.card.get("network", {}).get("name"))

    @property
    def classes(self) -> list[str]:
        """A name for every class."""
        return [str(name) for name in self.card.get("classes", ())]

    def state_dict(self, kind: str = "numpy") -> dict[str, Any]:
        """Parameters and buffers under PyTorch's names, as arrays or (``"torch"``) as tensors."""
        if kind not in ("numpy", "torch"):
            raise FormantError(f"state_dict({kind!r})", hint='write state_dict("numpy") or state_dict("torch")')
        with open(self.path, "rb") as file:
            file.seek(self._start)
            content = file.read()
        found: dict[str, Any] = {}
        for name, told in self._tensors.items():
            begin, end = told["data_offsets"]
            # Copied, so that whoever changes an array changes that one alone.
            values = np.frombuffer(content[begin:end], dtype=_TYPES[told["dtype"]]).reshape(told["shape"])
            found[name] = values.astype(values.dtype.newbyteorder("="))
        if kind == "torch":
            torch = _torch("state_dict")
            return {name: torch.from_numpy(values) for name, values in found.items()}
        return found

    def predict_proba(
        self, x: Any, *, module: Any = None, channels: Channels | None = None, device: Any = "cpu"
    ) -> npt.NDArray[np.float64]:
        """The probability of every class for every sample: (n, classes).

        Samples are what the model was trained on, before any normalisation: pixels from 0 to 255, or numbers.
        """
        given = self._samples(x, channels)
        if self._network == "module":
            return self._by_module(given, module, device)
        return self._predictor.probabilities(given)

    def predict(
        self, x: Any, *, module: Any = None, channels: Channels | None = None, device: Any = "cpu"
    ) -> npt.NDArray[np.int64]:
        """The most probable class of every sample; ``model.classes`` has their names."""
        found = self.predict_proba(x, module=module, channels=channels, device=device)
        best: npt.NDArray[np.int64] = found.argmax(axis=1).astype(np.int64)
        return best

    @functools.cached_property
    def _predictor(self) -> _formant.Predictor:
        return _formant.Predictor(str(self.path))

    def _samples(self, x: Any, channels: Channels | None) -> npt.NDArray[Any]:
        shape = self.card["input"]
        wanted: Shape = (shape["channels"], shape["height"], shape["width"])
        found = array(x, "x")
        if found.ndim in (2, 3, 4) and len(found) == 0:
            return np.zeros((0, *wanted), np.float32 if self._is_floats else np.uint8)
        if self._is_floats:
            given = samples(found.astype(np.float32) if found.dtype == np.uint8 else found, "x", channels, wanted)
        else:
            given = samples(_pixels(found), "x", channels, wanted)
        if given.shape[1:] != wanted:
            raise FormantError(
                f"x has samples of {given.shape[1:]}, and the model takes {wanted}: channels, height and width",
                hint=f"give (n, {', '.join(map(str, wanted))}); one sample is x[None]",
            )
        return given

    @property
    def _is_floats(self) -> bool:
        return bool(self.card.get("values") == "floats")

    def _by_module(self, x: npt.NDArray[Any], module: Any, device: Any) -> npt.NDArray[np.float64]:
        if module is None:
            name = self.card["network"].get("module", "a module")
            raise FormantError(
                f"the model's network is {name}, a module of PyTorch's that the file does not hold",
                hint="give it: predict(x, module=net); to_module(net) loads the model into it",
            )
        torch = _torch("predict")
        from .torch._device import settings

        device = settings(device, False, None, False, 1).devices[0]
        # A copy, because predicting should not change what belongs to others.
        own = self.to_module(copy.deepcopy(getattr(module, "module", module))).to(device).eval()
        mean, std = (
            np.array([one[key] for one in self.card["normalisation"]], np.float32).reshape(1, -1, 1, 1)
            for key in ("mean", "std")
        )
        found = [np.zeros((0, len(self.classes)))]
        with torch.no_grad():
            for start in range(0, len(x), _BATCH):
                part = x[start : start + _BATCH].astype(np.float32)
                part = part if self._is_floats else part / np.float32(255)
                logits = own(torch.from_numpy((part - mean) / std).to(device))
                found.append(torch.softmax(logits.double(), 1).cpu().numpy())
        return np.concatenate(found)

    def to_module(self, module: Any) -> Any:
        """Loads the model into a module of PyTorch's, which must have the same tensors, and gives it back."""
        state, own = self.state_dict("torch"), module.state_dict()
        frozen = {name for name, one in module.named_parameters() if not one.requires_grad}
        # What is not trained does not travel: frozen parameters and counters stay the module's.
        missing = [n for n, t in own.items() if n not in state and t.is_floating_point() and n not in frozen]
        unknown = [name for name in state if name not in own]
        other = [n for n in state if n in own and tuple(state[n].shape) != tuple(own[n].shape)]
        if missing or unknown or other:
            what = (
                f"it lacks {unknown[0]}" if unknown else f"the model lacks {missing[0]}" if missing
                else f"{other[0]} has the shape {tuple(own[other[0]].shape)} in it and {tuple(state[other[0]].shape)} in the model"
            )
            raise FormantError(
                f"{type(module).__name__} is not the module of this model: {what}",
                hint="give the module that the model was trained with, with the same options",
            )
        module.load_state_dict({**own, **state}, strict=True)
        return module

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the model as ``.safetensors``, ``.npz``, ``.onnx`` or (for ``torch.load``) ``.pt``; gives the path."""
        to = Path(path)
        if not to.parent.is_dir():
            raise FormantError(f"the folder {to.parent} is not there", hint="make it, or choose another")
        ending = to.suffix.lower()
        if ending == ".safetensors":
            if not (to.exists() and to.samefile(self.path)):
                shutil.copyfile(self.path, to)
        elif ending == ".npz":
            self._save_npz(to)
        elif ending in (".pt", ".pth"):
            _torch("save").save(self.state_dict("torch"), to)
        elif ending == ".onnx":
            self._save_onnx(to)
        else:
            raise FormantError(
                f"cannot save a model as {to.name!r}", hint="end the name in .safetensors, .npz, .onnx or .pt"
            )
        return to

    def _save_npz(self, to: Path) -> None:
        with zipfile.ZipFile(to, "w") as archive:
            for name, values in self.state_dict().items():
                content = io.BytesIO()
                np.lib.format.write_array(content, values, allow_pickle=False)
                archive.writestr(f"{name}.npy", content.getvalue())
            archive.writestr("formant.json", json.dumps(self.card))

    def _save_onnx(self, to: Path) -> None:
        if self._network == "module":
            raise FormantError(
                "a module of PyTorch's is exported by PyTorch", hint="torch.onnx.export(model.to_module(net), …)"
            )
        # In a process of its own, whose messages can be caught.
        asked = ["export", str(self.path), "--format", "onnx", "--out", str(to), "--force", "--json"]
        done = subprocess.run([sys.executable, "-m", "formant", *asked], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FormantError(done.stderr.strip().removeprefix("error: ") or "the export has failed")


def _header(path: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    hint = "name a .safetensors file below models/ of a run folder"
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= 100 << 20:
                raise ValueError
            told = json.loads(file.read(length))
            size = file.seek(0, os.SEEK_END)
        card = json.loads(told.pop("__metadata__")["formant"])
        for name, one in told.items():
            count = int(np.prod(one["shape"], dtype=np.int64)) * np.dtype(_TYPES[one["dtype"]]).itemsize
            begin, end = one["data_offsets"]
            if end - begin != count or 8 + length + end > size:
                raise FormantError(f"{path} is damaged at {name}", hint="take another copy of the file")
    except OSError as error:
        raise FormantError(f"cannot read the model {path}: {error.strerror}", hint=hint) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormantError(f"{path} is not a model of Formant's", hint=hint) from error
    return card, told, 8 + length


def _pixels(found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if found.dtype == np.uint8:
        # A table of bytes is one of numbers elsewhere; a model of pixels knows better.
        return found
    if found.dtype.kind in "ui" and found.size and 0 <= int(found.min()) and int(found.max()) <= 255:
        return found.astype(np.uint8)
    raise FormantError(
        f"x has the type {found.dtype}, and the model takes pixels",
        hint='give whole numbers from 0 to 255 as uint8; fractions of white become (x * 255).round().astype("uint8")',
    )


def _torch(what: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise FormantError(f"{what} needs PyTorch, which is not installed", hint='pip install "formant[torch]"') from error
    return torch
