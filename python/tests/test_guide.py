"""Every block of Python in docs/PYTHON.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "PYTHON.md"


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("torch", "flwr"):
        pytest.importorskip(needed)
    if not GUIDE.exists():
        pytest.skip("the documentation is not beside the tests")
    monkeypatch.chdir(tmp_path)
    # A module's name, so that annotations of classes can be looked up.
    names: dict[str, object] = {"__name__": "guide"}
    text = GUIDE.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 8
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        # Numbered as the guide is, so that a traceback points there.
        exec(compile("\n" * line + block.group(1), str(GUIDE), "exec"), names)  # noqa: S102
    assert (tmp_path / "guide-pm.safetensors").exists()
