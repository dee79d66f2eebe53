"""The tutorials run, cell by cell, as `make docs` runs them."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

PROJECT = Path(__file__).parents[2]
#: Words of what each prints: a command that fails in a cell does not end the notebook.
EXPECTED = {
    "planner": ("Buy small-host with", "did you mean"),
    "operator": ("served best", "tierwised-tutorial.toml: good", "did you mean"),
    "python-owner": ("118 MiB touched", "fast share"),
    "researcher": ("decay 0.5", "run_seconds", "(6, 0)"),
}

TUTORIALS = sorted((PROJECT / "docs/tutorials").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The command of the same sources.
    monkeypatch.setenv("PATH", f"{PROJECT / 'target/debug'}:{os.environ['PATH']}")
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed"
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=120, resources=where).execute()
    printed = nbformat.writes(notebook)
    for words in EXPECTED[path.stem]:
        assert words in printed, words
