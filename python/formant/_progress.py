"""How far a run is: tqdm's bars where it is installed, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Callable

#: Seconds between plain lines.
EVERY = 5.0


class Progress:
    """Takes what the core says several times a second."""

    def __init__(self, show: bool | None = None) -> None:
        wanted = show if show is not None else _is_watched()
        self._bars = _bars() if wanted else None
        self._plain = wanted and self._bars is None
        self._bar: Any = None
        self._label: str | None = None
        self._said = 0.0
        self._at: tuple[str, int] | None = None
        self._rounds = 0
        #: The last scores, of the method that runs.
        self.scores: dict[str, float] = {}

    def __call__(self, news: str) -> None:
        found = json.loads(news)
        for event in found.get("events", ()):
            self._event(event)
        progress = found.get("progress")
        if progress and progress.get("label") is not None:
            self._show(progress["label"], progress["round"], progress["rounds"])

    def _event(self, event: dict[str, Any]) -> None:
        # Short methods begin and end between two looks: events tell of them too.
        kind, label = event.get("event"), str(event.get("method"))
        if kind == "run_started":
            self._rounds = int(event["rounds"])
        elif kind == "method_started":
            self.scores = {}
        elif kind == "evaluated":
            self.scores = _scores(event)
            self._show(label, int(event["round"]), self._rounds)
        elif kind == "round_finished":
            self._show(label, int(event["round"]), self._rounds)

    def _show(self, label: str, at: int, rounds: int) -> None:
        if self._bars is not None:
            if self._bar is None or label != self._label:
                self._close()
                self._bar, self._label = self._bars(total=rounds or None, desc=label, unit="round"), label
            self._bar.set_postfix(self.scores, refresh=False)
            self._bar.update(max(0, at - self._bar.n))
        elif self._plain and (label, at) != self._at:
            now = time.monotonic()
            # The last round of a method is always told, with its scores.
            if (at == rounds and self.scores) or self._label != label or now - self._said >= EVERY:
                said = "".join(f"  {name} {value:.1f}" for name, value in self.scores.items())
                print(f"{label}: round {at} of {rounds}{said}", file=sys.stderr, flush=True)
                self._said, self._label = now, label
            self._at = (label, at)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def close(self) -> None:
        """Nothing more will come."""
        self._close()


def _scores(event: dict[str, Any]) -> dict[str, float]:
    found = {}
    for name, key in (("GM", "accuracy"), ("PM", "weighted")):
        value = (event.get(name.lower()) or {}).get(key)
        if value is not None:
            found[name] = round(100 * value, 1)
    return found


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", lambda: False)())


def _bars() -> Callable[..., Any] | None:
    try:
        # Bars of the notebook where there is one, else of the terminal. Without its widgets it warns and works.
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
    except ImportError:
        return None
    found: Callable[..., Any] = tqdm
    return found
