"""Where samples and labels lie in the datasets that Python has. None of their libraries is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ._arrays import array
from ._errors import FormantError

if TYPE_CHECKING:
    from ._data import Options

LABELS = ("label", "fine_label", "labels", "class", "target", "y")
IMAGES = ("image", "img", "x", "pixel_values", "features")
KINDS = (
    "give (x, y), a data frame, a dataset of torch.utils.data or of Hugging Face, "
    'or a path or name such as "mnist-small"'
)


@dataclass
class Pair:
    """Samples and labels, not yet looked at."""

    x: Any
    y: Any
    x_name: str
    y_name: str
    class_names: list[str] | None = None
    clients: Any = None
    #: The columns of a table that are features, in order.
    columns: list[str] | None = None


def parts(data: Any, test: Any) -> tuple[Any, Any]:
    """Training and test data, where one object has both: Keras' pairs, Hugging Face's DatasetDict, npz files."""
    if isinstance(data, Mapping):
        names = set(data)
        for x, y, test_x, test_y in [("x_train", "y_train", "x_test", "y_test"), ("x", "y", "", "")]:
            if {x, y} <= names:
                own = (data[test_x], data[test_y]) if {test_x, test_y} <= names else None
                return (data[x], data[y]), test if test is not None else own
        if "train" in names:
            return data["train"], test if test is not None else data.get("test")
        if not names:
            raise FormantError("data is an empty dictionary", hint=KINDS)
        raise FormantError(
            f"data has {', '.join(sorted(map(str, names)))}", hint="name the parts train and test, or x and y"
        )
    both = isinstance(data, tuple) and len(data) == 2 and all(isinstance(p, tuple) and len(p) == 2 for p in data)
    if both and test is None:
        return data[0], data[1]
    return data, test


def pair(data: Any, name: str, options: "Options", like: Pair | None = None) -> Pair:
    """Samples and labels of anything that has them."""
    if isinstance(data, (tuple, list)) and not (len(data) > 2 and _is_item(data[0])):
        if len(data) != 2:
            raise FormantError(f"{name} is a {type(data).__name__} of {len(data)}", hint=f"give {name}=(x, y)")
        return Pair(data[0], data[1], *(("x", "y") if name == "data" else ("test x", "test y")))
    if hasattr(data, "column_names") and hasattr(data, "with_format") and hasattr(data, "__len__"):
        return _hugging_face(data, name, options, like)
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        return _frame(data, name, options, like)
    if isinstance(data, np.ndarray) or hasattr(data, "__dlpack__") or hasattr(data, "__array__"):
        raise FormantError(f"{name} is an array without labels", hint=f"give {name}=(x, y)")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _torch(data, name)
    if hasattr(data, "__iter__"):
        raise FormantError(
            f"{name} is a {type(data).__name__} without a length",
            hint="collect it first: a division among clients needs all samples; give (x, y)",
        )
    raise FormantError(f"{name} is a {type(data).__name__}", hint=KINDS)


def _is_item(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2


def _frame(data: Any, name: str, options: "Options", like: Pair | None) -> Pair:
    columns = [str(column) for column in data.columns]
    twice = next((column for i, column in enumerate(columns) if column in columns[:i]), None)
    if twice is not None:
        raise FormantError(f"{name} has two columns {twice!r}", hint="rename one of them: columns are known by their names")
    label = _column(columns, options.label, LABELS, name, "label")
    by_name = dict(zip(columns, data.columns))
    clients = None
    if options.client is not None and like is None:
        clients = np.asarray(data[by_name[_column(columns, options.client, (), name, "client")]])
    features = like.columns if like and like.columns else _features(columns, label, name, options)
    missing = [column for column in features if column not in columns]
    if missing:
        raise FormantError(f"{name} has no column {missing[0]!r}", hint="give the columns of the training data")
    values: list[npt.NDArray[Any]] = []
    for column in features:
        found = np.asarray(data[by_name[column]])
        if found.dtype.kind not in "buif":
            raise FormantError(
                f"column {column!r} of {name} has the type {data[by_name[column]].dtype}",
                hint=f'make numbers of it (pandas.get_dummies), leave it out (exclude=["{column}"]), '
                "or give the path of the file, whose categories Formant encodes itself",
            )
        values.append(found.astype(np.float32))
    x = np.stack(values, axis=1)
    return Pair(x, np.asarray(data[by_name[label]]), name, f"{name}[{label!r}]", None, clients, features)


def _features(columns: list[str], label: str, name: str, options: "Options") -> list[str]:
    unknown = [column for column in options.exclude if column not in columns]
    if unknown:
        raise FormantError(f"exclude names {unknown[0]!r}", hint=f"the columns of {name} are {', '.join(columns)}")
    out = {label, options.client, *options.exclude}
    features = [column for column in columns if column not in out]
    if not features:
        raise FormantError(f"{name} has no columns beside {label!r}", hint="give the features too")
    return features


def _column(columns: list[str], said: str | None, usual: Sequence[str], name: str, what: str) -> str:
    if said is not None and said not in columns:
        raise FormantError(f"{name} has no column {said!r}", hint=f"its columns are {', '.join(columns)}")
    found = said or next((column for column in usual if column in columns), None)
    if found is None:
        raise FormantError(
            f"none of the columns of {name} is a {what}: {', '.join(columns)}", hint=f'name it: {what}="…"'
        )
    return found


def _hugging_face(data: Any, name: str, options: "Options", like: Pair | None) -> Pair:
    columns = [str(column) for column in data.column_names]
    label = _column(columns, options.label, LABELS, name, "label")
    names = getattr(data.features[label], "names", None) if getattr(data, "features", None) else None
    image = options.image
    if image is None:
        image = next((column for column in IMAGES if column in columns), None)
    else:
        image = _column(columns, image, (), name, "image")
    features = [image] if image else (like.columns if like and like.columns else None)
    features = features or _features(columns, label, name, options)
    wanted = [*features, label]
    if options.client is not None and like is None:
        wanted.append(_column(columns, options.client, (), name, "client"))
    rows = data.select_columns(list(dict.fromkeys(wanted))).with_format("numpy")[:]
    if image:
        x: Any = rows[image]
        if getattr(x, "dtype", None) == np.dtype(object):
            x = _stacked(list(x), f"{name}[{image!r}]")
        if _dtype(data, image) == "uint8":
            # The library gives whole numbers as int64, and these are pixels.
            x = np.asarray(x).astype(np.uint8)
        x_name = f"{name}[{image!r}]"
    else:
        for column in features:
            if np.asarray(rows[column]).dtype.kind not in "buif":
                raise FormantError(
                    f"column {column!r} of {name} is no number",
                    hint=f'leave it out (exclude=["{column}"]) or name the images: image="…"',
                )
        x, x_name = np.stack([np.asarray(rows[c], np.float32) for c in features], axis=1), name
    clients = rows[options.client] if options.client is not None and like is None else None
    y_name = f"{name}[{label!r}]"
    return Pair(x, rows[label], x_name, y_name, list(names) if names else None, clients, None if image else features)


def _dtype(data: Any, column: str) -> str | None:
    """What the values of a column are, below all lists."""
    feature: Any = (getattr(data, "features", None) or {}).get(column)
    while hasattr(feature, "feature"):
        feature = feature.feature
    return getattr(feature, "dtype", None)


def _torch(data: Any, name: str) -> Pair:
    if len(data) == 0:
        raise FormantError(f"{name} has no samples", hint="give one at least")
    names = getattr(data, "classes", None)
    is_names = isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names)
    class_names = list(names) if is_names and names else None
    whole = _whole(data)
    x, y = whole if whole is not None else _collected(data, name)
    return Pair(x, y, name, f"labels of {name}", class_names)


def _whole(data: Any) -> tuple[Any, Any] | None:
    """The arrays behind a dataset, if its items are nothing but their rows."""
    tensors = getattr(data, "tensors", None)
    if isinstance(tensors, (tuple, list)) and len(tensors) == 2:
        x, y = tensors
    elif all(hasattr(data, word) for word in ("data", "targets")):
        # Whatever happens to samples on the way is part of the data.
        if any(getattr(data, word, None) is not None for word in ("transform", "target_transform", "transforms")):
            return None
        x, y = data.data, data.targets
    else:
        return None
    try:
        x, y = array(x, "x"), array(y, "y")
        if not len(x) == len(y) == len(data):
            return None
        # Rows here and there: a dataset that changes some of its items in between gives itself away.
        for i in {0, *np.random.default_rng(1).integers(0, len(data), 64).tolist(), len(data) - 1}:
            item_x, item_y = data[i]
            if not np.array_equal(np.asarray(item_x), x[i]) or not np.array_equal(np.asarray(item_y), y[i]):
                return None
    except Exception:
        # It is taken item by item, and whatever is wrong is found and named there.
        return None
    return x, y


def _collected(data: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    x: npt.NDArray[Any] | None = None
    y: list[Any] = []
    for i in range(len(data)):
        try:
            item = data[i]
        except NotImplementedError as error:
            # An IterableDataset with a length.
            raise FormantError(
                f"{name} is a {type(data).__name__} whose samples have no numbers",
                hint="collect it first: a division among clients needs all samples; give (x, y)",
            ) from error
        if not _is_item(item):
            raise FormantError(f"{name}[{i}] is {_shown(item)}", hint="items must be pairs (sample, label)")
        sample = np.asarray(_numbers(item[0], f"{name}[{i}]"))
        if x is None:
            x = np.empty((len(data), *sample.shape), sample.dtype)
        if sample.dtype != x.dtype:
            x = x.astype(np.result_type(x, sample))
        if sample.shape != x.shape[1:]:
            raise FormantError(
                f"{name}[{i}] has the shape {sample.shape}, {name}[0] has {x.shape[1:]}",
                hint="bring all samples to one shape, in torchvision by transforms.Resize",
            )
        x[i] = sample
        label = item[1]
        y.append(label.item() if hasattr(label, "item") and getattr(label, "ndim", 0) == 0 else label)
    assert x is not None
    return x, array(y, f"labels of {name}")


def _numbers(value: Any, name: str) -> npt.NDArray[Any]:
    if isinstance(value, (int, float)):
        raise FormantError(f"{name} has the sample {value!r}", hint="samples must be arrays")
    return array(value, name)


def _stacked(rows: list[Any], name: str) -> npt.NDArray[Any]:
    first = np.shape(rows[0])
    for i, row in enumerate(rows):
        if np.shape(row) != first:
            raise FormantError(
                f"{name}[{i}] has the shape {np.shape(row)}, {name}[0] has {first}",
                hint="bring all samples to one shape",
            )
    return np.stack([np.asarray(row) for row in rows])


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else "")
