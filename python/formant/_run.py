"""Runs: how they begin, and how they go on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import _formant
from ._data import FROM_PYTHON, Loaded, Options, beside_experiment, is_section, load
from ._division import division, is_lists, write_division
from ._errors import FormantError, Interrupted
from ._experiment import Composed, compose
from ._methods import known as known_methods
from ._methods import settings
from ._progress import Progress
from ._results import Run, experiment_text


def run(
    experiment: Any = None,
    *,
    data: Any = None,
    test: Any = None,
    methods: Any = None,
    network: Any = None,
    partition: Any = None,
    clients_of: Any = None,
    engine: Any = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    dataset_name: str = "arrays",
    label: str | None = None,
    image: str | None = None,
    client: str | None = None,
    exclude: Sequence[str] = (),
    channels: Any = None,
    class_names: Sequence[str] | None = None,
    normalisation: Any = None,
    test_fraction: float | None = None,
    **keywords: Any,
) -> Run:
    """Trains and scores methods, and gives the run.

    An experiment comes from keywords, from TOML (``experiment``: a path, a text, a dictionary, ``"quickstart"``), or
    from both, keywords going first. Without experiment, data and methods, it is the quickstart.

    - ``data``, ``test``: ``(x, y)`` of any arrays, data frames, datasets of ``torch.utils.data`` or Hugging Face; or a
      path or name that the core reads (``"mnist-small"``). :func:`formant.dataset` explains the options ``label``,
      ``image``, ``client``, ``exclude``, ``channels``, ``class_names``, ``normalisation`` and ``test_fraction``.
    - ``partition``: a name (``"dirichlet"``, ``"iid"``, …), or a list of indices for each client; ``clients_of``: the
      client of each training sample.
    - ``network``: a name, a dictionary, or :func:`formant.torch.network`. ``engine``: :func:`formant.torch.engine`.
    - ``methods``: names, ``formant.ditto(lambda_=1)``, dictionaries, subclasses of :class:`formant.Method`.
    - ``out``: the run folder, new or empty; without, ``runs/NAME-TIME``. ``progress``: whether to show any.
    - Keys of the experiment by their names: ``clients``, ``alpha``, ``rounds``, ``seed``, ``learning_rate``, ``epochs``,
      ``batch``, ``participation``, ``threads``, …; whole sections as dictionaries: ``train={"momentum": 0.9}``; any
      other by ``set={"train.momentum": 0.9}``.

    Ctrl-C stops at the last checkpoint and raises :class:`formant.Interrupted`; :func:`formant.resume` goes on.

    >>> done = run(data="mnist-small", clients=4, samples=400, network="logistic",
    ...            methods=["fedavg"], rounds=2, out=folder)                           # doctest: +SKIP
    """
    if experiment is None and data is None and methods is None:
        experiment = "quickstart"
    elif experiment is None and methods is None and "method" not in (set or {}):
        raise FormantError("methods is missing", hint='say what to compare: methods=["fedavg", "ditto", "scd"]')
    if hasattr(methods, "__next__"):
        # Read more than once below.
        methods = list(methods)
    said = Options(
        dataset_name, label, image, client, exclude, channels, class_names, normalisation, test_fraction, clients_of
    )
    loaded, section = _loaded(data, test, said)
    network, engine = core_engine(network, engine)
    if clients_of is not None and not (partition is None or isinstance(partition, str) and partition == "natural"):
        raise FormantError("partition and clients_of are both given", hint="say whose samples are whose once")
    lists = division(partition, _count(loaded)) if is_lists(partition) else None
    if lists is not None:
        partition = "file"
        # Where the file will lie is known only with the experiment's name; that it is well-formed is checked before.
        section["partition_file"] = "partition.json"
    elif partition is None and loaded is not None and loaded.natural:
        partition = "natural"
    if partition is not None:
        section["partition"] = partition
    composed = compose(experiment, data=section, network=network, methods=methods, set=set, keywords=keywords)
    name = str(composed.resolved().get("name", "experiment"))
    folder, made = _folder(out, name)
    division_file = None
    try:
        if lists is not None:
            division_file = write_division(lists, folder)
            section["partition_file"] = str(division_file.resolve())
            composed = compose(experiment, data=section, network=network, methods=methods, set=set, keywords=keywords)
        return _run(composed, folder, False, loaded.dataset if loaded else None, engine, progress)
    finally:
        # What was refused leaves nothing behind.
        if not (folder / "experiment.toml").exists():
            if division_file is not None:
                division_file.unlink(missing_ok=True)
            if made and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def resume(
    folder: str | os.PathLike[str],
    *,
    data: Any = None,
    test: Any = None,
    network: Any = None,
    methods: Any = None,
    engine: Any = None,
    rounds: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Run:
    """Goes on with a run that was interrupted, or with more ``rounds`` than it had; gives the same bits as without.

    What does not lie in the folder must be given again as it was: arrays, modules, and classes of methods (``methods``).
    """
    path = Path(folder)
    text = experiment_text(path)
    if "dataset_name" in options:
        options["name"] = options.pop("dataset_name")
    known = {field: options.pop(field) for field in list(options) if field in Options.__dataclass_fields__}
    if options:
        raise FormantError(
            f"unknown keyword {next(iter(options))!r}", hint="a run goes on as it began, or with more rounds"
        )
    if methods is not None:
        settings(methods)  # Registers classes.
    loaded, section = _loaded(data, test, Options(**known))
    if loaded.dataset is None if loaded is not None else section:
        raise FormantError(
            "data names a source, and a run goes on with the one that it had", hint="leave data out, or give its arrays"
        )
    config = _config(path, text)
    if loaded is None and str(config.get("data", {}).get("source")).startswith(FROM_PYTHON):
        raise FormantError(
            f"the run in {path} was made with arrays, which its folder does not hold",
            hint=f'give them again: formant.resume("{path}", data=(x, y), test=(x, y))',
        )
    _, engine = core_engine(network, engine)
    if engine is None and config.get("network", {}).get("name") == "module":
        raise FormantError(
            f"the run in {path} was made with a PyTorch module, which its folder does not hold",
            hint=f'give it again: formant.resume("{path}", network=formant.torch.network(module))',
        )
    _check_engine(path, engine)
    sets = [f"rounds={rounds}"] if rounds is not None else []
    sets += [f"runtime.threads={threads}"] if threads is not None else []
    return _run(Composed("", sets), path, True, loaded.dataset if loaded else None, engine, progress)


def _config(path: Path, text: str) -> dict[str, Any]:
    """The experiment of a run, from its log where it has begun: texts that look like keys are none there."""
    if not (path / "events.jsonl").is_file():
        return Composed(text, []).resolved()
    check_methods(path)
    found: dict[str, Any] = Run(path).log["config"]
    return found


def check_methods(path: Path) -> None:
    """Refuses to go on with a run, or with runs of several seeds, whose methods are classes that nobody has given."""
    begun = [log.parent for log in (path / "events.jsonl", *sorted(path.glob("*/events.jsonl"))) if log.is_file()]
    for method in Run(begun[0]).log["methods"] if begun else ():
        if method["name"] not in known_methods():
            raise FormantError(
                f"the run in {path} has the method {method['name']!r}, a class of Python's that is not known here",
                hint=f'give the class again: formant.resume("{path}", methods=[…]), '
                f'or python -m formant run --resume "{path}" --with FILE.py, with the file that defines it',
            )


def _check_engine(path: Path, engine: Any) -> None:
    """Refuses to go on with another engine, whose bits are others."""
    if engine is not None or not (path / "events.jsonl").is_file():
        return
    began: Any = Run(path).log.get("engine")
    if began is not None:
        raise FormantError(
            f"the run in {path} was computed by {began}",
            hint=f'go on with it: formant.resume("{path}", engine=formant.torch.engine(device=…))',
        )


def _run(
    composed: Composed, folder: Path, again: bool, dataset: Any, engine: Any, progress: bool | None
) -> Run:
    shown = Progress(progress)
    try:
        outcome = _formant.run(
            composed.text, composed.sets, str(folder), resume=again, dataset=dataset, engine=engine, poll=shown
        )
    finally:
        shown.close()
    if outcome == "interrupted":
        raise Interrupted(folder)
    _formant.write_reports(str(folder))
    done = Run(folder)
    for remark in done.remarks:
        # A test set that was split off is what the documentation says.
        if not remark.startswith("no test set is given"):
            warnings.warn(remark, stacklevel=4)
    return done


def _loaded(data: Any, test: Any, options: Options) -> tuple[Loaded | None, dict[str, Any]]:
    if data is None:
        return None, beside_experiment(test, options, False)
    if is_section(data):
        return None, {**beside_experiment(test, options, True), **data}
    loaded = load(data, test, options)
    return loaded, {"source": loaded.source, **loaded.keys}


def _count(loaded: Loaded | None) -> int | None:
    if loaded is None:
        return None
    if loaded.split:
        raise FormantError(
            "partition lists training samples, and there is no test set: part of the samples would become it, "
            "and the indices would mean others",
            hint="give test=(x, y), or test_fraction=0 to go without",
        )
    return loaded.count


def core_engine(network: Any, engine: Any) -> tuple[Any, Any]:
    """The network, and the engine that the core takes."""
    if callable(getattr(network, "named_parameters", None)) and not hasattr(network, "engine"):
        from . import torch as _torch

        network = _torch.network(network)
    own = network if callable(getattr(network, "engine", None)) else None
    if own is not None and engine is not None:
        raise FormantError("engine is given beside a network that has its own", hint="leave engine out")
    factory = own if own is not None else engine
    if factory in (None, "formant"):
        return network, None
    if factory == "torch":
        from . import torch as _torch

        factory = _torch.engine()
    if isinstance(factory, _formant.Engines):
        return network, factory
    if not callable(getattr(factory, "engine", None)):
        raise FormantError(f"engine is a {type(factory).__name__}", hint="give formant.torch.engine(device=…)")
    label = getattr(getattr(factory, "settings", None), "label", None) or getattr(factory, "name", "python")
    return network, _formant.Engines(factory, str(label))


def _folder(out: str | os.PathLike[str] | None, name: str) -> tuple[Path, bool]:
    """A folder for a run, and whether it was made here. Whoever makes it owns it."""
    if out is not None:
        path = Path(out)
        if (path / "experiment.toml").exists():
            hint = f'go on with it by formant.resume("{path}"), or choose another folder'
            raise FormantError(f"out = {str(path)!r} holds a run already", hint=hint)
        if path.exists() and not path.is_dir():
            raise FormantError(f"out = {str(path)!r} is a file", hint="choose a new folder")
        if path.is_dir() and any(path.iterdir()):
            raise FormantError(f"out = {str(path)!r} is not empty", hint="choose a new folder, or none at all")
        return path, not path.exists()
    # Not as long as a name may be: file systems take 255 bytes.
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:50] or "run"
    time = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    Path("runs").mkdir(exist_ok=True)
    count = 1
    while True:
        path = Path("runs") / (f"{safe}-{time}" + (f"-{count}" if count > 1 else ""))
        try:
            path.mkdir()
            return path, True
        except FileExistsError:
            count += 1
