"""The notebooks of examples/ run from beginning to end."""

from __future__ import annotations

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = ["quickstart", "own_model", "own_method"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    monkeypatch.setenv("FORMANT_SMALL", "1")
    # What is installed for this Python is what its kernel has; nothing of the user's is read.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_kept_without_outputs(name: str) -> None:
    path = EXAMPLES / f"{name}.ipynb"
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
