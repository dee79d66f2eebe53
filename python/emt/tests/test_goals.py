"""Tests of the bench of the goals, with a fake in the guest's place."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

import goals
import pytest


class FakeGuests:
    """Adds the runs that a word names, but for a workload whose guest fails."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.words: list[str] = []

    def add(self, results: Path, words: Sequence[str]) -> None:
        self.words += words
        for word in words:
            name, times, share, placings, resident = word.split(":")
            if name == self.fails:
                raise SystemExit("the guest hung")
            with results.open("a") as file:
                for placing in [*placings.split(","), *(() if resident else ("all-fast",))]:
                    part = 1.0 if placing == "all-fast" else float(share)
                    run = {"workload": f"{name}:{times}", "placing": placing, "share": part}
                    print(json.dumps({**run, "seconds": 10.0, "resident_mib": 50.0}), file=file)


def test_document_shows_the_goals_runs() -> None:
    """The table in docs/emt.md is that of bench/results, with what is missing."""
    results = Path(goals.__file__).parent / "results" / "strewn.jsonl"
    document = Path(__file__).resolve().parents[3] / "docs" / "emt.md"
    assert goals.table(goals.read(results)) in document.read_text("utf-8")


def test_goals_have_all_their_workloads() -> None:
    from workloads import WORKLOADS

    assert {*WORKLOADS} == {*goals.WORKLOADS} - {"strewn"}


def test_stopped_goals_run_what_is_missing(tmp_path: Path) -> None:
    results, first = tmp_path / "goals.jsonl", FakeGuests(fails="kc")
    goals.measure(results, 1, add=first.add)
    assert len(first.words) == len(goals.WORKLOADS)
    assert "all of kc" in goals.table(goals.read(results), 1).splitlines()[-1]
    again = FakeGuests()
    goals.measure(results, 1, add=again.add)
    assert again.words == ["kc:8:0.25:none,kernel-default,kernel,emt,profile:"]
    assert "| nothing |" in goals.table(goals.read(results), 1)


def test_guest_that_ended_early_goes_on(tmp_path: Path) -> None:
    """It measured everything fast first, so its resident set is known."""
    results, guests = tmp_path / "goals.jsonl", FakeGuests()
    for name in goals.WORKLOADS:
        guests.add(results, [f"{name}:8:0.25:none:"])
    goals.measure(results, 1, add=guests.add)
    assert guests.words[len(goals.WORKLOADS)] == (
        "strewn:8:0.25:kernel-default,kernel,emt,profile,heaps:50.0"
    )


def test_named_workloads_run_in_their_order(tmp_path: Path) -> None:
    results, guests = tmp_path / "goals.jsonl", FakeGuests()
    goals.measure(results, 2, ["service", "bfs"], guests.add)
    assert [word.split(":")[0] for word in guests.words] == ["service", "bfs"] * 2
    with pytest.raises(SystemExit, match="no workload fs; allowed: strewn, astar"):
        goals.main([str(results), "1", "bfs", "fs"])
