"""Arrays of any kind become what the core reads: samples in (n, channels, height, width), classes in 16 bits.

Nothing is copied where type and layout are right already: bytes of pictures and 32-bit floats, C-contiguous.
"""

from __future__ import annotations

from typing import Any, Literal, Sequence

import numpy as np
import numpy.typing as npt

from ._errors import FormantError

Channels = Literal["first", "last"]
Shape = tuple[int, int, int]

#: As many as a label of 16 bits can tell apart.
MOST_CLASSES = 65536
#: Numbers of channels by which one end of a shape is known.
COLOURS = (1, 3, 4)
#: Values that are looked at together when something is searched for.
CHUNK = 1 << 22

SHAPES = "give (n, features), (n, height, width), (n, channels, height, width) or (n, height, width, channels)"


def array(value: Any, name: str) -> npt.NDArray[Any]:
    """Any array as NumPy sees it, without a copy where that is possible.

    >>> array([[1, 2], [3, 4]], "x").shape
    (2, 2)
    """
    if isinstance(value, np.ndarray):
        return _unmasked(value, name)
    try:
        if all(hasattr(value, word) for word in ("detach", "cpu", "numpy")):
            return _tensor(value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.asarray(np.from_dlpack(value))
        found = np.asarray(value)
    except FormantError:
        raise
    except Exception as error:
        kind = type(value).__name__
        raise FormantError(
            f"{name} is a {kind} that NumPy cannot read: {error}",
            hint="give an array in which all rows have one shape and one type",
        ) from error
    if found.ndim == 0:
        raise FormantError(f"{name} is {_kind(value)}, not an array", hint=SHAPES)
    return found


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _tensor(value: Any) -> npt.NDArray[Any]:
    tensor = value.detach().cpu()
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        # NumPy has no bfloat16; every value of it is one of float32.
        return np.asarray(tensor.float().numpy())


def _unmasked(value: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).any()):
        raise FormantError(f"{name} has masked values", hint=f"fill them: {name}.filled(0)")
    return np.asarray(value)


def samples(
    value: Any, name: str, channels: Channels | None = None, wanted: Shape | None = None
) -> npt.NDArray[Any]:
    """Samples as the core takes them: uint8 or float32, C-contiguous, (n, channels, height, width).

    >>> samples(np.zeros((5, 28, 28), np.uint8), "x").shape
    (5, 1, 28, 28)
    >>> samples([[1.5, 2.0]], "x").dtype
    dtype('float32')
    """
    found = array(value, name)
    if found.dtype.kind not in "buif":
        hint = f'give numbers, such as {name}.astype("float32")'
        if found.dtype.kind == "O":
            hint = f'rows must have one shape and one type: numpy.stack({name}).astype("float32")'
        raise FormantError(f"{name} has the type {found.dtype}", hint=hint)
    table = found.ndim == 2
    placed = _placed(found, name, channels, wanted)
    # A table of bytes is numbers; bytes in two extents or more are pixels. The same rule as for files.
    if found.dtype != np.uint8 or table:
        if found.dtype != np.float32:
            with np.errstate(over="ignore"):
                placed = placed.astype(np.float32, order="C")
        _check_finite(placed, name)
    # Aligned too, which a view into a file's bytes need not be.
    return np.require(placed, requirements=["C", "A"])


def _placed(
    found: npt.NDArray[Any], name: str, channels: Channels | None, wanted: Shape | None
) -> npt.NDArray[Any]:
    if found.ndim not in (2, 3, 4) or 0 in found.shape[1:]:
        raise FormantError(f"{name} has the shape {found.shape}", hint=SHAPES)
    if len(found) == 0:
        raise FormantError(f"{name} has the shape {found.shape}: no samples", hint="give one at least")
    if channels not in (None, "first", "last"):
        raise FormantError(f"channels is {channels!r}", hint='write channels="first" or channels="last"')
    if found.ndim == 2:
        return found[:, :, None, None]
    if found.ndim == 3:
        return found[:, None]
    if channels is None:
        channels = _order(found.shape[1:], name, wanted)
    return found if channels == "first" else found.transpose(0, 3, 1, 2)


def _order(shape: Sequence[int], name: str, wanted: Shape | None) -> Channels:
    a, b, c = shape
    if wanted is not None and (a, b, c) == wanted:
        return "first"
    if wanted is not None and (c, a, b) == wanted:
        return "last"
    if (a in COLOURS) != (c in COLOURS):
        return "first" if a in COLOURS else "last"
    raise FormantError(
        f"{name} has samples of {(a, b, c)}, which does not say which of them are channels",
        hint='write channels="first" for (n, channels, height, width), channels="last" for (n, height, width, channels)',
    )


