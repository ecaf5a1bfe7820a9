"""``python -m formant``: the command line, with methods and engines of Python's.

Beside everything that ``formant`` takes:

    --with FILE.py|MODULE    import it, and make the methods that it defines known (repeatable)
    --engine formant|torch   who computes networks, for run and reproduce
    --device DEVICE          where PyTorch computes: cpu, cuda, cuda:1, mps
    --processes              a process for each of PyTorch's workers, on CPUs
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from . import _formant
from ._errors import FormantError
from ._method import Method, register
from ._run import check_methods

HELP = """
In Python also:
      --with FILE.py             methods of your own: subclasses of formant.Method (repeatable)
      --engine formant|torch     who computes networks, for run and reproduce
      --device DEVICE            where PyTorch computes, such as cuda (repeatable)
      --processes                a process for each of PyTorch's workers, on CPUs: seconds to start, no GIL between them"""

_OWN = ("--with", "--engine", "--device", "--processes")
_FLAGS = ("--processes",)


def taken(args: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The arguments for the command line, and those for Python.

    >>> taken(["run", "--engine=torch", "a.toml", "--device", "cpu"])
    (['run', 'a.toml'], {'--with': [], '--engine': ['torch'], '--device': ['cpu'], '--processes': []})
    """
    rest: list[str] = []
    own: dict[str, list[str]] = {name: [] for name in _OWN}
    at = iter(args)
    for arg in at:
        name, has_value, value = arg.partition("=")
        if arg == "--":
            rest += [arg, *at]
        elif name in _FLAGS:
            if has_value:
                raise FormantError(f"{name} takes no value", hint=f"write {name}, or leave it out")
            own[name].append("")
        elif name in own:
            if not has_value:
                found = next(at, None)
                if found is None:
                    raise FormantError(f"{name} has no value", hint=f"write {name} VALUE")
                value = found
            own[name].append(value)
        else:
            rest.append(arg)
    return rest, own


def _module_name(path: Path) -> str:
    """What a file is called among modules: its own name, unless another module has it."""
    there = sys.modules.get(path.stem)
    file = getattr(there, "__file__", None)
    is_other = there is not None and (file is None or Path(file).resolve() != path.resolve())
    return f"formant_with_{path.stem}" if is_other or path.stem in sys.stdlib_module_names else path.stem


def loaded(name: str) -> ModuleType:
    """Imports a file or a module and makes the methods that it defines known."""
    if not name:
        raise FormantError("--with names nothing", hint="name a file of Python or a module")
    if name.endswith(".py"):
        path = Path(name)
        own_name = _module_name(path)
        spec = importlib.util.spec_from_file_location(own_name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise FormantError(f"--with {name}: there is no such file", hint="name a file of Python or a module")
        module = importlib.util.module_from_spec(spec)
        # Classes are found again by the name of their module, as when it is imported.
        sys.modules[own_name] = module
        # What lies beside it can be imported, as when a file is run; last, so that it hides nothing.
        if (beside := str(path.resolve().parent)) not in sys.path:
            sys.path.append(beside)
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(name)
        except (ImportError, ValueError) as error:
            raise FormantError(f"--with {name}: {error}", hint="name a file that ends in .py, or a module") from error
    found = [
        one for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Method) and one.__module__ == module.__name__
    ]  # fmt: skip
    if not found:
        raise FormantError(f"--with {name}: it defines no method", hint="write class Mine(formant.Method) in it")
    for one in found:
        register(one)
    return module


def _engine(own: dict[str, list[str]], rest: list[str]) -> Any:
    engines, devices, processes = own["--engine"], own["--device"], bool(own["--processes"])
    only = "--device" if devices else "--processes" if processes else None
    if not engines:
        if only:
            raise FormantError(f"{only} is for PyTorch", hint="add --engine torch")
        return None
    command = next((arg for arg in rest if not arg.startswith("-")), None)
    if command not in ("run", "reproduce"):
        raise FormantError(f"--engine does nothing with {command or 'no command'}", hint="it is for run and reproduce")
    if engines[-1] == "formant" and not only:
        return None
    if engines[-1] != "torch":
        what = f"{only} is for PyTorch" if engines[-1] == "formant" else f"--engine {engines[-1]} is not there"
        raise FormantError(what, hint="write --engine torch or --engine formant")
    from . import torch
    from ._run import core_engine

    device = devices if len(devices) > 1 else devices[0] if devices else "cpu"
    return core_engine(None, torch.engine(device, processes=processes))[1]


def _resumed(rest: list[str]) -> Path | None:
    """The folder of a run that is to go on.

    >>> str(_resumed(["run", "--resume", "runs/a"])), str(_resumed(["run", "--resume=b"])), _resumed(["runs", "--resume"])
    ('runs/a', 'b', None)
    """
    if next((arg for arg in rest if not arg.startswith("-")), None) != "run":
        return None
    for arg, after in zip(rest, [*rest[1:], None], strict=True):
        name, has_value, value = arg.partition("=")
        found = value if has_value else after
        if name == "--resume" and found:
            return Path(found)
    return None


def main(args: list[str] | None = None) -> int:
    """Does what the command line asks for; gives the exit code."""
    try:
        rest, own = taken(sys.argv[1:] if args is None else args)
        for name in own["--with"]:
            loaded(name)
        engine = _engine(own, rest)
        if (folder := _resumed(rest)) is not None:
            check_methods(folder)
    except FormantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    # What was imported stays; looking through it for garbage, again and again, takes time from training.
    gc.freeze()
    code = _formant.cli(["formant", *rest], engine=engine)
    command = next((arg for arg in rest if not arg.startswith("-")), None)
    if {"-h", "--help"} & set(rest) and command in (None, "run", "reproduce"):
        print(HELP)
    return code


if __name__ == "__main__":
    sys.exit(main())
