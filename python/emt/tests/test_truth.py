"""Tests of the true counts: the documentation has the figures that were measured, and all of them.

bench/truth/run.py itself checks the counts on a known program before it measures, because it needs
an emulator.
"""

import sys
from pathlib import Path

EMT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EMT / "bench"))

from truth import table
from truth.run import STEPS
from workloads import WORKLOADS

DOCUMENT = EMT.parents[1] / "docs" / "emt.md"


def test_every_workload_has_its_result() -> None:
    """Fifteen workloads are defined, measured and counted."""
    found = table.results(EMT / "bench" / "truth" / "results")
    assert list(found) == list(STEPS) == list(WORKLOADS)


def test_document_shows_the_measured_catches() -> None:
    """The tables in docs/emt.md are those of the committed results."""
    found = table.results(EMT / "bench" / "truth" / "results")
    text = DOCUMENT.read_text("utf-8")
    assert table.catches(found, "25%") in text
    assert table.means(found) in text
