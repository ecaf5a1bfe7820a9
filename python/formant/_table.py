"""Rows of figures: lists that print well and become data frames where pandas is installed."""

from __future__ import annotations

import html
import importlib.util
import re
from collections.abc import Iterable
from typing import Any

from ._errors import FormantError


def has_pandas() -> bool:
    """Whether pandas is installed; it is imported when it is used."""
    return importlib.util.find_spec("pandas") is not None


class Rows(list[dict[str, Any]]):
    """A list of dictionaries.

    >>> print(Rows([{"round": 1, "gm": 0.5}, {"round": 2, "gm": None}]))
    round  gm
        1  0.5000
        2  –
    """

    def to_pandas(self) -> Any:
        """The rows as a data frame."""
        try:
            import pandas
        except ImportError as error:
            raise FormantError("pandas is not installed", hint='pip install "formant[pandas]"') from error
        return pandas.DataFrame(list(self))

    def _columns(self) -> list[str]:
        scalar = {name: True for row in self for name in row}
        for row in self:
            for name, value in row.items():
                scalar[name] &= not isinstance(value, (list, dict))
        return [name for name, plain in scalar.items() if plain]

    def __str__(self) -> str:
        columns = self._columns()
        cells = [columns, *([_shown(row.get(name)) for name in columns] for row in self)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
        right = [any(isinstance(row.get(name), int) for row in self) for name in columns]
        lines = []
        for line in cells:
            made = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right)]
            lines.append("  ".join(made).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        columns = self._columns()
        return html_table(columns, ([_shown(row.get(name)) for name in columns] for row in self))


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else str(value).partition("\n")[0]


class Table(Rows):
    """The table of a run, where pandas is not installed: its rows, printed as the command line prints them."""

    def __init__(self, rows: Iterable[dict[str, Any]], text: str) -> None:
        super().__init__(rows)
        self.text = text

    def __str__(self) -> str:
        return self.text.rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self.text)


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in HTML. Cells are escaped; ``**bold**`` is bold."""

    def line(tag: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text.strip()))


def html_of(text: str) -> str:
    """The command line's table, which is Markdown, and the notes below it.

    >>> html_of("| a |\\n| - |\\n| **1** |\\n\\n- note")
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td><strong>1</strong></td></tr></tbody></table><p>note</p>'
    """
    lines = [line.strip() for line in text.splitlines()]
    cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    if len(cells) < 2:
        return f"<pre>{html.escape(text)}</pre>"
    notes = "".join(f"<p>{_cell(line.removeprefix('- '))}</p>" for line in lines if line and not line.startswith("|"))
    return html_table(cells[0], cells[2:]) + notes
