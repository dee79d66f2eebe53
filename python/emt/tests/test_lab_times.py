"""Tests of the measured run times: the documentation has the committed results."""

import json
import sys
from pathlib import Path

EMT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EMT / "bench"))

import lab_times

DOCUMENT = EMT.parents[1] / "docs" / "emt.md"


def test_document_shows_the_measured_run_times() -> None:
    """The table in docs/emt.md is that of bench/results."""
    lines = (EMT / "bench" / "results" / "strewn.jsonl").read_text("ascii").splitlines()
    assert lab_times.table([json.loads(line) for line in lines]) in DOCUMENT.read_text("utf-8")
