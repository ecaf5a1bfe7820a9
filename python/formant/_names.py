"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """A hint with the names that are near a word, or all of them if there are few.

    >>> nearest("learning_rat", ["learning_rate", "rounds"], "keys")
    'did you mean learning_rate?'
    >>> nearest("x", ["a", "b"], "keys")
    'keys are a, b'
    """
    names = list(dict.fromkeys(known))
    by_case = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), by_case, n=3, cutoff=0.7)
    close += [name for name in by_case if len(word) > 2 and word.lower() in name.split("_") and name not in close]
    if close:
        return f"did you mean {' or '.join(by_case[name] for name in close[:3])}?"
    return f"{what} are {', '.join(names)}"
