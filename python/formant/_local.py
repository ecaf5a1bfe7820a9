"""What a phase of a method may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import numpy as np
import numpy.typing as npt

from ._errors import FormantError
from ._terms import PARTS, Term
from ._vectors import Vector, in_place, vector

if TYPE_CHECKING:
    from . import _formant

Part = Literal["all", "body", "head"]


class Batch:
    """Some samples of a client, to compute with as one likes."""

    def __init__(self, local: Local, indices: npt.NDArray[np.uint32]) -> None:
        self._local = local
        self.indices = indices

    @property
    def indices(self) -> npt.NDArray[np.uint32]:
        """Which samples of the dataset these are; some of the client's own can be set in their place."""
        return self._indices

    @indices.setter
    def indices(self, given: Any) -> None:
        found = np.asarray(given)
        if found.ndim != 1 or found.dtype.kind not in "iu" or (found.size and not 0 <= found.min() <= found.max() < 2**32):
            raise FormantError(
                f"indices are {found.dtype} of the shape {found.shape}", hint="give a row of whole numbers from 0 on"
            )
        self._indices = np.ascontiguousarray(found, dtype=np.uint32)
        self._values: tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return int(self.indices.size)

    def _gathered(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        if self._values is None:
            self._values = self._local._inner.gather(self.indices)
        return self._values

    @property
    def x(self) -> npt.NDArray[np.float32]:
        """Values as the network sees them: (n, channels, height, width)."""
        return self._gathered()[0]

    @property
    def y(self) -> npt.NDArray[np.int64]:
        """Classes."""
        return self._gathered()[1]

    def step(
        self,
        w: Any,
        *,
        learning_rate: float | None = None,
        part: Part = "all",
        terms: Sequence[Term] = (),
    ) -> float:
        """One step of the experiment's optimiser, in place; gives the objective before it.

        There is one velocity: whoever steps two models by turns must do without momentum.
        """
        if learning_rate is not None and not (isinstance(learning_rate, (int, float)) and np.isfinite(learning_rate)):
            raise FormantError(f"learning_rate is {learning_rate!r}", hint="give a finite number")
        _check_part(part)
        value: float = self._local._trained(
            w, lambda v, told: self._local._inner.step(v, self.indices, learning_rate, part, told), terms
        )
        return value

    def look(self, w: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Features and logits; nothing is learnt."""
        return self._local._inner.look(vector(w, "w"), self.indices)


class _Over:
    """What is left of a phase."""

    def __getattr__(self, name: str) -> NoReturn:
        raise FormantError("this phase is over", hint="use `local` in the method that it is given to, and nowhere else")


class Local:
    """A client's data, its optimiser and its randomness, lent to one phase.

    Vectors hold parameters and then buffers; they are trained in place.
    """

    def __init__(self, inner: _formant.Local) -> None:
        self._inner = inner

    def _end(self) -> None:
        """The phase is over. Whoever keeps this, a traceback say, must not keep what belongs to one thread."""
        self._inner = cast("_formant.Local", _Over())

    @property
    def samples(self) -> int:
        """``n_i``: training samples of the client."""
        return self._inner.samples

    @property
    def round(self) -> int:
        """The round, from 1."""
        return self._inner.round

    @property
    def rounds(self) -> int:
        """Rounds of the whole run."""
        return self._inner.rounds

    @property
    def epochs(self) -> int:
        """Epochs of this phase."""
        return self._inner.epochs

    @property
    def learning_rate(self) -> float:
        """The learning rate of this round."""
        return self._inner.learning_rate

    @property
    def parameters(self) -> int:
        """How many parameters a vector begins with."""
        return self._inner.parameters

    @property
    def buffers(self) -> int:
        """How many buffers it ends with."""
        return self._inner.buffers

    @property
    def body(self) -> int:
        """Where the body ends and the head begins: ``w[:local.body]``, ``w[local.body:local.parameters]``."""
        return self._inner.body

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self._inner.classes

    def label_counts(self) -> npt.NDArray[np.uint64]:
        """Training samples of each class."""
        return self._inner.label_counts()

    def generator(self) -> np.random.Generator:
        """A generator for this phase: the same numbers in every run, for any number of threads."""
        return np.random.default_rng(self._inner.seed())

    def sgd(
        self,
        w: Any,
        epochs: int | None = None,
        *,
        part: Part = "all",
        terms: Sequence[Term] = (),
        shift: object | None = None,
    ) -> Any:
        """Epochs of the experiment's optimiser over shuffled batches, in place; gives ``w`` back.

        Without ``epochs``, those of the phase. ``terms`` are added to the cross-entropy, ``shift`` to the logits
        (``gamma * log(n_c)`` is the balanced softmax).
        """
        _check_part(part)
        logits = None if shift is None else vector(shift, "shift")
        if logits is not None and logits.size != self.classes:
            raise FormantError(f"shift has {logits.size} numbers", hint=f"give one for each of {self.classes} classes")
        if logits is not None and not np.isfinite(logits).all():
            raise FormantError("shift holds numbers that are not finite", hint="a class without samples has log(0): leave 0 there")
        self._trained(w, lambda v, told: self._inner.train(v, _whole(epochs), part, logits, told), terms)
        return w

    def batches(self, epochs: int | None = None) -> Iterator[Batch]:
        """Batches of some epochs, shuffled as `sgd` would. Steps start at rest."""
        for indices in self._inner.draw(_whole(epochs)):
            yield Batch(self, indices)

    def _trained(
        self, w: Any, train: Callable[[Vector, list[dict[str, Any]]], Any], terms: Sequence[Term]
    ) -> Any:
        """Has a vector trained in its own memory, or in a copy that goes back into it."""
        trained, is_own = in_place(w, "w")
        if isinstance(w, np.ndarray) and not w.flags.writeable:
            raise FormantError("w is read-only", hint="train a copy: w.copy()")
        if isinstance(terms, Term):
            raise FormantError("terms is a term", hint="give a list of them: terms=[…]")
        if isinstance(terms, str) or not hasattr(terms, "__iter__"):
            raise FormantError(f"terms is {terms!r}", hint="give a list of them: terms=[…]")
        terms = list(terms)
        for term in terms:
            if not isinstance(term, Term):
                raise FormantError(
                    f"terms holds {term!r}", hint="give formant.Proximal, formant.Linear or formant.Spectral"
                )
        done = train(trained, [term._data(self.parameters) for term in terms])
        if not is_own:
            _written(w, trained)
        return done


def _check_part(part: object) -> None:
    if part not in PARTS:
        raise FormantError(f"part = {part!r} is none", hint='it is "all", "body" or "head"')


def _whole(epochs: object) -> int | None:
    is_whole = isinstance(epochs, (int, np.integer)) and not isinstance(epochs, bool)
    if epochs is None or (is_whole and 0 <= cast(int, epochs) < 2**32):
        return None if epochs is None else int(cast(int, epochs))
    raise FormantError(f"epochs = {epochs!r}", hint=f"give a whole number from 0 to {2**32 - 1}")


def _written(w: Any, trained: Vector) -> None:
    """Copies numbers into whatever was to be trained, where that has a memory of its own kind."""
    if isinstance(w, np.ndarray):
        w[...] = trained.reshape(w.shape)
        return
    copy = getattr(w, "copy_", None)
    if not callable(copy):
        raise FormantError(f"w is {type(w).__name__}", hint="train a vector of NumPy or PyTorch")
    torch = __import__("torch")
    with torch.no_grad():
        copy(torch.from_numpy(trained).reshape(w.shape))