def _check_finite(values: npt.NDArray[Any], name: str) -> None:
    rows = max(1, CHUNK // max(1, values[0].size))
    for start in range(0, len(values), rows):
        finite = np.isfinite(values[start : start + rows])
        if not finite.all():
            row = int(np.flatnonzero(~finite.reshape(len(finite), -1).all(axis=1))[0])
            wrong = values[start + row][~finite[row]].ravel()[0]
            raise FormantError(
                f"{name}[{start + row}] has {wrong}, which cannot be trained on",
                hint=f"replace it (numpy.nan_to_num({name})) or leave the row out",
            )


class Labels:
    """Classes of samples as numbers from 0, and their names where they have some."""

    def __init__(self, of: npt.NDArray[np.uint16], names: list[str] | None) -> None:
        self.of = of
        self.names = names


def labels(value: Any, count: int, name: str, names: Sequence[str] | None = None) -> Labels:
    """Labels as the core takes them. Texts are sorted; numbers count from 0.

    >>> found = labels(["dog", "cat", "dog"], 3, "y")
    >>> found.of.tolist(), found.names
    ([1, 0, 1], ['cat', 'dog'])
    """
    found = array(value, name)
    _check_names(names)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        hint = f"give one label for each sample; for one-hot rows {name}.argmax(1)"
        raise FormantError(f"{name} has the shape {found.shape}", hint=hint)
    if len(found) != count:
        raise FormantError(
            f"{name} has {len(found)} labels for {count} samples", hint="give every sample one label"
        )
    if found.dtype.kind in "OSUT":
        return _named(_texts(found, name), name, names)
    return _numbered(_whole(found, name), name, names)


def _texts(found: npt.NDArray[Any], name: str) -> npt.NDArray[np.str_]:
    texts = found.tolist()
    for row, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise FormantError(
                f"{name} is an array of objects, and {name}[{row}] is {_kind(text)}",
                hint=f'give numbers ({name}.astype("int64")) or texts alone',
            )
    try:
        return np.array([t.decode() if isinstance(t, bytes) else t for t in texts], dtype=np.str_)
    except UnicodeDecodeError as error:
        raise FormantError(f"{name} has bytes that are no text: {error}", hint="give texts in UTF-8") from error


def _named(texts: npt.NDArray[np.str_], name: str, names: Sequence[str] | None) -> Labels:
    known = [str(text) for text in np.unique(texts)] if names is None else list(names)
    _check_count(len(known), name)
    place = {text: i for i, text in enumerate(known)}
    try:
        numbers = [place[str(text)] for text in texts]
    except KeyError as error:
        row = next(i for i, text in enumerate(texts) if str(text) not in place)
        shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
        raise FormantError(
            f"{name}[{row}] is {error.args[0]!r}, which is none of the classes",
            hint=f"the classes are {shown}; class_names=[…] names others",
        ) from None
    return Labels(np.array(numbers, dtype=np.uint16), known)


def _whole(found: npt.NDArray[Any], name: str) -> npt.NDArray[np.int64]:
    if found.dtype.kind not in "buif":
        raise FormantError(f"{name} has the type {found.dtype}", hint="give whole numbers from 0, or texts")
    if found.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(found) | (found != np.floor(found)))
        if len(wrong):
            row = int(wrong[0])
            raise FormantError(
                f"{name}[{row}] is {found[row]}, which is not a class",
                hint="number the classes with whole numbers from 0; there is no regression",
            )
    # In the array's own type, because a large unsigned number does not fit into a signed one.
    wrong = np.flatnonzero((found < 0) | (found >= MOST_CLASSES))
    if len(wrong):
        row = int(wrong[0])
        raise FormantError(
            f"{name}[{row}] is {found[row]}, which is not a class",
            hint=f"number the classes from 0 to {MOST_CLASSES - 1} at most: numpy.unique({name}, return_inverse=True)[1]",
        )
    return found.astype(np.int64)


def _numbered(numbers: npt.NDArray[np.int64], name: str, names: Sequence[str] | None) -> Labels:
    highest = int(numbers.max())
    if names is None:
        distinct = np.unique(numbers)
        if len(distinct) > 1 and distinct[0] == 1 and highest == len(distinct):
            raise FormantError(
                f"{name} has labels from 1 to {highest}, and classes are counted from 0",
                hint=f"give {name} - 1 (or class_names=[…], if class 0 is really not there)",
            )
    elif highest >= len(names):
        row = int(np.flatnonzero(numbers >= len(names))[0])
        raise FormantError(
            f"{name}[{row}] is {numbers[row]}, and there are {len(names)} classes, counted from 0",
            hint="class_names=[…] names every class",
        )
    return Labels(numbers.astype(np.uint16), None if names is None else list(names))


def _check_names(names: Sequence[str] | None) -> None:
    if names is None:
        return
    if isinstance(names, str) or not all(isinstance(one, str) for one in names):
        raise FormantError(f"class_names is {names!r}", hint='give a list of texts: class_names=["cat", "dog"]')
    twice = next((one for i, one in enumerate(names) if one in list(names)[:i]), None)
    if twice is not None:
        raise FormantError(f"class_names has {twice!r} twice", hint="name every class once, in the order of their numbers")


def _check_count(count: int, name: str) -> None:
    if count > MOST_CLASSES:
        raise FormantError(f"{name} has {count} classes", hint=f"at most {MOST_CLASSES} can be told apart")
