"""Data of any kind become a dataset of the core, or the name of one that it reads itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Mapping, Sequence

import numpy.typing as npt

from . import _sources
from ._arrays import Channels, Labels, Shape, array, labels, samples
from ._division import owners
from ._errors import FormantError
from ._formant import Dataset
from ._sources import Pair

#: Before the name of data that are arrays, where an experiment names its source.
FROM_PYTHON = "python:"


@dataclass
class Options:
    """What is said about data beside the data."""

    name: str = "arrays"
    label: str | None = None
    image: str | None = None
    client: str | None = None
    exclude: Sequence[str] = ()
    channels: Channels | None = None
    class_names: Sequence[str] | None = None
    normalisation: Sequence[tuple[float, float]] | None = None
    test_fraction: float | None = None
    clients_of: Any = None


@dataclass
class Loaded:
    """Data that a run can use: arrays as a dataset, or a source that the core reads."""

    source: str
    dataset: Dataset | None = None
    #: Whether the data say whose each sample is.
    natural: bool = False
    #: Training samples, if they are known here.
    count: int | None = None
    #: Whether part of them was split off, so that the given indices are no longer theirs.
    split: bool = False
    #: Keys of ``[data]`` that go with a source.
    keys: dict[str, Any] = field(default_factory=dict)


def dataset(
    data: Any,
    test: Any = None,
    *,
    name: str = "arrays",
    label: str | None = None,
    image: str | None = None,
    client: str | None = None,
    exclude: Sequence[str] = (),
    clients_of: Any = None,
    channels: Channels | None = None,
    class_names: Sequence[str] | None = None,
    normalisation: Sequence[tuple[float, float]] | None = None,
    test_fraction: float | None = None,
) -> Dataset:
    """Arrays as a dataset, for several runs; :func:`formant.run` takes the same arguments.

    ``data`` and ``test`` are pairs ``(x, y)`` of arrays (NumPy, torch, DLPack, lists), a data frame, a dataset of
    ``torch.utils.data`` or of Hugging Face. Arrays of uint8 or float32 that lie sample after sample and channel
    after channel are not copied, and must not be changed while a run uses them. Without ``test``, a fifth of each
    class (``test_fraction``) becomes the global test set.

    >>> import numpy as np
    >>> x = np.arange(400, dtype=np.float32).reshape(100, 4)
    >>> made = dataset((x, np.arange(100) % 2), test=(x, np.arange(100) % 2))
    >>> made.shape, made.classes, made.train
    ((4, 1, 1), 2, 100)
    """
    options = Options(
        name, label, image, client, exclude, channels, class_names, normalisation, test_fraction, clients_of
    )
    loaded = load(data, test, options)
    if loaded.dataset is None:
        raise FormantError(
            f"data is {os.fspath(data)!r}, which the core reads itself",
            hint="give the path to formant.run(data=…), or arrays here",
        )
    return loaded.dataset


def load(data: Any, test: Any, options: Options) -> Loaded:
    """What was given as data, ready for a run."""
    if isinstance(data, (str, os.PathLike)):
        return _named(os.fspath(data), test, options)
    if isinstance(data, Dataset):
        if test is not None:
            raise FormantError("test is given beside a formant.Dataset", hint="it has its test set already")
        said = "label image client exclude channels class_names normalisation test_fraction clients_of"
        _refuse(options, said.split(), "a formant.Dataset", "say it to formant.dataset(…), which makes one")
        return Loaded(FROM_PYTHON + data.name, data, data.owned, data.train, data.split)
    data, test = _sources.parts(data, test)
    if data is None:
        raise FormantError("data is None", hint='give (x, y), a data frame, a dataset or a name such as "mnist-small"')
    if isinstance(data, (tuple, list)):
        _refuse(options, ["label", "image", "client", "exclude"], "(x, y)", "it names columns; clients_of=… says whose samples are whose")
    pair = _sources.pair(data, "data", options)
    x = samples(pair.x, pair.x_name, options.channels)
    names = options.class_names if options.class_names is not None else pair.class_names
    y = labels(pair.y, len(x), pair.y_name, names)
    whose, owner_names = _owners(pair, len(x), options)
    test_x, test_y = _test(test, x, y, pair, options)
    made = Dataset(
        options.name,
        x,
        y.of,
        test_x,
        test_y,
        class_names=y.names,
        owners=whose,
        owner_names=owner_names,
        normalisation=None if options.normalisation is None else _normalisation(options, x.shape[1]),
        test_fraction=_fraction(options.test_fraction),
    )
    split = test_x is None and _fraction(options.test_fraction) > 0
    return Loaded(FROM_PYTHON + options.name, made, whose is not None, made.train, split)


def is_given(options: Options, name: str) -> bool:
    """Whether an option says anything."""
    value = getattr(options, name)
    return value is not None and not (name == "exclude" and len(value) == 0) and not (name == "name" and value == "arrays")


def beside_experiment(test: Any, options: Options, section: bool) -> dict[str, Any]:
    """Options where the experiment says what the data are, as keys of ``[data]``; refuses those that would do nothing."""
    given, hint = ("beside data={…}, a section", "say it in the section") if section else ("without data", "give data=(x, y) too")
    if test is not None:
        raise FormantError(f"test is given {given}", hint=hint)
    for name in _KEYS if section else ():
        if is_given(options, name):
            raise FormantError(f"{name} is given {given}", hint=f"say it in the section: data={{\"{_KEYS[name]}\": …}}")
    arrays = {"clients_of": "clients_of", "channels": "channels", "class_names": "class_names", "name": "dataset_name"}
    for name, argument in arrays.items():
        if is_given(options, name):
            raise FormantError(f"{argument} is given {given}", hint="it is for arrays: give data=(x, y)")
    return _said(options)


#: Options that the core knows too, and their keys of ``[data]``.
_KEYS = {
    "label": "label", "image": "features", "client": "client", "exclude": "exclude", "test_fraction": "test_fraction",
    "normalisation": "normalisation",
}  # fmt: skip


def _said(options: Options) -> dict[str, Any]:
    found = {key: getattr(options, name) for name, key in _KEYS.items() if is_given(options, name)}
    return {**found, "exclude": list(found["exclude"])} if "exclude" in found else found


def _refuse(options: Options, names: Sequence[str], beside: str, hint: str) -> None:
    """Refuses what would be ignored."""
    for name in names:
        if is_given(options, name):
            raise FormantError(f"{name} is given beside {beside}", hint=hint)


def _named(source: str, test: Any, options: Options) -> Loaded:
    if test is not None:
        raise FormantError(
            f"test is given beside data = {source!r}",
            hint="a file or folder has its own test set (x_test and y_test, test/…), or data.test_fraction makes one",
        )
    if options.clients_of is not None:
        raise FormantError(
            f"clients_of is given beside data = {source!r}",
            hint='name the column of the clients: client="…", or give arrays',
        )
    for name in ("channels", "class_names"):
        if getattr(options, name) is not None:
            raise FormantError(f"{name} is given beside data = {source!r}", hint="it is for arrays")
    return Loaded(source, natural=options.client is not None, keys=_said(options))


def _owners(pair: Pair, count: int, options: Options) -> tuple[npt.NDArray[Any] | None, list[str] | None]:
    if options.clients_of is not None and pair.clients is not None:
        raise FormantError("client and clients_of are both given", hint="say whose samples are whose once")
    given = options.clients_of if options.clients_of is not None else pair.clients
    if given is None:
        return None, None
    name = "clients_of" if options.clients_of is not None else f"column {options.client!r}"
    return owners(given, count, name)


def _test(
    test: Any, x: npt.NDArray[Any], y: Labels, train: Pair, options: Options
) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]:
    if test is None:
        return None, None
    pair = _sources.pair(test, "test", options, like=train)
    shape: Shape = (x.shape[1], x.shape[2], x.shape[3])
    test_x = samples(pair.x, pair.x_name, options.channels, wanted=shape)
    if test_x.shape[1:] != x.shape[1:]:
        raise FormantError(
            f"{pair.x_name} has samples of {test_x.shape[1:]}, those of {train.x_name} have {x.shape[1:]}",
            hint="test samples must have the shape of the training samples",
        )
    if test_x.dtype != x.dtype:
        raise FormantError(
            f"{pair.x_name} has the type {array(pair.x, pair.x_name).dtype}, {train.x_name} has {array(train.x, train.x_name).dtype}",
            hint="give both as uint8 (pixels from 0 to 255) or both as float32",
        )
    names = y.names
    if names is None:
        # Numbers, of which the training labels say how many classes there are.
        names = [str(i) for i in range(int(y.of.max()) + 1)]
    return test_x, labels(pair.y, len(test_x), pair.y_name, names).of


def _fraction(value: float | None) -> float:
    if value is None:
        return 0.2
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 0.9:
        raise FormantError(f"test_fraction is {value!r}", hint="give a number from 0 to 0.9")
    return float(value)


def _normalisation(options: Options, channels: int) -> list[tuple[float, float]]:
    hint = f"give a pair (mean, deviation) for each of {channels} channels; pixels are scaled to [0, 1] before"
    try:
        pairs = [(float(mean), float(std)) for mean, std in options.normalisation or ()]
    except (TypeError, ValueError):
        raise FormantError(f"normalisation is {options.normalisation!r}", hint=hint) from None
    if len(pairs) != channels or not all(isfinite(mean) and isfinite(std) and std > 0 for mean, std in pairs):
        raise FormantError(f"normalisation is {pairs!r}", hint=hint)
    return pairs


def is_section(data: Any) -> bool:
    """Whether data are a section of an experiment, such as ``{"source": "mnist-small", "clients": 8}``."""
    if not isinstance(data, Mapping) or not data or type(data) is not dict:
        return False
    plain = (str, int, float, bool, list, tuple, os.PathLike, type(None))
    arrays = {"x", "y", "x_train", "y_train", "train", "test"}
    return not arrays & set(data) and all(isinstance(v, plain) or isinstance(v, dict) for v in data.values())
