"""Memory that this process and its children see: anonymous files, so that nothing is left behind whoever dies."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Span = tuple[int, int]
"""Where something lies: its first byte, and how many."""
LINE = 64
"""Everything begins at a line of the processor's cache."""
SMALL = 4096
"""Arrays below this many bytes are cheaper in a message."""


def aligned(at: int, to: int = LINE) -> int:
    """The next multiple.

    >>> aligned(0), aligned(1), aligned(64), aligned(65)
    (0, 64, 64, 128)
    """
    return -(-at // to) * to


def _anonymous() -> int:
    """A file that is in no folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("formant")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Block:
    """Shared memory that grows. Whoever has its descriptor, which children inherit, sees the same bytes.

    What was given out stays where it is when the block grows.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _anonymous() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None
        self._mapped = self._size = 0
        weakref.finalize(self, os.close, self.descriptor)

    def reserve(self, size: int) -> None:
        """Makes it at least so large."""
        if size > self._size:
            self._size = aligned(size, mmap.PAGESIZE)
            os.ftruncate(self.descriptor, self._size)

    def bytes(self, span: Span) -> Bytes:
        """A part of it."""
        start, size = span
        if start + size > self._mapped:
            self._mapped = os.fstat(self.descriptor).st_size
            self._map = mmap.mmap(self.descriptor, self._mapped)
        if self._map is None:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._map, np.uint8, size, start)

    def write(self, span: Span, values: Any) -> None:
        """Copies bytes there. NumPy does it, because it lets other threads run meanwhile."""
        np.copyto(self.bytes(span), np.frombuffer(values, np.uint8))


def pack(value: Any, block: Block | None) -> tuple[bytes, list[Span]]:
    """A value as a message, whose large arrays are copied into a block if there is one."""
    if block is None:
        return pickle.dumps(value, protocol=5), []
    buffers: list[pickle.PickleBuffer] = []

    def aside(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < SMALL:
            return True
        buffers.append(buffer)
        return False

    data = pickle.dumps(value, protocol=5, buffer_callback=aside)
    raws, spans, end = [buffer.raw() for buffer in buffers], [], 0
    for raw in raws:
        spans.append((aligned(end), raw.nbytes))
        end = aligned(end) + raw.nbytes
    block.reserve(end)
    for span, raw in zip(spans, raws):
        block.write(span, raw)
    return data, spans


def unpack(data: bytes, spans: Sequence[Span], block: Block) -> Any:
    """The value; its large arrays lie in the block, until something else is packed into it."""
    return pickle.loads(data, buffers=[block.bytes(span) for span in spans])  # noqa: S301
