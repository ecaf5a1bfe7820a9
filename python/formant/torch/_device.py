"""Where and how PyTorch computes: devices, precision, threads, determinism."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import torch

from formant._errors import FormantError

Device = Union[str, int, torch.device]
"""What PyTorch takes as a device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, ..."""


@dataclass(frozen=True)
class Settings:
    """How an engine computes; the same for all its workers."""

    devices: tuple[torch.device, ...]
    compile: bool
    autocast: torch.dtype | None
    deterministic: bool
    threads: int
    processes: bool = False
    """Whether every worker is a process of its own."""

    @property
    def label(self) -> str:
        """What goes into the log of a run."""
        names = "+".join(str(device) for device in self.devices)
        extras = [
            "compiled" if self.compile else "",
            str(self.autocast).removeprefix("torch.") if self.autocast else "",
            "deterministic" if self.deterministic else "",
        ]
        return " ".join([f"torch {torch.__version__} on {names}", *filter(None, extras)])

    def apply(self) -> None:
        """Sets what is a matter of the whole process."""
        torch.set_num_threads(self.threads)
        if self.deterministic:
            # cuBLAS reads it when it is first used; whoever has set it knows why.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False


def settings(
    device: Device | Sequence[Device],
    compile: bool,  # noqa: A002
    autocast: bool | str | torch.dtype | None,
    deterministic: bool,
    threads: int,
    processes: bool = False,
) -> Settings:
    """Checks what a user has asked for."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise FormantError(f"threads is {threads!r}", hint="give the number of threads of a worker, 1 or more")
    # PyTorch starts as many as it is told to, of which a machine may hang or the process die.
    if threads > (most := max(os.cpu_count() or 1, 1)):
        raise FormantError(
            f"threads is {threads}, and this machine has {most} processors",
            hint=f"give 1 to {most}; 1 is right unless there are fewer workers than processors",
        )
    if isinstance(device, (list, tuple)):
        if not device:
            raise FormantError("device is an empty list", hint='give at least one, such as ["cuda:0", "cuda:1"]')
        devices = tuple(_device(one) for one in device)
    else:
        devices = (_device(device),)  # type: ignore[arg-type]
    if processes:
        _refuse_processes(devices)
    return Settings(devices, bool(compile), _precision(autocast), bool(deterministic), threads, bool(processes))


def _refuse_processes(devices: Sequence[torch.device]) -> None:
    if others := [str(device) for device in devices if device.type != "cpu"]:
        raise FormantError(
            f"processes is True, and the device is {others[0]}",
            hint="leave processes out: it is for CPUs, and the workers of a device are threads with streams of their own",
        )
    if os.name != "posix":
        raise FormantError(
            "processes is True, and this system has no descriptors that processes inherit",
            hint="leave processes out: it is for Linux and macOS",
        )


def available() -> list[str]:
    """The devices that PyTorch sees.

    >>> "cpu" in available()
    True
    """
    found = ["cpu"]
    found += [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def _device(given: Device) -> torch.device:
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise FormantError(f"device {given!r} is none", hint=f"there are {_listed()}") from error
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type in ("cuda", "mps"):
        names = available()
        if device.type == "cuda" and device.index is None and "cuda:0" in names:
            return torch.device("cuda", torch.cuda.current_device())
        if str(device) in names or (device.type == "mps" and "mps" in names):
            return device
        raise FormantError(f"device {str(given)!r} is not there", hint=f"PyTorch sees {_listed()}{_why(device)}")
    if device.type == "meta":
        raise FormantError("device 'meta' computes nothing", hint=f"there are {_listed()}")
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        raise FormantError(f"device {str(given)!r} is not there", hint=f"PyTorch sees {_listed()}") from error
    return device


def _why(device: torch.device) -> str:
    if device.type == "cuda" and not torch.cuda.is_available():
        built = torch.version.cuda
        return "; this PyTorch is built without CUDA" if built is None else "; is there an NVIDIA driver?"
    return ""


def _listed() -> str:
    return ", ".join(available())


def _precision(given: bool | str | torch.dtype | None) -> torch.dtype | None:
    if given is None or given is False:
        return None
    named = getattr(torch, given, None) if isinstance(given, str) else given
    if given is True or named is torch.bfloat16:
        return torch.bfloat16
    if named is torch.float16:
        raise FormantError(
            "autocast is float16, whose small gradients vanish without a scaled loss",
            hint='say autocast="bfloat16"',
        )
    raise FormantError(f"autocast is {given!r}", hint='say "bfloat16", or None for single precision')
